"""The register block of a matrix product: vectors x columns accumulators, one loop.

The three loops (outer, batch, k) are one loop with three exits, so that every accumulator is one
phi and the code stays small:

    loop:    k left >= 4 (large blocks: 2) -> so many steps -> loop
             k left >= 1 -> one step -> loop
             else next (outer, batch) -> loop, or store
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from teir.backends.llvm.emit_flush import flushed, start_flushing, stop_flushing
from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, load_number, store
from teir.backends.llvm.emit_numbers import (
    computed_number,
    narrow,
    numbers_per_element,
    round_factor,
    widen,
)
from teir.backends.llvm.emit_pairs import (
    PairRows,
    add_pair,
    as_ordered,
    as_permuted,
    load_adjacent_scale,
    load_pair_factors,
    load_pair_scale,
    load_single_scale,
    narrow_sum,
    pair_rows,
    takes_pairs,
)
from teir.backends.llvm.emit_products import (
    Arithmetic,
    Scale,
    add_product,
    as_factor,
    load_scale,
)
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, splat, vector
from teir.backends.llvm.layout import argument_bytes
from teir.dtypes import DataType
from teir.lower.blocking import full_lanes
from teir.lower.kernels import Access, GemmBlock
from teir.target import Isa

_LARGE_BLOCK = 16
"""Accumulators from which two steps of k hide the loop's own instructions as well as four do."""
_COLUMNS_PER_BASE = 9
"""Columns 0 to 8 are one base plus 1, 2, 4 or 8 times an odd multiple of the column stride."""
_LINE_BYTES = 64
_WORD_BYTES = 4
_MOSTLY = '!prof !{!"branch_weights", i32 64, i32 1}'

Accumulators = list[list[str]]


