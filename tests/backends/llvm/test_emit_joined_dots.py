"""Sums over joined short rows: exact on integers, inside page edges, the bits of `DotRows`."""

from __future__ import annotations

import numpy as np
import pytest

from backends.llvm.kernel_calls import (
    HERE,
    Compiled,
    Edge,
    Guarded,
    compiled_once,
    full_lanes,
    small_integers,
)
from teir.dtypes import DataType
from teir.ir.tile_arithmetic import contract
from teir.lower.access import Access
from teir.lower.kernels import DotRows, JoinedDots
from teir.target import Isa

FORMS = ((False,), (False, True), (True, False), (False, False))
TYPES = (DataType.FP32, DataType.FP64)


def joined(
    data_type: DataType, isa: Isa, columns: int, chains: int, spread: tuple[bool, ...]
) -> JoinedDots:
    lanes = min(chains, full_lanes(isa, data_type))
    return JoinedDots(
        data_type=data_type, columns=columns, chains=chains, lanes=lanes, spread=spread
    )


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("spread", FORMS)
def test_sums_are_exact_and_stay_inside(
    isa: Isa, data_type: DataType, spread: tuple[bool, ...]
) -> None:
    shapes = ((1, 16), (3, 32), (5, 2), (7, 8), (13, 16))
    kernels = [joined(data_type, isa, *shape, spread) for shape in shapes]
    compiled = compiled_once(kernels, isa)
    width, random = data_type.width, np.random.default_rng(1)
    for kernel in kernels:
        columns, chains = kernel.columns, kernel.chains
        for number, k in enumerate((1, chains - 1, chains, 3 * chains + 1)):
            for edge in Edge:
                shapes_in = [(k, 1) if one else (k, columns) for one in spread]
                memories = [Guarded(rows * row * width, edge) for rows, row in shapes_in]
                out_memory = Guarded(columns * width, edge)
                views = []
                for memory, shape in zip(memories, shapes_in, strict=True):
                    view = memory.bytes.view(data_type.numpy_dtype()).reshape(shape)
                    view[...] = small_integers(random, shape, data_type)
                    views.append(np.broadcast_to(view, (k, columns)).T)
                out = out_memory.bytes.view(data_type.numpy_dtype())
                out[...] = small_integers(random, out.shape, data_type)
                wanted = contract(tuple(views), out * (number % 2), data_type, chains)
                addresses = [one.address for one in (*memories, out_memory)]
                compiled.call(kernel, (k, number % 2), addresses)
                np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("columns", [1, 3, 6, 13])
def test_same_bits_as_dots_whatever_the_lanes(isa: Isa, data_type: DataType, columns: int) -> None:
    random = np.random.default_rng(2)
    k, chains, width = 77, 16, data_type.width
    a = random.standard_normal((k, columns)).astype(data_type.numpy_dtype())
    b = random.standard_normal(k).astype(a.dtype)
    full = full_lanes(isa, data_type)
    plain = DotRows(
        in_type=data_type,
        out_type=data_type,
        inputs=2,
        reductions=1,
        chains=chains,
        lanes=min(full, chains),
        rows=1,
        accesses=(Access.STRIDED, Access.UNIT),
        shared=(False, True),
        out_access=Access.UNIT,
    )
    wanted = np.ones(columns, a.dtype)
    strides = (width, 0, width, columns * width, width)
    Compiled([plain], isa).call(
        plain, (columns, 1, k, *strides), [one.ctypes.data for one in (a, b, wanted)]
    )
    for lanes in {min(full, chains), min(2, full), 1}:
        kernel = JoinedDots(
            data_type=data_type, columns=columns, chains=chains, lanes=lanes, spread=(False, True)
        )
        out = np.ones(columns, a.dtype)
        addresses = [one.ctypes.data for one in (a, b, out)]
        Compiled([kernel], isa).call(kernel, (k, 1), addresses)
        np.testing.assert_array_equal(out.view(np.uint8), wanted.view(np.uint8))
