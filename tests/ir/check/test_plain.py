"""The one pass over plain programs: it agrees with the rules, and takes what the search emits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import teir
from teir.ir.check import prove, prove_by_rules
from teir.ir.check.plain import plain_needs
from teir.ir.nodes import Bytes, InvocationNode, IterationNode, Node, Policy, Program
from teir.ir.parsing import parse_program
from teir.soak.draws import DrawInt, chance, seeded
from teir.soak.mutants import draw_mutant
from teir.soak.programs import draw_program

PROGRAMS = 500
EXPRESSIONS = (
    ("ab,bc->ac", (128, 96), (96, 80)),
    ("abc,dcb->ad", (40, 30, 20), (50, 20, 30)),
    ("abcd,ebad->ce", (8, 12, 10, 16), (9, 12, 8, 16)),
    ("ij,jk,kl->il", (30, 40), (40, 50), (50, 20)),
    ("abc->cab", (20, 30, 40)),
    ("nab,nbc->nac", (6, 14, 15), (6, 15, 13)),
)


def _is_agreed(program: Program) -> bool:
    """Whether the program is plain; what the pass says is what the rules say."""
    needs = plain_needs(program)
    if needs is not None:
        report = prove_by_rules(program).report
        assert report.findings == (), f"{report.findings[0]}\n{program}"
        assert needs == report.needs, str(program)
    return needs is not None


def _parallel(draw: DrawInt, node: Node) -> Node:
    if isinstance(node, InvocationNode):
        return node
    policy = Policy.PARALLEL if chance(draw, 50) else node.policy
    children = tuple(_parallel(draw, child) for child in node.children)
    return replace(node, policy=policy, children=children)


def test_what_is_plain_is_right() -> None:
    """Drawn programs, the same with parallel nodes, and hostile changes of both."""
    plain = {"drawn": 0, "parallel": 0, "mutants": 0}
    for seed in range(PROGRAMS):
        draw = seeded(seed)
        program = draw_program(draw, 300).program
        parallel = replace(program, roots=tuple(_parallel(draw, root) for root in program.roots))
        plain["drawn"] += _is_agreed(program)
        plain["parallel"] += _is_agreed(parallel)
        for one in (program, parallel):
            plain["mutants"] += _is_agreed(draw_mutant(draw, one))
    # The pass would be of no use, and this test of no worth, if it gave up on most of them.
    assert plain["drawn"] > 0.5 * PROGRAMS
    assert plain["parallel"] > 0.25 * PROGRAMS
    assert plain["mutants"] > 0.1 * PROGRAMS


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("expression", "shapes"), [(e, s) for e, *s in EXPRESSIONS])
def test_planned_programs_are_plain(
    expression: str, shapes: list[tuple[int, ...]], threads: int
) -> None:
    """What the search emits needs no second look, packed and parallel."""
    program = teir.plan(expression, *shapes, threads=threads).program
    assert _is_agreed(program)


def test_entries_that_say_nothing_of_sums_leave_a_contraction_plain() -> None:
    program = teir.plan("ab,bc->ac", (8, 9), (9, 7), threads=1).program
    noted = [replace(one, metadata=(("note", "of a reader"),)) for one in program.primitives]
    assert _is_agreed(replace(program, primitives=tuple(noted)))


def test_proofs_of_plain_programs_have_details() -> None:
    """Operands are proved against the same intervals either way."""
    program = teir.plan("ab,bc->ac", (128, 96), (96, 80), threads=1).program
    details = prove(program).details
    expected = prove_by_rules(program).details
    assert details.hulls is not None
    assert expected.hulls is not None
    assert details.hulls.needs() == expected.hulls.needs()
    assert prove(program).report == prove_by_rules(program).report


def test_nodes_are_visited_once_however_often_they_occur() -> None:
    """A schedule of shared subtrees ends at the limit of nodes."""
    program = teir.plan("ab,bc->ac", (8, 9), (9, 7), threads=1).program
    node: Node = program.roots[0]
    axis = program.axes[0].name
    for number in range(60):
        node = IterationNode(
            name=f"n{number}", axis=axis, policy=Policy.SEQUENTIAL, children=(node, node)
        )
    assert plain_needs(replace(program, roots=(node,))) is None


def test_the_output_of_an_operation_in_place_is_where_it_writes() -> None:
    """Rows of the output overlap, those of the other input do not."""
    text = """teir 1 "sums in place"
tensor out: FP32
tensor in1: FP32
axis m = 3: out 4, in1 4
axis n = 3: out 4, in1 12
primitive add = Add(out, in1 -> out; M=[m], N=[n])
sums: add
"""
    assert plain_needs(parse_program(text)) is None
    assert _is_agreed(parse_program(text.replace("out 4, in1 12", "out 12, in1 4")))
    assert _is_agreed(parse_program(text.replace("out 4, in1 12", "out 12, in1 12")))


@pytest.mark.parametrize("sign", [1, -1])
def test_offsets_at_the_limit_are_left_to_the_rules(sign: int) -> None:
    """Also where another offset brings the address back."""
    text = """teir 1 "a far element"
tensor out: FP32
axis m = 3: out 4
axis far = 1: out 0 + 8
axis back = 1: out 0 + 8
primitive zero = Zero(out; M=[m, far, back], N=[])
clear: zero
"""
    program = parse_program(text)
    assert _is_agreed(program)
    rows, far, back = program.axes
    far = replace(far, offsets=Bytes({"out": sign * 2**62}))
    back = replace(back, offsets=Bytes({"out": -sign * 64}))
    assert not _is_agreed(replace(program, axes=(rows, far, back)))


def test_scratch_of_parallel_iterations_is_plain() -> None:
    """What every iteration has for itself needs no look at the others."""
    text = """teir 1 "rows through scratch"
tensor in0: FP32
tensor out: FP32
axis i = 4: in0 32, out 32
axis m = 8: in0 4, t 4, out 4
primitive take = Copy(in0 -> t; M=[m], N=[])
primitive give = Copy(t -> out; M=[m], N=[])
parallel rows over i
  scratch t: FP32
  take: take
  give: give
"""
    assert _is_agreed(parse_program(text))


def test_loops_of_one_iteration_tell_accesses_not_apart() -> None:
    text = """teir 1 "a row cleared, and clipped in a loop of one iteration"
tensor out: FP32
axis i = 4: out 32
axis one = 1: out 8
axis m = 8: out 4
primitive clear = Zero(out; M=[m], N=[])
primitive clip = ReLU(out -> out; M=[m], N=[])
parallel rows over i
  clear: clear
  sequential once over one
    clip: clip
"""
    assert _is_agreed(parse_program(text))
