"""Register blocks against exact integer arithmetic, against each other, and at forbidden pages."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from msgspec.structs import replace

from backends.llvm.kernel_calls import (
    HERE,
    PAIRS,
    TYPES,
    Compiled,
    Edge,
    Guarded,
    compiled_once,
    full_lanes,
    kernel_assembly,
    small_integers,
    strided,
)
from teir.backends.llvm.emit_kernel import emit_kernel, kernel_symbol
from teir.dtypes import DataType
from teir.ir.tile_arithmetic import contract
from teir.lower.access import Access
from teir.lower.block_shapes import block_shapes, holds_depth
from teir.lower.kernels import GemmBlock
from teir.target import Isa

UNIT, STRIDED, BROADCAST = Access.UNIT, Access.STRIDED, Access.BROADCAST


_BLOCKS = 3
"""Blocks of one call of a kernel that repeats."""
_FAR_BYTES = 1 << 40
"""How far ahead a kernel asks for A: nothing is there."""


def block(
    in_type: DataType,
    out_type: DataType,
    lanes: int,
    vectors: int,
    columns: int,
    accesses: tuple[Access, Access] = (UNIT, UNIT),
    masked: bool = False,
) -> GemmBlock:
    return GemmBlock(
        in_type=in_type,
        out_type=out_type,
        lanes=lanes,
        vectors=vectors,
        columns=columns,
        a_access=accesses[0],
        c_access=accesses[1],
        masked=masked and lanes > 1,
    )


def blocks_to_run(in_type: DataType, out_type: DataType, isa: Isa) -> list[GemmBlock]:
    full = full_lanes(isa, in_type)
    chosen = [
        block(in_type, out_type, full, 1, 1),
        block(in_type, out_type, full, 1, 11),
        block(in_type, out_type, full, 2, 3, masked=True),
        block(in_type, out_type, full, 2, 2, (STRIDED, STRIDED)),
        block(in_type, out_type, full, 2, 2, (STRIDED, STRIDED), masked=True),
        block(in_type, out_type, full, 1, 2, (UNIT, STRIDED), masked=True),
        block(in_type, out_type, full, 2, 2, (BROADCAST, UNIT), masked=True),
    ]
    lanes = full // 2
    while lanes >= 1:
        chosen.append(block(in_type, out_type, lanes, 1, 2, masked=True))
        lanes //= 2
    repeated = [replace(kernel, repeats=True) for kernel in chosen[1:4]]
    flushing = [replace(kernel, flushes=True) for kernel in chosen]
    bringing = [replace(kernel, brings=True) for kernel in chosen[1:3]]
    chosen += [*repeated, *(replace(kernel, depth=3) for kernel in repeated)]
    chosen += [replace(chosen[1], depth=1), *bringing]
    if in_type in (DataType.FP32, DataType.FP64):
        singles = [kernel for kernel in chosen if kernel.vectors == 1]
        chosen += [replace(kernel, b_adjacent=True) for kernel in singles]
        several = [*chosen[2:5], *bringing[1:], block(in_type, out_type, full, 3, 7, masked=True)]
        chosen += [replace(kernel, b_adjacent=True, repeats=False) for kernel in several]
    if in_type is DataType.BF16:
        chosen += [*flushing, *(replace(kernel, b_adjacent=True) for kernel in flushing)]
        chosen += [
            replace(block(in_type, out_type, full, vectors, 3, masked=True), flushes=True)
            for vectors in (3, 4)
        ]
    return list(dict.fromkeys(chosen))


@dataclass(frozen=True)
class Sizes:
    """Extents of the reduction and how far the operands' elements lie apart."""

    k: int
    batch: int
    outer: int
    last_lanes: int
    accumulate: int
    k_innermost: bool


