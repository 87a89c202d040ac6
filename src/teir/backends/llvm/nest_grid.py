"""The grid node: its points shared among the threads of the pool.

    grid          function, child, points, chunks, thread slots, axes,
                  byte of the slot of pos (0: shares of equally many points), offset, stride from
                  point to point, width, what every point counts besides its elements,
                  then per thread slot: byte of the slot,
                  then per axis, innermost first: extent, byte of the index cell, steps,
                  then per step: byte of the slot, stride

A thread that takes a chunk copies the frame of the run into a frame of its own, moves the pointers
of private scratch into an arena of its own, goes to the chunk's first point and walks the points
like an odometer. So which thread does a chunk, and how many there are, is seen in no result.
"""

from __future__ import annotations

from teir.backends.llvm.layout import (
    ARENA_STRIDE_BYTES,
    FRAME_STRIDE_BYTES,
    NODE_PARAMETERS,
    POOL_BYTES,
    THREAD_FRAMES_BYTES,
    THREADS_BYTES,
)
from teir.backends.llvm.nest_words import (
    CANCEL,
    CHILD_FUNCTION,
    leave_if_cancelled,
    word,
)

GRID = "teir_grid"

JOB_TYPE = "void (ptr, ptr, i64, i64, i64)"
"""A share of a grid: node, frame of the run, participant, chunk, chunks."""

JOB_PARAMETERS = "ptr %node, ptr %frame, i64 %participant, i64 %chunk, i64 %chunks"


def emit_grid() -> str:
    """The definitions of the grid node.

    `ADVANCE_TEXT` and `nest_words.LOAD_INDEX_TEXT` must stand in the same module.
    """
    texts = (_GRID_TEXT, GRID_FORK_TEXT, _COPY_FRAME_TEXT, SHARE_TEXT, _GRID_JOB_TEXT)
    return "\n".join(texts)


ADVANCE_TEXT = """
define void @teir_advance(ptr %frame, ptr %steps_at, i64 %times) alwaysinline nounwind {
entry:
  %count = load i64, ptr %steps_at
  %bytes = shl i64 %count, 4
  %first = getelementptr i8, ptr %steps_at, i64 8
  %end = getelementptr i8, ptr %first, i64 %bytes
  br label %test
test:
  %step_at = phi ptr [ %first, %entry ], [ %next, %step ]
  %more = icmp ult ptr %step_at, %end
  br i1 %more, label %step, label %exit
step:
  %slot_byte = load i64, ptr %step_at
  %slot = getelementptr i8, ptr %frame, i64 %slot_byte
  %stride_at = getelementptr i8, ptr %step_at, i64 8
  %stride = load i64, ptr %stride_at
  %distance = mul i64 %stride, %times
  %pointer = load ptr, ptr %slot
  %moved = getelementptr i8, ptr %pointer, i64 %distance
  store ptr %moved, ptr %slot
  %next = getelementptr i8, ptr %step_at, i64 16
  br label %test
exit:
  ret void
}
"""

_GRID_TEXT = f"""
define void @{GRID}({NODE_PARAMETERS}) nounwind {{
{word("chunks", 3)}\
  call void @teir_grid_fork(ptr @teir_grid_job, ptr %node, ptr %frame, i64 %chunks)
  ret void
}}
"""

GRID_FORK_TEXT = f"""
define void @teir_grid_fork(ptr %job, ptr %node, ptr %frame, i64 %chunks) nounwind {{
entry:
  %pool_at = getelementptr i8, ptr %frame, i64 {POOL_BYTES}
  %pool = load ptr, ptr %pool_at
  %no_pool = icmp eq ptr %pool, null
  %one_chunk = icmp eq i64 %chunks, 1
  %by_itself = or i1 %no_pool, %one_chunk
  br i1 %by_itself, label %alone, label %shared
shared:
  %threads_at = getelementptr i8, ptr %frame, i64 {THREADS_BYTES}
  %threads = load i64, ptr %threads_at
  %fork = load ptr, ptr %pool
  %taken = call i64 %fork(ptr %pool, ptr %job, ptr %node, ptr %frame, i64 %chunks, i64 %threads)
  %refused = icmp eq i64 %taken, 0
  br i1 %refused, label %alone, label %exit
alone:
  call void %job(ptr %node, ptr %frame, i64 0, i64 0, i64 1)
  br label %exit
exit:
  ret void
}}
"""

