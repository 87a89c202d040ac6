"""Examples 1 to 3 of the tile-load source as programs: emulated, and as cubins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cuda.disassembly import disassemble, need_compiler
from backends.cuda.emulation import compile_kernels, emulate
from backends.cuda.programs import aligned, drawn
from teir.backends.cuda.compiler import compile_source
from teir.backends.cuda.kernel import Family
from teir.backends.cuda.plan import plan
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.load import load

FOLDER = Path(__file__).parent / "examples"
EXAMPLES = {
    "1-pointwise-sum": Family.MAP_TILES,
    "2-broadcast": Family.MAP_TILES,
    "3-transpose": Family.TURN_TILES,
}


@pytest.mark.parametrize(("name", "family"), EXAMPLES.items())
def test_on_the_emulator(name: str, family: Family) -> None:
    program = load(FOLDER / f"{name}.teir")
    report = check(program)
    report.raise_if_wrong()
    planned = plan(program)
    assert [kernel.family for kernel in planned.kernels] == [family]
    counts = {one: report.needs[one].high // 4 for one in report.needs}
    operands = {one: drawn(count, DataType.FP32, 9) for one, count in counts.items()}
    expected = {one: array.copy() for one, array in operands.items()}
    evaluate(program, expected)
    found = {one: aligned(array.size, DataType.FP32) for one, array in operands.items()}
    for one, array in operands.items():
        found[one][:] = array
    emulate(planned, found, compile_kernels([planned]))
    for one, array in expected.items():
        np.testing.assert_array_equal(found[one], array)


@pytest.mark.parametrize("name", EXAMPLES)
def test_as_cubins(name: str, tmp_path: Path) -> None:
    need_compiler()
    (kernel,) = plan(load(FOLDER / f"{name}.teir")).kernels
    compiled = compile_source(kernel.source, kernel.name)
    assert compiled.spilled_bytes == 0
    text = disassemble(compiled.cubin, tmp_path)
    assert "UTMALDG" in text
    assert "LDS.128" in text
    assert ("STG.E.128" in text) == (name != "3-transpose")