class Problem:
    """Operands of one block, each with its end (or start) at a forbidden page."""

    def __init__(
        self, kernel: GemmBlock, sizes: Sizes, edge: Edge, random: np.random.Generator
    ) -> None:
        last = sizes.last_lanes if kernel.masked else kernel.lanes
        self.kernel, self.sizes = kernel, sizes
        self.rows = (kernel.vectors - 1) * kernel.lanes + last
        width, out_width = kernel.in_type.width, kernel.out_type.width
        a_m = {UNIT: width, STRIDED: 3 * width, BROADCAST: 0}[kernel.a_access]
        a_k = a_m * self.rows + width
        a_batch = a_k * sizes.k
        a_axes = (
            (self.rows, a_m),
            (sizes.outer, a_batch * sizes.batch),
            (sizes.batch, a_batch),
            (sizes.k, a_k),
        )
        k, n = sizes.k, kernel.columns * (_BLOCKS if kernel.repeats else 1)
        b_k, b_n = (width, k * width) if sizes.k_innermost else (n * width, width)
        b_axes = (
            (n, b_n),
            (sizes.outer, k * n * width * sizes.batch),
            (sizes.batch, k * n * width),
            (k, b_k),
        )
        c_m = out_width if kernel.c_access is UNIT else 2 * out_width
        c_axes = ((n, c_m * self.rows), (self.rows, c_m))
        self.a = self.operand(random, kernel.in_type, a_axes, edge)
        self.b = self.operand(random, kernel.in_type, b_axes, edge)
        self.c = self.operand(random, kernel.out_type, c_axes, edge)
        self.arguments = (
            *(sizes.k, a_k, b_k, sizes.batch, a_batch, b_axes[2][1]),
            *(sizes.outer, a_axes[1][1], b_axes[1][1]),
            *(b_n, c_axes[0][1], sizes.accumulate, last, a_m, c_m, 0, 0),
            *((_BLOCKS,) if kernel.repeats else ()),
            *((_FAR_BYTES,) if kernel.brings else ()),
        )

    def operand(
        self,
        random: np.random.Generator,
        data_type: DataType,
        axes: tuple[tuple[int, int], ...],
        edge: Edge,
    ) -> tuple[Guarded, np.ndarray]:
        size = sum((extent - 1) * stride for extent, stride in axes) + data_type.width
        memory = Guarded(size, edge)
        memory.bytes[:] = 0xFF
        view = strided(memory.bytes, data_type, 0, axes)
        view[...] = small_integers(random, view.shape, data_type)
        return memory, view

    def expected(self) -> np.ndarray:
        wide = np.complex128 if self.kernel.in_type.is_complex else np.float64
        product = np.einsum("mobk,nobk->nm", self.a[1].astype(wide), self.b[1].astype(wide))
        start = self.c[1].astype(wide) if self.sizes.accumulate else 0
        return (start + product).astype(self.kernel.out_type.numpy_dtype())

    def run(self, compiled: Compiled) -> None:
        addresses = [memory.address for memory, _ in (self.a, self.b, self.c)]
        compiled.call(self.kernel, self.arguments, addresses)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize(("in_type", "out_type"), PAIRS)
def test_block_is_exact_and_stays_inside(isa: Isa, in_type: DataType, out_type: DataType) -> None:
    random = np.random.default_rng(7)
    kernels = blocks_to_run(in_type, out_type, isa)
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        for edge in Edge:
            depths = ((1, 1, 1), (6, 1, 1), (3, 2, 1), (5, 1, 2), (4, 1, 1), (9, 3, 2))
            for k, batch, outer in depths if kernel.depth is None else ((kernel.depth, 1, 1),):
                last = int(random.integers(1, kernel.lanes + 1))
                accumulate = int(random.integers(2))
                innermost = kernel.b_adjacent or bool(random.integers(2))
                sizes = Sizes(k, batch, outer, last, accumulate, innermost)
                problem = Problem(kernel, sizes, edge, random)
                between = problem.c[0].bytes.copy()
                expected = problem.expected()
                strided(between, kernel.out_type, 0, c_axes(problem))[...] = expected
                problem.run(compiled)
                np.testing.assert_array_equal(problem.c[0].bytes, between, str((kernel, sizes)))


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("out_type", [DataType.BF16, DataType.FP32])
def test_pairs_of_adjacent_factors_stay_inside(isa: Isa, out_type: DataType) -> None:
    random = np.random.default_rng(8)
    kernel = replace(
        block(DataType.BF16, out_type, full_lanes(isa, DataType.BF16), 2, 4, masked=True),
        flushes=True,
        b_adjacent=True,
    )
    compiled = Compiled([kernel], isa)
    for edge in Edge:
        for k, batch in ((1, 1), (2, 1), (3, 2), (8, 1), (7, 3)):
            last = int(random.integers(1, kernel.lanes + 1))
            problem = Problem(kernel, Sizes(k, batch, 1, last, 1, True), edge, random)
            expected = problem.expected()
            problem.run(compiled)
            np.testing.assert_array_equal(problem.c[1], expected)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("is_small", [False, True])
