"""A vector times a matrix by sweeps over rows: exact integers inside page edges, the usual bits."""

from __future__ import annotations

import numpy as np
import pytest

from backends.llvm.kernel_calls import (
    HERE,
    Compiled,
    Edge,
    Guarded,
    full_lanes,
    small_integers,
    strided,
)
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.kernels import ProductSum, RowSweep
from teir.target import Isa

TYPES = (DataType.FP64, DataType.FP32, DataType.TF32, DataType.C64, DataType.C128)


def row_sweep(
    data_type: DataType, isa: Isa, rows: int, b_access: Access = Access.BROADCAST
) -> RowSweep:
    lanes = full_lanes(isa, data_type)
    return RowSweep(data_type=data_type, lanes=lanes, rows=rows, b_access=b_access)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("edge", Edge)
@pytest.mark.parametrize("b_access", [Access.UNIT, Access.BROADCAST])
def test_sums_are_exact_and_stay_inside(
    isa: Isa, data_type: DataType, edge: Edge, b_access: Access
) -> None:
    kernel = row_sweep(data_type, isa, 3, b_access)
    compiled = Compiled([kernel], isa)
    width, lanes = data_type.width, kernel.lanes
    for number, (m, k) in enumerate(
        ((1, 1), (lanes, 3), (lanes + 1, 7), (3 * lanes - 1, 8), (4 * lanes, 2), (9 * lanes + 2, 7))
    ):
        random = np.random.default_rng(number)
        axes = (
            ((k, (m + 1) * width), (m, width)),
            ((k, (m + 2) * width), (m, width * (b_access is Access.UNIT))),
            ((m, width),),
        )
        views, memories = [], []
        for one in axes:
            memory = Guarded(sum((extent - 1) * step for extent, step in one) + width, edge)
            memory.bytes[:] = 0x5A
            view = strided(memory.bytes, data_type, 0, one)
            values = small_integers(random, view.shape, data_type)
            view[...] = values if view.strides[-1] else values[:, :1]
            views.append(view)
            memories.append(memory)
        accumulate = number % 2
        wide = np.complex128 if data_type.is_complex else np.float64
        a, b, c = (view.astype(wide) for view in views)
        wanted = c * accumulate + np.einsum("km,km->m", a, b)
        arguments = (m, k, (m + 1) * width, (m + 2) * width, accumulate)
        compiled.call(kernel, arguments, [memory.address for memory in memories])
        np.testing.assert_array_equal(views[2], wanted.astype(views[2].dtype))


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", TYPES)
def test_same_bits_as_one_chain_of_products(isa: Isa, data_type: DataType) -> None:
    random = np.random.default_rng(4)
    m, k = 37, 19
    dtype, width = data_type.numpy_dtype(), data_type.width

    def wild(*shape: int) -> np.ndarray:
        numbers = random.standard_normal(shape)
        turned = numbers + 1j * random.standard_normal(shape)
        return (turned if data_type.is_complex else numbers).astype(dtype)

    a, b, start = wild(k, m), wild(k), wild(m)
    general = ProductSum(
        in_type=data_type,
        out_type=data_type,
        inputs=2,
        lanes=full_lanes(isa, data_type),
        accesses=(Access.UNIT, Access.BROADCAST, Access.UNIT),
    )
    sweeps = [row_sweep(data_type, isa, rows) for rows in (1, 4, 6, 8)]
    compiled = Compiled([general, *sweeps], isa)
    expected = start.copy()
    compiled.call(
        general,
        (m, k, 1, 1, width, 0, width, m * width, width, 0, 0),
        [array.ctypes.data for array in (a, b, expected)],
    )
    for sweep in sweeps:
        out = start.copy()
        arguments = (m, k, m * width, width, 1)
        compiled.call(sweep, arguments, [array.ctypes.data for array in (a, b, out)])
        np.testing.assert_array_equal(out.view(np.uint8), expected.view(np.uint8))
