"""Rows of blocked products that stay near, and few columns at a time that meet them."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

import pytest

from passes.sample_programs import assert_keeps_meaning
from teir.ir.check import check
from teir.ir.nodes import IterationNode, Node, Operation, Program
from teir.ir.parsing import parse_program
from teir.passes.facts import Facts
from teir.passes.near_rows import keep_rows_near
from teir.passes.optimise import optimise, pass_list
from teir.passes.pack_operands import pack_operands
from teir.soak.draws import choose, seeded

SERVER = Facts(vector_bytes=64, l1_bytes=32 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20, threads=1)
LARGE_FIRST_CACHE = replace(SERVER, l1_bytes=48 << 10)
FEW_READERS = replace(SERVER, packed_readers=4)
"""So that products the evaluator multiplies in time are worth a copy."""
EXAMPLES = ("1-gemm", "2-brgemm", "3-zero-brgemm-relu")


def example(name: str) -> Program:
    path = files("teir").joinpath("examples", f"backend-{name}.teir")
    return parse_program(path.read_text(encoding="utf-8"))


def blocked(
    *,
    rows: int = 37,
    columns: int = 2,
    sums: int = 5,
    row: int = 16,
    column: int = 17,
    product: int = 32,
    width: int = 4,
    order: str = "mn",
    sums_in_tile: bool = False,
    finish: bool = False,
    row_step: int | None = None,
) -> str:
    """The text of a product of blocked matrices; ``row_step`` bytes from tile to tile of rows."""
    kind = "FP32" if width == 4 else "FP64"
    a_tile, b_tile, tile = row * product * width, column * product * width, row * column * width
    k = "k, kp" if sums_in_tile else "kp"
    bounds = f"{kind} (out; M=[mp], N=[np])", f"{kind} (out -> out; M=[mp], N=[np])"
    ends = [f"primitive zero = Zero {bounds[0]}", f"primitive relu = ReLU {bounds[1]}"]
    loops = [f"{'  ' * at}sequential {axis} over {axis}" for at, axis in enumerate(order)]
    inside = "  " * len(order)
    main = [] if sums_in_tile else [f"{inside}sequential k over k"]
    main.append(f"{inside}{'' if sums_in_tile else '  '}main: gemm")
    body = [f"{inside}first: zero", *main, f"{inside}last: relu"] if finish else main
    return "\n".join(
        [
            'teir 1 "blocked product"',
            *(f"tensor {name}: {kind}" for name in ("in0", "in1", "out")),
            f"axis m = {rows}: in0 {sums * a_tile}, out {row_step or columns * tile}",
            f"axis n = {columns}: in1 {sums * b_tile}, out {tile}",
            f"axis k = {sums}: in0 {a_tile}, in1 {b_tile}",
            f"axis mp = {row}: in0 {width}, out {width}",
            f"axis np = {column}: in1 {product * width}, out {row * width}",
            f"axis kp = {product}: in0 {row * width}, in1 {width}",
            f"primitive gemm = Contraction {kind} (in0, in1 -> out; M=[mp], N=[np], K=[{k}])",
            *(ends if finish else []),
            *loops,
            *body,
            "",
        ]
    )


def axes_down(program: Program) -> list[list[str]]:
    """The axes of the loops above every product, outermost first."""
    primitives = program.primitive_table()
    found: list[list[str]] = []
    stack: list[tuple[tuple[str, ...], Node]] = [((), node) for node in program.roots]
    while stack:
        path, node = stack.pop(0)
        if isinstance(node, IterationNode):
            stack = [((*path, node.axis), child) for child in node.children] + stack
        elif primitives[node.primitive].operation is Operation.CONTRACTION:
            found.append(list(path))
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_rows_are_inside_and_few_columns_outside(name: str) -> None:
    made = keep_rows_near(example(name), SERVER)
    assert check(made).ok
    assert axes_down(made) == [["m_1", "n", "np_2_1", "m_2"], ["m_1", "n", "m_2"]]
    extents = {axis.name: axis.extent for axis in made.axes}
    assert (extents["m_1"], extents["m_2"]) == (4, 8)
    assert (extents["np_2_1"], extents["np_2_2"], extents["np_1"]) == (2, 11, 10)
    products = [one for one in made.primitives if one.operation is Operation.CONTRACTION]
    assert {one.k for one in products} == {("k", "kp")}
    assert all(one.metadata == (("prefetch", '["out"]'),) for one in products)


@pytest.mark.parametrize("name", EXAMPLES)
def test_rows_stay_in_a_first_cache_that_holds_them(name: str) -> None:
    made = keep_rows_near(example(name), LARGE_FIRST_CACHE)
    assert check(made).ok
    assert axes_down(made) == [["m", "n", "np_1"]]
    assert {axis.name: axis.extent for axis in made.axes}["np_2"] == 8
    small = replace(LARGE_FIRST_CACHE, l2_bytes=1 << 20, l3_bytes=64 << 20)
    assert axes_down(keep_rows_near(example(name), small)) != axes_down(made), "columns are far"


@pytest.mark.parametrize("name", EXAMPLES)
def test_both_operands_are_copied_once(name: str) -> None:
    steps = optimise(example(name), SERVER)
    assert len(steps) == len(pass_list(SERVER)) == 10
    made = steps[-1][1]
    assert check(made).ok
    copies = [node.name for node in made.roots if not isinstance(node, IterationNode)]
    assert len(copies) == 2, "the columns of both widths, before all loops"
    text = str(made)
    assert "  scratch in0_packed: FP32" in text
    assert "\nscratch in1_packed: FP32" in text
    axes = made.axis_table()
    assert axes["np_2_2"].strides["in1_packed_1"] == 4
    assert axes["kp"].strides["in1_packed_1"] == 4 * 11


@pytest.mark.parametrize("seed", range(8))
def test_products_of_blocked_matrices_keep_their_meaning(seed: int) -> None:
    draw = seeded(seed)
    width = choose(draw, (4, 8))
    text = blocked(
        rows=draw(33, 70),
        columns=draw(1, 3),
        row=choose(draw, (1, 2)) * 64 // width,
        column=draw(9, 30),
        order=choose(draw, ("mn", "nm")),
        width=width,
        sums_in_tile=choose(draw, (True, False)),
        finish=choose(draw, (True, False)),
    )

    def packed(program: Program) -> Program:
        made = keep_rows_near(program, FEW_READERS)
        assert made is not program
        after = pack_operands(made, FEW_READERS)
        (inputs,) = {
            tuple(name.partition("_")[2][:6] for name in one.inputs)
            for one in after.primitives
            if one.operation is Operation.CONTRACTION
        }
        assert inputs == ("packed", "packed")
        return after

    assert assert_keeps_meaning(packed, parse_program(text), 3, seed)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (blocked(), replace(FEW_READERS, l3_bytes=64 << 20)),
        (blocked(), replace(FEW_READERS, vector_registers=16)),
        (blocked(), SERVER),
        (blocked(row=24), FEW_READERS),
        (blocked(row=128), FEW_READERS),
        (blocked(rows=4), FEW_READERS),
        (blocked(sums=1, product=64, rows=80), FEW_READERS),
        (blocked(sums=1, product=160), FEW_READERS),
        (blocked(sums=60), FEW_READERS),
        (blocked(row_step=64), FEW_READERS),
        (blocked().replace("sequential", "parallel", 1), FEW_READERS),
        (blocked().replace("main: gemm", "main: gemm if first(m)"), FEW_READERS),
        (blocked().replace("K=[kp])", 'K=[kp]) with {"stream": true}'), FEW_READERS),
    ],
    ids=[
        "third cache near",
        "few registers",
        "few readers",
        "parts of vectors",
        "high tiles",
        "small",
        "short sums",
        "columns in one piece",
        "long sums",
        "tiles that overlap",
        "threads",
        "guards",
        "advice",
    ],
)
def test_others_stay_the_same_object(text: str, facts: Facts) -> None:
    program = parse_program(text)
    assert keep_rows_near(program, facts) is program


def test_loops_around_stay_outside() -> None:
    text = blocked(order="bmn").replace(
        "axis m =", "axis b = 2: in0 4194304, in1 65536, out 262144\naxis m ="
    )
    made = keep_rows_near(parse_program(text), FEW_READERS)
    assert check(made).ok
    assert {tuple(axes[:2]) for axes in axes_down(made)} == {("b", "n")}
