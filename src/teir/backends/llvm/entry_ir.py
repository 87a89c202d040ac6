"""The entry point's code: one Python call to one run, without a line of Python between.

``teir_entry`` has the signature of a METH_FASTCALL function. Its ``self`` is a capsule with the
record of a plan (`teir.backends.llvm.entry_layout`). It looks at every argument, compares what it
finds with the record, and runs; whatever it did not expect makes it return NotImplemented, and
Python takes the way that explains. So does the run that brings the count of runs to zero: Python
then has specialised code made. Only functions of the stable ABI are called, through the addresses
in ``teir_python``. Arguments are of the very type ``numpy.ndarray``: a subclass may mean more than
its buffer (a mask, a unit). Fields of arrays are read where they can be, which is four times as
fast as asking for a buffer. Arrays that lie where those of the last run lay, with the same extents
and strides, overlap no more than those did: the frame still holds their addresses.

Tensors of PyTorch are taken in the place of arrays, all or none
(`teir.backends.llvm.entry_tensors_ir`).
"""

from __future__ import annotations

from teir.arrays.numpy_fields import (
    DATA_BYTES,
    DIMENSIONS_BYTES,
    DTYPE_BYTES,
    FLAGS_BYTES,
    SHAPE_BYTES,
    STRIDES_BYTES,
    WRITEABLE,
)
from teir.backends.llvm.entry_layout import (
    MOST_OPERANDS,
    NONE_BYTES,
    PYTHON_TABLE,
    TABLE,
    TYPE_FIELD_BYTES,
    VIEW_BYTES,
    WRITABLE_FLAG,
    operand_text,
    pair_text,
    table_word,
    view_text,
)
from teir.backends.llvm.entry_overlap import OVERLAP_TEXT
from teir.backends.llvm.entry_placing_ir import PLACING_TEXT
from teir.backends.llvm.entry_tensors_ir import IS_TENSOR, LOOK, MAY_READ, NO, emit_tensors
from teir.backends.llvm.pool_ir import WORKERS_BYTES

ENTRY = "teir_entry"
RUN_ENTRY = "teir_run_entry"
"""``i1 (ptr record, ptr arguments, i64 given, i1 is_new)``: whether they were as expected, and it
ran. ``is_new``: nobody has seen what is written."""
ENTRY_SYMBOLS = (ENTRY, PYTHON_TABLE)


def emit_entry() -> str:
    """The definition of the entry point and of its table of Python's functions."""
    table = f"@{PYTHON_TABLE} = global [{len(TABLE)} x ptr] zeroinitializer\n"
    run = f"{_OPENING_TEXT}{_ARGUMENTS_TEXT}{OVERLAP_TEXT}{PLACING_TEXT}"
    return f"{table}{emit_tensors()}{_ENTRY_TEXT}{run}"


_ENTRY_TEXT = f"""
define ptr @{ENTRY}(ptr %self, ptr %arguments, i64 %given) nounwind {{
{table_word("PyCapsule_GetPointer")}
{table_word("Py_IncRef")}
  %record = call ptr %PyCapsule_GetPointer(ptr %self, ptr null)
  %has_run = call i1 @{RUN_ENTRY}(ptr %record, ptr %arguments, i64 %given, i1 false)
  %answer_byte = select i1 %has_run, i64 {NONE_BYTES}, i64 {NONE_BYTES + 8}
  %result_at = getelementptr i8, ptr @{PYTHON_TABLE}, i64 %answer_byte
  %result = load ptr, ptr %result_at
  call void %Py_IncRef(ptr %result)
  ret ptr %result
}}
"""


