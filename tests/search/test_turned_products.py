"""Products whose lanes run along the smaller operand, and blocks that hold whole lines of A."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_alike, assert_exact, planned
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Program, Tensor
from teir.search.default_choice import default_choice, reduction_blocks
from teir.search.machine import Machine
from teir.search.shape import product_shape
from teir.search.step import Span, Step

NARROW = Machine(vector_bytes=16, l1_bytes=4096, l2_bytes=2**16, threads=1, threaded_work=2**10)
EXTENTS = {"n": 16, "p": 4, "q": 4, "s": 48, "r": 3, "x": 8, "y": 12}
FAR = replace(NARROW, vector_bytes=64, l2_bytes=2 << 20, l3_bytes=105 << 20)
DENSE = "tryx,nty->nrx"
DENSE_EXTENTS = {"t": 20, "r": 100, "y": 30, "x": 8, "n": 128}
TURNED = ("syx,nyx->ns", "rsyx,pqyx->pqrs", "syx,yxn->ns", "sryx,qpxy->pqrs", "nyx,syx->ns")


def program_of(text: str, extents: dict[str, int], threads: int, data_type: DataType) -> Program:
    return planned(text, extents, replace(NARROW, threads=threads), data_type).program


def is_turned(program: Program) -> bool:
    return any(
        one.operation is Operation.COPY and "turned" in one.inputs[0] for one in program.primitives
    )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", TURNED)
def test_turned_products_mean_what_numpy_computes(text: str, threads: int) -> None:
    program = program_of(text, EXTENTS, threads, DataType.FP64)
    assert threads > 1 or is_turned(program)
    assert_exact(program, text, EXTENTS, DataType.FP64, 3)


@pytest.mark.parametrize("columns", [2, 4, 5, 6])
def test_a_few_vectors_of_columns_carry_the_lanes_of_long_sums(columns: int) -> None:
    extents = EXTENTS | {"n": columns}
    program = program_of(TURNED[0], extents, 1, DataType.FP64)
    assert is_turned(program)
    assert_exact(program, TURNED[0], extents, DataType.FP64, 4)


def test_results_of_narrow_types_are_rounded_once_and_then_moved() -> None:
    """Half the elements of a sum in BF16 would not pay for moving results twice."""
    extents = EXTENTS | {"x": 16}
    program = program_of(TURNED[0], extents, 1, DataType.BF16)
    assert is_turned(program)
    assert_exact(program, TURNED[0], extents, DataType.BF16, 5)


def test_threads_do_not_decide_the_order_of_the_sum() -> None:
    programs = [program_of(TURNED[0], EXTENTS, threads, DataType.FP64) for threads in (1, 2, 3)]
    assert is_turned(programs[0])
    assert_alike(programs, TURNED[0], EXTENTS, 6)


@pytest.mark.parametrize(
    ("text", "changed", "data_type"),
    [
        ("ysx,nyx->ns", {"x": 1, "y": 96}, DataType.FP64),
        ("syx,nyx->ns", {"n": 64}, DataType.FP64),
        ("syx,nyx->ns", {"n": 3}, DataType.FP64),
        ("syx,nyx->ns", {"n": 4, "x": 2, "y": 6}, DataType.FP64),
        ("syx,nyx->ns", {"x": 2, "y": 2}, DataType.FP64),
        ("cysx,cnyx->cns", {"c": 2}, DataType.FP64),
        ("syx,nyx->ns", {}, DataType.BF16),
    ],
)
def test_products_whose_results_are_many_or_whose_lanes_are_near_stay(
    text: str, changed: dict[str, int], data_type: DataType
) -> None:
    """Lanes of A adjacent; as many columns as rows; lanes left empty; few columns and a short sum;
    short sums; a batch; rounded."""
    assert not is_turned(program_of(text, EXTENTS | changed, 1, data_type))


@pytest.mark.parametrize(
    ("machine", "changed", "expected"),
    [
        (FAR, {}, True),
        (FAR, {"x": 7}, True),
        (FAR, {"x": 5, "r": 160}, False),
        (FAR, {"x": 40}, True),
        (FAR, {"x": 40, "r": 15}, False),
        (replace(FAR, l3_bytes=64 << 20), {}, False),
    ],
    ids=["eight", "seven", "few columns", "wide", "wide, little gain", "near third cache"],
)
def test_columns_that_make_one_stream_along_the_sum_are_not_copied(
    machine: Machine, changed: dict[str, int], expected: bool
) -> None:
    extents = DENSE_EXTENTS | changed
    program = planned(DENSE, extents, machine, DataType.FP64).program
    copied = [one.inputs[0] for one in program.primitives if one.operation is Operation.COPY]
    assert (is_turned(program) and "in0" not in copied) == expected
    assert_exact(program, DENSE, extents, DataType.FP64, 7)


@pytest.mark.parametrize(("columns", "vectors"), [(6, 4), (7, 3), (8, 3), (9, 3), (10, 4)])
def test_panels_have_three_vectors_where_one_block_of_them_takes_all_columns(
    columns: int, vectors: int
) -> None:
    extents = DENSE_EXTENTS | {"x": columns, "r": 120}
    (step,) = planned(DENSE, extents, FAR, DataType.FP64).matrix_steps
    assert default_choice(step.shape, step.machine).panel == 8 * vectors


def across(x: int, y: int) -> Step:
    """A[s, y, x] and B[n, x, y] with their results; FP64."""
    a, b, out = (Tensor(name=name, data_type=DataType.FP64) for name in ("a", "b", "out"))
    return Step(
        (a, b),
        out,
        (
            Span("s", 96, {"a": 8 * x * y, "out": 8}, {}),
            Span("n", 24, {"b": 8 * x * y, "out": 768}, {}),
            Span("x", x, {"a": 8, "b": 8 * y}, {}),
            Span("y", y, {"a": 8 * x, "b": 8}, {}),
        ),
    )


@pytest.mark.parametrize(
    ("x", "y", "order", "block"),
    [
        (40, 60, [("x", 40), ("y", 60)], [8, 60]),
        (40, 120, [("x", 40), ("y", 120)], [4, 120]),
        (40, 200, [("y", 2), ("x", 40), ("y", 100)], [4, 100]),
        (40, 211, [("x", 40), ("y", 211)], [2, 211]),
        (3, 120, [("x", 3), ("y", 120)], [3, 120]),
    ],
)
def test_blocks_hold_lines_of_a_and_runs_of_b(
    x: int, y: int, order: list[tuple[str, int]], block: list[int]
) -> None:
    """Rooms of 512 products: lines are 8 elements; half a line is better than short runs of B."""
    shape = product_shape(across(x, y))
    assert shape is not None
    assert [(axis.label, axis.extent) for axis in shape.k] == order
    assert [axis.extent for axis in reduction_blocks(shape, USUAL).block] == block


@pytest.mark.parametrize(
    ("columns", "multiplies_whole", "l2_bytes", "turned"),
    [
        (2, False, 2**16, True),
        (2, True, 2**16, False),
        (2, True, 2**10, True),
        (4, True, 2**16, True),
    ],
    ids=["a half is as quick", "half a vector", "half a vector far", "a whole vector"],
)
def test_half_vectors_do_not_pay_where_whole_ones_are_as_quick(
    columns: int, multiplies_whole: bool, l2_bytes: int, turned: bool
) -> None:
    extents = EXTENTS | {"n": columns}
    machine = replace(NARROW, vector_bytes=32, multiplies_whole=multiplies_whole, l2_bytes=l2_bytes)
    program = planned(TURNED[0], extents, machine, DataType.FP64).program
    assert is_turned(program) is turned
    assert_exact(program, TURNED[0], extents, DataType.FP64, 4)


@pytest.mark.parametrize(
    ("text", "changed", "expected"),
    [
        ("ka,kb->ab", {}, True),
        ("ka,bk->ab", {}, True),
        ("ka,kb->ba", {}, False),
        ("ak,kb->ab", {}, False),
        ("ka,kb->ab", {"a": 200}, False),
        ("ka,kb->ab", {"b": 90}, False),
    ],
    ids=["rows", "rows along the sum", "lanes are near", "no lanes", "near", "many results"],
)
def test_large_columns_are_rows_that_are_asked_for(
    text: str, changed: dict[str, int], expected: bool
) -> None:
    machine, extents = replace(USUAL, l2_bytes=96 << 10), {"a": 400, "b": 70, "k": 300} | changed
    program = planned(text, extents, machine).program
    assert is_turned(program) == expected
    assert_exact(program, text, extents, DataType.FP32, 8)


@pytest.mark.parametrize(
    "machine", [FAR, replace(USUAL, forgets_requests=True)], ids=["far third cache", "forgotten"]
)
def test_they_are_not_where_it_was_not_measured(machine: Machine) -> None:
    extents = {"a": 1600, "b": 100, "k": 2000}
    assert is_turned(planned("ka,kb->ab", extents, USUAL).program)
    assert not is_turned(planned("ka,kb->ab", extents, machine).program)
