"""Every program the dense search emits is proved safe and means what NumPy computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from strategies.contractions import Drawn, draw
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.printing import print_program
from teir.search.machine import Machine
from teir.search.tree import contraction_program

TINY = Machine(vector_bytes=16, l1_bytes=256, l2_bytes=1024, threads=1, threaded_work=1)
"""Caches so small that small tensors are cut, packed and left with remainders."""
USUAL = Machine(vector_bytes=64, l1_bytes=32768, l2_bytes=2**20, threads=1, threaded_work=2**16)
MACHINES = {
    "usual": USUAL,
    "tiny": TINY,
    "tiny, three threads": replace(TINY, threads=3),
}


def run(drawn: Drawn, machine: Machine) -> None:
    tree = contraction_program(drawn.contraction, drawn.path, machine)
    report = check(tree.program)
    assert report.ok, print_program(tree.program).text + "\n".join(map(str, report.findings))
    drawn.out[...] = 7
    evaluate(tree.program, drawn.memory)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("operands", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(25))
def test_integers_are_exact(seed: int, operands: int, machine: Machine) -> None:
    types = (DataType.FP32, DataType.FP64, DataType.C64)
    drawn = draw(1000 * operands + seed, types[seed % 3], operands)
    run(drawn, machine)
    np.testing.assert_array_equal(drawn.out, drawn.expected, err_msg=drawn.text)
