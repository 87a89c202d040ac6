"""Transposing copies of joined runs: every width, side and remainder, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from backends.llvm.copy_calls import GAPS, Permutation, check_copy
from backends.llvm.kernel_calls import HERE, compiled_once
from teir.lower.copy_kernels import JoinedTranspose
from teir.target import Isa


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("element_bytes", [2, 4, 8, 16])
def test_runs_turned_as_one_axis(isa: Isa, element_bytes: int) -> None:
    random = np.random.default_rng(element_bytes)
    kernels = [
        JoinedTranspose(element_bytes=element_bytes, lanes=lanes)
        for lanes in (4, 8, 16, 32)
        if lanes * element_bytes <= isa.vector_bytes
    ]
    if not kernels:
        pytest.skip("vectors hold no square")
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        side = kernel.lanes
        for m in (side, side + 1, 3 * side - 1):
            for run in (1, 3, side - 1, side + 2):
                for runs in (-(-side // run), side // run + 3):
                    drawn = joined(random, element_bytes, m, run, runs)
                    check_copy(compiled, kernel, drawn, 0, random)


def joined(random: np.random.Generator, width: int, m: int, run: int, runs: int) -> Permutation:
    """Gaps between all but the runs of a row of the output."""
    gaps = [width * int(gap) for gap in random.choice(GAPS, 6)]
    o = int(random.integers(1, 4))
    in_run = m * width + gaps[0]
    in_runs = in_run * run + gaps[1]
    in_o = in_runs * runs + gaps[2]
    if random.integers(0, 2):
        # The run outside its runs, as operands of einsum have it.
        in_runs = m * width + gaps[0]
        in_run = in_runs * runs + gaps[1]
        in_o = in_run * run + gaps[2]
    out_m = run * runs * width + gaps[3]
    out_o = out_m * m + gaps[4]
    return Permutation(
        extents=(o, m, runs, run),
        source_strides=(in_o, width, in_runs, in_run),
        target_strides=(out_o, out_m, run * width, width),
        unit_bytes=width,
        arguments=(m, run, runs, in_run, in_runs, out_m, o, in_o, out_o),
    )
