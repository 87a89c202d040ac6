"""Operands of sparse programs: valid levels, and not a byte more than programs may touch."""

from __future__ import annotations

import numpy as np
import pytest

from teir.soak.kernel_pages import kernel_cases, press_one, pressed_cases
from teir.soak.stored_images import stored_images
from teir.soak.walked_programs import Walk, walk_program, walks


@pytest.mark.parametrize("seed", range(6))
def test_levels_are_valid_and_values_as_many_as_positions(seed: int) -> None:
    for walk in walks():
        if not isinstance(walk, Walk) or walk.levels["B"] != "dss":
            continue
        images = stored_images(walk_program(walk, 3), seed, 3)
        extents = {index: walk.extents.get(index, 3) for index in walk.order}
        fibres = extents["i"]
        for level, extent in ((1, extents["j"]), (2, extents["k"])):
            pos, crd = (images[f"B.{kind}{level}"].elements() for kind in ("pos", "crd"))
            assert (pos.size, pos[0], pos[-1]) == (fibres + 1, 0, crd.size)
            assert crd.min() >= 0
            assert crd.max() < extent
            inner = np.setdiff1d(np.arange(1, crd.size), pos)
            assert (np.diff(crd)[inner - 1] > 0).all()
            fibres = crd.size
        assert images["B"].elements().size == fibres


def test_kernels_that_walk_fibres_between_inaccessible_pages() -> None:
    kernels: set[str] = set()
    for item in range(len(kernel_cases()), len(pressed_cases()), 22):
        result = press_one(item, remainders=2)
        assert result["wrong"] == []
        kernels.update(result["kernels"])
    assert len(kernels) > 5