def gemm_arguments() -> tuple[str, ...]:
    return (
        "k", "a_k", "b_k", "batch", "a_batch", "b_batch", "outer", "a_outer", "b_outer",
        "b_n", "c_n", "accumulate", "last_lanes", "a_m", "c_m", "b_ahead", "c_ahead",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments: parameters of a body, or words of the record ``%node`` points to.

    A node reads each word where it is used, and again where it is used again: kept in between, it
    would take a store to the stack, and the stores of the block's results need the store queue.
    """

    of_node: bool

    def read(self, text: FunctionText, name: str) -> str:
        if not self.of_node:
            return f"%{name}"
        at = argument_bytes(gemm_arguments().index(name))
        address = text.value(f"getelementptr i8, ptr %node, i64 {at}")
        return text.value(f"load volatile i64, ptr {address}, align 8")


@dataclass(frozen=True, slots=True)
class _Block:
    """The block being emitted: its arithmetic and where its vectors and columns lie.

    ``a_k`` and ``b_k`` are the steps along k, ``b_base_step`` that between groups of columns.
    """

    kernel: GemmBlock
    isa: Isa
    arguments: _Arguments
    arithmetic: Arithmetic
    a_k: str
    b_k: str
    b_base_step: str
    a: tuple[Lanes, ...]
    a_offsets: tuple[str | int, ...]
    c: tuple[Lanes, ...]
    c_offsets: tuple[str | int, ...]
    b_multiples: dict[int, str]
    pairs: PairRows | None
    words: str | None


def emit_gemm_body(kernel: GemmBlock, isa: Isa) -> FunctionText:
    """The body of the function for operands %A, %B, %C and the arguments of `GemmBlock`."""
    return _emit(kernel, isa, _Arguments(of_node=False))


def emit_gemm_node(kernel: GemmBlock, isa: Isa) -> FunctionText:
    """The body of the node's function: the arguments are words of ``%node``."""
    return _emit(kernel, isa, _Arguments(of_node=True))


def _emit(kernel: GemmBlock, isa: Isa, arguments: _Arguments) -> FunctionText:
    if kernel.c_access is Access.BROADCAST:
        raise ValueError("expected an output that is UNIT or STRIDED, found BROADCAST")
    if computed_number(kernel.in_type) != computed_number(kernel.out_type):
        raise ValueError(f"expected one accumulator, found {kernel.in_type} to {kernel.out_type}")
    text = FunctionText()
    text.label("entry")
    block = _prepare(text, kernel, isa, arguments)
    mode = None
    if kernel.flushes and block.pairs is None:
        mode = start_flushing(text, isa)
    start = _start(text, block)
    first = _emit_preload(text, block)
    sums = _emit_loop(text, block, start, first)
    text.label("finish")
    stop_flushing(text, isa, mode)
    _emit_store(text, block, sums)
    return text


def _prepare(text: FunctionText, kernel: GemmBlock, isa: Isa, arguments: _Arguments) -> _Block:
    count = kernel.lanes * numbers_per_element(kernel.in_type)
    last = arguments.read(text, "last_lanes") if kernel.masked else None
    a = _Side(kernel.in_type, kernel.a_access, "a_m")
    c = _Side(kernel.out_type, kernel.c_access, "c_m")
    b_n = arguments.read(text, "b_n")
    multiples = {1: b_n}
    for odd in (3, 5, 7):
        if odd < min(kernel.columns, _COLUMNS_PER_BASE):
            multiples[odd] = text.value(f"mul i64 {b_n}, {odd}")
    return _Block(
        kernel,
        isa,
        arguments,
        Arithmetic(isa, kernel.in_type, count),
        arguments.read(text, "a_k"),
        arguments.read(text, "b_k"),
        text.value(f"mul i64 {b_n}, {_COLUMNS_PER_BASE}"),
        *_vectors(text, kernel, isa, arguments, a, last),
        *_vectors(text, kernel, isa, arguments, c, last),
        multiples,
        pair_rows(text, kernel, isa, last) if takes_pairs(kernel, isa) else None,
        _words(text, kernel, isa),
    )


def _words(text: FunctionText, kernel: GemmBlock, isa: Isa) -> str | None:
    """Memory for one word per column where elements of B are widened by integer instructions.

    AVX-512 multiplies by a word in memory as by all lanes; a word in a register must be moved and
    spread first, by the units that multiply.
    """
    if isa is not Isa.AVX512 or kernel.in_type is not DataType.BF16 or kernel.flushes:
        return None
    return text.value(f"alloca [{kernel.columns} x float], align {_LINE_BYTES}")


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand whose lanes are vectors: A or C."""

    data_type: DataType
    access: Access
    stride: str


def _vectors(
    text: FunctionText,
    kernel: GemmBlock,
    isa: Isa,
    arguments: _Arguments,
    side: _Side,
    last_lanes: str | None,
) -> tuple[tuple[Lanes, ...], tuple[str | int, ...]]:
    """Lanes and byte offset of every vector of one column."""
    is_strided = side.access is Access.STRIDED
    stride = arguments.read(text, side.stride) if is_strided else "0"

    def lanes(existing: str | None) -> Lanes:
        return lanes_in_memory(
            text, isa, side.data_type, kernel.lanes, side.access, stride, existing
        )

    vectors = [lanes(None)] * kernel.vectors
    if last_lanes is not None:
        vectors[-1] = lanes(last_lanes)
    offsets: list[str | int] = [0]
    for number in range(1, kernel.vectors):
        lanes_before = number * kernel.lanes
        match side.access:
            case Access.UNIT:
                offsets.append(lanes_before * side.data_type.width)
            case Access.BROADCAST:
                offsets.append(0)
            case Access.STRIDED:
                offsets.append(text.value(f"mul i64 {stride}, {lanes_before}"))
    return tuple(vectors), tuple(offsets)


def _emit_preload(text: FunctionText, block: _Block) -> Accumulators:
    """Blocks that end in %loop: the chains start from zero, or from what is returned here."""
    accumulate = block.arguments.read(text, "accumulate")
    fresh = text.value(f"icmp eq i64 {accumulate}, 0")
    text.effect(f"br i1 {fresh}, label %loop, label %again")
    text.label("again")
    if block.kernel.c_access is Access.UNIT:
        ahead = block.arguments.read(text, "c_ahead")
        alone = text.value(f"icmp eq i64 {ahead}, 0")
        text.effect(f"br i1 {alone}, label %preload, label %ahead")
        text.label("ahead")
        _emit_prefetch_of_c(text, block, ahead)
    text.effect("br label %preload")
    text.label("preload")
    c_n = block.arguments.read(text, "c_n")
    first: Accumulators = []
    for column in range(block.kernel.columns):
        address = _column_of_c(text, c_n, column)
        rows = []
        for lanes, offset in zip(block.c, block.c_offsets, strict=True):
            stored = load(text, lanes, shift_pointer(text, address, offset))
            wide = widen(text, block.kernel.out_type, block.isa, stored, lanes.numbers)
            rows.append(_flushed(text, block, wide))
        first.append(rows if block.pairs is None else as_permuted(text, rows))
    text.effect("br label %loop")
    return first


def _emit_prefetch_of_c(text: FunctionText, block: _Block, c_ahead: str) -> None:
    """Ask for what a later block starts from: its chains cannot begin before it is there."""
    kernel = block.kernel
    c_n = block.arguments.read(text, "c_n")
    row_bytes = kernel.vectors * kernel.lanes * kernel.out_type.width
    for column in range(kernel.columns):
        address = shift_pointer(text, _column_of_c(text, c_n, column), c_ahead)
        for line in range(0, row_bytes, _LINE_BYTES):
            _prefetch(text, shift_pointer(text, address, line))


def _prefetch(text: FunctionText, address: str) -> None:
    """Into the second cache: the first is full of this tile."""
    text.effect(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 2, i32 1)")


def _emit_store(text: FunctionText, block: _Block, sums: Accumulators) -> None:
    c_n = block.arguments.read(text, "c_n")
    for column, held in enumerate(sums):
        rows = held if block.pairs is None else as_ordered(text, held)
        address = _column_of_c(text, c_n, column)
        for row, lanes, offset in zip(rows, block.c, block.c_offsets, strict=True):
            if block.pairs is not None and block.kernel.out_type is DataType.BF16:
                stored = narrow_sum(text, row)
            else:
                stored = narrow(text, block.kernel.out_type, block.isa, row, lanes.numbers)
            store(text, lanes, shift_pointer(text, address, offset), stored)
    text.effect("ret void")


def _column_of_c(text: FunctionText, c_n: str, column: int) -> str:
    if column == 0:
        return "%C"
    return shift_pointer(text, "%C", text.value(f"mul i64 {c_n}, {column}"))


@dataclass(frozen=True, slots=True)
class _State:
    """What changes from one pass through the loop to the next, as value names.

    ``b`` has one base pointer per group of columns; ``batch_left`` and ``outer_left`` count the
    current ones.
    """

    a: str
    b: tuple[str, ...]
    k_left: str
    batch_left: str
    outer_left: str
    sums: Accumulators


Sources = tuple[tuple[str, _State], ...]
"""The blocks that lead to the loop's head, and the state each brings."""


def _emit_loop(
    text: FunctionText, block: _Block, start: _State, first: Accumulators
) -> Accumulators:
    """The loop, which leaves for %finish; returns the sums."""
    state = _State(
        text.fresh(),
        tuple(text.fresh() for _ in start.b),
        text.fresh(),
        text.fresh(),
        text.fresh(),
        [[text.fresh() for _ in rows] for rows in first],
    )
    many = _emit_steps(text, block, state, "many", _steps_at_once(block))
    text.label("few")
    last = text.value(f"icmp eq i64 {state.k_left}, 0")
    text.effect(f"br i1 {last}, label %segment, label %one")
    one = _emit_steps(text, block, state, "one", 1)
    next_batch, next_outer = _emit_segment(text, block, state)
    sources = (
        ("entry", start),
        ("preload", replace(start, sums=first)),
        ("many", many),
        ("one", one),
        ("next_batch", next_batch),
        ("next_outer", next_outer),
    )
    _emit_loop_head(text, block, state, sources)
    return state.sums


def _emit_loop_head(text: FunctionText, block: _Block, state: _State, sources: Sources) -> None:
    """The phis of the loop and its test; written last because it names what the blocks made."""
    text.label("loop")
    types = _types(state, vector(block.arithmetic.element, block.arithmetic.count))
    for number, name in enumerate(_flat(state)):
        incoming = ", ".join(f"[ {_flat(source)[number]}, %{label} ]" for label, source in sources)
        text.define(name, f"phi {types[number]} {incoming}")
    enough = text.value(f"icmp sge i64 {state.k_left}, {_steps_at_once(block)}")
    text.effect(f"br i1 {enough}, label %many, label %few, {_MOSTLY}")


def _steps_at_once(block: _Block) -> int:
    kernel = block.kernel
    return 2 if block.pairs is not None or kernel.vectors * kernel.columns >= _LARGE_BLOCK else 4


def _start(text: FunctionText, block: _Block) -> _State:
    """Where the loop starts, its sums zero."""
    kernel, arguments = block.kernel, block.arguments
    b = ["%B"]
    for _ in range(1, -(-kernel.columns // _COLUMNS_PER_BASE)):
        b.append(shift_pointer(text, b[-1], block.b_base_step))
    return _State(
        "%A",
        tuple(b),
        arguments.read(text, "k"),
        arguments.read(text, "batch"),
        arguments.read(text, "outer"),
        [["zeroinitializer"] * kernel.vectors for _ in range(kernel.columns)],
    )


def _flat(state: _State) -> list[str]:
    sums = [row for rows in state.sums for row in rows]
    return [state.a, *state.b, state.k_left, state.batch_left, state.outer_left, *sums]


def _types(state: _State, kind: str) -> list[str]:
    pointers = ["ptr"] * (1 + len(state.b))
    return [*pointers, *["i64"] * 3, *[kind] * sum(len(rows) for rows in state.sums)]


def _emit_steps(text: FunctionText, block: _Block, state: _State, label: str, steps: int) -> _State:
    """A basic block of ``steps`` values of k, back to the loop's head."""
    text.label(label)
    a, b, sums = state.a, state.b, state.sums
    if steps > 1:
        _emit_prefetch_of_b(text, block, b)
    if block.pairs is not None:
        sums = _emit_pair(text, block, block.pairs, (a, b), steps == 2, sums)
    for _ in range(steps):
        if block.pairs is None:
            sums = _emit_step(text, block, a, b, sums)
        a, b = _next_step(text, block, a, b)
    k_left = text.value(f"sub i64 {state.k_left}, {steps}")
    text.effect("br label %loop")
    return replace(state, a=a, b=b, k_left=k_left, sums=sums)


def _emit_prefetch_of_b(text: FunctionText, block: _Block, b: tuple[str, ...]) -> None:
    """Ask for what the next tile reads of B: short runs, which no hardware prefetcher follows.

    A single vector that is not whole asks for nothing: its multiply-adds take half a cycle each,
    as loads do, and the requests would take the loads' places.
    """
    kernel = block.kernel
    whole = full_lanes(block.isa, kernel.in_type, kernel.out_type)
    if kernel.vectors == 1 and kernel.lanes < whole:
        return
    b_ahead = block.arguments.read(text, "b_ahead")
    ahead = tuple(shift_pointer(text, base, b_ahead) for base in b)
    for column in range(kernel.columns):
        _prefetch(text, _column_of_b(text, block, ahead, column))


def _emit_step(
    text: FunctionText, block: _Block, a: str, b: tuple[str, ...], sums: Accumulators
) -> Accumulators:
    kernel, kind = block.kernel, block.arithmetic
    factors = []
    for lanes, offset in zip(block.a, block.a_offsets, strict=True):
        stored = load(text, lanes, shift_pointer(text, a, offset))
        numbers = widen(text, kernel.in_type, block.isa, stored, lanes.numbers)
        rounded = round_factor(text, kernel.in_type, numbers, lanes.numbers)
        factors.append(as_factor(text, kind, _flushed(text, block, rounded)))
    following = []
    for column, rows in enumerate(sums):
        scale = _load_scale(text, block, _column_of_b(text, block, b, column), column)
        if kernel.flushes:
            scale = Scale(_flushed(text, block, scale.real), None)
        following.append(
            [
                _flushed(text, block, add_product(text, kind, factor, scale, row))
                for factor, row in zip(factors, rows, strict=True)
            ]
        )
    return following


def _load_scale(text: FunctionText, block: _Block, place: str, column: int) -> Scale:
    """The element of B at ``place`` in every lane."""
    if block.words is None:
        return load_scale(text, block.arithmetic, place)
    data_type = block.kernel.in_type
    stored = load_number(text, data_type, place, 0)
    number = round_factor(text, data_type, widen(text, data_type, block.isa, stored, 1), 1)
    slot = shift_pointer(text, block.words, _WORD_BYTES * column)
    text.effect(f"store volatile <1 x float> {number}, ptr {slot}, align {_WORD_BYTES}")
    single = text.value(f"load float, ptr {slot}, align {_WORD_BYTES}")
    return Scale(splat(text, "float", single, block.arithmetic.count), None)


def _flushed(text: FunctionText, block: _Block, numbers: str) -> str:
    if not block.kernel.flushes:
        return numbers
    return flushed(text, block.isa, numbers, block.arithmetic.count)


def _next_step(
    text: FunctionText, block: _Block, a: str, b: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    following = shift_pointer(text, a, block.a_k)
    return following, tuple(shift_pointer(text, base, block.b_k) for base in b)


def _emit_pair(
    text: FunctionText,
    block: _Block,
    pairs: PairRows,
    place: tuple[str, tuple[str, ...]],
    is_whole: bool,
    sums: Accumulators,
) -> Accumulators:
    """Two steps of k in one; where it is not whole, a single one."""
    a, b = place
    next_a, next_b = _next_step(text, block, a, b)
    factors = load_pair_factors(text, pairs, a, next_a if is_whole else None)
    following = []
    for column, rows in enumerate(sums):
        first = _column_of_b(text, block, b, column)
        if not is_whole:
            scale = load_single_scale(text, pairs, column, first)
        elif block.kernel.b_adjacent:
            scale = load_adjacent_scale(text, pairs, column, first)
        else:
            second = _column_of_b(text, block, next_b, column)
            scale = load_pair_scale(text, pairs, column, first, second)
        following.append(
            [add_pair(text, factor, scale, row) for factor, row in zip(factors, rows, strict=True)]
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


def _emit_segment(text: FunctionText, block: _Block, state: _State) -> tuple[_State, _State]:
    """The blocks that move on to the next batch or to the next outer, or end the loop.

    A and B stand ``k`` steps, and at the last batch ``batch - 1`` batches, past where they began.
    """
    arguments = block.arguments
    text.label("segment")
    more_batches = text.value(f"icmp sgt i64 {state.batch_left}, 1")
    text.effect(f"br i1 {more_batches}, label %next_batch, label %last_batch")
    text.label("last_batch")
    more_outers = text.value(f"icmp sgt i64 {state.outer_left}, 1")
    text.effect(f"br i1 {more_outers}, label %next_outer, label %finish")

    def moved(distance: str, step: str, pointers: tuple[str, ...], walked: str) -> tuple[str, ...]:
        """``pointers`` less the ``k`` steps and the bytes ``walked``, plus ``distance``."""
        k = arguments.read(text, "k")
        steps = text.value(f"mul i64 {k}, {step}")
        back = text.value(f"add i64 {steps}, {walked}")
        change = text.value(f"sub i64 {arguments.read(text, distance)}, {back}")
        return tuple(shift_pointer(text, pointer, change) for pointer in pointers)

    text.label("next_batch")
    batch_left = text.value(f"sub i64 {state.batch_left}, 1")
    (a,) = moved("a_batch", block.a_k, (state.a,), "0")
    b = moved("b_batch", block.b_k, state.b, "0")
    next_batch = replace(state, a=a, b=b, k_left=arguments.read(text, "k"), batch_left=batch_left)
    text.effect("br label %loop")

    text.label("next_outer")
    batch = arguments.read(text, "batch")
    batches_before = text.value(f"sub i64 {batch}, 1")

    def walked(distance: str) -> str:
        return text.value(f"mul i64 {arguments.read(text, distance)}, {batches_before}")

    (a,) = moved("a_outer", block.a_k, (state.a,), walked("a_batch"))
    b = moved("b_outer", block.b_k, state.b, walked("b_batch"))
    next_outer = _State(
        a,
        b,
        arguments.read(text, "k"),
        batch,
        text.value(f"sub i64 {state.outer_left}, 1"),
        state.sums,
    )
    text.effect("br label %loop")
    return next_batch, next_outer
