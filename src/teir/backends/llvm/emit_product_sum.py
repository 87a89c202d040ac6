"""The general contraction kernel: any number of inputs at any strides, lanes along m."""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_chunks import Operand, Piece, emit_row, row_chunks
from teir.backends.llvm.emit_lanes import Lanes, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop
from teir.backends.llvm.emit_numbers import (
    narrow,
    numbers_per_element,
    require_one_accumulator,
    round_factor,
    widen,
)
from teir.backends.llvm.emit_products import Arithmetic, add_all
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.lower.access import Access
from teir.lower.kernels import ProductSum
from teir.lower.product_sum import VECTORS_AT_ONCE
from teir.target import Isa


def product_sum_arguments(kernel: ProductSum) -> tuple[str, ...]:
    return (
        "m",
        "k",
        "batch",
        "accumulate",
        *(f"m_stride{operand}" for operand in range(kernel.inputs + 1)),
        *(f"k_stride{operand}" for operand in range(kernel.inputs)),
        *(f"batch_stride{operand}" for operand in range(kernel.inputs)),
    )


def emit_product_sum_body(kernel: ProductSum, isa: Isa, names: tuple[str, ...]) -> FunctionText:
    """The body for operand pointers ``names`` and the arguments of `ProductSum`."""
    require_one_accumulator(kernel.in_type, kernel.out_type)
    if kernel.vectors is not None:
        return _whole_rows(kernel, isa, names, kernel.vectors)
    text = FunctionText()
    text.label("entry")
    fresh = text.value("icmp eq i64 %accumulate, 0")
    text.effect("br label %loop")
    types = [kernel.in_type] * kernel.inputs + [kernel.out_type]
    operands = [
        Operand(data_type, access, name, f"%m_stride{number}")
        for number, (data_type, access, name) in enumerate(
            zip(types, kernel.accesses, names, strict=True)
        )
    ]

    def emit_piece(piece: Piece) -> str:
        return _emit_piece(text, kernel, isa, piece, fresh)

    at_once = 1 if Access.STRIDED in kernel.accesses else VECTORS_AT_ONCE
    chunks = row_chunks(isa, kernel.lanes, at_once)
    emit_row(text, isa, chunks, operands, "entry", "exit", emit_piece)
    text.label("exit")
    text.effect("ret void")
    return text


def _whole_rows(kernel: ProductSum, isa: Isa, names: tuple[str, ...], vectors: int) -> FunctionText:
    """The body for rows of so many vectors: all sums stay in registers.

    The last vector ends with the row, and has lanes of the one before again.
    """
    text = FunctionText()
    text.label("entry")
    *sources, target = names
    count = len(sources)
    lanes = Lanes(kernel.in_type, kernel.lanes)
    kind = Arithmetic(isa, kernel.in_type, kernel.lanes * numbers_per_element(kernel.in_type))
    kinds = [*["ptr"] * count, *[kind.kind] * vectors]
    vector_bytes = kernel.lanes * kernel.in_type.width
    before_last = text.value(f"sub i64 %m, {kernel.lanes}")
    last = text.value(f"mul i64 {before_last}, {kernel.in_type.width}")

    def in_row(place: str) -> Values:
        whole = [shift_pointer(text, place, number * vector_bytes) for number in range(vectors - 1)]
        return [*whole, shift_pointer(text, place, last)]

    def carried(values: Values) -> list[Carried]:
        return [Carried(*pair) for pair in zip(kinds, values, strict=True)]

    def moved(places: Values, axis: str) -> Values:
        steps = enumerate(places)
        return [shift_pointer(text, place, f"%{axis}_stride{number}") for number, place in steps]

    def term(now: Values) -> Values:
        places, sums = now[:count], now[count:]
        totals = []
        for *addresses, total in zip(*map(in_row, places), sums, strict=True):
            numbers = [load(text, lanes, address) for address in addresses]
            totals.append(add_all(text, kind, numbers, total))
        return [*moved(places, "k"), *totals]

    def terms(now: Values) -> Values:
        _, after = emit_loop(text, "terms", "%k", 1, carried(now), term)
        return [*moved(now[:count], "batch"), *after[count:]]

    fresh = text.value("icmp eq i64 %accumulate, 0")
    first = []
    for address in in_row(target):
        held = load(text, lanes, address)
        zeros = f"select i1 {fresh}, {kind.kind} zeroinitializer, {kind.kind} {held}"
        first.append(text.value(zeros))
    _, after = emit_loop(text, "batches", "%batch", 1, carried([*sources, *first]), terms)
    for address, total in zip(in_row(target), after[count:], strict=True):
        store(text, lanes, address, total)
    text.effect("ret void")
    return text


def _emit_piece(text: FunctionText, kernel: ProductSum, isa: Isa, piece: Piece, fresh: str) -> str:
    """Start from the output or zero, add every product, store; returns the last label."""
    label = piece.chunk.label
    count = piece.chunk.lanes * numbers_per_element(kernel.in_type)
    kind = Arithmetic(isa, kernel.in_type, count)
    text.effect(f"br i1 {fresh}, label %{label}_sum, label %{label}_preload")
    text.label(f"{label}_preload")
    out = piece.lanes[-1]
    first = []
    for address in piece.addresses[-1]:
        first.append(widen(text, kernel.out_type, isa, load(text, out, address), count))
    text.effect(f"br label %{label}_sum")
    sums = _emit_sum(text, kernel, kind, piece, first)
    text.label(f"{label}_store")
    for address, total in zip(piece.addresses[-1], sums, strict=True):
        store(text, out, address, narrow(text, kernel.out_type, isa, total, count))
    return f"{label}_store"


