"""Programs under change: what nothing refers to any more is gone at the end."""

from __future__ import annotations

import pytest

import teir
from passes.sample_programs import assert_keeps_meaning
from teir.passes.draft import Draft
from teir.passes.lift_zero import lift_zero

LEFT_BEHIND = """teir 1 "scratch left behind"
tensor a: FP32
tensor out: FP32
axis i = 16: a 4, out 4, s 4{offset}
axis k = 8
primitive copy = Copy(a -> out; M=[i], N=[])
sequential n over k
  scratch s: FP32
  v: copy if first(k)
"""


@pytest.mark.parametrize("offset", ["", " + 64"])
def test_scratch_that_went_with_its_loop_is_forgotten(offset: str) -> None:
    program = teir.loads(LEFT_BEHIND.format(offset=offset))
    assert assert_keeps_meaning(lift_zero, program, 4, 1)
    (axis,) = lift_zero(program).axes
    assert set(axis.strides) == {"a", "out"}
    assert not axis.offsets


def test_scratch_by_position_that_went_with_its_loop_is_forgotten() -> None:
    program = teir.loads(BY_POSITION)
    draft = Draft(program)
    outer, inner = program.roots
    assert outer.scratch
    after = draft.finish((inner,))
    assert teir.check(after).ok
    (segment,) = after.axis_table()["j"].segments
    assert segment.by_position == ("B",)


BY_POSITION = """teir 1 "by position"
tensor P: I32
tensor C: I32
tensor B: FP32
tensor out: FP32
axis k = 2
axis i = 4: P 4, out 4
axis j = 4: C 4, B 4, s 4; segment pos P crd C by_position [B, s]
primitive zero = Zero(out; M=[], N=[])
primitive sum = Contraction(B -> out; M=[], N=[], K=[])
sequential nk over k
  scratch s: FP32
  z: zero
sequential ni over i
  zi: zero
  sequential nj over j
    v: sum
"""