def test_flushing_blocks_are_the_chain_with_zeros_for_subnormals(isa: Isa, is_small: bool) -> None:
    """Bits of every form equal the evaluator's, whether or not numbers become subnormal."""
    random = np.random.default_rng(5)
    full = full_lanes(isa, DataType.BF16)
    size = 2.0**-63 if is_small else 1.0
    rows, columns, k = 3 * full, 4, 9
    a = (size * random.standard_normal((k, rows))).astype(DataType.BF16.numpy_dtype())
    b = (size * random.standard_normal((columns, k))).astype(a.dtype)
    a[2], b[1, 4] = a[2] * a.dtype.type(1e-30), b.dtype.type(1e-39)
    start = (size * size * random.standard_normal((columns, rows))).astype(np.float32)
    factors = (
        np.broadcast_to(a.T[None], (columns, rows, k)),
        np.broadcast_to(b[:, None], (columns, rows, k)),
    )
    expected = contract(factors, start, DataType.BF16, None, True)
    for vectors, lanes, is_adjacent in ((3, full, True), (1, full, False), (1, 1, False)):
        kernel = replace(
            block(DataType.BF16, DataType.FP32, lanes, vectors, columns),
            flushes=True,
            b_adjacent=is_adjacent,
        )
        compiled = Compiled([kernel], isa)
        c = start.copy()
        for row in range(0, rows, vectors * lanes):
            arguments = (
                *(k, rows * 2, 2, 1, 0, 0, 1, 0, 0, k * 2, rows * 4),
                *(1, kernel.lanes, 2, 4, 0, 0),
            )
            addresses = (a.ctypes.data + 2 * row, b.ctypes.data, c.ctypes.data + 4 * row)
            compiled.call(kernel, arguments, addresses)
        np.testing.assert_array_equal(c, expected)