_OPENING_TEXT = f"""
define internal i1 @{RUN_ENTRY}(
    ptr %record, ptr %arguments, i64 %given, i1 %is_new
) nounwind {{
entry:
  %views = alloca [{MOST_OPERANDS * VIEW_BYTES} x i8], align 16
  %tensors = alloca i32
  store i32 {NO}, ptr %tensors
{table_word("PyObject_GetBuffer")}
{table_word("PyBuffer_Release")}
  %wanted = load i64, ptr %record
  %count_fits = icmp eq i64 %given, %wanted
  br i1 %count_fits, label %pool_test, label %unexpected
pool_test:
  %frame_at = getelementptr i8, ptr %record, i64 16
  %frame = load ptr, ptr %frame_at
  %busy_at_at = getelementptr i8, ptr %record, i64 8
  %busy_at = load ptr, ptr %busy_at_at
  %pool_at = getelementptr i8, ptr %record, i64 32
  %pool = load ptr, ptr %pool_at
  %no_pool = icmp eq ptr %pool, null
  br i1 %no_pool, label %operand, label %workers_test
workers_test:
  %workers_at = getelementptr i8, ptr %pool, i64 {WORKERS_BYTES}
  %workers = load i64, ptr %workers_at
  %needed_at = getelementptr i8, ptr %record, i64 40
  %needed = load i64, ptr %needed_at
  %enough = icmp sge i64 %workers, %needed
  br i1 %enough, label %operand, label %unexpected

"""


