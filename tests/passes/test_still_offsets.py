"""Axes that add an offset to a tensor their steps do not move: every pass keeps the meaning."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import teir
from passes.sample_programs import assert_keeps_meaning, product
from passes.test_every_pass import PASSES
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Axis, Bytes, Program
from teir.ir.parsing import parse_program
from teir.passes.facts import Facts
from teir.passes.short_rows import with_short_rows_packed
from teir.passes.still_offsets import has_still_offsets
from teir.pipeline.program_tuning import measured_variants
from teir.soak.draws import DrawInt, choose, seeded
from teir.soak.programs import draw_program

ON_A_SUM = """
teir 1 "a sum that writes elsewhere"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis k = 3: in0 4, in1 4, out 0 + 8
primitive zero = Zero(out; M=[], N=[])
primitive con = Contraction FP32(in0, in1 -> out; M=[], N=[], K=[])
sequential k over k
  z: zero if first(k)
  c: con
"""
ON_COLUMNS = """
teir 1 "columns that read other rows"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis m = 64: in0 4, out 4
axis k = 48: in0 256, in1 4
axis n = 40: in1 192, out 256, in0 0 + 1024
primitive zero = Zero(out; M=[m], N=[])
primitive con = Contraction FP32(in0, in1 -> out; M=[m], N=[], K=[k])
sequential n over n
  z: zero
  c: con
"""
FAR = Facts(
    vector_bytes=64,
    l1_bytes=2048,
    l2_bytes=16384,
    l3_bytes=1 << 28,
    threads=1,
    packed_elements=2,
    packed_readers=2,
)


def with_still_offset(draw: DrawInt, program: Program) -> Program | None:
    """One axis more that shifts a tensor it does not move; None where there is none, or a race."""
    tensors = {tensor.name: tensor.data_type.width for tensor in program.tensors}
    places = [
        (axis, name)
        for axis in program.axes
        for name in tensors
        if not axis.is_sparse and not axis.strides[name]
    ]
    if not places:
        return None
    at, name = choose(draw, places)

    def changed(axis: Axis) -> Axis:
        if axis is not at:
            return axis
        return replace(axis, offsets=Bytes({**axis.offsets, name: draw(1, 5) * tensors[name]}))

    made = replace(program, axes=tuple(map(changed, program.axes)))
    return made if check(made).ok else None


@pytest.mark.parametrize("name", PASSES)
def test_random_programs(name: str) -> None:
    tried = 0
    for seed in range(60):
        draw = seeded(seed)
        drawn = draw_program(draw, 1500)
        program = None if drawn.divisors else with_still_offset(draw, drawn.program)
        if program is not None:
            tried += has_still_offsets(program)
            assert_keeps_meaning(PASSES[name], program, drawn.largest, seed)
    assert tried > 20


@pytest.mark.parametrize("text", [ON_A_SUM, ON_COLUMNS])
@pytest.mark.parametrize("name", PASSES)
def test_programs_by_hand(name: str, text: str) -> None:
    assert_keeps_meaning(PASSES[name], parse_program(text), 3, 1)


def test_native_code_of_them() -> None:
    program = parse_program(ON_COLUMNS)
    assert with_short_rows_packed(program, FAR) is program
    generator = np.random.default_rng(1)
    needs = check(program).needs
    operands = {
        name: generator.integers(-2, 3, need.high // 4).astype(np.float32)
        for name, need in needs.items()
    }
    expected, found = ({name: one.copy() for name, one in operands.items()} for _ in range(2))
    evaluate(program, expected)
    teir.compile(program, threads=1).run(found)
    np.testing.assert_array_equal(found["out"], expected["out"])


def test_tuning_measures_no_program_that_touches_more() -> None:
    program = parse_program(ON_A_SUM)
    need = check(program).needs["out"]
    assert (need.low, need.high) == (8, 12)
    for one in measured_variants(program, 1):
        assert check(one.variant.program).needs["out"] == need


def test_the_usual_programs_have_none() -> None:
    assert not has_still_offsets(parse_program(product(5, 6, 7)))
