"""The entry point's look at tensors of PyTorch, part of `teir.backends.llvm.entry_ir`.

What `teir.arrays.torch_plain` asks of a tensor is asked here without a line of Python: memory by
DLPack's exchange table, the storage by PyTorch's C interface (`teir.arrays.torch_native`), what
makes it unusual by its methods. An answer that is not expected is no; then the way in Python
explains.
"""

from __future__ import annotations

from ctypes import sizeof

from teir.arrays.torch_native import COMPLEX, CPU, DLTensor
from teir.backends.llvm.entry_layout import (
    TUPLE_COUNT_BYTES,
    TUPLE_ITEMS_BYTES,
    TYPE_FIELD_BYTES,
    WRITABLE_FLAG,
    operand_text,
    pair_text,
    table_word,
)

IS_TENSOR = "teir_is_tensor"
"""``i1 (ptr object)``: of one of the kinds that native code reads."""
MAY_READ = "teir_may_read_tensors"
"""``i32 ()``: `NOTHING_RECORDED`, `GRADIENTS_RECORDED`, or `NO` where tensors are not read now."""
LOOK = "teir_look_at_tensor"
"""``i1 (ptr tensor, ptr expected, ptr pairs, ptr view, i32 may_read)``: whether it is as the
operand's record and its (extent, stride) pairs say; its address then is in the view, which has no
owner."""
TELL = "teir_tell_tensors"
"""``i1 (ptr record, ptr tensors, i64 count)``: whether PyTorch knows of those that were written."""
NO, NOTHING_RECORDED, GRADIENTS_RECORDED = 0, 1, 2


def emit_tensors() -> str:
    """The definitions of the four functions; the table they read is the entry point's."""
    return _IS_TENSOR_TEXT + _MAY_READ_TEXT + _LOOK_TEXT + _TELL_TEXT


def _refused(name: str, call: str, then: str) -> str:
    """The end of a block: on at ``then`` where ``call`` gives False, else at %no."""
    return f"""\
  %{name}_answer = {call}
  %{name}_is_given = icmp ne ptr %{name}_answer, null
  br i1 %{name}_is_given, label %{name}_test, label %no
{name}_test:
  call void %Py_DecRef(ptr %{name}_answer)
  %{name}_is_false = icmp eq ptr %{name}_answer, %False
  br i1 %{name}_is_false, label %{then}, label %no
"""


def _method_refused(name: str, then: str) -> str:
    call = f"call ptr %PyObject_VectorcallMethod(ptr %{name}, ptr %itself, i64 1, ptr null)"
    return table_word(name) + "\n" + _refused(name, call, then)


_IS_TENSOR_TEXT = f"""
define internal i1 @{IS_TENSOR}(ptr %object) nounwind {{
{table_word("tensor_kind")}
{table_word("parameter_kind")}
  %type_at = getelementptr i8, ptr %object, i64 {TYPE_FIELD_BYTES}
  %type = load ptr, ptr %type_at
  %is_tensor = icmp eq ptr %type, %tensor_kind
  %is_parameter = icmp eq ptr %type, %parameter_kind
  %is_either = or i1 %is_tensor, %is_parameter
  ret i1 %is_either
}}
"""

_MAY_READ_TEXT = f"""
define internal i32 @{MAY_READ}() nounwind {{
entry:
{table_word("PyObject_CallNoArgs")}
{table_word("Py_DecRef")}
{table_word("PyErr_Clear")}
{table_word("False")}
{table_word("conditions")}
{table_word("is_recording")}
  %count_at = getelementptr i8, ptr %conditions, i64 {TUPLE_COUNT_BYTES}
  %count = load i64, ptr %count_at
  %items = getelementptr i8, ptr %conditions, i64 {TUPLE_ITEMS_BYTES}
  br label %next
next:
  %place = phi i64 [ 0, %entry ], [ %place_next, %compare ]
  %more = icmp slt i64 %place, %count
  br i1 %more, label %ask, label %record
ask:
  %function_at = getelementptr ptr, ptr %items, i64 %place
  %function = load ptr, ptr %function_at
  %wanted_at = getelementptr ptr, ptr %function_at, i64 1
  %wanted = load ptr, ptr %wanted_at
  %answer = call ptr %PyObject_CallNoArgs(ptr %function)
  %is_given = icmp ne ptr %answer, null
  br i1 %is_given, label %compare, label %no
compare:
  call void %Py_DecRef(ptr %answer)
  %place_next = add i64 %place, 2
  %is_wanted = icmp eq ptr %answer, %wanted
  br i1 %is_wanted, label %next, label %no
record:
  %recording = call ptr %PyObject_CallNoArgs(ptr %is_recording)
  %is_known = icmp ne ptr %recording, null
  br i1 %is_known, label %known, label %no
known:
  call void %Py_DecRef(ptr %recording)
  %is_off = icmp eq ptr %recording, %False
  %mode = select i1 %is_off, i32 {NOTHING_RECORDED}, i32 {GRADIENTS_RECORDED}
  ret i32 %mode
no:
  call void %PyErr_Clear()
  ret i32 {NO}
}}
"""

