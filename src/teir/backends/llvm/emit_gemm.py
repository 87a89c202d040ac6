"""The register block of a matrix product: vectors x columns accumulators, one loop.

The three loops (outer, batch, k) are one loop with three exits, so that every accumulator is one
phi and the code stays small:

    loop:    k left >= 4 (large blocks: 2) -> so many steps -> loop
             k left >= 1 -> one step -> loop
             else next (outer, batch) -> loop, or store
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, store
from teir.backends.llvm.emit_numbers import (
    computed_number,
    narrow,
    numbers_per_element,
    round_factor,
    widen,
)
from teir.backends.llvm.emit_products import (
    Arithmetic,
    add_product,
    as_factor,
    load_scale,
)
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, vector
from teir.dtypes import DataType
from teir.lower.kernels import Access, GemmBlock
from teir.target import Isa

_LARGE_BLOCK = 16
"""Accumulators from which two steps of k hide the loop's own instructions as well as four do."""
_COLUMNS_PER_BASE = 9
"""Columns 0 to 8 are one base plus 1, 2, 4 or 8 times an odd multiple of the column stride."""
_LINE_BYTES = 64
_MOSTLY = '!prof !{!"branch_weights", i32 64, i32 1}'

Accumulators = list[list[str]]


def gemm_arguments() -> tuple[str, ...]:
    return (
        "k", "a_k", "b_k", "batch", "a_batch", "b_batch", "outer", "a_outer", "b_outer",
        "b_n", "c_n", "accumulate", "last_lanes", "a_m", "c_m", "b_ahead", "c_ahead",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Block:
    """The block being emitted: its arithmetic and where its vectors and columns lie."""

    kernel: GemmBlock
    isa: Isa
    arithmetic: Arithmetic
    a: tuple[Lanes, ...]
    c: tuple[Lanes, ...]
    a_offsets: tuple[str | int, ...]
    c_offsets: tuple[str | int, ...]
    b_multiples: dict[int, str]


def emit_gemm_body(kernel: GemmBlock, isa: Isa) -> FunctionText:
    """The body of the function for operands %A, %B, %C and the arguments of `GemmBlock`."""
    if kernel.c_access is Access.BROADCAST:
        raise ValueError("expected an output that is UNIT or STRIDED, found BROADCAST")
    if computed_number(kernel.in_type) != computed_number(kernel.out_type):
        raise ValueError(f"expected one accumulator, found {kernel.in_type} to {kernel.out_type}")
    text = FunctionText()
    text.label("entry")
    block = _prepare(text, kernel, isa)
    first = _emit_preload(text, block)
    _emit_loop(text, block, first)
    return text


def _prepare(text: FunctionText, kernel: GemmBlock, isa: Isa) -> _Block:
    count = kernel.lanes * numbers_per_element(kernel.in_type)
    a, a_offsets = _vectors(text, kernel, isa, kernel.in_type, kernel.a_access, "%a_m")
    c, c_offsets = _vectors(text, kernel, isa, kernel.out_type, kernel.c_access, "%c_m")
    multiples = {1: "%b_n"}
    for odd in (3, 5, 7):
        if odd < min(kernel.columns, _COLUMNS_PER_BASE):
            multiples[odd] = text.value(f"mul i64 %b_n, {odd}")
    bases = -(-kernel.columns // _COLUMNS_PER_BASE)
    if bases > 1:
        text.define("%b_base_step", f"mul i64 %b_n, {_COLUMNS_PER_BASE}")
    for number in range(1, bases):
        before = "%B" if number == 1 else f"%b_base{number - 1}"
        text.define(f"%b_base{number}", f"getelementptr i8, ptr {before}, i64 %b_base_step")
    return _Block(
        kernel, isa, Arithmetic(isa, kernel.in_type, count), a, c, a_offsets, c_offsets, multiples
    )


def _vectors(
    text: FunctionText,
    kernel: GemmBlock,
    isa: Isa,
    data_type: DataType,
    access: Access,
    stride: str,
) -> tuple[tuple[Lanes, ...], tuple[str | int, ...]]:
    """Lanes and byte offset of every vector of one column."""
    whole = lanes_in_memory(text, isa, data_type, kernel.lanes, access, stride, None)
    vectors = [whole] * kernel.vectors
    if kernel.masked:
        vectors[-1] = lanes_in_memory(
            text, isa, data_type, kernel.lanes, access, stride, "%last_lanes"
        )
    offsets: list[str | int] = [0]
    for number in range(1, kernel.vectors):
        lanes_before = number * kernel.lanes
        match access:
            case Access.UNIT:
                offsets.append(lanes_before * data_type.width)
            case Access.BROADCAST:
                offsets.append(0)
            case Access.STRIDED:
                offsets.append(text.value(f"mul i64 {stride}, {lanes_before}"))
    return tuple(vectors), tuple(offsets)


def _emit_preload(text: FunctionText, block: _Block) -> Accumulators:
    """Blocks that end in %loop: the chains start from zero, or from what is returned here."""
    fresh = text.value("icmp eq i64 %accumulate, 0")
    text.effect(f"br i1 {fresh}, label %loop, label %preload")
    text.label("preload")
    if block.kernel.c_access is Access.UNIT:
        _emit_prefetch_of_c(text, block.kernel)
    first: Accumulators = []
    for column in range(block.kernel.columns):
        address = _column_of_c(text, column)
        rows = []
        for lanes, offset in zip(block.c, block.c_offsets, strict=True):
            stored = load(text, lanes, shift_pointer(text, address, offset))
            rows.append(widen(text, block.kernel.out_type, block.isa, stored, lanes.numbers))
        first.append(rows)
    text.effect("br label %loop")
    return first


def _emit_prefetch_of_c(text: FunctionText, kernel: GemmBlock) -> None:
    """Ask for what a later block starts from: its chains cannot begin before it is there."""
    row_bytes = kernel.vectors * kernel.lanes * kernel.out_type.width
    for column in range(kernel.columns):
        address = shift_pointer(text, _column_of_c(text, column), "%c_ahead")
        for line in range(0, row_bytes, _LINE_BYTES):
            text.effect(
                f"call void @llvm.prefetch.p0(ptr {shift_pointer(text, address, line)}, "
                "i32 0, i32 2, i32 1)"
            )


def _emit_store(text: FunctionText, block: _Block, sums: Accumulators) -> None:
    text.label("finish")
    for column, rows in enumerate(sums):
        address = _column_of_c(text, column)
        for row, lanes, offset in zip(rows, block.c, block.c_offsets, strict=True):
            stored = narrow(text, block.kernel.out_type, block.isa, row, lanes.numbers)
            store(text, lanes, shift_pointer(text, address, offset), stored)
    text.effect("ret void")


def _column_of_c(text: FunctionText, column: int) -> str:
    if column == 0:
        return "%C"
    return shift_pointer(text, "%C", text.value(f"mul i64 %c_n, {column}"))


@dataclass(frozen=True, slots=True)
class _State:
    """What changes from one pass through the loop to the next, as value names.

    ``b`` has one base pointer per group of columns. ``segment``: where the current (outer, batch)
    began in A and B, where the current outer began in A and B, and how many batches and outers
    are left, the current ones included.
    """

    a: str
    b: tuple[str, ...]
    k_left: str
    segment: tuple[str, str, str, str, str, str]
    sums: Accumulators


def _emit_loop(text: FunctionText, block: _Block, first: Accumulators) -> None:
    kernel = block.kernel
    bases = -(-kernel.columns // _COLUMNS_PER_BASE)
    state = _State(
        text.fresh(),
        tuple(text.fresh() for _ in range(bases)),
        text.fresh(),
        (text.fresh(), text.fresh(), text.fresh(), text.fresh(), text.fresh(), text.fresh()),
        [[text.fresh() for _ in rows] for rows in first],
    )
    many = _emit_steps(text, block, state, "many", _steps_at_once(kernel))
    text.label("few")
    last = text.value(f"icmp eq i64 {state.k_left}, 0")
    text.effect(f"br i1 {last}, label %segment, label %one")
    one = _emit_steps(text, block, state, "one", 1)
    following = _emit_segment(text, state)
    _emit_store(text, block, state.sums)
    _emit_loop_head(text, block, state, first, many, one, following)


def _emit_loop_head(
    text: FunctionText,
    block: _Block,
    state: _State,
    first: Accumulators,
    many: _State,
    one: _State,
    following: _State,
) -> None:
    """The phis of the loop and its test; written last because it names what the blocks made."""
    text.label("loop")
    element = block.arithmetic.element
    kind = vector(element, block.arithmetic.count)
    begin = _begin(block, first)
    zero = _begin(block, [["zeroinitializer"] * len(rows) for rows in first])
    sources = (
        ("entry", zero), ("preload", begin), ("many", many), ("one", one), ("segment", following)
    )  # fmt: skip
    for number, name in enumerate(_flat(state)):
        incoming = ", ".join(f"[ {_flat(source)[number]}, %{label} ]" for label, source in sources)
        text.define(name, f"phi {_types(state, kind)[number]} {incoming}")
    enough = text.value(f"icmp sge i64 {state.k_left}, {_steps_at_once(block.kernel)}")
    text.effect(f"br i1 {enough}, label %many, label %few, {_MOSTLY}")


def _steps_at_once(kernel: GemmBlock) -> int:
    return 2 if kernel.vectors * kernel.columns >= _LARGE_BLOCK else 4


def _begin(block: _Block, sums: Accumulators) -> _State:
    bases = -(-block.kernel.columns // _COLUMNS_PER_BASE)
    b = ("%B", *(f"%b_base{number}" for number in range(1, bases)))
    return _State("%A", b, "%k", ("%A", "%B", "%A", "%B", "%batch", "%outer"), sums)


def _flat(state: _State) -> list[str]:
    sums = [row for rows in state.sums for row in rows]
    return [state.a, *state.b, state.k_left, *state.segment, *sums]


def _types(state: _State, kind: str) -> list[str]:
    pointers = ["ptr"] * (1 + len(state.b))
    segment = ["ptr"] * 4 + ["i64"] * 2
    return [*pointers, "i64", *segment, *[kind] * sum(len(rows) for rows in state.sums)]


def _emit_steps(text: FunctionText, block: _Block, state: _State, label: str, steps: int) -> _State:
    """A basic block of ``steps`` values of k, back to the loop's head."""
    text.label(label)
    a, b, sums = state.a, state.b, state.sums
    if steps > 1:
        _emit_prefetch(text, block, b)
    for _ in range(steps):
        sums = _emit_step(text, block, a, b, sums)
        a = shift_pointer(text, a, "%a_k")
        b = tuple(shift_pointer(text, base, "%b_k") for base in b)
    k_left = text.value(f"sub i64 {state.k_left}, {steps}")
    text.effect("br label %loop")
    return _State(a, b, k_left, state.segment, sums)


def _emit_prefetch(text: FunctionText, block: _Block, b: tuple[str, ...]) -> None:
    """Ask for what the next tile reads of B: short runs, which no hardware prefetcher follows."""
    ahead = tuple(shift_pointer(text, base, "%b_ahead") for base in b)
    for column in range(block.kernel.columns):
        address = _column_of_b(text, block, ahead, column)
        text.effect(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 3, i32 1)")


def _emit_step(
    text: FunctionText, block: _Block, a: str, b: tuple[str, ...], sums: Accumulators
) -> Accumulators:
    kernel, kind = block.kernel, block.arithmetic
    factors = []
    for lanes, offset in zip(block.a, block.a_offsets, strict=True):
        stored = load(text, lanes, shift_pointer(text, a, offset))
        numbers = widen(text, kernel.in_type, block.isa, stored, lanes.numbers)
        rounded = round_factor(text, kernel.in_type, numbers, lanes.numbers)
        factors.append(as_factor(text, kind, rounded))
    following = []
    for column, rows in enumerate(sums):
        scale = load_scale(text, kind, _column_of_b(text, block, b, column))
        following.append(
            [
                add_product(text, kind, factor, scale, row)
                for factor, row in zip(factors, rows, strict=True)
            ]
        )
    return following


def _column_of_b(text: FunctionText, block: _Block, b: tuple[str, ...], column: int) -> str:
    base, distance = divmod(column, _COLUMNS_PER_BASE)
    if distance == 0:
        return b[base]
    scale = distance & -distance
    multiple = block.b_multiples[distance // scale]
    if scale > 1:
        multiple = text.value(f"shl i64 {multiple}, {scale.bit_length() - 1}")
    return shift_pointer(text, b[base], multiple)


def _emit_segment(text: FunctionText, state: _State) -> _State:
    """The block that moves on to the next batch, or to the next outer, or ends the loop."""
    text.label("segment")
    a, b, a_outer, b_outer, batch_left, outer_left = state.segment
    same_outer = text.value(f"icmp sgt i64 {batch_left}, 1")
    next_outer_a = shift_pointer(text, a_outer, "%a_outer")
    next_outer_b = shift_pointer(text, b_outer, "%b_outer")

    def choose(kind: str, within: str, beyond: str) -> str:
        return text.value(f"select i1 {same_outer}, {kind} {within}, {kind} {beyond}")

    next_a = choose("ptr", shift_pointer(text, a, "%a_batch"), next_outer_a)
    next_b = choose("ptr", shift_pointer(text, b, "%b_batch"), next_outer_b)
    segment = (
        next_a,
        next_b,
        choose("ptr", a_outer, next_outer_a),
        choose("ptr", b_outer, next_outer_b),
        choose("i64", text.value(f"sub i64 {batch_left}, 1"), "%batch"),
        choose("i64", outer_left, text.value(f"sub i64 {outer_left}, 1")),
    )
    bases = [next_b]
    for _ in range(1, len(state.b)):
        bases.append(shift_pointer(text, bases[-1], "%b_base_step"))
    ended = text.value(f"icmp eq i64 {segment[5]}, 0")
    text.effect(f"br i1 {ended}, label %finish, label %loop")
    return _State(next_a, tuple(bases), "%k", segment, state.sums)
