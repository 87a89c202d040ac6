"""Axes of one index, and the one that lanes are counted along."""

import pytest

import teir
from teir.passes.drop_trivial_axes import drop_trivial_axes

TEXT = """teir 1 "sum"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
axis j = 5: in0 8, in1 8
axis k = 1: in0 8, in1 8
primitive product = Contraction(in0, in1 -> out; M=[], N=[], K=[j, k]){metadata}
do: product
"""


def last_axes(metadata: str, reductions: str) -> tuple[str, ...]:
    text = TEXT.replace("{metadata}", metadata).replace("K=[j, k]", f"K=[{reductions}]")
    lines = [line for line in text.splitlines() if "j" in reductions or "axis j" not in line]
    program = teir.loads("\n".join(lines) + "\n")
    shorter = drop_trivial_axes(program)
    assert teir.check(shorter).ok
    return shorter.primitives[0].k


@pytest.mark.parametrize(
    ("reductions", "kept"), [("j, k", ("j", "k")), ("k", ("k",)), ("k, j", ("j",))]
)
def test_the_axis_of_the_lanes_stays(reductions: str, kept: tuple[str, ...]) -> None:
    assert last_axes(' with {"lanes": 2}', reductions) == kept


@pytest.mark.parametrize(("reductions", "kept"), [("j, k", ("j",)), ("k", ()), ("k, j", ("j",))])
def test_others_go(reductions: str, kept: tuple[str, ...]) -> None:
    assert last_axes("", reductions) == kept


def test_a_program_that_keeps_its_axes_is_returned_as_it_is() -> None:
    text = TEXT.replace("{metadata}", ' with {"lanes": 2}')
    program = teir.loads(text)
    assert drop_trivial_axes(program) is program
