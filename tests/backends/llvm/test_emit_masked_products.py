"""Multiply-adds that read part of a vector from memory."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import compile_object, load_object, module_text, runs_here
from teir.backends.llvm.emit_lanes import Lanes
from teir.backends.llvm.emit_masked_products import add_product_in_memory, multiplies_in_memory
from teir.backends.llvm.emit_products import Arithmetic
from teir.backends.llvm.emit_text import FunctionText
from teir.dtypes import DataType
from teir.target import Isa


@pytest.mark.skipif(not runs_here(Isa.AVX512), reason="needs AVX-512")
@pytest.mark.parametrize("data_type", [DataType.FP64, DataType.FP32])
@pytest.mark.parametrize("count", [0, 3, 8])
def test_lanes_that_do_not_exist_keep_their_sums_whatever_lies_there(
    data_type: DataType, count: int
) -> None:
    lanes = 64 // data_type.width
    kind = Arithmetic(Isa.AVX512, data_type, lanes)
    text = FunctionText()
    text.label("entry")
    sums, factors = (text.value(f"load {kind.kind}, ptr %{name}, align 1") for name in "sf")
    bits = text.value(f"load i{lanes}, ptr %m, align 1")
    mask = text.value(f"bitcast i{lanes} {bits} to <{lanes} x i1>")
    which = Lanes(data_type, lanes, mask=mask)
    made = add_product_in_memory(text, kind, factors, which, "%p", sums)
    text.effect(f"store {kind.kind} {made}, ptr %s, align 1")
    text.effect("ret void")
    function = f"define void @masked(ptr %s, ptr %f, ptr %m, ptr %p) {{\n{text.text()}\n}}"
    code = load_object(
        compile_object(module_text([function], Isa.AVX512), Isa.AVX512, ("masked",)), ("masked",)
    )
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(code.addresses["masked"])
    draw = np.random.default_rng(count)
    sums_, factors_, row = draw.standard_normal((3, lanes)).astype(data_type.numpy_dtype())
    row[count:] = np.nan
    exists = np.arange(lanes) < count
    expected = np.where(
        exists, factors_.astype(np.longdouble) * row + sums_, sums_.astype(np.longdouble)
    )
    given = (sums_, factors_, np.packbits(exists, bitorder="little"), row)
    run(*(one.ctypes.data for one in given))
    np.testing.assert_array_equal(sums_, expected.astype(sums_.dtype))


def test_what_is_multiplied_in_memory() -> None:
    kind = Arithmetic(Isa.AVX512, DataType.FP64, 8)
    part = Lanes(DataType.FP64, 8, mask="%m")
    assert multiplies_in_memory(kind, part)
    assert not multiplies_in_memory(kind, replace(part, mask=None))
    assert not multiplies_in_memory(replace(kind, isa=Isa.AVX2), part)
    # Factors that are rounded or widened first are loaded first.
    for data_type in (DataType.TF32, DataType.BF16, DataType.FP16):
        lanes = Lanes(data_type, 16, mask="%m")
        assert not multiplies_in_memory(Arithmetic(Isa.AVX512, data_type, 16), lanes)