_COPY_FRAME_TEXT = f"""
define ptr @teir_thread_frame(ptr %frame, i64 %participant) alwaysinline nounwind {{
entry:
  %frames_at = getelementptr i8, ptr %frame, i64 {THREAD_FRAMES_BYTES}
  %frames = load ptr, ptr %frames_at
  %stride_at = getelementptr i8, ptr %frame, i64 {FRAME_STRIDE_BYTES}
  %stride = load i64, ptr %stride_at
  %distance = mul i64 %stride, %participant
  %own = getelementptr i8, ptr %frames, i64 %distance
  br label %copy
copy:
  %byte = phi i64 [ 0, %entry ], [ %next, %copy ]
  %from = getelementptr i8, ptr %frame, i64 %byte
  %to = getelementptr i8, ptr %own, i64 %byte
  %line = load <8 x i64>, ptr %from, align 64
  store <8 x i64> %line, ptr %to, align 64
  %next = add i64 %byte, 64
  %more = icmp ult i64 %next, %stride
  br i1 %more, label %copy, label %exit
exit:
  ret ptr %own
}}
"""

SHARE_TEXT = """
define internal i64 @teir_share(ptr %pos, i64 %stride, i64 %width, i64 %points, i64 %extra,
                                i64 %chunk, i64 %chunks) nounwind {
entry:
  %is_first = icmp eq i64 %chunk, 0
  br i1 %is_first, label %none, label %not_first
none:
  ret i64 0
not_first:
  %is_end = icmp uge i64 %chunk, %chunks
  br i1 %is_end, label %all, label %inner
all:
  ret i64 %points
inner:
  %begin = call i64 @teir_load_index(ptr %pos, i64 %width)
  %finish_byte = mul i64 %points, %stride
  %finish_at = getelementptr i8, ptr %pos, i64 %finish_byte
  %finish = call i64 @teir_load_index(ptr %finish_at, i64 %width)
  %stored = sub i64 %finish, %begin
  %extras = mul i64 %points, %extra
  %total = add i64 %stored, %extras
  %part = mul i64 %total, %chunk
  %target = udiv i64 %part, %chunks
  br label %halve
halve:
  %low = phi i64 [ 0, %inner ], [ %low_next, %look ]
  %high = phi i64 [ %points, %inner ], [ %high_next, %look ]
  %open = icmp ult i64 %low, %high
  br i1 %open, label %look, label %found
look:
  %sum = add i64 %low, %high
  %middle = lshr i64 %sum, 1
  %here_byte = mul i64 %middle, %stride
  %here_at = getelementptr i8, ptr %pos, i64 %here_byte
  %here = call i64 @teir_load_index(ptr %here_at, i64 %width)
  %before = sub i64 %here, %begin
  %more = mul i64 %middle, %extra
  %reached = add i64 %before, %more
  %is_below = icmp slt i64 %reached, %target
  %above = add i64 %middle, 1
  %low_next = select i1 %is_below, i64 %above, i64 %low
  %high_next = select i1 %is_below, i64 %high, i64 %middle
  br label %halve
found:
  ret i64 %low
}
"""
"""The first point of a chunk where chunks hold as many stored elements: found by halving."""

