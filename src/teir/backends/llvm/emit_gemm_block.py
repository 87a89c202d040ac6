"""A register block around its loop: arguments, vectors and columns, C loaded and stored."""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_flush import flushed
from teir.backends.llvm.emit_gemm_factors import columns_per_base, reads_factors
from teir.backends.llvm.emit_lanes import Lanes, lanes_below, lanes_in_memory, load, store
from teir.backends.llvm.emit_numbers import narrow, numbers_per_element, widen
from teir.backends.llvm.emit_pairs import (
    PairRows,
    as_ordered,
    as_permuted,
    narrow_sum,
    pair_rows,
    takes_pairs,
)
from teir.backends.llvm.emit_parts import as_elements, in_parts
from teir.backends.llvm.emit_products import Arithmetic
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.backends.llvm.layout import argument_bytes
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.kernels import GemmBlock
from teir.target import LINE_BYTES, Isa

WORD_BYTES = 4

Accumulators = list[list[str]]


_ARGUMENTS = (
    "k", "a_k", "b_k", "batch", "a_batch", "b_batch", "outer", "a_outer", "b_outer",
    "b_n", "c_n", "accumulate", "last_lanes", "a_m", "c_m", "b_ahead", "c_ahead",
)  # fmt: skip


def gemm_arguments(kernel: GemmBlock) -> tuple[str, ...]:
    """The names of the arguments in order, as in `GemmBlock`."""
    if kernel.repeats:
        return (*_ARGUMENTS, "blocks")
    return (*_ARGUMENTS, "a_ahead") if kernel.brings else _ARGUMENTS


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments: parameters of a body, or words of the record ``%node`` points to.

    A node reads each word where it is used, and again where it is used again: kept in between, it
    would take a store to the stack, and the stores of the block's results need the store queue.
    """

    names: tuple[str, ...]
    of_node: bool

    def read(self, text: FunctionText, name: str) -> str:
        if not self.of_node:
            return f"%{name}"
        at = argument_bytes(self.names.index(name))
        address = text.value(f"getelementptr i8, ptr %node, i64 {at}")
        return text.value(f"load volatile i64, ptr {address}, align 8")


@dataclass(frozen=True, slots=True)
class Block:
    """The block being emitted: its arithmetic and where its vectors and columns lie.

    ``a_k`` and ``b_k`` are the steps along k, ``b_base_step`` that between groups of
    ``columns_per_base`` columns. ``reads_factors``: the first column of a group is multiplied from
    memory.
    ``b_start`` and ``c_start`` are the first columns of the block being formed.
    ``pairs`` is given where two steps are taken at once, ``words`` where factors of B go through
    memory, ``claimed`` where lines of C are claimed: how many, a word in memory, and ``any_ahead``
    another, zero where nothing of B or C is asked for. ``first_of_c`` is the first vector of C
    where it is loaded ahead.
    """

    kernel: GemmBlock
    isa: Isa
    arguments: Arguments
    arithmetic: Arithmetic
    a_k: str
    b_k: str | int
    reads_factors: bool
    columns_per_base: int
    b_base_step: str
    a: tuple[Lanes, ...]
    a_offsets: tuple[str | int, ...]
    c: tuple[Lanes, ...]
    c_offsets: tuple[str | int, ...]
    b_start: str
    c_start: str
    b_multiples: dict[int, str]
    pairs: PairRows | None
    words: str | None
    claimed: str | None
    any_ahead: str | None
    first_of_c: str | None


def claims_c(kernel: GemmBlock) -> bool:
    """True where the columns of a block are long enough to be claimed one by one."""
    return kernel.vectors > 1 and kernel.c_access is Access.UNIT


def prepare_block(text: FunctionText, kernel: GemmBlock, isa: Isa, arguments: Arguments) -> Block:
    """Emit what depends on nothing but the arguments."""
    count = kernel.lanes * numbers_per_element(kernel.in_type)
    last = arguments.read(text, "last_lanes") if kernel.masked else None
    a = _Side(kernel.in_type, kernel.a_access, "a_m")
    c = _Side(kernel.out_type, kernel.c_access, "c_m")
    b_n = arguments.read(text, "b_n")
    reads, together = reads_factors(kernel, isa), columns_per_base(kernel, isa)
    multiples = {1: b_n}
    for odd in (3, 5, 7):
        if odd < min(kernel.columns, together):
            multiples[odd] = text.value(f"mul i64 {b_n}, {odd}")
    return Block(
        kernel,
        isa,
        arguments,
        Arithmetic(isa, kernel.in_type, count),
        arguments.read(text, "a_k"),
        kernel.in_type.width if reads else arguments.read(text, "b_k"),
        reads,
        together,
        text.value(f"mul i64 {b_n}, {together}"),
        *_vectors(text, kernel, isa, arguments, a, None if kernel.parts else last),
        *_vectors(text, kernel, isa, arguments, c, last),
        *((text.fresh(), text.fresh()) if kernel.repeats else ("%B", "%C")),
        multiples,
        pair_rows(text, kernel, isa, last) if takes_pairs(kernel, isa) else None,
        _words(text, kernel, isa),
        _claim_word(text, kernel),
        _claim_word(text, kernel),
        text.fresh() if kernel.loads_ahead else None,
    )


def _claim_word(text: FunctionText, kernel: GemmBlock) -> str | None:
    return text.value("alloca i64, align 8") if claims_c(kernel) else None


def _words(text: FunctionText, kernel: GemmBlock, isa: Isa) -> str | None:
    """Memory for one word per column where elements of B are widened by integer instructions.

    AVX-512 multiplies by a word in memory as by all lanes; a word in a register must be moved and
    spread first, by the units that multiply.
    """
    if not isa.is_avx512 or kernel.in_type is not DataType.BF16 or kernel.flushes:
        return None
    return text.value(f"alloca [{kernel.columns} x float], align {LINE_BYTES}")


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
    arguments: Arguments,
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


def emit_preload(text: FunctionText, block: Block) -> Accumulators:
    """Blocks that end in %loop: the chains start from zero, or from what is returned here."""
    accumulate = block.arguments.read(text, "accumulate")
    fresh = text.value(f"icmp eq i64 {accumulate}, 0")
    text.effect(f"br i1 {fresh}, label %loop, label %preload")
    text.label("preload")
    c_n = block.arguments.read(text, "c_n")
    first: Accumulators = []
    for column in range(block.kernel.columns):
        address = _column_of_c(text, block, c_n, column)
        rows: list[str] = []
        for lanes, offset in zip(block.c, block.c_offsets, strict=True):
            if block.first_of_c is not None and column == len(rows) == 0:
                rows.append(block.first_of_c)
                continue
            stored = load(text, lanes, shift_pointer(text, address, offset))
            wide = widen(text, block.kernel.out_type, block.isa, stored, lanes.numbers)
            rows.append(without_subnormals(text, block, wide))
        first.append(_as_held(text, block, rows))
    text.effect("br label %loop")
    return first


def emit_store(text: FunctionText, block: Block, sums: Accumulators) -> None:
    """The block's results, rounded to their type."""
    c_n = block.arguments.read(text, "c_n")
    kept = _kept_lanes(text, block)
    for column, held in enumerate(sums):
        rows = _as_stored(text, block, held)
        address = _column_of_c(text, block, c_n, column)
        if kept is not None:
            there = load(text, block.c[0], address)
            kind = block.c[0].kind
            rows[0] = text.value(f"select {kept}, {kind} {there}, {kind} {rows[0]}")
        for row, lanes, offset in zip(rows, block.c, block.c_offsets, strict=True):
            if block.pairs is not None and block.kernel.out_type is DataType.BF16:
                stored = narrow_sum(text, row, lanes.count)
            else:
                stored = narrow(text, block.kernel.out_type, block.isa, row, lanes.numbers)
            store(text, lanes, shift_pointer(text, address, offset), stored)


