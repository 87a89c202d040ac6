"""Layouts of trees: the model is asked of meetings large enough for a layout to matter."""

from __future__ import annotations

import numpy as np
import pytest

import teir
from search.planned import USUAL, of_shapes
from teir.search import arrange as module
from teir.search.arrange import arrange
from teir.search.machine import Machine
from teir.search.meetings import meeting_tree
from teir.search.step import Step


@pytest.mark.parametrize(("extent", "is_asked"), [(16, False), (17, True)])
def test_the_model_is_asked_of_large_meetings_alone(
    extent: int, is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two meetings, one of so many products cubed and one of a million."""
    asked: list[Step] = []
    model = module.step_cycles

    def counted(step: Step, machine: Machine) -> float:
        asked.append(step)
        return model(step, machine)

    monkeypatch.setattr(module, "step_cycles", counted)
    shapes = [(extent, extent), (extent, extent), (extent, 1 << 17)]
    contraction = of_shapes("ij,jk,kl->il", shapes)
    root = meeting_tree(contraction, ((0, 1), (0, 1)), None)
    arrange(root, contraction, USUAL)
    sizes = [np.prod([axis.extent for axis in step.axes]) for step in asked]
    assert sizes
    assert (extent**3 in sizes) == is_asked


def test_a_network_of_small_tensors_is_right() -> None:
    draw = np.random.default_rng(4)
    text = "ab,bcd,ce,def,fgh,gi,hij,jk,kl->al"
    extents = {index: 2 + place % 3 for place, index in enumerate("abcdefghijkl")}
    terms = text.split("->")[0].split(",")
    operands = [draw.integers(-2, 3, [extents[i] for i in term]).astype("f8") for term in terms]
    expected = np.einsum(text, *operands, optimize=True)
    np.testing.assert_array_equal(teir.einsum(text, *operands), expected)
