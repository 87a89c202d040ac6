"""A native program as a built-in Python function of its arrays."""

from __future__ import annotations

import ctypes
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from teir.arrays.numpy_fields import READS_FIELDS
from teir.arrays.torch_native import (
    TensorReading,
    answers_as_expected,
    dlpack_type,
    may_read,
    new_probe,
    tensor_reading,
)
from teir.backends.llvm import entry_ir, entry_layout, layout
from teir.backends.llvm.library import CodeLibrary, code_library
from teir.backends.llvm.native import LONG_RUN_SECONDS, Context, NativeProgram
from teir.backends.llvm.pool import NativePool
from teir.dtypes import DataType
from teir.runtime import runtime
from teir.target import Isa

_UNLOCK_SECONDS = 20e-6
"""Runs estimated longer release the interpreter's lock."""

_FORMATS = {
    DataType.FP32: b"f",
    DataType.TF32: b"f",
    DataType.FP64: b"d",
    DataType.FP16: b"e",
    DataType.C64: b"Zf",
    DataType.C128: b"Zd",
    DataType.I32: b"i",
    DataType.I64: b"l",
}
"""Buffer protocol formats; BF16 has none, its arrays are known by their dtype alone."""

_BUFFER_FLAGS = 0x10 | 0x08 | 0x04
"""PyBUF_STRIDES and PyBUF_FORMAT."""

METH_FASTCALL = 0x80

_FIRST_TENSOR_WORD = entry_layout.TABLE.index(entry_layout.TENSOR_WORDS[0])


class EntryOperand(msgspec.Struct, frozen=True, kw_only=True):
    """The array the entry point expects for one slot: shape, strides in bytes."""

    slot: int
    data_type: DataType
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    writable: bool


class MethodDefinition(ctypes.Structure):
    """A PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


def bind_entry(
    native: NativeProgram, operands: tuple[EntryOperand, ...]
) -> Callable[..., Any] | None:
    """A function of one array per operand that runs ``native`` and returns None.

    It returns NotImplemented and touches nothing when an argument is not exactly as expected,
    when an output overlaps another operand, or when the program is running already. None where
    there can be no such function: a type whose arrays cannot be told, runs so long that Ctrl-C must
    be watched for, another Python than CPython.
    """
    if sys.implementation.name != "cpython" or native.seconds > LONG_RUN_SECONDS:
        return None
    if len(operands) > entry_layout.MOST_OPERANDS:
        return None
    if not READS_FIELDS and any(operand.data_type not in _FORMATS for operand in operands):
        return None
    if native.pool is not None and not isinstance(native.pool, NativePool):
        return None
    library = code_library(runtime.current(), native.isa)
    runtime.current().once(f"python table {native.isa.spelling}", lambda: _fill_table(library))
    context = native.entry_context()
    native.place(context, (0,) * native.operand_count)
    dtypes = [operand.data_type.numpy_dtype() if READS_FIELDS else None for operand in operands]
    record = _record(native, operands, dtypes, context)
    definition = MethodDefinition(
        b"run", library.control()[entry_ir.ENTRY], METH_FASTCALL, b"Run the compiled program."
    )
    return new_function(definition, record, (native, context, dtypes))


def _record(
    native: NativeProgram,
    operands: tuple[EntryOperand, ...],
    dtypes: Sequence[np.dtype[Any] | None],
    context: Context,
) -> array[int]:
    pool = native.pool
    words = [
        len(operands),
        context.is_used.buffer_info()[0],
        context.frame,
        int(native.seconds > _UNLOCK_SECONDS),
        0 if pool is None else pool.address,
        native.threads - 1,
        native.runs_left.buffer_info()[0],
        0,
    ]
    pairs_at = entry_layout.OPERANDS_BYTES + entry_layout.OPERAND_BYTES * len(operands)
    pairs: list[int] = []
    for operand, dtype in zip(operands, dtypes, strict=True):
        before, after = _span(operand)
        words += (
            _BUFFER_FLAGS | (entry_layout.WRITABLE_FLAG if operand.writable else 0),
            len(operand.shape),
            operand.data_type.width,
            int.from_bytes(_FORMATS.get(operand.data_type, b""), "little"),
            layout.slot_bytes(operand.slot),
            before,
            after,
            pairs_at + 8 * len(pairs),
            0 if dtype is None else id(dtype),
            dlpack_type(operand.data_type),
        )
        for extent, stride in zip(operand.shape, operand.strides_bytes, strict=True):
            pairs += (extent, stride)
    return array("q", words + pairs)


def _span(operand: EntryOperand) -> tuple[int, int]:
    """Bytes used before the buffer's start and from it on."""
    before = 0
    after = operand.data_type.width
    for extent, stride in zip(operand.shape, operand.strides_bytes, strict=True):
        reach = stride * (extent - 1)
        if reach < 0:
            before -= reach
        else:
            after += reach
    return before, after


