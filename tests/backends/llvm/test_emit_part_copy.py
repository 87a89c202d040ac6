"""Complex rows in parts: copied exactly, and multiplied to the bits that elements give."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from backends.llvm.kernel_calls import (
    HERE,
    Compiled,
    Edge,
    Guarded,
    compiled_once,
    full_lanes,
    kernel_assembly,
    strided,
)
from backends.llvm.test_emit_gemm import X86_SPILL, block, wild
from teir.dtypes import DataType
from teir.lower.block_shapes import block_shapes, part_shapes
from teir.lower.kernels import GemmBlock, PartCopy
from teir.target import Isa

COMPLEX = (DataType.C64, DataType.C128)
PLAIN = (DataType.FP32, DataType.FP64)


def rows_of(numbers: np.ndarray, rows: int, lanes: int, vectors: int) -> np.ndarray:
    """The first ``rows`` complex elements of every step of what `parted` returns."""
    parts = numbers.reshape(-1, vectors // 2, 2, 2 * lanes)
    elements = np.stack((parts[:, :, 0], parts[:, :, 1]), axis=-1)
    return elements.reshape(len(elements), -1)[:, : 2 * rows]


def parted(rows: np.ndarray, lanes: int, vectors: int) -> np.ndarray:
    """The numbers of ``rows`` (steps x rows), filled up with zeros, as `PartCopy` says."""
    whole = np.zeros((len(rows), vectors * lanes), rows.dtype)
    whole[:, : rows.shape[1]] = rows
    if not np.iscomplexobj(rows):
        return whole.reshape(-1)
    pairs = whole.reshape(len(rows), vectors // 2, 2 * lanes)
    return np.stack((pairs.real, pairs.imag), axis=2).reshape(-1)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", [*COMPLEX, *PLAIN])
def test_rows_are_copied_and_nothing_beside_them_is_touched(isa: Isa, data_type: DataType) -> None:
    random, lanes, width = np.random.default_rng(2), full_lanes(isa, data_type), data_type.width
    kernels = [
        PartCopy(data_type=data_type, lanes=lanes, vectors=vectors, masked=masked and lanes > 1)
        for vectors in ((2, 4) if data_type.is_complex else (1, 3))
        for masked in (False, True)
    ]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        for k, batch, outer in ((1, 1, 1), (5, 1, 1), (3, 2, 1), (4, 3, 2)):
            last = int(random.integers(1, lanes + 1)) if kernel.masked else lanes
            rows = (kernel.vectors - 1) * lanes + last
            a_k = (rows + 1) * width
            a_batch, a_outer = k * a_k, batch * k * a_k + width
            axes = ((outer, a_outer), (batch, a_batch), (k, a_k), (rows, width))
            size = sum((extent - 1) * stride for extent, stride in axes) + width
            for edge in Edge:
                source = Guarded(size, edge)
                room = Guarded(outer * batch * k * kernel.vectors * lanes * width, edge)
                source.bytes[:] = room.bytes[:] = 0xFF
                view = strided(source.bytes, data_type, 0, axes)
                view[...] = wild(random, view.shape, data_type)
                arguments = (k, a_k, batch, a_batch, outer, a_outer, last)
                compiled.call(kernel, arguments, (source.address, room.address))
                number = np.dtype(f"f{width // 2 if data_type.is_complex else width}")
                found = room.bytes.view(number)
                if data_type.is_complex:
                    found = rows_of(found, rows, lanes, kernel.vectors)
                else:
                    found = found.reshape(-1, kernel.vectors * lanes)[:, :rows]
                expected = view.reshape(-1, rows).view(number)
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("data_type", [*COMPLEX, *PLAIN])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("edge", list(Edge))
def test_blocks_in_parts_give_the_bits_of_elements(
    isa: Isa, data_type: DataType, masked: bool, edge: Edge
) -> None:
    random, lanes, width = np.random.default_rng(4), full_lanes(isa, data_type), data_type.width
    for vectors, columns, repeats in ((2, 3, False), (4, 2, False), (2, 2, True)):
        elements = block(data_type, data_type, lanes, vectors, columns, masked=masked)
        elements = replace(elements, repeats=repeats)
        in_parts = replace(elements, parts=True)
        compiled = Compiled((elements, in_parts), isa)
        for k, accumulate in ((1, 1), (6, 0), (9, 1)):
            last = int(random.integers(1, lanes + 1)) if elements.masked else lanes
            rows, every = (vectors - 1) * lanes + last, columns * (2 if repeats else 1)
            a, b = wild(random, (k, rows), data_type), wild(random, (every, k), data_type)
            room = Guarded(k * vectors * lanes * width, edge)
            room.bytes[:] = parted(a, lanes, vectors).view(np.uint8)
            start = wild(random, (every, rows), data_type)
            results = []
            for kernel, place, a_k in (
                (elements, a.ctypes.data, rows),
                (in_parts, room.address, vectors * lanes),
            ):
                c = Guarded(start.nbytes, edge)
                c.bytes[:] = start.reshape(-1).view(np.uint8)
                arguments = (
                    *(k, a_k * width, width, 1, 0, 0, 1, 0, 0, k * width, rows * width),
                    *(accumulate, last, width, width, 0, 0),
                    *((2,) if repeats else ()),
                )
                compiled.call(kernel, arguments, (place, b.ctypes.data, c.address))
                results.append(c.bytes.copy())
            np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("data_type", COMPLEX)
@pytest.mark.parametrize("masked", [False, True])
def test_no_register_of_a_block_in_parts_is_spilled(data_type: DataType, masked: bool) -> None:
    for vectors, columns in dict(part_shapes(Isa.AMX)).items():
        kernel = _widest(data_type, vectors, columns, masked)
        lines = kernel_assembly(kernel, Isa.AMX).splitlines()
        assert not [line for line in lines if X86_SPILL.search(line)], kernel


@pytest.mark.parametrize("data_type", PLAIN)
@pytest.mark.parametrize("masked", [False, True])
def test_no_register_of_a_block_of_panels_is_spilled(data_type: DataType, masked: bool) -> None:
    """But for the mask of C beside many columns of one vector, outside of the loop."""
    lanes = full_lanes(Isa.AVX2, data_type)
    for vectors, columns in block_shapes(Isa.AVX2, data_type, data_type, masked=masked):
        plain = block(data_type, data_type, lanes, vectors, columns, masked=masked)
        kernel = replace(plain, parts=True)
        lines = kernel_assembly(kernel, Isa.AVX2).splitlines()
        spills = [line for line in lines if X86_SPILL.search(line)]
        assert not spills or (masked and vectors == 1 and len(spills) <= 2), kernel


def _widest(data_type: DataType, vectors: int, columns: int, masked: bool) -> GemmBlock:
    lanes = full_lanes(Isa.AMX, data_type)
    return replace(block(data_type, data_type, lanes, vectors, columns, masked=masked), parts=True)


@pytest.mark.parametrize("data_type", COMPLEX)
def test_a_block_in_parts_turns_nothing_in_its_loop(data_type: DataType) -> None:
    """Shuffles put C in parts and back: as many as there are vectors, before and after."""
    kernel = _widest(data_type, 4, 6, masked=False)
    lines = kernel_assembly(kernel, Isa.AMX).splitlines()
    turned = [line for line in lines if "vshuf" in line or "vpermil" in line or "vxorp" in line]
    permuted = [line for line in lines if "vperm" in line or "vunpck" in line]
    assert not [line for line in turned if "zmm" in line]
    assert len(permuted) <= 2 * kernel.vectors * kernel.columns
