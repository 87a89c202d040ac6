"""Sums with lanes along K: exact on small integers, inside page edges, the evaluator's bits."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import pytest

from backends.llvm.kernel_calls import (
    HERE,
    PAIRS,
    Compiled,
    Edge,
    Guarded,
    compiled_once,
    full_lanes,
    small_integers,
    strided,
)
from teir.dtypes import DataType
from teir.ir.tile_arithmetic import contract
from teir.lower.access import Access
from teir.lower.kernels import DotRows
from teir.target import Isa

UNIT, STRIDED, BROADCAST = Access.UNIT, Access.STRIDED, Access.BROADCAST
ACCESSES = (
    ((UNIT,), (False,)),
    ((UNIT, UNIT), (False, True)),
    ((UNIT, UNIT), (False, False)),
    ((STRIDED, UNIT), (True, False)),
    ((UNIT, BROADCAST), (False, False)),
    ((UNIT, UNIT, STRIDED), (False, True, False)),
    ((UNIT,), (True,)),
    ((UNIT, STRIDED), (True, True)),
)


def kernel_of(
    types: tuple[DataType, DataType],
    isa: Isa,
    chains: int,
    rows: int,
    form: tuple[tuple[Access, ...], tuple[bool, ...]],
    reductions: int,
    out_access: Access,
) -> DotRows:
    accesses, shared = form
    return DotRows(
        in_type=types[0],
        out_type=types[1],
        inputs=len(accesses),
        reductions=reductions,
        chains=chains,
        lanes=min(chains, full_lanes(isa, types[0])),
        rows=rows,
        accesses=accesses,
        shared=shared,
        out_access=out_access,
    )


@dataclass(frozen=True)
class Shape:
    """Extents: the output, and the reductions, outermost first."""

    m: int
    reductions: tuple[int, ...]


def check(
    compiled: Compiled, kernel: DotRows, shape: Shape, accumulate: int, edge: Edge, exact: bool
) -> None:
    random = np.random.default_rng(shape.m * 100 + shape.reductions[-1])
    views, memories, along_m, along_k = [], [], [], []
    for access, shared in zip(kernel.accesses, kernel.shared, strict=True):
        width = kernel.in_type.width
        last = {UNIT: width, STRIDED: 2 * width, BROADCAST: 0}[access]
        strides, reach = [last], max(last, width) * shape.reductions[-1] + width
        for extent in reversed(shape.reductions[:-1]):
            strides.insert(0, reach)
            reach *= extent
        along_m.append(0 if shared else reach)
        along_k.append(strides)
        axes = ((shape.m, along_m[-1]), *zip(shape.reductions, strides, strict=True))
        size = sum((extent - 1) * stride for extent, stride in axes) + width
        memory = Guarded(size, edge)
        memory.bytes[:] = 0x5A
        view = strided(memory.bytes, kernel.in_type, 0, axes)
        values = small_integers(random, view.shape, kernel.in_type)
        if not exact:
            values = random.standard_normal(view.shape).astype(view.dtype)
        # Strided axes of one array may share elements: what was written last counts.
        view[...] = np.sign(values.real) if exact else values
        if exact and kernel.in_type.is_complex:
            view[...] *= 1 + 1j
        memories.append(memory)
        views.append(view)
    width = kernel.out_type.width
    out_stride = width if kernel.out_access is UNIT else 3 * width
    memory = Guarded((shape.m - 1) * out_stride + width, edge)
    memory.bytes[:] = 0x5A
    out = strided(memory.bytes, kernel.out_type, 0, ((shape.m, out_stride),))
    out[...] = small_integers(random, out.shape, kernel.out_type)
    start = out.astype(kernel.out_type.accumulator.numpy_dtype()) * accumulate
    wanted = contract(tuple(views), start, kernel.in_type, kernel.chains)
    between = memory.bytes.copy()
    target = strided(between, kernel.out_type, 0, ((shape.m, out_stride),))
    target[...] = wanted.astype(target.dtype)
    arguments = (
        *(shape.m, accumulate),
        *shape.reductions,
        *(*along_m, out_stride),
        *(strides[axis] for axis in range(kernel.reductions) for strides in along_k),
    )
    addresses = [one.address for one in (*memories, memory)]
    compiled.call(kernel, arguments, addresses)
    if exact:
        np.testing.assert_array_equal(memory.bytes, between, str((kernel, shape)))
        return
    terms = prod(shape.reductions)
    bound = 4 * terms * kernel.in_type.unit_roundoff * (1 + np.abs(wanted).max() + terms)
    np.testing.assert_allclose(out.astype(wanted.dtype), wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("types", PAIRS)
def test_sums_are_exact_and_stay_inside(isa: Isa, types: tuple[DataType, DataType]) -> None:
    full = full_lanes(isa, types[0])
    forms = [(form, number % 3) for number, form in enumerate(ACCESSES)]
    kernels = [
        kernel_of(
            types,
            isa,
            (2, full, 2 * full, 4 * full)[number % 4] if full > 1 or number % 4 else 2,
            (1, 2, 4)[kind],
            form,
            1 + number % 3,
            (UNIT, STRIDED)[number % 2],
        )
        for number, (form, kind) in enumerate(forms)
    ]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        chains = kernel.chains
        outer = (2, 3)[: kernel.reductions - 1]
        for number, (m, k) in enumerate(
            ((1, 1), (kernel.rows, chains), (2 * kernel.rows + 1, chains - 1), (3, 2 * chains + 1))
        ):
            for edge in Edge:
                check(compiled, kernel, Shape(m, (*outer, k)), number % 2, edge, exact=True)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64, DataType.C64])
def test_rows_and_lanes_do_not_change_bits(isa: Isa, data_type: DataType) -> None:
    random = np.random.default_rng(3)
    m, k, chains = 7, 53, 16
    dtype = data_type.numpy_dtype()
    a = random.standard_normal((m, k)).astype(dtype)
    x = random.standard_normal(k).astype(dtype)
    full = full_lanes(isa, data_type)
    results = []
    for rows in (1, 2, 4, 8):
        for lanes in {min(full, chains), min(2, full), 1}:
            kernel = DotRows(
                in_type=data_type,
                out_type=data_type,
                inputs=2,
                reductions=1,
                chains=chains,
                lanes=lanes,
                rows=rows,
                accesses=(UNIT, UNIT),
                shared=(False, True),
                out_access=UNIT,
            )
            out = np.zeros(m, dtype)
            width = data_type.width
            Compiled([kernel], isa).call(
                kernel,
                (m, 0, k, k * width, 0, width, width, width),
                [array.ctypes.data for array in (a, x, out)],
            )
            results.append(out)
    for one in results[1:]:
        np.testing.assert_array_equal(one, results[0])
    np.testing.assert_allclose(results[0], a @ x, rtol=1e-4)
