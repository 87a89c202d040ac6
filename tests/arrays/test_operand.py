"""Binding arrays as operands: every kind is taken without a copy, or refused by its rule."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from teir.arrays.operand import OPERAND_RULES, Operand, bind_operand
from teir.arrays.sparse import Sparse
from teir.dtypes import DataType
from teir.errors import TeirError

ALL = [*DataType]


def refusal(value: Any, data_type: DataType = DataType.FP32, *, writable: bool = False) -> str:
    with pytest.raises(TeirError) as caught:
        bind_operand("in0", value, data_type, writable)
    (finding,) = caught.value.findings
    assert str(finding.place) == "in0"
    return finding.code


@pytest.mark.parametrize("data_type", ALL)
def test_arrays_of_the_type_and_of_bytes(data_type: DataType) -> None:
    values = np.zeros((3, 5), data_type.numpy_dtype())
    bound = bind_operand("x", values, data_type, True)
    assert (bound.before_bytes, bound.after_bytes) == (0, values.nbytes)
    assert bound.address == values.ctypes.data
    assert bound.owner is values
    raw = values.view(np.uint8)
    assert bind_operand("x", raw, data_type, True).address == bound.address


@pytest.mark.parametrize("data_type", ALL)
def test_other_types_are_refused(data_type: DataType) -> None:
    for other in ALL:
        if other.numpy_dtype() != data_type.numpy_dtype():
            assert refusal(np.zeros(4, other.numpy_dtype()), data_type) == "TEIR504"
    for dtype in ("i1", "b1", "M8[s]", "S4", "O", "i4,i4", ml_dtypes.float8_e5m2, "V2"):
        assert refusal(np.zeros(4, dtype), data_type) == "TEIR504"


def test_any_contiguous_shape_passes() -> None:
    for shape in ((), (1,), (0,), (2, 0, 3), (4, 1, 4), (1,) * 20):
        assert bind_operand("x", np.zeros(shape, np.float32), DataType.FP32, True).before_bytes == 0
    assert bind_operand("x", np.zeros((3, 5), np.float32, "F"), DataType.FP32, True).writable


def test_misaligned_bases_pass() -> None:
    raw = np.zeros(65, np.uint8)
    for shift in (1, 2, 3):
        values = raw[shift : shift + 60].view(np.float32)
        assert bind_operand("x", values, DataType.FP32, True).address == raw.ctypes.data + shift


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[:, ::2],
        lambda a: a[::-1],
        lambda a: a[:, :2],
        lambda a: np.broadcast_to(a[0], (3, 4)),
        lambda a: np.lib.stride_tricks.as_strided(a, (2**20, 2**20), (0, 0)),
        lambda a: a.reshape(2, 2, 4).transpose(0, 2, 1),
    ],
)
def test_strided_views_are_refused(view: Callable[[Any], Any]) -> None:
    assert refusal(view(np.zeros((4, 4), np.float32))) == "TEIR503"


def test_read_only_arrays_are_refused_where_they_are_written() -> None:
    values = np.zeros(4, np.float32)
    values.flags.writeable = False
    assert not bind_operand("x", values, DataType.FP32, False).writable
    assert refusal(values, writable=True) == "TEIR506"
    assert refusal(bytes(16), writable=True) == "TEIR506"


def test_swapped_bytes_are_refused() -> None:
    swapped = np.zeros(4, np.dtype(np.float32).newbyteorder())
    assert refusal(swapped) == "TEIR505"


@pytest.mark.parametrize("value", [[1.0], (1.0,), 1.0, "text", object(), {}])
def test_values_without_bytes_are_refused(value: object) -> None:
    assert refusal(value) == "TEIR502"


def test_a_sparse_array_is_refused_with_the_way_to_its_elements() -> None:
    sparse = Sparse.from_coo([[0]], [1.0], (3,))
    with pytest.raises(TeirError) as caught:
        bind_operand("x", sparse, DataType.FP64, False)
    (finding,) = caught.value.findings
    assert finding.code == "TEIR502"
    assert finding.hint is not None
    assert finding.hint.startswith("pass value.to_dense()")


def test_none_is_refused() -> None:
    assert refusal(None) == "TEIR501"
    assert refusal(Operand(None)) == "TEIR501"


def test_masked_arrays_are_refused_and_other_subclasses_taken() -> None:
    assert refusal(np.ma.masked_array([1.0], [True], np.float32)) == "TEIR509"
    assert bind_operand("x", np.zeros(4, np.float32).view(np.recarray), DataType.FP32, True)


class Lying(np.ndarray):
    """What it says of itself is not so."""

    nbytes = shape = strides = property(lambda _: 1 << 40)
    flags = property(lambda _: np.zeros(1 << 10).flags)

    def view(self, *wanted: Any) -> Any:
        del wanted
        return self


def test_what_a_subclass_says_of_its_memory_is_not_believed() -> None:
    lying = np.ndarray.view(np.zeros(4, np.float32), Lying)
    bound = bind_operand("x", lying, DataType.FP32, True)
    assert (bound.before_bytes, bound.after_bytes) == (0, 16)
    assert type(bound.owner) is np.ndarray
    assert refusal(np.ndarray.view(np.zeros((4, 4), np.float32)[:, ::2], Lying)) == "TEIR503"


def test_a_class_that_calls_itself_an_array_of_numpy_is_refused() -> None:
    class Posing:
        __class__ = np.ndarray

    assert refusal(Posing()) == "TEIR502"


@pytest.mark.parametrize("value", [bytearray(16), memoryview(bytearray(16)), array.array("f", [0])])
def test_the_buffer_protocol(value: Any) -> None:
    bound = bind_operand("x", value, DataType.FP32, True)
    assert bound.address == np.asarray(memoryview(value)).ctypes.data
    assert bound.after_bytes == memoryview(value).nbytes


def test_the_array_interface() -> None:
    values = np.arange(4, dtype=np.float32)

    class Holder:
        __array_interface__ = values.__array_interface__

    assert bind_operand("x", Holder(), DataType.FP32, True).address == values.ctypes.data

    class Broken:
        __array_interface__ = {"version": 3}  # noqa: RUF012

    assert refusal(Broken()) == "TEIR502"


PROTOCOLS = ("__array_interface__", "__array_struct__", "__dlpack__", "__cuda_array_interface__")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_that_raises_when_it_is_looked_for(protocol: str) -> None:
    def closed(_: object) -> None:
        raise RuntimeError("the file is closed")

    assert refusal(type("Closed", (), {protocol: property(closed)})()) == "TEIR502"


def test_dlpack() -> None:
    values = np.arange(4, dtype=np.float32)

    class Capsule:
        def __init__(self, device: Any) -> None:
            self.device = device

        def __dlpack__(self, **options: Any) -> Any:
            return values.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.device

    assert bind_operand("x", Capsule((1, 0)), DataType.FP32, False).address == values.ctypes.data
    assert refusal(Capsule((2, 0))) == "TEIR507"
    assert refusal(Capsule(None)) == "TEIR502"


def test_the_room_before_the_base() -> None:
    values = np.zeros(8, np.float32)
    bound = bind_operand("x", Operand(values, 12), DataType.FP32, True)
    assert (bound.before_bytes, bound.after_bytes) == (12, 20)
    assert bound.address == values.ctypes.data + 12
    assert bind_operand("x", Operand(values, np.int64(32)), DataType.FP32, True).after_bytes == 0
    wrong: tuple[Any, ...] = (-1, 33, 1.0, "1", None, True)
    for base in wrong:
        assert refusal(Operand(values, base)) == "TEIR508"


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    for name in ("float64", "float32", "bfloat16", "float16", "complex64", "complex128"):
        data_type = next(d for d in ALL if str(d.numpy_dtype()) == name)
        values = torch.zeros(4, 4, dtype=getattr(torch, name))
        bound = bind_operand("x", values[1:], data_type, True)
        assert bound.address == values.data_ptr() + 4 * values.element_size()
        assert bound.after_bytes == 12 * values.element_size()
    values = torch.zeros(4, 4)
    assert refusal(values.T) == "TEIR503"
    assert refusal(values.double()) == "TEIR504"
    assert refusal(values.requires_grad_()) == "TEIR509"
    assert refusal(torch.zeros(4, dtype=torch.complex64).conj(), DataType.C64) == "TEIR509"
    assert refusal(torch.zeros(4, 4).to_sparse()) == "TEIR509"
    assert refusal(torch.zeros(4, device="meta")) == "TEIR507"
    assert bind_operand("x", torch.zeros(4, dtype=torch.uint8), DataType.FP32, True).writable


def test_every_rule_has_its_own_code() -> None:
    assert len({rule.code for rule in OPERAND_RULES}) == len(OPERAND_RULES)


@pytest.mark.parametrize("base", [np.zeros((2, 2)), np.zeros(0), np.zeros(1, "V8"), 0.0, None, -1])
def test_a_base_that_is_no_count_is_refused(base: Any) -> None:
    assert refusal(Operand(np.zeros(4, np.float32), base)) == "TEIR508"
