"""The code of a plan called as ``plan(a, b, out=c)`` or ``plan(a, b)``: no frame of Python.

``teir_call`` is a METH_VARARGS | METH_KEYWORDS function: through the call slot of a
type the interpreter hands a tuple and a dictionary over, which any other signature would have it
unpack again. Where one argument more than the inputs is given, by the keyword ``out``, it hands
all of them to the entry point and gives ``out`` back; where none is named, a new array takes the
place of ``out`` (`teir.backends.llvm.new_result_ir`). Every other call, and every one that the
entry point declines, goes to a function of Python with the same arguments: the one that
explains and raises. Its ``self`` is a bytes object that holds the record, and the tuple's items are
read where they lie: each call of a function for it would cost a fiftieth of a tiny product.

    record   byte 0   inputs and outputs together
             byte 8   the record of the entry point
             byte 16  the word "out", as the interpreter holds it in code
             byte 24  the function of Python
             byte 32  what new results are made with (`teir.backends.llvm.new_result_ir`)
"""

from __future__ import annotations

from teir.backends.llvm.entry_layout import (
    BYTES_RECORD_BYTES,
    TUPLE_COUNT_BYTES,
    TUPLE_ITEMS_BYTES,
    table_word,
)
from teir.backends.llvm.entry_run_ir import arguments_room, entry_run
from teir.backends.llvm.new_result_ir import NEW_RESULT

CALL = "teir_call"


def emit_call() -> str:
    """The definition of the function; the table it reads is the entry point's."""
    return _CALL_TEXT


_CALL_TEXT = f"""
define ptr @{CALL}(ptr %self, ptr %given, ptr %named) nounwind {{
entry:
{arguments_room()}
  %record = getelementptr i8, ptr %self, i64 {BYTES_RECORD_BYTES}
  %items = getelementptr i8, ptr %given, i64 {TUPLE_ITEMS_BYTES}
  %count_at = getelementptr i8, ptr %given, i64 {TUPLE_COUNT_BYTES}
  %count = load i64, ptr %count_at
  %wanted = load i64, ptr %record
  %all = add i64 %count, 1
  %count_fits = icmp eq i64 %all, %wanted
  br i1 %count_fits, label %named_test, label %otherwise
named_test:
  %has_names = icmp ne ptr %named, null
  br i1 %has_names, label %names_test, label %new
new:
  %made = call ptr @{NEW_RESULT}(ptr %record, ptr %items, i64 %count)
  %is_made = icmp ne ptr %made, null
  br i1 %is_made, label %made_done, label %otherwise
made_done:
  ret ptr %made
names_test:
{table_word("PyDict_Size")}
  %name_count = call i64 %PyDict_Size(ptr %named)
  %one_name = icmp eq i64 %name_count, 1
  br i1 %one_name, label %name_test, label %otherwise
name_test:
{table_word("PyDict_GetItemWithError")}
  %out_name_at = getelementptr i8, ptr %record, i64 16
  %out_name = load ptr, ptr %out_name_at
  %out = call ptr %PyDict_GetItemWithError(ptr %named, ptr %out_name)
  %is_out = icmp ne ptr %out, null
  br i1 %is_out, label %take_out, label %another_name
another_name:
{table_word("PyErr_Clear")}
  call void %PyErr_Clear()
  br label %otherwise
take_out:
{entry_run("%items", "%out", "take_out", "false")}
  br i1 %has_run, label %done, label %otherwise
done:
{table_word("Py_IncRef")}
  call void %Py_IncRef(ptr %out)
  ret ptr %out
otherwise:
{table_word("PyObject_Call")}
  %function_at = getelementptr i8, ptr %record, i64 24
  %function = load ptr, ptr %function_at
  %result = call ptr %PyObject_Call(ptr %function, ptr %given, ptr %named)
  ret ptr %result
}}
"""