_LOOK_TEXT = f"""
define internal i1 @{LOOK}(
    ptr %tensor, ptr %expected, ptr %pairs, ptr %view, i32 %may_read
) nounwind {{
entry:
  %described = alloca [{sizeof(DLTensor)} x i8], align 8
  %itself = alloca ptr
  %handle = alloca ptr
  %number = alloca i64
{table_word("Py_DecRef")}
{table_word("PyErr_Clear")}
{table_word("PyObject_GetAttr")}
{table_word("PyObject_VectorcallMethod")}
{table_word("False")}
{table_word("describe")}
  %failed = call i32 %describe(ptr %tensor, ptr %described)
  %is_described = icmp eq i32 %failed, 0
  br i1 %is_described, label %fields, label %no
fields:
  %start = load ptr, ptr %described
  %device_at = getelementptr i8, ptr %described, i64 {DLTensor.device_type.offset}
  %device = load i32, ptr %device_at
  %dimensions_at = getelementptr i8, ptr %described, i64 {DLTensor.dimensions.offset}
  %dimensions32 = load i32, ptr %dimensions_at
  %dimensions = sext i32 %dimensions32 to i64
  %element_at = getelementptr i8, ptr %described, i64 {DLTensor.data_type.offset}
  %element32 = load i32, ptr %element_at
  %element = zext i32 %element32 to i64
  %shape_at = getelementptr i8, ptr %described, i64 {DLTensor.shape.offset}
  %shape = load ptr, ptr %shape_at
  %strides_at = getelementptr i8, ptr %described, i64 {DLTensor.strides.offset}
  %strides = load ptr, ptr %strides_at
  %offset_at = getelementptr i8, ptr %described, i64 {DLTensor.offset_bytes.offset}
  %offset_bytes = load i64, ptr %offset_at
  %dimensions_expected_at = getelementptr i8, ptr %expected, i64 8
  %dimensions_expected = load i64, ptr %dimensions_expected_at
  %width_at = getelementptr i8, ptr %expected, i64 16
  %width = load i64, ptr %width_at
  %element_expected_at = getelementptr i8, ptr %expected, i64 72
  %element_expected = load i64, ptr %element_expected_at
  %is_there = icmp ne ptr %start, null
  %is_near = icmp eq i32 %device, {CPU}
  %same_dimensions = icmp eq i64 %dimensions, %dimensions_expected
  %same_element = icmp eq i64 %element, %element_expected
  %no_offset = icmp eq i64 %offset_bytes, 0
  %fits_1 = and i1 %is_there, %is_near
  %fits_2 = and i1 %same_dimensions, %same_element
  %fits_3 = and i1 %fits_1, %no_offset
  %fits = and i1 %fits_2, %fits_3
  br i1 %fits, label %dim_test, label %no
dim_test:
  %dim = phi i64 [ 0, %fields ], [ %dim_next, %dim_compare ]
  %more_dims = icmp slt i64 %dim, %dimensions
  br i1 %more_dims, label %dim_compare, label %gradient
dim_compare:
{pair_text("", "dim")}
  %stride_bytes = mul i64 %stride, %width
  %extent_fits = icmp eq i64 %extent, %extent_expected
  %stride_equal = icmp eq i64 %stride_bytes, %stride_expected
  %is_one = icmp eq i64 %extent, 1
  %stride_fits = or i1 %stride_equal, %is_one
  %both_fit = and i1 %extent_fits, %stride_fits
  %dim_next = add i64 %dim, 1
  br i1 %both_fit, label %dim_test, label %no
gradient:
  store ptr %tensor, ptr %itself
  %records = icmp eq i32 %may_read, {GRADIENTS_RECORDED}
  br i1 %records, label %gradient_ask, label %negative
gradient_ask:
{table_word("requires_grad")}
{_refused("gradient", "call ptr %PyObject_GetAttr(ptr %tensor, ptr %requires_grad)", "negative")}\
negative:
{_method_refused("is_neg", "complex_test")}\
complex_test:
  %kind = trunc i32 %element32 to i8
  %is_complex = icmp eq i8 %kind, {COMPLEX}
  br i1 %is_complex, label %conjugate, label %storage
conjugate:
{_method_refused("is_conj", "storage")}\
storage:
{table_word("_cdata")}
{table_word("PyLong_AsVoidPtr")}
{table_word("storage_bytes")}
{table_word("storage_offset")}
  %address = call ptr %PyObject_GetAttr(ptr %tensor, ptr %_cdata)
  %has_address = icmp ne ptr %address, null
  br i1 %has_address, label %sizes, label %no
sizes:
  %implementation = call ptr %PyLong_AsVoidPtr(ptr %address)
  call void %Py_DecRef(ptr %address)
  store ptr %implementation, ptr %handle
  store i64 -1, ptr %number
  %size_failed = call i32 %storage_bytes(ptr %handle, ptr %number)
  %size = load i64, ptr %number
  %offset_failed = call i32 %storage_offset(ptr %handle, ptr %number)
  %first = load i64, ptr %number
  %any_failed = or i32 %size_failed, %offset_failed
  %none_failed = icmp eq i32 %any_failed, 0
  %first_byte = mul i64 %first, %width
  %start_word = ptrtoint ptr %start to i64
  %has_memory = icmp ne i64 %start_word, %first_byte
  %before_at = getelementptr i8, ptr %expected, i64 40
  %before = load i64, ptr %before_at
  %after_at = getelementptr i8, ptr %expected, i64 48
  %after = load i64, ptr %after_at
  %last_byte = add i64 %first_byte, %after
  %begins_inside = icmp sge i64 %first_byte, %before
  %ends_inside = icmp sle i64 %last_byte, %size
  %lies_inside = and i1 %begins_inside, %ends_inside
  %is_told = and i1 %has_memory, %none_failed
  %is_plain = and i1 %lies_inside, %is_told
  br i1 %is_plain, label %yes, label %no
yes:
  store ptr %start, ptr %view
  %owner_at = getelementptr i8, ptr %view, i64 8
  store ptr null, ptr %owner_at
  ret i1 true
no:
  call void %PyErr_Clear()
  ret i1 false
}}
"""

