"""The loop along m shared by kernels whose lanes run along m: whole chunks, then what is left.

loop:  left >= 4 vectors -> wide   -> loop
       left >= 1 vector  -> whole  -> loop
       left >= 1 element -> rest   -> loop   (masked: all that is left; else one element)
       else exit

A long row may begin with a rest, the elements in front of its first whole line: stores that cross
lines take twice the time of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.target import LINE_BYTES, Isa


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of the loop: where its row starts and how its lanes lie."""

    data_type: DataType
    access: Access
    start: str
    m_stride: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the row: ``vectors`` vectors of ``lanes``; ``rest`` is what no vector fills."""

    label: str
    vectors: int
    lanes: int
    masked_rest: bool

    @property
    def elements(self) -> int:
        """The least number of elements left that this chunk can start with."""
        return 1 if self.masked_rest else self.vectors * self.lanes


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk while its code is emitted: per operand the lanes and the vectors' addresses."""

    chunk: Chunk
    lanes: tuple[Lanes, ...]
    addresses: tuple[tuple[str, ...], ...]


EmitPiece = Callable[[Piece], str]
"""Emits the work of a piece and returns the label of the block it ends in."""


def row_chunks(isa: Isa, lanes: int, wide_vectors: int) -> tuple[Chunk, ...]:
    """The chunks of a row from the largest to the smallest."""
    chunks = [Chunk("whole", 1, lanes, False)]
    if wide_vectors > 1:
        chunks.insert(0, Chunk("wide", wide_vectors, lanes, False))
    if lanes > 1:
        chunks.append(Chunk("rest", 1, lanes if isa.has_masks else 1, isa.has_masks))
    return tuple(chunks)


def emit_row(
    text: FunctionText,
    isa: Isa,
    chunks: Sequence[Chunk],
    operands: Sequence[Operand],
    came_from: str,
    exit_label: str,
    emit_piece: EmitPiece,
    head: str | None = None,
) -> None:
    """Blocks %loop and one per chunk; the current block must be ``came_from``, ended by %loop.

    The number of elements is the argument %m, at least 1. ``head`` of them, fewer than a vector's
    and than all, are taken first; the last chunk has masks then, and no operand is strided.
    """
    places = [text.fresh() for _ in operands]
    left, first = text.fresh(), text.fresh()
    incoming = [(came_from, [operand.start for operand in operands], "%m")]
    for chunk in chunks:
        text.label(chunk.label)
        is_head = head is not None and chunk.masked_rest
        rest = _smaller(text, first, left) if is_head else left
        piece = _piece(text, isa, chunk, operands, places, rest)
        end = emit_piece(piece)
        following = [
            _advance(text, chunk, operand, place, rest if is_head else None)
            for operand, place in zip(operands, places, strict=True)
        ]
        done = rest if chunk.masked_rest else str(chunk.vectors * chunk.lanes)
        incoming.append((end, following, text.value(f"sub i64 {left}, {done}")))
        text.effect("br label %loop")
    text.label("loop")
    for number, place in enumerate(places):
        sources = ", ".join(f"[ {starts[number]}, %{label} ]" for label, starts, _ in incoming)
        text.define(place, f"phi ptr {sources}")
    text.define(
        left, "phi i64 " + ", ".join(f"[ {rest}, %{label} ]" for label, _, rest in incoming)
    )
    if head is not None:
        begins = ", ".join(f"[ -1, %{label} ]" for label, *_ in incoming[1:])
        text.define(first, f"phi i64 [ {head}, %{came_from} ], {begins}")
        in_front = text.value(f"icmp sgt i64 {first}, 0")
        text.effect(f"br i1 {in_front}, label %{chunks[-1].label}, label %past_head")
        text.label("past_head")
    _emit_choice(text, chunks, left, exit_label)


def _smaller(text: FunctionText, first: str, left: str) -> str:
    """The elements of a rest: those in front, where there are some."""
    is_head = text.value(f"icmp sgt i64 {first}, 0")
    return text.value(f"select i1 {is_head}, i64 {first}, i64 {left}")


def elements_in_front(text: FunctionText, place: str, width: int, lanes: int, fewest: int) -> str:
    """How many elements of a row of %m lie in front of the first multiple of a vector's size, at
    most a line; 0 for fewer than ``fewest``, and where no element begins there."""
    aligned_bytes = min(lanes * width, LINE_BYTES)
    address = text.value(f"ptrtoint ptr {place} to i64")
    before = text.value(f"sub i64 0, {address}")
    gap_bytes = text.value(f"and i64 {before}, {aligned_bytes - 1}")
    within = text.value(f"and i64 {gap_bytes}, {width - 1}")
    is_whole = text.value(f"icmp eq i64 {within}, 0")
    is_long = text.value(f"icmp sge i64 %m, {fewest}")
    pays = text.value(f"and i1 {is_whole}, {is_long}")
    count = text.value(f"lshr i64 {gap_bytes}, {width.bit_length() - 1}")
    return text.value(f"select i1 {pays}, i64 {count}, i64 0")


def _emit_choice(text: FunctionText, chunks: Sequence[Chunk], left: str, exit_label: str) -> None:
    for number, chunk in enumerate(chunks):
        enough = text.value(f"icmp sge i64 {left}, {chunk.elements}")
        beyond = exit_label if chunk is chunks[-1] else f"below_{number}"
        text.effect(f"br i1 {enough}, label %{chunk.label}, label %{beyond}")
        if chunk is not chunks[-1]:
            text.label(beyond)


def _piece(
    text: FunctionText,
    isa: Isa,
    chunk: Chunk,
    operands: Sequence[Operand],
    places: Sequence[str],
    left: str,
) -> Piece:
    existing = left if chunk.masked_rest else None
    lanes = tuple(
        lanes_in_memory(
            text, isa, operand.data_type, chunk.lanes, operand.access, operand.m_stride, existing
        )
        for operand in operands
    )
    addresses = tuple(
        tuple(
            _shifted(text, operand, place, vector_number * chunk.lanes)
            for vector_number in range(chunk.vectors)
        )
        for operand, place in zip(operands, places, strict=True)
    )
    return Piece(chunk, lanes, addresses)


def _advance(
    text: FunctionText, chunk: Chunk, operand: Operand, place: str, rest: str | None
) -> str:
    """Where the next chunk starts; the row ends after a masked rest unless ``rest`` came first."""
    if rest is not None and operand.access is Access.UNIT:
        return shift_pointer(text, place, text.value(f"mul i64 {rest}, {operand.data_type.width}"))
    if chunk.masked_rest:
        return place
    return _shifted(text, operand, place, chunk.vectors * chunk.lanes)


def _shifted(text: FunctionText, operand: Operand, place: str, elements: int) -> str:
    if elements == 0 or operand.access is Access.BROADCAST:
        return place
    if operand.access is Access.UNIT:
        return shift_pointer(text, place, elements * operand.data_type.width)
    return shift_pointer(text, place, text.value(f"mul i64 {operand.m_stride}, {elements}"))
