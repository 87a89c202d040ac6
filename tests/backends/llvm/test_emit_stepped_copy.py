"""Copies of every second element, every third and so on: every width, step and remainder, against
NumPy, beside pages nobody may touch."""

from __future__ import annotations

import numpy as np
import pytest

from backends.llvm.copy_calls import GAPS, Permutation, check_copy
from backends.llvm.kernel_calls import HERE, compiled_once
from teir.lower.copy_kernels import STEPS, SteppedCopy
from teir.target import Isa


@pytest.mark.parametrize("isa", [isa for isa in HERE if isa.has_masks])
@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8, 16])
def test_elements_are_picked_and_nothing_between_is_read(isa: Isa, element_bytes: int) -> None:
    random = np.random.default_rng(element_bytes)
    kernels = [
        SteppedCopy(element_bytes=element_bytes, step=step, lanes=lanes)
        for step in STEPS
        for lanes in (4, 8, 16, 32)
        if lanes * element_bytes <= isa.vector_bytes
    ]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        for n in (kernel.lanes, kernel.lanes + 1, 3 * kernel.lanes - 1):
            check_copy(compiled, kernel, _drawn(random, kernel, n), 0, random)


def _drawn(random: np.random.Generator, kernel: SteppedCopy, n: int) -> Permutation:
    width, step = kernel.element_bytes, kernel.step
    o, in_gap, out_gap = int(random.integers(1, 4)), *(int(gap) for gap in random.choice(GAPS, 2))
    in_o, out_o = (n * step + in_gap) * width, (n + out_gap) * width
    return Permutation(
        extents=(o, n),
        source_strides=(in_o, step * width),
        target_strides=(out_o, width),
        unit_bytes=width,
        arguments=(n, o, in_o, out_o),
    )