_GRID_JOB_TEXT = f"""
declare i64 @llvm.umin.i64(i64, i64)
define void @teir_grid_job({JOB_PARAMETERS}) nounwind {{
entry:
  %own = call ptr @teir_thread_frame(ptr %frame, i64 %participant)
{CHILD_FUNCTION}{word("points", 2)}  %share = udiv i64 %points, %chunks
  %longer = urem i64 %points, %chunks
  %start_shares = mul i64 %share, %chunk
  %start_longer = call i64 @llvm.umin.i64(i64 %chunk, i64 %longer)
  %start = add i64 %start_shares, %start_longer
  %is_longer = icmp ult i64 %chunk, %longer
  %one_more = zext i1 %is_longer to i64
  %end_share = add i64 %start, %share
  %end = add i64 %end_share, %one_more
{word("pos_slot", 6)}  %by_points = icmp eq i64 %pos_slot, 0
  br i1 %by_points, label %bounded, label %by_elements
by_elements:
  %pos_cell = getelementptr i8, ptr %own, i64 %pos_slot
  %pos_base = load ptr, ptr %pos_cell
{word("pos_offset", 7)}  %pos = getelementptr i8, ptr %pos_base, i64 %pos_offset
{word("pos_stride", 8)}{word("pos_width", 9)}{word("extra", 10)}\
  %share_start = call i64 @teir_share(ptr %pos, i64 %pos_stride, i64 %pos_width, i64 %points,
                                      i64 %extra, i64 %chunk, i64 %chunks)
  %chunk_next = add i64 %chunk, 1
  %share_end = call i64 @teir_share(ptr %pos, i64 %pos_stride, i64 %pos_width, i64 %points,
                                    i64 %extra, i64 %chunk_next, i64 %chunks)
  br label %bounded
bounded:
  %first_point = phi i64 [ %start, %entry ], [ %share_start, %by_elements ]
  %end_point = phi i64 [ %end, %entry ], [ %share_end, %by_elements ]
{word("thread_slots", 4)}{word("axes_count", 5)}\
  %arena_stride_at = getelementptr i8, ptr %frame, i64 {ARENA_STRIDE_BYTES}
  %arena_stride = load i64, ptr %arena_stride_at
  %arena_distance = mul i64 %arena_stride, %participant
  %slot_list = getelementptr i8, ptr %node, i64 88
  %slot_list_bytes = shl i64 %thread_slots, 3
  %axes = getelementptr i8, ptr %slot_list, i64 %slot_list_bytes
{CANCEL}  %some_points = icmp ult i64 %first_point, %end_point
  br i1 %some_points, label %arena_test, label %exit
arena_test:
  %slot_at = phi ptr [ %slot_list, %bounded ], [ %slot_next, %arena ]
  %more_slots = icmp ult ptr %slot_at, %axes
  br i1 %more_slots, label %arena, label %place_test
arena:
  %slot_byte = load i64, ptr %slot_at
  %slot = getelementptr i8, ptr %own, i64 %slot_byte
  %pointer = load ptr, ptr %slot
  %private = getelementptr i8, ptr %pointer, i64 %arena_distance
  store ptr %private, ptr %slot
  %slot_next = getelementptr i8, ptr %slot_at, i64 8
  br label %arena_test
place_test:
  %place_left = phi i64 [ %axes_count, %arena_test ], [ %place_left_next, %place ]
  %place_axis = phi ptr [ %axes, %arena_test ], [ %place_axis_next, %place ]
  %rest = phi i64 [ %first_point, %arena_test ], [ %rest_next, %place ]
  %placed = icmp eq i64 %place_left, 0
  br i1 %placed, label %point, label %place
place:
  %place_extent = load i64, ptr %place_axis
  %place_index = urem i64 %rest, %place_extent
  %rest_next = udiv i64 %rest, %place_extent
  %place_cell_at = getelementptr i8, ptr %place_axis, i64 8
  %place_cell_byte = load i64, ptr %place_cell_at
  %place_cell = getelementptr i8, ptr %own, i64 %place_cell_byte
  store i64 %place_index, ptr %place_cell
  %place_steps = getelementptr i8, ptr %place_axis, i64 16
  call void @teir_advance(ptr %own, ptr %place_steps, i64 %place_index)
  %place_count = load i64, ptr %place_steps
  %place_bytes = shl i64 %place_count, 4
  %place_tail = getelementptr i8, ptr %place_steps, i64 8
  %place_axis_next = getelementptr i8, ptr %place_tail, i64 %place_bytes
  %place_left_next = sub i64 %place_left, 1
  br label %place_test
point:
  %at = phi i64 [ %first_point, %place_test ], [ %at_next, %stepped ]
{leave_if_cancelled("exit", "run")}\
  call void %function(ptr %child, ptr %own, ptr null, ptr null, ptr null)
  %at_next = add i64 %at, 1
  %last = icmp uge i64 %at_next, %end_point
  br i1 %last, label %exit, label %carry
carry:
  %axis = phi ptr [ %axes, %run ], [ %axis_next, %wrap ]
  %extent = load i64, ptr %axis
  %cell_at = getelementptr i8, ptr %axis, i64 8
  %cell_byte = load i64, ptr %cell_at
  %cell = getelementptr i8, ptr %own, i64 %cell_byte
  %steps = getelementptr i8, ptr %axis, i64 16
  %index = load i64, ptr %cell
  %index_next = add i64 %index, 1
  %inside = icmp ult i64 %index_next, %extent
  br i1 %inside, label %step, label %wrap
step:
  store i64 %index_next, ptr %cell
  call void @teir_advance(ptr %own, ptr %steps, i64 1)
  br label %stepped
stepped:
  br label %point
wrap:
  store i64 0, ptr %cell
  %rewind = sub i64 0, %index
  call void @teir_advance(ptr %own, ptr %steps, i64 %rewind)
  %steps_count = load i64, ptr %steps
  %steps_bytes = shl i64 %steps_count, 4
  %tail = getelementptr i8, ptr %steps, i64 8
  %axis_next = getelementptr i8, ptr %tail, i64 %steps_bytes
  br label %carry
exit:
  ret void
}}
"""
