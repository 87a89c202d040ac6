"""Transposing copies with a short side: every width, side and remainder, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from backends.llvm.copy_calls import GAPS, Permutation, check_copy
from backends.llvm.kernel_calls import HERE, compiled_once
from teir.lower.copy_kernels import SHORT_SIDES, ShortTranspose
from teir.passes.stepped_rows import TURNED_STEPS
from teir.target import Isa


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("element_bytes", [2, 4, 8, 16])
def test_few_elements_put_together_and_taken_apart(
    isa: Isa, element_bytes: int, joins: bool
) -> None:
    random = np.random.default_rng(element_bytes)
    kernels = [
        ShortTranspose(element_bytes=element_bytes, side=side, lanes=lanes, joins=joins)
        for side in SHORT_SIDES
        for lanes in (2, 4, 8, 16, 32)
        if lanes * element_bytes <= isa.vector_bytes
    ]
    if not kernels:
        pytest.skip("vectors hold no two elements")
    if isa.has_masks:
        kernels += [replace(one, step=step) for one in kernels[::3] for step in TURNED_STEPS]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        for n in (kernel.lanes, kernel.lanes + 1, 3 * kernel.lanes - 1):
            check_copy(compiled, kernel, drawn(random, kernel, n), 0, random)


def drawn(random: np.random.Generator, kernel: ShortTranspose, n: int) -> Permutation:
    """Gaps between all but the rows that are together."""
    width, side, along = kernel.element_bytes, kernel.side, kernel.step * kernel.element_bytes
    apart_gap, in_gap, out_gap = (width * int(gap) for gap in random.choice(GAPS, 3))
    o, step = int(random.integers(1, 4)), n * along + apart_gap
    source = (along, step) if kernel.joins else (side * along, along)
    target = (side * width, width) if kernel.joins else (width, step)
    in_o, out_o = side * step + in_gap, side * step + out_gap
    return Permutation(
        extents=(o, n, side),
        source_strides=(in_o, *source),
        target_strides=(out_o, *target),
        unit_bytes=width,
        arguments=(n, step, o, in_o, out_o),
    )
