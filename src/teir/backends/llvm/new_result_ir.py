"""The code of a plan called without ``out``: the result is made, written and given back.

``teir_known`` is a METH_FASTCALL function of the inputs: the result, or NotImplemented where there
is not one input per operand or the entry point declines them. The new array is the value of a
function of Python called with the same arguments each time, `numpy.empty` with a shape and a dtype;
a result without axes is given back as a scalar, as NumPy does. Whatever goes wrong on the way, no
room for the result above all, is left to the caller, which explains and raises. Its ``self`` is a
bytes object that holds the record of `teir.backends.llvm.call_ir`, in which this reads

             byte 32  the function of Python that makes an array
             byte 40  the tuple of its arguments
             byte 48  the empty tuple where the result is a scalar, else null
             byte 56  the function of Python that makes a tensor
             byte 64  the tuple of its arguments
"""

from __future__ import annotations

from teir.backends.llvm.entry_layout import (
    BYTES_RECORD_BYTES,
    NONE_BYTES,
    PYTHON_TABLE,
    table_word,
)
from teir.backends.llvm.entry_run_ir import arguments_room, entry_run
from teir.backends.llvm.entry_tensors_ir import IS_TENSOR

KNOWN = "teir_known"
NEW_RESULT = "teir_new_result"
"""``ptr (ptr record, ptr inputs, i64 count)``: a new reference, null where nothing was computed."""


def emit_new_result() -> str:
    """The definitions of both functions; the table they read is the entry point's."""
    return _KNOWN_TEXT + _NEW_RESULT_TEXT


_KNOWN_TEXT = f"""
define ptr @{KNOWN}(ptr %self, ptr %inputs, i64 %given) nounwind {{
entry:
  %record = getelementptr i8, ptr %self, i64 {BYTES_RECORD_BYTES}
  %wanted = load i64, ptr %record
  %all = add i64 %given, 1
  %count_fits = icmp eq i64 %all, %wanted
  br i1 %count_fits, label %make, label %decline
make:
  %made = call ptr @{NEW_RESULT}(ptr %record, ptr %inputs, i64 %given)
  %is_made = icmp ne ptr %made, null
  br i1 %is_made, label %done, label %decline
done:
  ret ptr %made
decline:
{table_word("Py_IncRef")}
  %answer_at = getelementptr i8, ptr @{PYTHON_TABLE}, i64 {NONE_BYTES + 8}
  %answer = load ptr, ptr %answer_at
  call void %Py_IncRef(ptr %answer)
  ret ptr %answer
}}
"""


_NEW_RESULT_TEXT = f"""
define internal ptr @{NEW_RESULT}(ptr %record, ptr %inputs, i64 %count) nounwind {{
entry:
{arguments_room()}
{table_word("PyObject_Call")}
{table_word("PyErr_Clear")}
{table_word("Py_DecRef")}
  %first = load ptr, ptr %inputs
  %is_tensor = call i1 @{IS_TENSOR}(ptr %first)
  %maker_byte = select i1 %is_tensor, i64 56, i64 32
  %maker_at = getelementptr i8, ptr %record, i64 %maker_byte
  %maker = load ptr, ptr %maker_at
  %given_at = getelementptr i8, ptr %maker_at, i64 8
  %given = load ptr, ptr %given_at
  %result = call ptr %PyObject_Call(ptr %maker, ptr %given, ptr null)
  %has_room = icmp ne ptr %result, null
  %wanted = add i64 %count, 1
  br i1 %has_room, label %place, label %failed
place:
{entry_run("%inputs", "%result", "place", "true")}
  br i1 %has_run, label %scalar_test, label %drop
scalar_test:
  %no_index_at = getelementptr i8, ptr %record, i64 48
  %no_index = load ptr, ptr %no_index_at
  %has_no_axes = icmp ne ptr %no_index, null
  %is_array = xor i1 %is_tensor, true
  %is_scalar = and i1 %has_no_axes, %is_array
  br i1 %is_scalar, label %scalar, label %done
scalar:
{table_word("PyObject_GetItem")}
  %number = call ptr %PyObject_GetItem(ptr %result, ptr %no_index)
  call void %Py_DecRef(ptr %result)
  %is_number = icmp ne ptr %number, null
  br i1 %is_number, label %number_done, label %failed
number_done:
  ret ptr %number
done:
  ret ptr %result
drop:
  call void %Py_DecRef(ptr %result)
  ret ptr null
failed:
  call void %PyErr_Clear()
  ret ptr null
}}
"""
