"""What native code looks at tensors with answers as the tensors themselves do, or is not used."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from msgspec.structs import replace

from teir.arrays.torch_native import (
    DLTensor,
    TensorReading,
    answers_as_expected,
    dlpack_type,
    may_read,
    new_probe,
    tensor_reading,
)
from teir.dtypes import DataType

torch = pytest.importorskip("torch")

NAMES = {
    DataType.FP32: torch.float32,
    DataType.TF32: torch.float32,
    DataType.FP64: torch.float64,
    DataType.FP16: torch.float16,
    DataType.BF16: torch.bfloat16,
    DataType.C64: torch.complex64,
    DataType.C128: torch.complex128,
    DataType.I32: torch.int32,
    DataType.I64: torch.int64,
}


def reading() -> TensorReading:
    found = tensor_reading()
    if found is None:
        pytest.skip("this PyTorch has no exchange table")
    return found


@pytest.mark.parametrize("data_type", list(DataType), ids=lambda one: one.value)
def test_types_are_written_as_tensors_write_them(data_type: DataType) -> None:
    tensor = torch.zeros(3, dtype=NAMES[data_type])
    describe = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(
        reading().describe
    )
    found = DLTensor()
    assert describe(tensor, ctypes.addressof(found)) == 0
    assert found.data_type == dlpack_type(data_type)
    assert found.data == tensor.data_ptr()


def test_the_answers_are_looked_at_before_anything_is_read() -> None:
    found, probe = reading(), new_probe()
    assert answers_as_expected(found, probe)
    other = replace(found, storage_bytes=found.storage_offset)
    assert not answers_as_expected(other, probe)
    other = replace(found, storage_offset=found.storage_bytes)
    assert not answers_as_expected(other, probe)


def test_nothing_is_read_while_something_is_traced_or_has_a_tangent() -> None:
    found, seen = reading(), []

    def asked(one: Any) -> Any:
        seen.append(may_read(found))
        return one * 2

    asked(torch.ones(2))
    torch.jit.trace(asked, (torch.ones(2),), check_trace=False)
    torch.func.jvp(asked, (torch.ones(2),), (torch.ones(2),))
    assert seen[0]
    assert len(seen) >= 3
    assert not any(seen[1:])


def test_a_failure_to_describe_is_no_answer() -> None:
    assert not answers_as_expected(reading(), torch.ones(3, 2).to_sparse())


def test_nothing_is_asked_of_tensors_that_pytorch_wraps() -> None:
    seen = []

    def asked(one: Any) -> Any:
        seen.append(new_probe())
        return one.sum()

    torch.func.grad(asked)(torch.ones(2))
    torch.func.functionalize(asked)(torch.ones(2))
    assert seen == [None, None]
    assert new_probe() is not None
