"""What the entry point reads: the record of a plan, arrays, buffers, functions of Python.

    record   byte 0   number of operands
             byte 8   pointer to what is 1 while a run uses the frame or its scratch (i32)
             byte 16  the frame
             byte 24  1 where the interpreter's lock is released during a run
             byte 32  the pool, null where the run has one thread
             byte 40  workers the pool must have
             byte 48  pointer to the count of runs left until specialised code pays
             byte 64  the operands, 80 bytes each

    operand  byte 0   flags for PyObject_GetBuffer
             byte 8   dimensions
             byte 16  item size
             byte 24  format, its characters from the lowest byte on
             byte 32  byte of the slot in the frame
             byte 40  bytes used before the start of the buffer
             byte 48  bytes used from the start of the buffer on
             byte 56  byte in the record of its (extent, stride) pairs
             byte 64  the dtype object, null where fields are not to be read
             byte 72  the element's type as DLPack writes it

Where an array has the very dtype object of the record its fields are read as NumPy's binary
interface lays them out; else its buffer is asked for.
"""

from __future__ import annotations

PYTHON_TABLE = "teir_python"
PYTHON_FUNCTIONS = (
    "PyCapsule_GetPointer",
    "PyObject_GetBuffer",
    "PyBuffer_Release",
    "PyErr_Clear",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "Py_IncRef",
    "Py_DecRef",
    "PyDict_Size",
    "PyDict_GetItemWithError",
    "PyObject_Call",
    "PyObject_GetItem",
    "PyLong_AsVoidPtr",
    "PyObject_CallNoArgs",
    "PyObject_CallOneArg",
    "PyObject_GetAttr",
    "PyObject_VectorcallMethod",
    "PyTuple_Pack",
)
OBJECTS = ("None", "NotImplemented", "ndarray")
TENSOR_WORDS = (
    "tensor_kind",
    "parameter_kind",
    "describe",
    "storage_bytes",
    "storage_offset",
    "is_recording",
    "tell_written",
    "conditions",
    "False",
    "requires_grad",
    "is_neg",
    "is_conj",
    "_cdata",
)
"""What tensors of PyTorch are read with (`teir.arrays.torch_native`), and names; null before."""
TABLE = (*PYTHON_FUNCTIONS, *OBJECTS, *TENSOR_WORDS)
"""The order of ``teir_python``, a word each."""

OPERANDS_BYTES = 64
OPERAND_BYTES = 80
MOST_OPERANDS = 256
"""More than tensor networks of a call have: what an entry point looks at of each is on the stack,
20 KB of it."""
WRITABLE_FLAG = 1

VIEW_BYTES = 80
"""Size of a Py_buffer; its layout is part of the stable ABI since CPython 3.11."""

NONE_BYTES = 8 * TABLE.index("None")
TYPE_FIELD_BYTES = object.__basicsize__ - 8
"""The type is the last field of a PyObject, with the interpreter's lock and without."""

TUPLE_COUNT_BYTES = object.__basicsize__
"""The count follows the fields every object has (PyVarObject)."""
TUPLE_ITEMS_BYTES = tuple.__basicsize__
"""The first item of a tuple lies where the fields every tuple has end."""
BYTES_RECORD_BYTES = bytes.__basicsize__ - 1
"""The first byte of a bytes object; its basic size counts the zero byte behind the last."""


def table_word(name: str) -> str:
    """Instructions that load what the table has by this name into ``%<name>``."""
    place = 8 * TABLE.index(name)
    return (
        f"  %{name}_at = getelementptr i8, ptr @{PYTHON_TABLE}, i64 {place}\n"
        f"  %{name} = load ptr, ptr %{name}_at"
    )


def pair_text(name: str, dim: str) -> str:
    """``%<name>extent``, ``%<name>stride`` of dimension ``%<dim>``, and those expected."""
    return f"""  %{name}extent_at = getelementptr i64, ptr %shape, i64 %{dim}
  %{name}extent = load i64, ptr %{name}extent_at
  %{name}stride_at = getelementptr i64, ptr %strides, i64 %{dim}
  %{name}stride = load i64, ptr %{name}stride_at
  %{name}pair_byte = shl i64 %{dim}, 4
  %{name}pair = getelementptr i8, ptr %pairs, i64 %{name}pair_byte
  %{name}extent_expected = load i64, ptr %{name}pair
  %{name}stride_expected_at = getelementptr i8, ptr %{name}pair, i64 8
  %{name}stride_expected = load i64, ptr %{name}stride_expected_at"""


def operand_text(name: str) -> str:
    """``%<name>_operand``: what the record has of operand number ``%<name>``."""
    return f"""  %{name}_operand_at = mul i64 %{name}, {OPERAND_BYTES}
  %{name}_operand_byte = add i64 %{name}_operand_at, {OPERANDS_BYTES}
  %{name}_operand = getelementptr i8, ptr %record, i64 %{name}_operand_byte"""


def view_text(name: str) -> str:
    """``%<name>_view``: where operand number ``%<name>`` was found to lie."""
    return f"""  %{name}_view_byte = mul i64 %{name}, {VIEW_BYTES}
  %{name}_view = getelementptr i8, ptr %views, i64 %{name}_view_byte"""
