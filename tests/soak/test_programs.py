"""Drawn programs: accepted by the checker, varied, within their budget, the same on native code."""

from __future__ import annotations

from collections import Counter
from math import prod

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies.programs import programs
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.nodes import IterationNode, Operation, Policy, Program
from teir.ir.parsing import parse_program
from teir.ir.printing import print_program
from teir.soak.differential import compare_runs, every_variant
from teir.soak.draws import chance, choose, seeded, shuffled, subset
from teir.soak.layouts import EXTENTS, split
from teir.soak.operands import differences, draw_images, intervals, tight_images
from teir.soak.parts import DrawnProgram, exact_integers
from teir.soak.programs import draw_program
from teir.soak.running import evaluated
from teir.target import Isa


def multiply_adds(program: Program) -> int:
    axes, primitives = program.axis_table(), program.primitive_table()
    return sum(
        prod(axes[node.axis].extent for node in path)
        * prod(axes[name].extent for name in primitives[leaf.primitive].axes)
        for path, leaf in program.invocations()
    )


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(work=3_000), st.integers(0, 3), st.sampled_from(every_variant()))
def test_native_code_is_the_evaluator(
    drawn: DrawnProgram, seed: int, variant: tuple[Isa, int]
) -> None:
    """One instruction set and one number of threads per program: the soak runs them all."""
    result = compare_runs(drawn, seed, (variant,))
    assert result["wrong"] == [], print_program(drawn.program).text


def test_every_seed_is_one_program() -> None:
    assert draw_program(seeded(11)) == draw_program(seeded(11))
    assert draw_program(seeded(11)) != draw_program(seeded(12))


def test_drawn_programs_are_accepted_and_print() -> None:
    for seed in range(400):
        program = draw_program(seeded(seed)).program
        report = check(program)
        assert report.ok, "\n".join(map(str, report.findings))
        assert parse_program(print_program(program).text) == program


def test_drawn_programs_stay_within_their_budget() -> None:
    work = 2_000
    # A Zero, a ReLU or a stage that is repeated in shared loops comes on top of the budget.
    assert all(
        multiply_adds(draw_program(seeded(seed), work).program) <= 45 * work for seed in range(500)
    )


def test_drawn_programs_cover_the_language() -> None:
    drawn = [draw_program(seeded(seed)).program for seed in range(1500)]
    seen: Counter[object] = Counter()
    for program in drawn:
        tensors = program.tensor_table()
        seen.update(tensor.data_type for tensor in tensors.values())
        seen.update(axis.extent for axis in program.axes)
        seen["negative offset"] += any(min(a.offsets.values(), default=0) < 0 for a in program.axes)
        seen["several roots"] += len(program.roots) > 1
        seen["scratch of the run"] += bool(program.scratch)
        for primitive in program.primitives:
            seen[primitive.operation] += 1
            seen["role C"] += bool(primitive.c)
            seen["many axes"] += len(primitive.k) > 2
            if primitive.operation is Operation.CONTRACTION:
                seen[len(primitive.inputs), "inputs"] += 1
                ends = (tensors[primitive.inputs[0]].data_type, tensors[primitive.output].data_type)
                seen[ends] += 1
        for node in program.nodes():
            seen["guard"] += bool(node.guard)
            if isinstance(node, IterationNode):
                seen["parallel"] += node.policy is Policy.PARALLEL
                seen["scratch of a node"] += bool(node.scratch)
                seen["remainder"] += node.axis.endswith("r")
    floats = [kind for kind in DataType if not kind.is_index]
    wanted = [*floats, *EXTENTS, *Operation, *((count, "inputs") for count in (1, 2, 3, 4))]
    wanted += [(DataType.BF16, DataType.FP32), (DataType.FP16, DataType.FP32), "guard", "parallel"]
    wanted += ["negative offset", "several roots", "scratch of the run", "scratch of a node"]
    wanted += ["role C", "many axes", "remainder"]
    assert [name for name in wanted if not seen[name]] == []


def test_inputs_are_integers_within_the_exact_range() -> None:
    for seed in range(100):
        drawn = draw_program(seeded(seed), 1_000)
        images = draw_images(drawn.program, seed, drawn.largest, drawn.divisors)
        for name, image in images.items():
            limit = 4 if name in drawn.divisors else drawn.largest
            assert (abs(image.elements()) <= min(limit, exact_integers(image.data_type))).all()
            assert (image.elements() % 1 == 0).all()


def test_tight_images_hold_just_the_needed_bytes() -> None:
    program = draw_program(seeded(5)).program
    images = tight_images(draw_images(program, 1, 3), program)
    for name, (low, high) in intervals(program).items():
        if name in images:
            assert (-images[name].base, images[name].content.size) == (low, high - low)


def test_differences_see_a_single_number() -> None:
    drawn = draw_program(seeded(3))
    images = draw_images(drawn.program, 3, drawn.largest)
    after = evaluated(drawn.program, images)
    assert list(differences(after, after)) == []
    changed = {name: image.copy() for name, image in after.items()}
    numbers = changed["out"].content.view(changed["out"].data_type.numpy_dtype())
    numbers[-1] = numbers[-1] + 1
    (text,) = differences(after, changed)
    assert text.startswith("out: 1 of")


def test_split_reaches_the_same_bytes() -> None:
    for seed in range(60):
        for axis in draw_program(seeded(seed)).program.axes:
            tile = seeded(seed)(1, axis.extent)
            outer, inner, rest = split(axis, tile, ("o", "i", "r"))
            for tensor in axis.strides:
                whole = {
                    axis.offsets[tensor] + axis.strides[tensor] * i for i in range(axis.extent)
                }
                parts = {
                    outer.offsets[tensor]
                    + outer.strides[tensor] * i
                    + inner.offsets[tensor]
                    + inner.strides[tensor] * j
                    for i in range(outer.extent)
                    for j in range(inner.extent)
                }
                if rest is not None:
                    parts |= {
                        rest.offsets[tensor] + rest.strides[tensor] * i for i in range(rest.extent)
                    }
                assert parts == whole


def test_draws() -> None:
    def lowest(low: int, high: int) -> int:
        assert low <= high
        return low

    assert choose(lowest, "abc") == "a"
    assert shuffled(lowest, "abc") == ("a", "b", "c")
    assert subset(lowest, "abc", 99) == ()
    assert not chance(lowest, 99)
    assert sorted(shuffled(seeded(1), range(9))) == list(range(9))