@dataclass(frozen=True, slots=True)
class _Pass:
    """The state of the reduction loop: the inputs' places, where the batch began, what is left."""

    places: list[str]
    batch_places: list[str]
    k_left: str
    batch_left: str
    sums: list[str]

    def names(self) -> list[str]:
        return [*self.places, *self.batch_places, self.k_left, self.batch_left, *self.sums]


def _emit_sum(
    text: FunctionText, kernel: ProductSum, kind: Arithmetic, piece: Piece, first: list[str]
) -> list[str]:
    """The loop over (batch, k): blocks %<chunk>_step and its head %<chunk>_sum, written last.

    Entered at the head from %<chunk> (zeros) and %<chunk>_preload; left to %<chunk>_store.
    """
    label = piece.chunk.label
    starts = [addresses[0] for addresses in piece.addresses[:-1]]
    now = _Pass(
        [text.fresh() for _ in starts],
        [text.fresh() for _ in starts],
        text.fresh(),
        text.fresh(),
        [text.fresh() for _ in first],
    )
    text.label(f"{label}_step")
    totals = _emit_products(text, kernel, kind, piece, now)
    within = _emit_next_k(text, label, now, totals)
    beyond = _emit_next_batch(text, label, now, totals)
    sources = (
        (label, _Pass(starts, starts, "%k", "%batch", ["zeroinitializer"] * len(first))),
        (f"{label}_preload", _Pass(starts, starts, "%k", "%batch", first)),
        (f"{label}_step", within),
        (f"{label}_next", beyond),
    )
    kinds = ["ptr"] * (2 * len(starts)) + ["i64"] * 2 + [kind.kind] * len(first)
    text.label(f"{label}_sum")
    for number, (name, value_kind) in enumerate(zip(now.names(), kinds, strict=True)):
        incoming = ", ".join(f"[ {came.names()[number]}, %{source} ]" for source, came in sources)
        text.define(name, f"phi {value_kind} {incoming}")
    text.effect(f"br label %{label}_step")
    return totals


def _emit_products(
    text: FunctionText, kernel: ProductSum, kind: Arithmetic, piece: Piece, now: _Pass
) -> list[str]:
    """One (batch, k): the sums with the product of all inputs added."""
    factors = [_emit_inputs(text, kernel, kind, piece, now, i) for i in range(kernel.inputs)]
    totals = []
    for number, total in enumerate(now.sums):
        numbers = [vectors[number] for vectors in factors]
        totals.append(add_all(text, kind, numbers, total))
    return totals


def _emit_inputs(
    text: FunctionText,
    kernel: ProductSum,
    kind: Arithmetic,
    piece: Piece,
    now: _Pass,
    number: int,
) -> list[str]:
    """The vectors of one input, ready to multiply; a broadcast is loaded once for all vectors."""
    lanes, place = piece.lanes[number], now.places[number]
    chunk, access = piece.chunk, kernel.accesses[number]
    distinct = 1 if access is Access.BROADCAST else chunk.vectors
    vectors = []
    for vector_number in range(distinct):
        offset = vector_number * chunk.lanes * kernel.in_type.width
        stored = load(text, lanes, shift_pointer(text, place, offset))
        numbers = widen(text, kernel.in_type, kind.isa, stored, kind.count)
        if kernel.inputs > 1:
            numbers = round_factor(text, kernel.in_type, numbers, kind.count)
        vectors.append(numbers)
    return vectors * (chunk.vectors // distinct)


def _emit_next_k(text: FunctionText, label: str, now: _Pass, totals: list[str]) -> _Pass:
    """The end of %<chunk>_step: back to the head with the next k, or to %<chunk>_next."""
    places = [
        shift_pointer(text, place, f"%k_stride{number}") for number, place in enumerate(now.places)
    ]
    k_left = text.value(f"sub i64 {now.k_left}, 1")
    ended = text.value(f"icmp eq i64 {k_left}, 0")
    text.effect(f"br i1 {ended}, label %{label}_next, label %{label}_sum")
    return _Pass(places, now.batch_places, k_left, now.batch_left, totals)


def _emit_next_batch(text: FunctionText, label: str, now: _Pass, totals: list[str]) -> _Pass:
    """The block %<chunk>_next: back to the head with the next batch, or to %<chunk>_store."""
    text.label(f"{label}_next")
    places = [
        shift_pointer(text, place, f"%batch_stride{number}")
        for number, place in enumerate(now.batch_places)
    ]
    batch_left = text.value(f"sub i64 {now.batch_left}, 1")
    ended = text.value(f"icmp eq i64 {batch_left}, 0")
    text.effect(f"br i1 {ended}, label %{label}_store, label %{label}_sum")
    return _Pass(places, places, "%k", batch_left, totals)