def c_axes(problem: Problem) -> tuple[tuple[int, int], ...]:
    view = problem.c[1]
    return tuple(zip(view.shape, view.strides, strict=True))


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", TYPES)
def test_same_bits_for_every_shape_lanes_and_access(isa: Isa, data_type: DataType) -> None:
    """A 2V x 6 product by six choices of blocks, all bits equal."""
    random = np.random.default_rng(3)
    full = full_lanes(isa, data_type)
    rows, columns, k = 2 * full, 6, 21
    a = wild(random, (k, rows), data_type)
    b = wild(random, (columns, k), data_type)
    start = wild(random, (columns, rows), data_type)
    adjacent = data_type in (DataType.FP32, DataType.FP64)
    choices = [
        block(data_type, data_type, full, 2, 3),
        replace(block(data_type, data_type, full, 1, 3), b_adjacent=adjacent),
        replace(block(data_type, data_type, full, 2, 6), b_adjacent=adjacent),
        block(data_type, data_type, full, 1, 6),
        block(data_type, data_type, full, 2, 1, (STRIDED, STRIDED)),
        block(data_type, data_type, full, 1, 2, masked=True),
        block(data_type, data_type, 1, 1, 2),
        block(data_type, data_type, max(1, full // 2), 1, 3),
    ]
    compiled = Compiled(choices, isa)
    results = []
    for kernel in choices:
        c = start.copy()
        height = kernel.vectors * kernel.lanes
        width = data_type.width
        for column in range(0, columns, kernel.columns):
            for row in range(0, rows, height):
                arguments = (
                    *(k, rows * width, width, 1, 0, 0, 1, 0, 0, k * width, rows * width),
                    *(1, kernel.lanes, width, width, 0, 0),
                )
                addresses = (
                    a.ctypes.data + row * width,
                    b.ctypes.data + column * k * width,
                    c.ctypes.data + (column * rows + row) * width,
                )
                compiled.call(kernel, arguments, addresses)
        results.append(c.view(np.uint8))
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def wild(random: np.random.Generator, shape: tuple[int, ...], data_type: DataType) -> np.ndarray:
    numbers = random.standard_normal(shape)
    if data_type.is_complex:
        return (numbers + 1j * random.standard_normal(shape)).astype(data_type.numpy_dtype())
    return numbers.astype(data_type.numpy_dtype())


@pytest.mark.parametrize("isa", [isa for isa in HERE if isa.has_fma])
def test_chain_is_fused_and_starts_from_c(isa: Isa) -> None:
    """FP32: each step of the chain is exact in FP64, so one rounding per step is reproduced."""
    random = np.random.default_rng(11)
    kernel = block(DataType.FP32, DataType.FP32, 1, 1, 1)
    a, b = (random.standard_normal(50).astype(np.float32) for _ in range(2))
    c = np.float32([0.37])
    expected = c[0]
    for left, right in zip(a, b, strict=True):
        exact = np.longdouble(left) * np.longdouble(right) + np.longdouble(expected)
        expected = np.float32(exact)
    arguments = (50, 4, 4, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1, 4, 4, 0, 0)
    addresses = [array.ctypes.data for array in (a, b, c)]
    Compiled([kernel], isa).call(kernel, arguments, addresses)
    assert c[0] == expected


@pytest.mark.parametrize("isa", HERE)
def test_tf32_rounds_factors_to_even_and_keeps_the_special(isa: Isa) -> None:
    ulp = 2.0**-10
    values = [
        (1 + ulp / 2, 1.0),
        (1 + 3 * ulp / 2, 1 + 2 * ulp),
        (1 + ulp / 2 + 2.0**-23, 1 + ulp),
        (-(1 + 3 * ulp / 2), -(1 + 2 * ulp)),
        (np.inf, np.inf),
        (-np.inf, -np.inf),
        (np.nan, np.nan),
        (3.4e38, np.float32(3.4e38)),
    ]
    a = np.float32([value for value, _ in values])
    a.view(np.uint32)[6] = 0x7FFFFFFF
    expected = np.float32([rounded for _, rounded in values])
    expected[7] = (np.float32([3.4e38]).view(np.uint32) + 0xFFF & 0xFFFFE000).view(np.float32)[0]
    one, c = np.float32([1]), np.zeros(8, np.float32)
    kernel = block(DataType.TF32, DataType.TF32, 4, 2, 1)
    compiled = Compiled([kernel], isa)
    arguments = (1, 32, 4, 1, 0, 0, 1, 0, 0, 0, 0, 0, 4, 4, 4, 0, 0)
    compiled.call(kernel, arguments, [array.ctypes.data for array in (a, one, c)])
    np.testing.assert_array_equal(c, expected)
    scalar = block(DataType.TF32, DataType.TF32, 1, 1, 8)
    other = Compiled([scalar], isa)
    c[:] = 0
    other.call(
        scalar,
        (1, 4, 4, 1, 0, 0, 1, 0, 0, 4, 4, 0, 1, 4, 4, 0, 0),
        [array.ctypes.data for array in (one, a, c)],
    )
    np.testing.assert_array_equal(c, expected)


X86_SPILL = re.compile(r"^(?!.*(?:broadcast|\{1to)).*(?:[xyz]mm\d+.*\(%rsp\)|\(%rsp\).*[xyz]mm\d+)")
"""A vector in the stack; single words that go to all lanes from there are no spill."""
ARM_SPILL = re.compile(r"\b(?:str|ldr|stp|ldp|stur|ldur)\s+q\d+.*\[sp")


def extremes(
    isa: Isa, data_type: DataType, flushes: bool, *, masked: bool = False
) -> list[tuple[int, int]]:
    """For every number of vectors the most columns, for the basic types also one fewer."""
    limits = dict(block_shapes(isa, data_type, data_type, flushes, masked))
    fewer = 2 if data_type is DataType.FP32 else 1
    return [(v, most - less) for v, most in limits.items() for less in range(min(fewer, most))]


@pytest.mark.parametrize("isa", list(Isa))
@pytest.mark.parametrize("data_type", TYPES)
def test_no_vector_register_is_spilled(isa: Isa, data_type: DataType) -> None:
    """Masked blocks are held to it where masks have registers of their own; where a mask takes one
    of sixteen, in the test below."""
    spill = ARM_SPILL if isa is Isa.NEON else X86_SPILL
    lanes = full_lanes(isa, data_type)
    for flushes in (False, True) if data_type is DataType.BF16 else (False,):
        for vectors, columns in extremes(isa, data_type, flushes):
            for masked in (False, True) if isa.has_masks else (False,):
                kernel = replace(
                    block(data_type, data_type, lanes, vectors, columns, masked=masked),
                    flushes=flushes,
                    b_adjacent=flushes,
                )
                spilled = filter(spill.search, kernel_assembly(kernel, isa).splitlines())
                # Pairs of factors go through the stack, four in a short vector.
                assert not [line for line in spilled if not flushes or "%xmm" not in line], kernel


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_sums_beside_a_mask_are_not_spilled(data_type: DataType) -> None:
    """No loop stores a vector; blocks of one vector spill some sums at their ends."""
    isa = Isa.AVX2
    for vectors, columns in extremes(isa, data_type, False, masked=True):
        lanes = full_lanes(isa, data_type)
        kernel = block(data_type, data_type, lanes, vectors, columns, masked=True)
        spills = list(filter(X86_SPILL.search, kernel_assembly(kernel, isa).splitlines()))
        assert len(spills) <= (0 if vectors > 1 else 2 * columns), kernel


@pytest.mark.parametrize("depth", [None, 1, 3, 4, 6])
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_repeated_blocks_are_not_spilled(data_type: DataType, depth: int | None) -> None:
    """Of every height the widest block; with a fixed depth, the widest that may have one."""
    isa = Isa.AVX512
    shapes = extremes(isa, data_type, False)
    if depth is not None:
        admitted = block_shapes(isa, data_type, data_type)
        fixed = [shape for shape in admitted if holds_depth(*shape, depth, loads_ahead=True)]
        shapes = list(dict(sorted(fixed)).items())
    for vectors, columns in shapes:
        kernel = replace(
            block(data_type, data_type, full_lanes(isa, data_type), vectors, columns, masked=True),
            repeats=True,
            depth=depth,
            loads_ahead=depth is not None,
        )
        lines = kernel_assembly(kernel, isa).splitlines()
        assert not [line for line in lines if X86_SPILL.search(line)], kernel


INDEXED_PRODUCT = re.compile(r"\bvfmadd\w+\s+-?\w*\(%\w+,%\w+")


@pytest.mark.parametrize("depth", [None, 1, 3, 6])
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_products_with_adjacent_elements_of_b_take_no_index(
    data_type: DataType, repeats: bool, depth: int | None
) -> None:
    """An index would cost a micro-operation per multiply-add; nor is a vector spilled."""
    isa = Isa.AVX512
    most = max(n for v, n in block_shapes(isa, data_type, data_type) if v == 1)
    for columns in (3, 8, 16, most):
        if depth is not None and not holds_depth(1, columns, depth, loads_ahead=False):
            continue
        full = full_lanes(isa, data_type)
        for lanes, masked in ((full, False), (full, True), (full // 2, True), (1, False)):
            kernel = replace(
                block(data_type, data_type, lanes, 1, columns, masked=masked),
                b_adjacent=True,
                repeats=repeats,
                depth=depth,
            )
            lines = kernel_assembly(kernel, isa).splitlines()
            assert sum("vfmadd" in line for line in lines) == columns * (depth or 4 + 1)
            wrong = [x for x in lines if INDEXED_PRODUCT.search(x) or X86_SPILL.search(x)]
            assert not wrong, kernel


PRODUCT_OF_ELEMENT = re.compile(r"\bvfmadd231p[sd]\s+\S*\{1to\d+\}")


@pytest.mark.parametrize("flag", ["brings", "repeats"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_some_columns_are_multiplied_from_memory_where_loads_are_to_spare(
    data_type: DataType, masked: bool, flag: str
) -> None:
    """The first of two columns: by a pointer of its own; of higher blocks none. Nothing spills."""
    isa, full = Isa.AMX, full_lanes(Isa.AMX, data_type)
    shapes = dict(block_shapes(isa, data_type, data_type))
    for vectors in (2, 3, 4):
        for columns in (shapes[vectors], shapes[vectors] - 1, 2):
            kernel = replace(
                block(data_type, data_type, full, vectors, columns, masked=masked),
                b_adjacent=True,
                **{flag: True},
            )
            lines = kernel_assembly(kernel, isa).splitlines()
            read = [line for line in lines if PRODUCT_OF_ELEMENT.search(line)]
            read_columns = -(-columns // 2) if vectors == 2 else 0
            assert len(read) == vectors * read_columns * (4 + 1), kernel
            assert sum("vfmadd" in line for line in lines) == vectors * columns * (4 + 1), kernel
            wrong = [x for x in lines if INDEXED_PRODUCT.search(x) or X86_SPILL.search(x)]
            assert not wrong, kernel


@pytest.mark.parametrize(("isa", "vectors"), [(Isa.AVX512, 2), (Isa.AMX, 4)])
def test_factors_are_spread_once_where_loads_are_not_to_spare(isa: Isa, vectors: int) -> None:
    kernel = replace(block(DataType.FP32, DataType.FP32, 16, vectors, 6), b_adjacent=True)
    assert PRODUCT_OF_ELEMENT.search(kernel_assembly(kernel, isa)) is None


def test_arm_block_uses_fused_vectors() -> None:
    kernel = block(DataType.FP32, DataType.FP32, 4, 4, 5)
    text = kernel_assembly(kernel, Isa.NEON)
    assert len(re.findall(r"\bfmla\s+v\d+\.4s", text)) == 4 * 5 * (2 + 1)


@pytest.mark.parametrize(
    ("data_type", "lanes", "vectors", "columns", "of_b", "of_c"),
    [
        (DataType.FP32, 16, 2, 11, 2, 1),
        (DataType.FP64, 8, 4, 6, 2, 1),
        (DataType.FP64, 8, 2, 13, 4, 1),
        (DataType.FP32, 16, 1, 8, 2, 0),
        (DataType.FP32, 8, 1, 8, 0, 0),
    ],
)
def test_a_pass_asks_for_a_line_s_share_of_b_and_a_line_of_c(
    data_type: DataType, lanes: int, vectors: int, columns: int, of_b: int, of_c: int
) -> None:
    """Passes take two steps, four in blocks of few sums: a line of B lasts 8 passes or 4.

    Where a pass asks for more lines of C than one, it does in a loop.
    """
    kernel = block(data_type, data_type, lanes, vectors, columns)
    for isa, request in ((Isa.AVX512, "prefetcht1"), (Isa.AVX512_ZEN5, "prefetcht0")):
        text = kernel_assembly(kernel, isa)
        assert re.findall(r"\bprefetch\w+", text).count(request) == of_b
        assert len(re.findall(r"\bprefetchw\b", text)) == of_c


def test_broadcast_output_is_refused() -> None:
    with pytest.raises(ValueError, match="UNIT or STRIDED"):
        emit_kernel(block(DataType.FP32, DataType.FP32, 4, 1, 1, (UNIT, BROADCAST)), Isa.PLAIN)


def test_symbols_are_distinct() -> None:
    kernels = {
        kernel
        for in_type, out_type in PAIRS
        for kernel in blocks_to_run(in_type, out_type, Isa.AVX512)
    }
    assert len({kernel_symbol(kernel, Isa.AVX512) for kernel in kernels}) == len(kernels)