def _kept_lanes(text: FunctionText, block: Block) -> str | None:
    """The mask of the lanes of the first vector that stay as they are; None where none do."""
    if not block.kernel.keeps:
        return None
    last = block.arguments.read(text, "last_lanes")
    count = text.value(f"sub i64 {block.kernel.lanes}, {last}")
    return f"<{block.kernel.lanes} x i1> {lanes_below(text, block.isa, block.c[0], count)}"


def _as_held(text: FunctionText, block: Block, rows: list[str]) -> list[str]:
    """Vectors of C as they are summed."""
    if block.kernel.splits_numbers:
        return in_parts(text, block.arithmetic, rows)
    return rows if block.pairs is None else as_permuted(text, rows)


def _as_stored(text: FunctionText, block: Block, held: list[str]) -> list[str]:
    if block.kernel.splits_numbers:
        return as_elements(text, block.arithmetic, held)
    return held if block.pairs is None else as_ordered(text, held)


def _column_of_c(text: FunctionText, block: Block, c_n: str, column: int) -> str:
    if column == 0:
        return block.c_start
    return shift_pointer(text, block.c_start, text.value(f"mul i64 {c_n}, {column}"))


def without_subnormals(text: FunctionText, block: Block, numbers: str) -> str:
    """``numbers``, subnormals replaced by zeros where the kernel flushes without a mode."""
    if not block.kernel.flushes:
        return numbers
    return flushed(text, block.isa, numbers, block.arithmetic.count)
