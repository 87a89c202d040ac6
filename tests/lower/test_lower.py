"""Lowering: the kernel program means what the program means, on every instruction set."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.evaluate import evaluate
from teir.ir.nodes import (
    Axis,
    Bytes,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Tensor,
)
from teir.lower.access import Access
from teir.lower.asking_kernels import BringLines
from teir.lower.copy_kernels import TransposeCopy
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernel_program import Call, Grid, Guarded, KernelNode, Loop
from teir.lower.kernels import Elementwise, GemmBlock, PanelBlock, ProductSum
from teir.lower.lower import lower
from teir.target import Isa

TYPES = [
    DataType.FP32,
    DataType.FP64,
    DataType.TF32,
    DataType.BF16,
    DataType.FP16,
    DataType.C64,
    DataType.C128,
]


def axis(name: str, extent: int, **strides: int) -> Axis:
    return Axis(name=name, extent=extent, strides=Bytes(strides))


def loop(name: str, *children: Node, policy: Policy = Policy.SEQUENTIAL) -> IterationNode:
    return IterationNode(name=name, axis=name, policy=policy, children=children)


def leaf(primitive: str, *guard: GuardTerm) -> InvocationNode:
    return InvocationNode(name=primitive, primitive=primitive, guard=guard)


def program(
    data_type: DataType,
    tensors: str,
    axes: tuple[Axis, ...],
    primitives: tuple[Primitive, ...],
    *roots: Node,
) -> Program:
    return Program(
        name="test",
        tensors=tuple(Tensor(name=name, data_type=data_type) for name in tensors.split()),
        axes=axes,
        primitives=primitives,
        roots=roots,
    )


def zero(m: tuple[str, ...] = ("m",), n: tuple[str, ...] = ("n",)) -> Primitive:
    return Primitive(name="zero", operation=Operation.ZERO, inputs=(), output="out", m=m, n=n)


def gemm(*metadata: tuple[str, str], **roles: tuple[str, ...]) -> Primitive:
    return Primitive(
        name="gemm",
        operation=Operation.CONTRACTION,
        inputs=("in0", "in1"),
        output="out",
        m=roles.get("m", ()),
        n=roles.get("n", ()),
        k=roles.get("k", ()),
        c=roles.get("c", ()),
        metadata=metadata,
    )


def matrix_product(
    data_type: DataType, sizes: tuple[int, int, int, int], input_turned: bool, output_turned: bool
) -> Program:
    """out[n, m] (or [m, n]) = sum over t, k of in0[t, k, m] (or [t, m, k]) * in1[n, t, k]."""
    m, n, k, t = sizes
    width = data_type.width
    in0_m, in0_k = (width * k, width) if input_turned else (width, width * m)
    out_m, out_n = (width * n, width) if output_turned else (width, width * m)
    axes = (
        axis("m", m, in0=in0_m, out=out_m),
        axis("n", n, in1=width * t * k, out=out_n),
        axis("k", k, in0=in0_k, in1=width),
        axis("t", t, in0=width * m * k, in1=width * k),
    )
    primitives = (zero(), gemm(m=("m",), n=("n",), k=("k",)))
    return program(
        data_type, "in0 in1 out", axes, primitives, leaf("zero"), loop("t", leaf("gemm"))
    )


def same_as_evaluated(subject: Program, isa: Isa, sizes: dict[str, int]) -> None:
    generator = np.random.default_rng(7)
    types = {tensor.name: tensor.data_type.numpy_dtype() for tensor in subject.tensors}
    start = {
        name: generator.integers(-3, 4, size).astype(types[name]) for name, size in sizes.items()
    }
    expected = {name: array.copy() for name, array in start.items()}
    actual = {name: array.copy() for name, array in start.items()}
    evaluate(subject, expected)
    evaluate_kernels(lower(subject, isa), actual, {})
    for name in sizes:
        np.testing.assert_array_equal(actual[name], expected[name])


def calls(nodes: tuple[KernelNode, ...]) -> list[Call]:
    found: list[Call] = []
    for node in nodes:
        found += [node] if isinstance(node, Call) else calls(node.body)
    return found


@pytest.mark.parametrize("isa", list(Isa))
@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (17, 5, 3, 2), (33, 14, 4, 1), (8, 30, 2, 3)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_every_layout_means_the_same(
    isa: Isa,
    data_type: DataType,
    sizes: tuple[int, int, int, int],
    turned: tuple[bool, bool],
) -> None:
    m, n, k, t = sizes
    subject = matrix_product(data_type, sizes, *turned)
    same_as_evaluated(subject, isa, {"in0": t * k * m, "in1": n * t * k, "out": m * n})


def test_zero_and_reduction_loop_become_one_block_call() -> None:
    subject = matrix_product(DataType.FP32, (32, 12, 8, 4), False, False)
    lowered = lower(subject, Isa.AVX512)
    (call,) = calls(lowered.roots)
    assert isinstance(call.kernel, GemmBlock)
    assert call.arguments[:9] == (32, 128, 4, 1, 0, 0, 1, 0, 0), "t and k fuse into one reduction"
    assert call.arguments[11] == 0, "starts from zero instead of a Zero kernel"


@pytest.mark.parametrize(
    ("isa", "data_type", "rows", "adjacent"),
    [
        (Isa.AVX512, DataType.FP32, 9, True),
        (Isa.AVX512, DataType.FP64, 2, True),
        (Isa.AVX512, DataType.FP32, 32, False),
        (Isa.AVX512, DataType.TF32, 9, False),
        (Isa.AVX2, DataType.FP32, 5, False),
    ],
)
def test_blocks_of_one_vector_know_that_columns_of_b_are_adjacent(
    isa: Isa, data_type: DataType, rows: int, adjacent: bool
) -> None:
    subject = matrix_product(data_type, (rows, 12, 20, 1), False, False)
    kernels = [call.kernel for call in calls(lower(subject, isa).roots)]
    blocks = [kernel for kernel in kernels if isinstance(kernel, GemmBlock)]
    assert {kernel.b_adjacent for kernel in blocks} == {adjacent}


def test_endless_reduction_loop_stays_a_loop_that_can_be_interrupted() -> None:
    axes = (axis("k", 1 << 21), axis("m", 3, in0=4, out=4))
    add = Primitive(
        name="add", operation=Operation.CONTRACTION, inputs=("in0",), output="out", m=("m",)
    )
    subject = program(DataType.FP32, "in0 out", axes, (add,), loop("k", leaf("add")))
    (outer,) = lower(subject, Isa.AVX2).roots
    assert isinstance(outer, Loop)
    assert outer.extent == 1 << 21


def test_partial_last_vector_is_masked_and_full_panels_are_not() -> None:
    subject = matrix_product(DataType.FP32, (101, 6, 8, 1), False, False)
    kernels = {
        (kernel.vectors, kernel.masked)
        for call in calls(lower(subject, Isa.AVX512).roots)
        if isinstance(kernel := call.kernel, GemmBlock)
    }
    assert {masked for _, masked in kernels} == {True, False}


@pytest.mark.parametrize(("rows", "rest_lanes"), [(17, 1), (22, 8), (51, 4)])
def test_a_few_rows_beyond_whole_vectors_have_narrow_blocks(rows: int, rest_lanes: int) -> None:
    """Long sums of two reductions: whole vectors as ever, then the rest in vectors of its own."""
    subject = matrix_product(DataType.FP32, (rows, 20, 100, 4), False, False)
    blocks = [call.kernel for call in calls(lower(subject, Isa.AVX512).roots)]
    assert all(isinstance(block, GemmBlock) for block in blocks)
    lanes = {block.lanes for block in blocks if isinstance(block, GemmBlock)}
    assert lanes == {16, rest_lanes}
    same_as_evaluated(subject, Isa.AVX512, {"in0": 400 * rows, "in1": 8000, "out": rows * 20})


def test_half_a_last_vector_is_exact() -> None:
    subject = matrix_product(DataType.FP32, (40, 6, 8, 1), False, False)
    found = [call.kernel for call in calls(lower(subject, Isa.AVX512).roots)]
    assert found == [
        PanelBlock(
            data_type=DataType.FP32,
            lanes=16,
            last_lanes=8,
            vectors=3,
            columns=6,
            runs=1,
            adjacent_columns=False,
            dense_columns=True,
            streams=False,
            brings=False,
            brings_b=False,
            claims=False,
        )
    ]
    same_as_evaluated(subject, Isa.AVX512, {"in0": 320, "in1": 48, "out": 240})


def test_short_rows_that_follow_in_a_fill_whole_vectors() -> None:
    axes = (
        axis("r", 4, in0=96, out=1024),
        axis("m", 24, in0=4, out=4),
        axis("n", 3, in1=4, out=128),
        axis("k", 5, in0=384, in1=12),
    )
    product = gemm(
        ("prefetch", '["in0", "out"]'), ("stream", "true"), m=("r", "m"), n=("n",), k=("k",)
    )
    names = (leaf("zero"), leaf("gemm"))
    subject = program(DataType.FP32, "in0 in1 out", axes, (zero(("r", "m")), product), *names)
    (call,) = calls(lower(subject, Isa.AVX512).roots)
    assert isinstance(call.kernel, PanelBlock)
    assert (call.kernel.vectors, call.kernel.runs, call.kernel.streams) == (3, 2, True)
    same_as_evaluated(subject, Isa.AVX512, {"in0": 480, "in1": 15, "out": 1024})


@pytest.mark.parametrize(("tiles", "kernel"), [(1000, GemmBlock), (100, PanelBlock)])
def test_rows_of_one_column_are_taken_whole_where_memory_holds_them(
    tiles: int, kernel: type[GemmBlock | PanelBlock]
) -> None:
    """50 rows of FP64 are seven vectors, the last one of two elements; tiles take 20 KB."""
    axes = (
        axis("p", tiles, in0=20000, out=400),
        axis("m", 50, in0=8, out=8),
        axis("k", 50, in0=400, in1=8),
    )
    product = gemm(m=("m",), n=(), k=("k",))
    subject = program(DataType.FP64, "in0 in1 out", axes, (product,), loop("p", leaf("gemm")))
    found = {type(call.kernel) for call in calls(lower(subject, Isa.AVX512).roots)}
    assert found == {kernel}


@pytest.mark.parametrize(
    ("turns", "depth", "ahead"), [(4, 40, 1 << 16), (16, 40, 4096), (16, 5, 1 << 16)]
)
def test_what_is_asked_for_lies_in_the_next_turn_of_a_loop_that_is_not_soon_over(
    turns: int, depth: int, ahead: int
) -> None:
    """Nor does a turn that reads 640 bytes leave time for what the next one reads."""
    axes = (
        axis("p", 12, in0=1 << 16, out=1 << 16),
        axis("q", turns, in0=4096, out=4096),
        axis("m", 32, in0=4, out=4),
        axis("n", 4, in1=4, out=128),
        axis("k", depth, in0=128, in1=16),
    )
    product = gemm(("prefetch", '["in0"]'), m=("m",), n=("n",), k=("k",))
    tile = loop("p", loop("q", leaf("zero"), leaf("gemm")))
    subject = program(DataType.FP32, "in0 in1 out", axes, (zero(), product), tile)
    (call,) = calls(lower(subject, Isa.AVX512).roots)
    assert isinstance(call.kernel, PanelBlock)
    assert call.kernel.brings
    assert call.arguments[7] == ahead


@pytest.mark.parametrize("columns", [20, 96])
def test_blocks_of_columns_ask_for_the_rows_of_the_next_tile(columns: int) -> None:
    axes = (
        axis("p", 4, in0=192, out=192),
        axis("m", 48, in0=4, out=4),
        axis("n", columns, in1=4 * 27, out=768),
        axis("u", 9, in0=768, in1=4 * 3),
        axis("t", 3, in0=768 * 9, in1=4),
    )
    product = gemm(("prefetch", '["in0"]'), m=("m",), n=("n",), k=("u", "t"))
    subject = program(DataType.FP32, "in0 in1 out", axes, (product,), loop("p", leaf("gemm")))
    called = calls(lower(subject, Isa.AVX512_INTEL).roots)
    asking = [call for call in called if isinstance(call.kernel, BringLines)]
    assert asking
    assert {call.operands[0].offset_bytes % 768 for call in asking} == {192 + 63}
    assert not any(isinstance(call.kernel, GemmBlock) and call.kernel.brings for call in called)
    sizes = {"in0": 27 * 192, "in1": 27 * columns, "out": 192 * columns}
    same_as_evaluated(subject, Isa.AVX512_INTEL, sizes)


@pytest.mark.parametrize("rows", [48, 64, 72, 144, 168])
def test_streams_of_rows_in_several_blocks(rows: int) -> None:
    """Columns follow one another in the tile, but not in each of its blocks."""
    axes = (
        axis("m", rows, in0=4, out=4),
        axis("n", 4, in1=4, out=4 * rows),
        axis("k", 3, in0=4 * rows, in1=16),
    )
    product = gemm(("stream", "true"), m=("m",), n=("n",), k=("k",))
    subject = program(
        DataType.FP32, "in0 in1 out", axes, (zero(), product), leaf("zero"), leaf("gemm")
    )
    for call in calls(lower(subject, Isa.AVX512).roots):
        kernel = call.kernel
        assert isinstance(kernel, PanelBlock)
        assert kernel.streams
        assert kernel.dense_columns == (kernel.rows == rows)
    same_as_evaluated(subject, Isa.AVX512, {"in0": 3 * rows, "in1": 12, "out": 4 * rows})


@pytest.mark.parametrize(("columns_apart", "joins"), [(96, True), (100, False)])
def test_a_loop_around_a_short_block_is_one_call(columns_apart: int, joins: bool) -> None:
    axes = (
        axis("p", 3, in1=96, out=2 * columns_apart),
        axis("r", 2, in0=96, out=1024),
        axis("m", 24, in0=4, out=4),
        axis("n", 2, in1=4, out=columns_apart),
        axis("k", 12, in0=192, in1=8),
    )
    product = gemm(("prefetch", '["out"]'), ("stream", "true"), m=("r", "m"), n=("n",), k=("k",))
    inside = (leaf("zero"), leaf("gemm"))
    subject = program(
        DataType.FP32, "in0 in1 out", axes, (zero(("r", "m")), product), loop("p", *inside)
    )
    (call,) = lower(subject, Isa.AVX512).roots
    assert isinstance(call, Call)
    assert isinstance(call.kernel, PanelBlock)
    assert call.kernel.repeats
    assert call.kernel.staggers
    assert (call.kernel.joins, call.kernel.claims) == (joins, not joins)
    assert call.arguments[-3:] == (3, 96, 2 * columns_apart)
    same_as_evaluated(subject, Isa.AVX512, {"in0": 576, "in1": 72, "out": 512})


def test_few_rows_take_an_exact_vector() -> None:
    subject = matrix_product(DataType.FP32, (8, 6, 8, 1), False, False)
    (call,) = calls(lower(subject, Isa.AVX512).roots)
    assert isinstance(call.kernel, GemmBlock)
    assert (call.kernel.lanes, call.kernel.masked) == (8, False)


def test_output_unit_axis_of_in1_swaps_the_inputs() -> None:
    subject = matrix_product(DataType.FP32, (8, 32, 4, 1), False, True)
    call = calls(lower(subject, Isa.AVX512).roots)[-1]
    assert isinstance(call.kernel, GemmBlock)
    same_as_evaluated(subject, Isa.AVX512, {"in0": 32, "in1": 128, "out": 256})


def test_parallel_chain_becomes_one_grid() -> None:
    axes = (
        axis("p", 3, in0=64, out=64),
        axis("q", 2, in0=32, out=32),
        axis("m", 8, in0=4, out=4),
    )
    copy = Primitive(name="copy", operation=Operation.COPY, inputs=("in0",), output="out", m=("m",))
    inner = loop("q", leaf("copy"), policy=Policy.PARALLEL)
    subject = program(
        DataType.FP32, "in0 out", axes, (copy,), loop("p", inner, policy=Policy.PARALLEL)
    )
    (grid,) = lower(subject, Isa.AVX2).roots
    assert isinstance(grid, Grid)
    assert [axis.extent for axis in grid.axes] == [3, 2]
    same_as_evaluated(subject, Isa.AVX2, {"in0": 48, "out": 48})


@pytest.mark.parametrize("kind", list(GuardKind))
def test_guards_become_index_tests(kind: GuardKind) -> None:
    axes = (axis("k", 5, in0=4), axis("m", 3, in0=20, out=4))
    add = Primitive(
        name="add", operation=Operation.CONTRACTION, inputs=("in0",), output="out", m=("m",)
    )
    clear = Primitive(
        name="clear", operation=Operation.RELU, inputs=("out",), output="out", m=("m",)
    )
    guarded = leaf("clear", GuardTerm(kind=kind, axis="k"))
    subject = program(DataType.FP32, "in0 out", axes, (add, clear), loop("k", guarded, leaf("add")))
    (outer,) = lower(subject, Isa.PLAIN).roots
    assert isinstance(outer, Loop)
    assert outer.index == 0
    (guard,) = [node for node in outer.body if isinstance(node, Guarded)]
    assert guard.tests[0].value == (0 if kind is GuardKind.FIRST else 4)
    same_as_evaluated(subject, Isa.PLAIN, {"in0": 15, "out": 3})


def test_guards_on_an_axis_of_one_index_vanish() -> None:
    axes = (axis("k", 1, in0=4), axis("m", 3, in0=4, out=4))
    add = Primitive(
        name="add", operation=Operation.CONTRACTION, inputs=("in0",), output="out", m=("m",)
    )
    both = (GuardTerm(kind=GuardKind.FIRST, axis="k"), GuardTerm(kind=GuardKind.LAST, axis="k"))
    subject = program(DataType.FP32, "in0 out", axes, (add,), loop("k", leaf("add", *both)))
    (call,) = lower(subject, Isa.PLAIN).roots
    assert isinstance(call, Call)


def test_contradicting_guards_leave_nothing() -> None:
    axes = (axis("k", 2, in0=4), axis("m", 3, in0=4, out=4))
    add = Primitive(
        name="add", operation=Operation.CONTRACTION, inputs=("in0",), output="out", m=("m",)
    )
    both = (GuardTerm(kind=GuardKind.FIRST, axis="k"), GuardTerm(kind=GuardKind.LAST, axis="k"))
    subject = program(DataType.FP32, "in0 out", axes, (add,), loop("k", leaf("add", *both)))
    assert lower(subject, Isa.PLAIN).roots == ()


def test_transposing_copy_takes_the_transposing_kernel() -> None:
    axes = (axis("a", 20, in0=4, out=60), axis("b", 15, in0=80, out=4))
    copy = Primitive(
        name="copy", operation=Operation.COPY, inputs=("in0",), output="out", m=("a",), n=("b",)
    )
    subject = program(DataType.FP32, "in0 out", axes, (copy,), leaf("copy"))
    (call,) = lower(subject, Isa.AVX512).roots
    assert isinstance(call, Call)
    assert call.kernel == TransposeCopy(element_bytes=4, lanes=8)
    same_as_evaluated(subject, Isa.AVX512, {"in0": 300, "out": 300})


@pytest.mark.parametrize("group", [2, 4])
@pytest.mark.parametrize("isa", [Isa.AVX512, Isa.PLAIN])
def test_a_short_axis_and_the_one_behind_it_are_turned_together(group: int, isa: Isa) -> None:
    axes = (
        axis("p", 5, in0=4 * group, out=96 * group + 4),
        axis("g", group, in0=4, out=96),
        axis("m", 20, in0=20 * group, out=4),
    )
    copy = Primitive(
        name="copy",
        operation=Operation.COPY,
        inputs=("in0",),
        output="out",
        m=("p", "g"),
        n=("m",),
    )
    subject = program(DataType.FP32, "in0 out", axes, (copy,), leaf("copy"))
    found = calls(lower(subject, isa).roots)
    if isa is Isa.AVX512:
        (call,) = found
        assert isinstance(call.kernel, TransposeCopy)
        assert call.kernel.grouped == group
        assert call.arguments[0] == 5 * group
    same_as_evaluated(subject, isa, {"in0": 100 * group, "out": 125 * group})


@pytest.mark.parametrize(
    ("isa", "n", "gap", "aligns"),
    [
        (Isa.AMX, 64, 0, True),
        (Isa.AMX, 64, 4, False),
        (Isa.AMX, 48, 64, False),
        (Isa.AVX512, 64, 0, False),
    ],
)
def test_lines_of_turned_rows_that_lie_alike_are_stored_whole(
    isa: Isa, n: int, gap: int, aligns: bool
) -> None:
    axes = (axis("m", 20, in0=4, out=4 * n + gap), axis("n", n, in0=80, out=4))
    copy = Primitive(
        name="copy", operation=Operation.COPY, inputs=("in0",), output="out", m=("m",), n=("n",)
    )
    subject = program(DataType.FP32, "in0 out", axes, (copy,), leaf("copy"))
    (call,) = calls(lower(subject, isa).roots)
    assert isinstance(call.kernel, TransposeCopy)
    assert call.kernel.aligns == aligns
    same_as_evaluated(subject, isa, {"in0": 20 * n, "out": 20 * (n + gap // 4)})


def test_packing_reads_whole_rows_where_its_panels_are_whole_lines() -> None:
    """64 rows of 3 panels, read row by row; panels of 24 bytes are written one after the other."""
    for lanes, inner in ((16, "p"), (6, "k")):
        width, row = 4 * lanes, 4 * lanes * 3
        axes = (
            axis("k", 64, in0=row + 4, packed=width),
            axis("p", 3, in0=width, packed=64 * width),
            axis("m", lanes, in0=4, packed=4),
        )
        copy = Primitive(
            name="copy",
            operation=Operation.COPY,
            inputs=("in0",),
            output="packed",
            m=("k", "p", "m"),
        )
        back = Primitive(
            name="back", operation=Operation.COPY, inputs=("packed",), output="out", m=("o",)
        )
        every = axis("o", 64 * 3 * lanes, packed=4, out=4)
        subject = replace(
            program(DataType.FP32, "in0 out", (*axes, every), (copy, back), leaf("copy")),
            scratch=(Tensor(name="packed", data_type=DataType.FP32),),
            roots=(leaf("copy"), leaf("back")),
        )
        call = lower(subject, Isa.AVX512).roots[0]
        assert isinstance(call, Call)
        rows = {"p": 3, "k": 64}
        row_bytes, n, _, _, o, _, _ = call.arguments
        assert (row_bytes, n, o) == (width, rows[inner], 64 * 3 // rows[inner])
        same_as_evaluated(subject, Isa.AVX512, {"in0": 64 * (3 * lanes + 1), "out": 192 * lanes})


def test_rows_that_follow_each_other_fuse_into_one() -> None:
    axes = (axis("a", 6, in0=64, out=64), axis("b", 16, in0=4, out=4))
    copy = Primitive(
        name="copy", operation=Operation.COPY, inputs=("in0",), output="out", m=("a",), n=("b",)
    )
    (call,) = lower(program(DataType.FP32, "in0 out", axes, (copy,), leaf("copy")), Isa.AVX2).roots
    assert isinstance(call, Call)
    assert isinstance(call.kernel, Elementwise)
    assert call.arguments[:2] == (96, 1)


def test_element_wise_product_sums_lanes_of_the_batch() -> None:
    axes = (axis("c", 40, in0=4, in1=4, out=4), axis("k", 3, in0=160, in1=160))
    subject = program(DataType.FP32, "in0 in1 out", axes, (gemm(c=("c",), k=("k",)),), leaf("gemm"))
    (call,) = lower(subject, Isa.AVX512).roots
    assert isinstance(call, Call)
    assert isinstance(call.kernel, ProductSum)
    assert call.kernel.accesses == (Access.UNIT,) * 3
    same_as_evaluated(subject, Isa.AVX512, {"in0": 120, "in1": 120, "out": 40})


@pytest.mark.parametrize("data_type", [DataType.BF16, DataType.FP16])
@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("separate", [True, False])
def test_narrow_output_is_rounded_once_whatever_the_reductions(
    data_type: DataType, rows: int, separate: bool
) -> None:
    extents = (2, 3, 2, 3)
    strides = (2 * 64, 2 * 256, 2 * 1024, 2 * 4096)
    reductions = tuple(
        axis(f"k{number}", extent, in0=stride, in1=stride)
        for number, (extent, stride) in enumerate(zip(extents, strides, strict=True))
    )
    rows_axis = axis("m", rows, in0=2, out=2, **({} if separate else {"in1": 2}))
    primitive = gemm(m=("m",), k=("k3", "k1", "k2", "k0"))
    subject = program(
        data_type, "in0 in1 out", (rows_axis, *reductions), (primitive,), leaf("gemm")
    )
    lowered = lower(subject, Isa.AVX2)
    assert lowered.thread_scratch_bytes > 0, "partial sums go through a wide accumulator"
    size = 64 + 64 + 512 + 1024 + 8192 + 64
    same_as_evaluated(subject, Isa.AVX2, {"in0": size, "in1": size, "out": rows})