_ARGUMENTS_TEXT = f"""operand:
  %number = phi i64 [ 0, %pool_test ], [ 0, %workers_test ], [ %number_next, %dims_fit ]
  %held_before = phi i1 [ false, %pool_test ], [ false, %workers_test ], [ %holds, %dims_fit ]
{operand_text("number")}
{view_text("number")}
  %argument_at = getelementptr ptr, ptr %arguments, i64 %number
  %argument = load ptr, ptr %argument_at
  %number_next = add i64 %number, 1
  %pairs_byte_at = getelementptr i8, ptr %number_operand, i64 56
  %pairs_byte = load i64, ptr %pairs_byte_at
  %pairs = getelementptr i8, ptr %record, i64 %pairs_byte
  %is_first = icmp eq i64 %number, 0
  %type_at = getelementptr i8, ptr %argument, i64 {TYPE_FIELD_BYTES}
  %type = load ptr, ptr %type_at
{table_word("ndarray")}
  %is_array = icmp eq ptr %type, %ndarray
  %flags = load i64, ptr %number_operand
  br i1 %is_array, label %array, label %tensor
tensor:
  %is_tensor = call i1 @{IS_TENSOR}(ptr %argument)
  br i1 %is_tensor, label %place_test, label %release_unexpected
place_test:
  br i1 %is_first, label %first_tensor, label %tensors_test
first_tensor:
  %may_read = call i32 @{MAY_READ}()
  store i32 %may_read, ptr %tensors
  br label %tensors_test
tensors_test:
  %before = load i32, ptr %tensors
  %are_tensors = icmp ne i32 %before, {NO}
  br i1 %are_tensors, label %look, label %release_unexpected
look:
  %is_plain = call i1 @{LOOK}(
    ptr %argument, ptr %number_operand, ptr %pairs, ptr %number_view, i32 %before
  )
  br i1 %is_plain, label %dims_fit, label %release_unexpected
array:
  %others = load i32, ptr %tensors
  %are_arrays = icmp eq i32 %others, {NO}
  br i1 %are_arrays, label %dtype_test, label %release_unexpected
dtype_test:
  %dtype_at = getelementptr i8, ptr %argument, i64 {DTYPE_BYTES}
  %dtype_expected_at = getelementptr i8, ptr %number_operand, i64 64
  %dtype_expected = load ptr, ptr %dtype_expected_at
  %reads_fields = icmp ne ptr %dtype_expected, null
  br i1 %reads_fields, label %dtype_compare, label %buffer
dtype_compare:
  %dtype = load ptr, ptr %dtype_at
  %same_dtype = icmp eq ptr %dtype, %dtype_expected
  br i1 %same_dtype, label %fields, label %buffer_test
buffer_test:
  %letters_at = getelementptr i8, ptr %number_operand, i64 24
  %letters_expected = load i64, ptr %letters_at
  %has_letters = icmp ne i64 %letters_expected, 0
  br i1 %has_letters, label %buffer, label %release_unexpected
fields:
  %array_flags_at = getelementptr i8, ptr %argument, i64 {FLAGS_BYTES}
  %array_flags = load i32, ptr %array_flags_at
  %array_writeable = and i32 %array_flags, {WRITEABLE}
  %is_writeable = icmp ne i32 %array_writeable, 0
  %flag_writable = and i64 %flags, {WRITABLE_FLAG}
  %may_be_read_only = icmp eq i64 %flag_writable, 0
  %may_be_used = or i1 %is_writeable, %may_be_read_only
  %dimensions_at = getelementptr i8, ptr %argument, i64 {DIMENSIONS_BYTES}
  %dimensions32 = load i32, ptr %dimensions_at
  %dimensions = sext i32 %dimensions32 to i64
  %dimensions_expected_at = getelementptr i8, ptr %number_operand, i64 8
  %dimensions_expected = load i64, ptr %dimensions_expected_at
  %dimensions_fit = icmp eq i64 %dimensions, %dimensions_expected
  %fields_fit = and i1 %may_be_used, %dimensions_fit
  br i1 %fields_fit, label %fields_taken, label %release_unexpected
fields_taken:
  %data_at = getelementptr i8, ptr %argument, i64 {DATA_BYTES}
  %data = load ptr, ptr %data_at
  %array_shape_at = getelementptr i8, ptr %argument, i64 {SHAPE_BYTES}
  %array_shape = load ptr, ptr %array_shape_at
  %array_strides_at = getelementptr i8, ptr %argument, i64 {STRIDES_BYTES}
  %array_strides = load ptr, ptr %array_strides_at
  store ptr %data, ptr %number_view
  %owner_at = getelementptr i8, ptr %number_view, i64 8
  store ptr null, ptr %owner_at
  br label %dims
buffer:
  %flags32 = trunc i64 %flags to i32
  %failed = call i32 %PyObject_GetBuffer(ptr %argument, ptr %number_view, i32 %flags32)
  %got = icmp eq i32 %failed, 0
  br i1 %got, label %size_test, label %no_buffer
no_buffer:
{table_word("PyErr_Clear")}
  call void %PyErr_Clear()
  br label %release_unexpected
size_test:
  %ndim_at = getelementptr i8, ptr %number_view, i64 36
  %ndim32 = load i32, ptr %ndim_at
  %ndim = sext i32 %ndim32 to i64
  %ndim_expected_at = getelementptr i8, ptr %number_operand, i64 8
  %ndim_expected = load i64, ptr %ndim_expected_at
  %ndim_fits = icmp eq i64 %ndim, %ndim_expected
  %itemsize_at = getelementptr i8, ptr %number_view, i64 24
  %itemsize = load i64, ptr %itemsize_at
  %itemsize_expected_at = getelementptr i8, ptr %number_operand, i64 16
  %itemsize_expected = load i64, ptr %itemsize_expected_at
  %itemsize_fits = icmp eq i64 %itemsize, %itemsize_expected
  %format_at = getelementptr i8, ptr %number_view, i64 40
  %format = load ptr, ptr %format_at
  %has_format = icmp ne ptr %format, null
  %sizes_fit = and i1 %ndim_fits, %itemsize_fits
  %all_fit = and i1 %sizes_fit, %has_format
  %format_expected_at = getelementptr i8, ptr %number_operand, i64 24
  %format_expected = load i64, ptr %format_expected_at
  br i1 %all_fit, label %format_test, label %mismatch
format_test:
  %letter_at = phi ptr [ %format, %size_test ], [ %letter_next, %format_more ]
  %letters = phi i64 [ %format_expected, %size_test ], [ %letters_next, %format_more ]
  %letter = load i8, ptr %letter_at
  %letter_expected = trunc i64 %letters to i8
  %letter_fits = icmp eq i8 %letter, %letter_expected
  br i1 %letter_fits, label %format_end, label %mismatch
format_end:
  %ended = icmp eq i8 %letter, 0
  br i1 %ended, label %buffer_dims, label %format_more
format_more:
  %letter_next = getelementptr i8, ptr %letter_at, i64 1
  %letters_next = lshr i64 %letters, 8
  br label %format_test
buffer_dims:
  %buffer_shape_at = getelementptr i8, ptr %number_view, i64 48
  %buffer_shape = load ptr, ptr %buffer_shape_at
  %buffer_strides_at = getelementptr i8, ptr %number_view, i64 56
  %buffer_strides = load ptr, ptr %buffer_strides_at
  br label %dims
dims:
  %shape = phi ptr [ %array_shape, %fields_taken ], [ %buffer_shape, %buffer_dims ]
  %strides = phi ptr [ %array_strides, %fields_taken ], [ %buffer_strides, %buffer_dims ]
  %ndims = phi i64 [ %dimensions, %fields_taken ], [ %ndim, %buffer_dims ]
  %holds_buffers = phi i1 [ %held_before, %fields_taken ], [ true, %buffer_dims ]
  br label %word_test
word_test:
  %place_dim = phi i64 [ 0, %dims ], [ %place_dim_next, %word ]
  %differing = phi i64 [ 0, %dims ], [ %differing_next, %word ]
  %more_words = icmp slt i64 %place_dim, %ndims
  br i1 %more_words, label %word, label %words_end
word:
{pair_text("word_", "place_dim")}
  %extent_differing = xor i64 %word_extent, %word_extent_expected
  %stride_differing = xor i64 %word_stride, %word_stride_expected
  %pair_differing = or i64 %extent_differing, %stride_differing
  %differing_next = or i64 %differing, %pair_differing
  %place_dim_next = add i64 %place_dim, 1
  br label %word_test
words_end:
  %all_equal = icmp eq i64 %differing, 0
  br i1 %all_equal, label %dims_fit, label %dim_test
dim_test:
  %dim = phi i64 [ 0, %words_end ], [ %dim_next, %dim_fits ]
  %more_dims = icmp slt i64 %dim, %ndims
  br i1 %more_dims, label %dim_compare, label %dims_fit
dim_compare:
{pair_text("", "dim")}
  %extent_fits = icmp eq i64 %extent, %extent_expected
  %stride_equal = icmp eq i64 %stride, %stride_expected
  %one = icmp eq i64 %extent_expected, 1
  %stride_fits = or i1 %stride_equal, %one
  %both_fit = and i1 %extent_fits, %stride_fits
  br i1 %both_fit, label %dim_fits, label %mismatch
dim_fits:
  %dim_next = add i64 %dim, 1
  br label %dim_test
dims_fit:
  %holds = phi i1 [ false, %look ], [ %holds_buffers, %words_end ], [ %holds_buffers, %dim_test ]
  %more_operands = icmp slt i64 %number_next, %wanted
  br i1 %more_operands, label %operand, label %claim
mismatch:
  call void %PyBuffer_Release(ptr %number_view)
  br label %release_unexpected

release_unexpected:
  %held = phi i64 [ %number, %tensor ], [ %number, %tensors_test ], [ %number, %look ],
                  [ %number, %array ], [ %number, %buffer_test ], [ %number, %fields ],
                  [ %number, %no_buffer ], [ %number, %mismatch ],
                  [ %wanted, %overlapping ], [ %wanted, %claim ], [ %wanted, %ask ]
  br label %drop_test
drop_test:
  %dropped = phi i64 [ 0, %release_unexpected ], [ %dropped_next, %drop ]
  %more_drops = icmp slt i64 %dropped, %held
  br i1 %more_drops, label %drop, label %unexpected
drop:
{view_text("dropped")}
  call void %PyBuffer_Release(ptr %dropped_view)
  %dropped_next = add i64 %dropped, 1
  br label %drop_test

"""
