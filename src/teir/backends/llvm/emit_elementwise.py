"""Element-wise kernels: rows of m elements, n of them, any access per operand."""

from __future__ import annotations

from functools import partial

from teir.backends.llvm.emit_chunks import (
    Operand,
    Piece,
    elements_in_front,
    emit_row,
    row_chunks,
)
from teir.backends.llvm.emit_combine import combine
from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop
from teir.backends.llvm.emit_text import FunctionText, cache_of_next, prefetch, shift_pointer
from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.access import Access
from teir.lower.kernels import Elementwise
from teir.target import Isa

_NARROW = (DataType.BF16, DataType.FP16)
_ROWS_AT_ONCE = 2
"""Short rows that hide the loop."""
_AHEAD_BYTES = 2048
"""Four short runs further on: what is asked for arrives before it is read, and is not gone yet."""


def elementwise_arguments(kernel: Elementwise) -> tuple[str, ...]:
    operands = range(len(kernel.accesses))
    return (
        "m",
        "n",
        *(f"m_stride{operand}" for operand in operands),
        *(f"n_stride{operand}" for operand in operands),
    )


def emit_elementwise_body(kernel: Elementwise, isa: Isa, names: tuple[str, ...]) -> FunctionText:
    """The body for operand pointers ``names`` and the arguments of `Elementwise`."""
    if kernel.vectors is not None:
        return _short_rows(kernel, isa, names, kernel.vectors)
    text = FunctionText()
    types = [kernel.in_type] * (len(names) - 1) + [kernel.out_type]
    rows = [text.fresh() for _ in names]
    following = [text.fresh() for _ in names]
    rows_left, rows_after = text.fresh(), text.fresh()
    text.label("entry")
    text.effect("br label %row")
    text.label("row")
    for number, row in enumerate(rows):
        text.define(row, f"phi ptr [ {names[number]}, %entry ], [ {following[number]}, %next ]")
    text.define(rows_left, f"phi i64 [ %n, %entry ], [ {rows_after}, %next ]")
    head = None
    if kernel.aligns and isa.has_masks:
        width = kernel.out_type.width
        head = elements_in_front(text, rows[-1], width, kernel.lanes, 2 * kernel.lanes)
    text.effect("br label %loop")
    operands = [
        Operand(data_type, access, row, f"%m_stride{number}")
        for number, (data_type, access, row) in enumerate(
            zip(types, kernel.accesses, rows, strict=True)
        )
    ]

    def emit_piece(piece: Piece) -> str:
        _emit_piece(text, kernel, isa, piece)
        return piece.chunk.label

    chunks = row_chunks(isa, kernel.lanes, _vectors_at_once(kernel))
    emit_row(text, isa, chunks, operands, "row", "next", emit_piece, head)
    text.label("next")
    for number, name in enumerate(following):
        text.define(name, f"getelementptr i8, ptr {rows[number]}, i64 %n_stride{number}")
    text.define(rows_after, f"sub i64 {rows_left}, 1")
    ended = text.value(f"icmp eq i64 {rows_after}, 0")
    text.effect(f"br i1 {ended}, label %exit, label %row")
    text.label("exit")
    text.effect("ret void")
    return text


def _short_rows(
    kernel: Elementwise, isa: Isa, names: tuple[str, ...], vectors: int
) -> FunctionText:
    """The body for rows of so many vectors, the last one masked: some rows at a time."""
    text = FunctionText()
    text.label("entry")
    types = [kernel.in_type] * (len(names) - 1) + [kernel.out_type]
    rest = text.value(f"sub i64 %m, {(vectors - 1) * kernel.lanes}")

    def lanes_of(existing: str | None) -> list[Lanes]:
        return [
            lanes_in_memory(text, isa, data_type, kernel.lanes, access, "", existing)
            for data_type, access in zip(types, kernel.accesses, strict=True)
        ]

    lanes = [*[lanes_of(None)] * (vectors - 1), lanes_of(rest)]

    def row(places: Values) -> Values:
        results = []
        for vector, forms in enumerate(lanes):
            steps = [
                0 if form.broadcast else vector * kernel.lanes * data_type.width
                for form, data_type in zip(forms, types, strict=True)
            ]
            places_now = [shift_pointer(text, *pair) for pair in zip(places, steps, strict=True)]
            inputs = zip(forms[:-1], places_now[:-1], strict=True)
            stored = [load(text, form, place) for form, place in inputs]
            results.append((places_now[-1], combine(text, kernel, isa, stored, kernel.lanes)))
        for forms, (place, result) in zip(lanes, results, strict=True):
            store(text, forms[-1], place, result)
        return [
            shift_pointer(text, place, f"%n_stride{number}") for number, place in enumerate(places)
        ]

    def rows(count: int, places: Values) -> Values:
        for _ in range(count):
            places = row(places)
        return places

    left, places = "%n", list(names)
    for count in (_ROWS_AT_ONCE, 1):
        carried = [Carried("ptr", place) for place in places]
        left, places = emit_loop(text, f"rows{count}", left, count, carried, partial(rows, count))
    text.effect("ret void")
    return text


def _vectors_at_once(kernel: Elementwise) -> int:
    """Four vectors hide the loop; conversions and gathers are long enough by themselves."""
    if Access.STRIDED in kernel.accesses:
        return 1
    moves = kernel.in_type is kernel.out_type and kernel.operation is Operation.COPY
    if not moves and (kernel.in_type in _NARROW or kernel.out_type in _NARROW):
        return 2
    return 4


def _emit_piece(text: FunctionText, kernel: Elementwise, isa: Isa, piece: Piece) -> None:
    """All loads and arithmetic, then all stores: an operand may be read and written in place."""
    results = []
    if kernel.brings and not piece.chunk.masked_rest:
        _ask_ahead(text, kernel, isa, piece)
    for vector_number in range(piece.chunk.vectors):
        stored = [
            load(text, lanes, addresses[vector_number])
            for lanes, addresses in zip(piece.lanes[:-1], piece.addresses[:-1], strict=True)
        ]
        results.append(combine(text, kernel, isa, stored, piece.chunk.lanes))
    for address, result in zip(piece.addresses[-1], results, strict=True):
        store(text, piece.lanes[-1], address, result)


def _ask_ahead(text: FunctionText, kernel: Elementwise, isa: Isa, piece: Piece) -> None:
    """Prefetches, one per vector that lies in memory as a whole."""
    for access, addresses in zip(kernel.accesses[:-1], piece.addresses[:-1], strict=True):
        if access is not Access.UNIT:
            continue
        for address in addresses:
            ahead = shift_pointer(text, address, _AHEAD_BYTES)
            prefetch(text, ahead, cache_of_next(isa))
