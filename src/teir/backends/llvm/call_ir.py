"""The code of a plan called as ``plan(a, b, out=c)``: no frame of Python on the way.

``teir_call`` has the signature of a METH_FASTCALL | METH_KEYWORDS function. Where one argument more
than the inputs is given, by the keyword ``out``, it hands all of them to the entry point and gives
``out`` back. Every other call, and every one that the entry point declines, goes to a function of
Python with the same arguments: the one that allocates, explains and raises.

    record   byte 0   inputs and outputs together
             byte 8   the capsule of the entry point
             byte 16  the word "out", as the interpreter holds it in code
             byte 24  the function of Python
"""

from __future__ import annotations

from teir.backends.llvm.entry_ir import ENTRY, NONE_BYTES, PYTHON_TABLE, python_function

CALL = "teir_call"


def emit_call() -> str:
    """The definition of the function; the table it reads is the entry point's."""
    return _CALL_TEXT


_CALL_TEXT = f"""
define ptr @{CALL}(ptr %self, ptr %arguments, i64 %given, ptr %names) nounwind {{
entry:
{python_function("PyCapsule_GetPointer")}
  %record = call ptr %PyCapsule_GetPointer(ptr %self, ptr null)
  %has_names = icmp ne ptr %names, null
  br i1 %has_names, label %count_test, label %otherwise
count_test:
  %wanted = load i64, ptr %record
  %all = add i64 %given, 1
  %count_fits = icmp eq i64 %all, %wanted
  br i1 %count_fits, label %names_test, label %otherwise
names_test:
{python_function("PyTuple_Size")}
  %name_count = call i64 %PyTuple_Size(ptr %names)
  %one_name = icmp eq i64 %name_count, 1
  br i1 %one_name, label %name_test, label %otherwise
name_test:
{python_function("PyTuple_GetItem")}
  %name = call ptr %PyTuple_GetItem(ptr %names, i64 0)
  %out_name_at = getelementptr i8, ptr %record, i64 16
  %out_name = load ptr, ptr %out_name_at
  %is_out = icmp eq ptr %name, %out_name
  br i1 %is_out, label %run, label %otherwise
run:
  %entry_self_at = getelementptr i8, ptr %record, i64 8
  %entry_self = load ptr, ptr %entry_self_at
  %answer = call ptr @{ENTRY}(ptr %entry_self, ptr %arguments, i64 %wanted)
{python_function("Py_DecRef")}
  call void %Py_DecRef(ptr %answer)
  %none_at = getelementptr i8, ptr @{PYTHON_TABLE}, i64 {NONE_BYTES}
  %none = load ptr, ptr %none_at
  %has_run = icmp eq ptr %answer, %none
  br i1 %has_run, label %done, label %otherwise
done:
  %out_at = getelementptr ptr, ptr %arguments, i64 %given
  %out = load ptr, ptr %out_at
{python_function("Py_IncRef")}
  call void %Py_IncRef(ptr %out)
  ret ptr %out
otherwise:
{python_function("PyObject_Vectorcall")}
  %function_at = getelementptr i8, ptr %record, i64 24
  %function = load ptr, ptr %function_at
  %result = call ptr %PyObject_Vectorcall(ptr %function, ptr %arguments, i64 %given, ptr %names)
  ret ptr %result
}}
"""
