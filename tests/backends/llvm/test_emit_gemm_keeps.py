"""Register blocks whose first rows another block has formed: those rows stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from backends.llvm.kernel_calls import HERE, Compiled, Edge, Guarded, full_lanes, kernel_assembly
from backends.llvm.test_emit_gemm import X86_SPILL, block, wild
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.block_shapes import block_shapes
from teir.target import Isa

PLAIN = (DataType.FP32, DataType.FP64)
ACCESSES = ((Access.UNIT, Access.UNIT), (Access.UNIT, Access.STRIDED))


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", PLAIN)
@pytest.mark.parametrize("accesses", ACCESSES)
@pytest.mark.parametrize("edge", list(Edge))
def test_the_first_rows_stay_and_the_others_are_those_of_a_whole_block(
    isa: Isa, data_type: DataType, accesses: tuple[Access, Access], edge: Edge
) -> None:
    random, lanes, width = np.random.default_rng(4), full_lanes(isa, data_type), data_type.width
    gap = 1 if accesses[1] is Access.UNIT else 2
    for vectors, columns, repeats in ((1, 3, False), (2, 2, False), (2, 3, True)):
        whole = replace(
            block(data_type, data_type, lanes, vectors, columns, accesses), repeats=repeats
        )
        keeping = replace(whole, keeps=True)
        compiled = Compiled((whole, keeping), isa)
        rows, every = vectors * lanes, columns * (2 if repeats else 1)
        for k, accumulate, last in ((1, 1, 1), (6, 1, lanes), (9, 0, max(1, lanes - 1))):
            a, b = wild(random, (k, rows), data_type), wild(random, (every, k), data_type)
            start = wild(random, (every, rows * gap), data_type)
            results = []
            for kernel in (whole, keeping):
                c = Guarded(start.nbytes, edge)
                c.bytes[:] = start.reshape(-1).view(np.uint8)
                arguments = (
                    *(k, rows * width, width, 1, 0, 0, 1, 0, 0, k * width, rows * gap * width),
                    *(accumulate, last, width, gap * width, 0, 0),
                    *((2,) if repeats else ()),
                )
                compiled.call(kernel, arguments, (a.ctypes.data, b.ctypes.data, c.address))
                results.append(c.bytes.view(start.dtype).reshape(start.shape).copy())
            expected, found = results
            kept = (lanes - last) * gap
            expected[:, :kept] = start[:, :kept]
            np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


@pytest.mark.skipif(Isa.AVX2 not in HERE, reason="needs AVX2")
@pytest.mark.parametrize("data_type", PLAIN)
def test_no_register_is_spilled(data_type: DataType) -> None:
    lanes = full_lanes(Isa.AVX2, data_type)
    for vectors, columns in block_shapes(Isa.AVX2, data_type, data_type):
        if vectors > 2 and (vectors, columns) not in block_shapes(
            Isa.AVX2, data_type, data_type, masked=True
        ):
            continue
        kernel = replace(block(data_type, data_type, lanes, vectors, columns), keeps=True)
        lines = kernel_assembly(kernel, Isa.AVX2).splitlines()
        assert not [line for line in lines if X86_SPILL.search(line)], kernel