_TELL_TEXT = f"""
define internal i1 @{TELL}(ptr %record, ptr %tensors, i64 %count) nounwind {{
entry:
{table_word("Py_DecRef")}
{table_word("PyErr_Clear")}
{table_word("PyTuple_Pack")}
{table_word("PyObject_CallOneArg")}
{table_word("tell_written")}
  br label %next
next:
  %place = phi i64 [ 0, %entry ], [ %place_next, %done ]
  %more = icmp slt i64 %place, %count
  br i1 %more, label %flag, label %end
flag:
{operand_text("place")}
  %flags = load i64, ptr %place_operand
  %writable = and i64 %flags, {WRITABLE_FLAG}
  %is_written = icmp ne i64 %writable, 0
  br i1 %is_written, label %pack, label %done
pack:
  %tensor_at = getelementptr ptr, ptr %tensors, i64 %place
  %tensor = load ptr, ptr %tensor_at
  %packed = call ptr (i64, ...) %PyTuple_Pack(i64 1, ptr %tensor)
  %is_packed = icmp ne ptr %packed, null
  br i1 %is_packed, label %tell, label %failed
tell:
  %answer = call ptr %PyObject_CallOneArg(ptr %tell_written, ptr %packed)
  call void %Py_DecRef(ptr %packed)
  %is_told = icmp ne ptr %answer, null
  br i1 %is_told, label %drop, label %failed
drop:
  call void %Py_DecRef(ptr %answer)
  br label %done
done:
  %place_next = add i64 %place, 1
  br label %next
failed:
  call void %PyErr_Clear()
  ret i1 false
end:
  ret i1 true
}}
"""
