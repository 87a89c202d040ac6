"""Rules that no text can break, and what hostile programs in memory get."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from teir.arrays.operand import BoundOperand
from teir.dtypes import DataType
from teir.errors import TeirError
from teir.ir.check import check, prove_by_rules
from teir.ir.nodes import (
    Axis,
    Bytes,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Segment,
    Tensor,
)
from teir.ir.parsing import parse_program


def tensor(name: str, data_type: DataType = DataType.FP32) -> Tensor:
    return Tensor(name=name, data_type=data_type)


def axis(name: str, extent: int, **strides: int) -> Axis:
    return Axis(name=name, extent=extent, strides=Bytes(strides))


def leaf(name: str, primitive: str = "row") -> InvocationNode:
    return InvocationNode(name=name, primitive=primitive)


def loop(name: str, over: str, *children: Node, scratch: tuple[Tensor, ...] = ()) -> IterationNode:
    return IterationNode(
        name=name, axis=over, policy=Policy.SEQUENTIAL, children=children, scratch=scratch
    )


ROW = Primitive(name="row", operation=Operation.COPY, inputs=("in0",), output="out", m=("m",))
GOOD = Program(
    name="copy",
    tensors=(tensor("in0"), tensor("out")),
    axes=(axis("m", 4, in0=4, out=4), axis("n", 4, in0=16, out=16)),
    primitives=(ROW,),
    roots=(loop("rows", "n", leaf("copy")),),
)


def codes(program: Program) -> list[str]:
    return [finding.code for finding in check(program).findings]


def with_axis(**changes: Any) -> Program:
    return replace(GOOD, axes=(replace(GOOD.axes[0], **changes), GOOD.axes[1]))


def test_a_good_program_has_exact_needs() -> None:
    report = check(GOOD)
    assert report.ok
    assert {name: (need.low, need.high) for name, need in report.needs.items()} == {
        "in0": (0, 64),
        "out": (0, 64),
    }
    report.raise_if_wrong()


def test_a_report_is_shown_as_a_line() -> None:
    assert repr(check(GOOD)) == "<Report on 'copy': ok>"
    assert repr(check(BROKEN["TEIR302"])) == "<Report on 'copy': TEIR302>"


def test_loops_beside_each_other_may_have_one_axis() -> None:
    again = loop("again", "n", leaf("copy_again"))
    assert check(replace(GOOD, roots=(*GOOD.roots, again))).ok


def test_of_equal_reaches_the_first_is_blamed() -> None:
    (rows,) = GOOD.roots
    program = replace(GOOD, roots=(rows, loop("again", "n", leaf("copy_again"))))
    operands = {
        name: BoundOperand(
            name=name,
            address=address,
            before_bytes=before,
            after_bytes=after,
            writable=True,
            owner=None,
        )
        for name, address, before, after in (("in0", 4096, -4, 64), ("out", 8192, 0, 60))
    }
    low, high = check(program, operands).findings
    assert {low.code, high.code} == {"TEIR402"}
    assert low.hint == "node copy reaches byte 0 of in0 at n=0; guards do not count"
    assert high.hint == "node copy reaches byte 63 of out at n=3; guards do not count"


@pytest.mark.parametrize(("further", "codes"), [(0, ["TEIR401"]), (4, [])])
def test_addresses_stay_above_the_limit(further: int, codes: list[str]) -> None:
    first, second = GOOD.axes
    half = 2**61
    axes = (
        replace(first, offsets=Bytes({"in0": -half})),
        replace(second, offsets=Bytes({"in0": further - half})),
    )
    assert [one.code for one in check(replace(GOOD, axes=axes)).findings] == codes


def test_entries_of_contractions_say_nothing_on_other_primitives() -> None:
    named = replace(ROW, metadata=(("subnormals", "kept"),))
    assert check(replace(GOOD, primitives=(named,))).ok


def test_only_axes_that_move_the_operand_are_named_where_it_is_left() -> None:
    (rows,) = GOOD.roots
    still = Axis(name="r", extent=3, strides=Bytes({}), offsets=Bytes({}))
    program = replace(GOOD, axes=(*GOOD.axes, still), roots=(loop("again", "r", rows),))
    operands = {
        name: BoundOperand(
            name=name,
            address=address,
            before_bytes=0,
            after_bytes=after,
            writable=True,
            owner=None,
        )
        for name, address, after in (("in0", 4096, 64), ("out", 8192, 60))
    }
    (finding,) = check(program, operands).findings
    assert finding.hint == "node copy reaches byte 63 of out at n=3; guards do not count"


BROKEN = {
    "TEIR301": replace(GOOD, tensors=(*GOOD.tensors, tensor("in0"))),
    "TEIR302": replace(GOOD, axes=(*GOOD.axes, GOOD.axes[0])),
    "TEIR303": replace(GOOD, primitives=(ROW, ROW)),
    "TEIR304": replace(GOOD, roots=(*GOOD.roots, leaf("rows", "row"))),
    "TEIR305": with_axis(extent=np.int64(4)),
    "TEIR308": with_axis(extent=0),
    "TEIR309": with_axis(strides=Bytes({"in0": -4, "out": 4})),
    "TEIR310": with_axis(offsets=Bytes({"in0": 2**62})),
    "TEIR311": with_axis(strides=Bytes({"in0": 6, "out": 4})),
    "TEIR312": with_axis(strides=Bytes({"in0": 4, "out": 4, "oyt": 4})),
    "TEIR313": replace(GOOD, roots=(loop("rows", "N", leaf("copy")),)),
    "TEIR314": replace(GOOD, roots=(leaf("copy", "rows"),)),
    "TEIR315": replace(GOOD, primitives=(replace(ROW, inputs=("in1",)),)),
    "TEIR316": replace(GOOD, primitives=(replace(ROW, n=("x",)),)),
    "TEIR317": replace(GOOD, roots=(*GOOD.roots, loop("empty", "m"))),
    "TEIR334": with_axis(segments=(Segment(pos="p", crd="in0"),)),
}


@pytest.mark.parametrize(("code", "program"), BROKEN.items(), ids=BROKEN.keys())
def test_one_broken_rule(code: str, program: Program) -> None:
    report = check(program)
    found = [finding.code for finding in report.findings]
    assert code in found
    assert found.count(code) == 1 or code == "TEIR334"
    with pytest.raises(TeirError, match=code):
        report.raise_if_wrong()
    for finding in report.findings:
        assert finding.line is not None


def test_every_broken_rule_is_found_at_once_in_program_order() -> None:
    program = Program(
        name="many",
        tensors=(tensor("in0"), tensor("out")),
        axes=(axis("m", 0, in0=4, out=4), axis("n", 4, in0=18, out=16)),
        primitives=(replace(ROW, k=("n",)),),
        roots=(loop("rows", "n", leaf("copy")),),
    )
    report = check(program)
    assert [finding.code for finding in report.findings] == [
        "TEIR308",
        "TEIR311",
        "TEIR323",
        "TEIR321",
    ]
    lines = [finding.line_number for finding in report.findings]
    assert lines == sorted(lines, key=lambda line: line or 0)


@pytest.mark.parametrize(
    ("kind", "out", "found"),
    [
        (DataType.BF16, DataType.FP32, []),
        (DataType.FP16, DataType.FP32, []),
        (DataType.BF16, DataType.BF16, []),
        (DataType.BF16, DataType.FP16, ["TEIR326"]),
        (DataType.BF16, DataType.FP64, ["TEIR326"]),
        (DataType.FP32, DataType.FP64, ["TEIR326"]),
    ],
)
def test_types_that_products_are_added_into(
    kind: DataType, out: DataType, found: list[str]
) -> None:
    primitive = replace(ROW, operation=Operation.CONTRACTION, inputs=("in0", "in1"))
    program = replace(
        GOOD,
        tensors=(tensor("in0", kind), tensor("in1", kind), tensor("out", out)),
        axes=(axis("m", 4, in0=kind.width, out=out.width), axis("n", 4, out=4 * out.width)),
        primitives=(primitive,),
    )
    assert codes(program) == found


def test_a_misspelt_name_gets_a_hint() -> None:
    (finding,) = check(BROKEN["TEIR312"]).findings
    assert finding.hint == "did you mean 'out'?"


def test_shared_subtrees_do_not_explode() -> None:
    node: Node = leaf("copy")
    for level in range(60):
        node = loop(f"l{level}", "n", node, node)
    assert codes(replace(GOOD, roots=(node,))) == ["TEIR306"]


def test_deep_schedules_are_refused() -> None:
    axes = tuple(axis(f"d{level}", 1) for level in range(10_000))
    node: Node = leaf("copy")
    for level in range(10_000):
        node = loop(f"l{level}", f"d{level}", node)
    assert codes(replace(GOOD, axes=(*GOOD.axes, *axes), roots=(node,))) == ["TEIR307"]


@pytest.mark.parametrize(("depth", "found"), [(256, []), (257, ["TEIR307"])])
def test_a_path_has_256_nodes(depth: int, found: list[str]) -> None:
    axes = tuple(axis(f"d{level}", 1) for level in range(depth))
    node: Node = leaf("copy")
    for level in range(depth):
        node = loop(f"l{level}", f"d{level}", node)
    assert codes(replace(GOOD, axes=(*GOOD.axes, *axes), roots=(node,))) == found


def test_many_nodes_are_checked_in_linear_time() -> None:
    leaves = tuple(leaf(f"copy{number}") for number in range(50_000))
    assert check(replace(GOOD, roots=(loop("rows", "n", *leaves),))).ok


def test_many_different_tiles_below_a_parallel_node_end_with_the_budget() -> None:
    axes = [axis("p", 2, out=4), axis("m", 2, out=8)]
    primitives, leaves = [], []
    for number in range(3_000):
        axes.append(Axis(name=f"o{number}", extent=1, offsets=Bytes({"out": 4 * 7919 * number})))
        name = f"p{number}"
        primitives.append(
            Primitive(
                name=name, operation=Operation.ZERO, inputs=(), output="out", m=("m", f"o{number}")
            )
        )
        leaves.append(leaf(f"n{number}", name))
    root = IterationNode(name="rows", axis="p", policy=Policy.PARALLEL, children=tuple(leaves))
    program = Program(
        name="many tiles",
        tensors=(tensor("out"),),
        axes=tuple(axes),
        primitives=tuple(primitives),
        roots=(root,),
    )
    assert codes(program) == ["TEIR404"]


def test_notes_say_that_out_arrives_with_values() -> None:
    add = Primitive(
        name="add", operation=Operation.CONTRACTION, inputs=("in0",), output="out", m=("m",)
    )
    zero = Primitive(name="zero", operation=Operation.ZERO, inputs=(), output="out", m=("m",))
    program = replace(GOOD, primitives=(add, zero), roots=(loop("rows", "n", leaf("sum", "add")),))
    assert check(program).notes == (
        "out arrives with the caller's values: node sum reads it before the program has written "
        "all of it",
    )
    first = loop("rows", "n", leaf("clear", "zero"), leaf("sum", "add"))
    assert check(replace(program, roots=(first,))).notes == ()


@pytest.mark.parametrize(("nearer", "codes"), [(0, ["TEIR401"]), (4, [])])
def test_addresses_stay_below_the_limit(nearer: int, codes: list[str]) -> None:
    """The 64 bytes of in0 end at the limit, or one element before it."""
    first, second = GOOD.axes
    half = 2**61
    axes = (
        replace(first, offsets=Bytes({"in0": half})),
        replace(second, offsets=Bytes({"in0": half - 64 - nearer})),
    )
    program = replace(GOOD, axes=axes)
    assert [one.code for one in check(program).findings] == codes
    assert [one.code for one in prove_by_rules(program).report.findings] == codes


@pytest.mark.parametrize(
    ("lanes", "codes"), [("", []), (', "lanes": 16', ["TEIR340"])], ids=["one chain", "lanes"]
)
def test_subnormals_are_zero_in_single_chains(lanes: str, codes: list[str]) -> None:
    text = f"""teir 1 "products of BF16"
tensor in0: BF16
tensor in1: BF16
tensor out: FP32
axis m = 4: in0 2, out 4
axis k = 3: in0 8, in1 2
primitive sum = Contraction BF16 (in0, in1 -> out; M=[m], N=[], K=[k]) \
with {{"subnormals": "zero"{lanes}}}
sums: sum
"""
    program = parse_program(text)
    assert [one.code for one in prove_by_rules(program).report.findings] == codes
    assert [one.code for one in check(program).findings] == codes


@pytest.mark.parametrize(("count", "is_guessed"), [(1000, True), (1001, False)])
def test_a_name_is_guessed_among_so_many(count: int, is_guessed: bool) -> None:
    axes = "\n".join(f"axis row_{number} = 1: out 0 + 4" for number in range(count))
    text = f"""teir 1 "many axes"
tensor out: FP32
{axes}
primitive zero = Zero(out; M=[row_7], N=[])
clear: zero
"""
    program = parse_program(text)
    (zero,) = program.primitives
    astray = replace(program, primitives=(replace(zero, m=("row_7x",)),))
    (finding,) = check(astray).findings
    assert (finding.hint is not None and "row_" in finding.hint) == is_guessed