def _fill_table(library: CodeLibrary) -> bool:
    python = ctypes.pythonapi
    words = _table(library)
    for place, name in enumerate(entry_layout.PYTHON_FUNCTIONS):
        words[place] = ctypes.cast(getattr(python, name), ctypes.c_void_p).value
    objects = (None, NotImplemented, np.ndarray)
    for name, value in zip(entry_layout.OBJECTS, objects, strict=True):
        words[entry_layout.TABLE.index(name)] = id(value)
    return True


def _table(library: CodeLibrary) -> Any:
    """The table of ``teir_python``, as words that can be written."""
    address = library.control()[entry_layout.PYTHON_TABLE]
    return (ctypes.c_void_p * len(entry_layout.TABLE)).from_address(address)


def takes_tensors(isa: Isa) -> bool:
    """Whether entry points take plain tensors of PyTorch: since `learn_tensors` succeeded."""
    return _table(code_library(runtime.current(), isa))[_FIRST_TENSOR_WORD] is not None


def learn_tensors(isa: Isa) -> bool:
    """Let entry points take plain tensors of the PyTorch that is imported; False where they cannot
    now, as something is traced or transformed, or at all, as this PyTorch answers otherwise."""
    made = runtime.current()
    # None would be asked for anew.
    (reading,) = made.once("tensor reading", lambda: (tensor_reading(),))
    if reading is None or not may_read(reading):
        return False
    answers = made.once("tensors answer", list[bool])
    if not answers:
        probe = new_probe()
        if probe is None:
            return False
        answers.append(answers_as_expected(reading, probe))
    if not answers[0]:
        return False
    words = made.once("tensor words", lambda: _tensor_words(reading))
    table = _table(code_library(made, isa))
    # The first word is what tells of the others.
    for offset, word in reversed([*enumerate(words)]):
        table[_FIRST_TENSOR_WORD + offset] = word if type(word) is int else id(word)
    return True


def _tensor_words(reading: TensorReading) -> tuple[Any, ...]:
    """What `entry_layout.TENSOR_WORDS` names: addresses of functions, and objects."""
    names = tuple(map(sys.intern, entry_layout.TENSOR_WORDS[-4:]))
    return (
        *reading.kinds,
        reading.describe,
        reading.storage_bytes,
        reading.storage_offset,
        reading.is_recording,
        reading.tell_written,
        reading.conditions,
        False,
        *names,
    )


def new_function(
    definition: MethodDefinition, record: array[int], owners: tuple[Any, ...]
) -> Callable[..., Any]:
    """The built-in function of a capsule with ``record``.

    It holds ``owners`` and the record as `function_of` does.
    """
    new_capsule, _, _ = runtime.current().once("python constructors", _constructors)
    capsule = new_capsule(record.buffer_info()[0], None, None)
    return function_of(definition, capsule, (record, owners))


def function_of(
    definition: MethodDefinition, its_self: object, owners: tuple[Any, ...]
) -> Callable[..., Any]:
    """The built-in function whose first argument is ``its_self``.

    As its module it holds everything its code points to: ``owners`` and the definition.
    """
    _, new_function, _ = runtime.current().once("python constructors", _constructors)
    kept = _Module(__name__, (definition, owners))
    function: Callable[..., Any] = new_function(ctypes.addressof(definition), its_self, kept)
    return function


class _Module(str):
    """The name of a function's module, which tools ask for, and with it what its code points to."""

    owners: tuple[Any, ...]

    def __new__(cls, name: str, owners: tuple[Any, ...]) -> _Module:
        module = super().__new__(cls, name)
        module.owners = owners
        return module


def entry_record(entry: Callable[..., Any]) -> int:
    """The address of the record of a function made by `new_function`; it lives as long as that."""
    *_, pointer = runtime.current().once("python constructors", _constructors)
    record: int = pointer(entry.__self__, None)  # type: ignore[attr-defined]
    return record


def _constructors() -> tuple[Callable[..., Any], ...]:
    """PyCapsule_New, PyCFunction_NewEx and PyCapsule_GetPointer; making their types costs more
    than a call."""
    capsule = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    )(("PyCapsule_New", ctypes.pythonapi))
    function = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
    )(("PyCFunction_NewEx", ctypes.pythonapi))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return capsule, function, pointer
