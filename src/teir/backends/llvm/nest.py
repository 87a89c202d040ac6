"""The control functions: the nodes of a table that are not kernels.

Every function has the signature of `layout.NODE_TYPE`, so loops, sequences and kernels are
interchangeable and no function tests what its child is. A child is named by its distance in bytes
from the node that holds it, so a table may lie anywhere. Node records, word by word:

    walk          function, child, extent, A stride, B stride, C stride
    indexed_walk  as walk, then the byte in the frame of the index cell
    sequence      function, count, then per child: child, A offset, B offset, C offset
    guarded       function, child, count, then per test: byte of the index cell, value
    route         function, child, then for A, B, C: which register (0, 1, 2), offset
    enter         function, child, then for A, B, C: byte of the slot in the frame, offset
    frame_walk    function, child, extent, byte of the index cell, steps,
                  then per step: byte of the slot, stride
    grid          function, child, points, chunks, thread slots, axes,
                  then per thread slot: byte of the slot,
                  then per axis, innermost first: extent, byte of the index cell, steps,
                  then per step: byte of the slot, stride

Nodes below an `enter` carry their pointers in A, B and C; nodes above it keep them in the frame.
Every iteration of a loop reads the cancel flag once and ends the loop when it is set.
"""

from __future__ import annotations

from teir.backends.llvm.layout import (
    ARENA_STRIDE_BYTES,
    CANCEL_BYTES,
    FRAME_STRIDE_BYTES,
    NODE_PARAMETERS,
    NODE_TYPE,
    POOL_BYTES,
    ROOT_BYTES,
    THREAD_FRAMES_BYTES,
    THREADS_BYTES,
)

WALK = "teir_walk"
INDEXED_WALK = "teir_indexed_walk"
SEQUENCE = "teir_sequence"
GUARDED = "teir_guarded"
ROUTE = "teir_route"
ENTER = "teir_enter"
FRAME_WALK = "teir_frame_walk"
GRID = "teir_grid"
RUN = "teir_run"
"""``void teir_run(ptr frame)`` calls the root node of a frame."""

CONTROL_SYMBOLS = (
    WALK,
    INDEXED_WALK,
    SEQUENCE,
    GUARDED,
    ROUTE,
    ENTER,
    FRAME_WALK,
    GRID,
    RUN,
)

JOB_TYPE = "void (ptr, ptr, i64, i64, i64)"
"""A share of a grid: node, frame of the run, participant, chunk, chunks."""

JOB_PARAMETERS = "ptr %node, ptr %frame, i64 %participant, i64 %chunk, i64 %chunks"


def emit_nest() -> str:
    """The definitions of all control functions."""
    return "\n".join(
        (
            _walk(WALK, indexed=False),
            _walk(INDEXED_WALK, indexed=True),
            _SEQUENCE_TEXT,
            _GUARDED_TEXT,
            _ROUTE_TEXT,
            _ENTER_TEXT,
            _FRAME_WALK_TEXT,
            _GRID_TEXT,
            GRID_FORK_TEXT,
            COPY_FRAME_TEXT,
            _GRID_JOB_TEXT,
            _RUN_TEXT,
        )
    )


def _walk(symbol: str, indexed: bool) -> str:
    cell = (
        "  %cell_at = getelementptr i8, ptr %node, i64 48\n"
        "  %cell_byte = load i64, ptr %cell_at\n"
        "  %cell = getelementptr i8, ptr %frame, i64 %cell_byte\n"
    )
    store = "  store i64 %i, ptr %cell\n"
    return f"""
define void @{symbol}({NODE_PARAMETERS}) nounwind {{
entry:
  %child_at = getelementptr i8, ptr %node, i64 8
  %child_distance = load i64, ptr %child_at
  %child = getelementptr i8, ptr %node, i64 %child_distance
  %function = load ptr, ptr %child
  %extent_at = getelementptr i8, ptr %node, i64 16
  %extent = load i64, ptr %extent_at
  %a_stride_at = getelementptr i8, ptr %node, i64 24
  %a_stride = load i64, ptr %a_stride_at
  %b_stride_at = getelementptr i8, ptr %node, i64 32
  %b_stride = load i64, ptr %b_stride_at
  %c_stride_at = getelementptr i8, ptr %node, i64 40
  %c_stride = load i64, ptr %c_stride_at
{cell if indexed else ""}  %cancel_at = getelementptr i8, ptr %frame, i64 {CANCEL_BYTES}
  %cancel = load ptr, ptr %cancel_at
  br label %iteration
iteration:
  %i = phi i64 [ 0, %entry ], [ %i_next, %run ]
  %a = phi ptr [ %A, %entry ], [ %a_next, %run ]
  %b = phi ptr [ %B, %entry ], [ %b_next, %run ]
  %c = phi ptr [ %C, %entry ], [ %c_next, %run ]
  %flag = load atomic i64, ptr %cancel monotonic, align 8
  %stop = icmp ne i64 %flag, 0
  br i1 %stop, label %exit, label %run
run:
{store if indexed else ""}  call void %function(ptr %child, ptr %frame, ptr %a, ptr %b, ptr %c)
  %a_next = getelementptr i8, ptr %a, i64 %a_stride
  %b_next = getelementptr i8, ptr %b, i64 %b_stride
  %c_next = getelementptr i8, ptr %c, i64 %c_stride
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %extent
  br i1 %more, label %iteration, label %exit
exit:
  ret void
}}
"""


_SEQUENCE_TEXT = f"""
define void @{SEQUENCE}({NODE_PARAMETERS}) nounwind {{
entry:
  %count_at = getelementptr i8, ptr %node, i64 8
  %count = load i64, ptr %count_at
  %bytes = shl i64 %count, 5
  %first = getelementptr i8, ptr %node, i64 16
  %end = getelementptr i8, ptr %first, i64 %bytes
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %exit, label %member
member:
  %entry_at = phi ptr [ %first, %entry ], [ %next, %member ]
  %distance = load i64, ptr %entry_at
  %child = getelementptr i8, ptr %node, i64 %distance
  %function = load ptr, ptr %child
  %a_at = getelementptr i8, ptr %entry_at, i64 8
  %a_offset = load i64, ptr %a_at
  %a = getelementptr i8, ptr %A, i64 %a_offset
  %b_at = getelementptr i8, ptr %entry_at, i64 16
  %b_offset = load i64, ptr %b_at
  %b = getelementptr i8, ptr %B, i64 %b_offset
  %c_at = getelementptr i8, ptr %entry_at, i64 24
  %c_offset = load i64, ptr %c_at
  %c = getelementptr i8, ptr %C, i64 %c_offset
  call void %function(ptr %child, ptr %frame, ptr %a, ptr %b, ptr %c)
  %next = getelementptr i8, ptr %entry_at, i64 32
  %more = icmp ult ptr %next, %end
  br i1 %more, label %member, label %exit
exit:
  ret void
}}
"""

_GUARDED_TEXT = f"""
define void @{GUARDED}({NODE_PARAMETERS}) nounwind {{
entry:
  %count_at = getelementptr i8, ptr %node, i64 16
  %count = load i64, ptr %count_at
  %bytes = shl i64 %count, 4
  %first = getelementptr i8, ptr %node, i64 24
  %end = getelementptr i8, ptr %first, i64 %bytes
  br label %test
test:
  %test_at = phi ptr [ %first, %entry ], [ %next, %holds ]
  %done = icmp eq ptr %test_at, %end
  br i1 %done, label %run, label %compare
compare:
  %cell_byte = load i64, ptr %test_at
  %cell = getelementptr i8, ptr %frame, i64 %cell_byte
  %index = load i64, ptr %cell
  %value_at = getelementptr i8, ptr %test_at, i64 8
  %value = load i64, ptr %value_at
  %equal = icmp eq i64 %index, %value
  br i1 %equal, label %holds, label %exit
holds:
  %next = getelementptr i8, ptr %test_at, i64 16
  br label %test
run:
  %child_at = getelementptr i8, ptr %node, i64 8
  %child_distance = load i64, ptr %child_at
  %child = getelementptr i8, ptr %node, i64 %child_distance
  %function = load ptr, ptr %child
  musttail call void %function(ptr %child, ptr %frame, ptr %A, ptr %B, ptr %C)
  ret void
exit:
  ret void
}}
"""


def _routed(register: str, at: int) -> str:
    name = register.lower()
    return f"""  %{name}_from_at = getelementptr i8, ptr %node, i64 {at}
  %{name}_from = load i64, ptr %{name}_from_at
  %{name}_is_a = icmp eq i64 %{name}_from, 0
  %{name}_is_b = icmp eq i64 %{name}_from, 1
  %{name}_b_or_c = select i1 %{name}_is_b, ptr %B, ptr %C
  %{name}_base = select i1 %{name}_is_a, ptr %A, ptr %{name}_b_or_c
  %{name}_offset_at = getelementptr i8, ptr %node, i64 {at + 8}
  %{name}_offset = load i64, ptr %{name}_offset_at
  %{name} = getelementptr i8, ptr %{name}_base, i64 %{name}_offset
"""


def _entered(register: str, at: int) -> str:
    name = register.lower()
    return f"""  %{name}_slot_at = getelementptr i8, ptr %node, i64 {at}
  %{name}_slot = load i64, ptr %{name}_slot_at
  %{name}_pointer_at = getelementptr i8, ptr %frame, i64 %{name}_slot
  %{name}_pointer = load ptr, ptr %{name}_pointer_at
  %{name}_offset_at = getelementptr i8, ptr %node, i64 {at + 8}
  %{name}_offset = load i64, ptr %{name}_offset_at
  %{name} = getelementptr i8, ptr %{name}_pointer, i64 %{name}_offset
"""


_TAIL_CALL_CHILD = """  %child_at = getelementptr i8, ptr %node, i64 8
  %child_distance = load i64, ptr %child_at
  %child = getelementptr i8, ptr %node, i64 %child_distance
  %function = load ptr, ptr %child
  musttail call void %function(ptr %child, ptr %frame, ptr %a, ptr %b, ptr %c)
  ret void
"""

_ROUTE_TEXT = f"""
define void @{ROUTE}({NODE_PARAMETERS}) nounwind {{
{_routed("A", 16)}{_routed("B", 32)}{_routed("C", 48)}{_TAIL_CALL_CHILD}}}
"""

_ENTER_TEXT = f"""
define void @{ENTER}({NODE_PARAMETERS}) nounwind {{
{_entered("A", 16)}{_entered("B", 32)}{_entered("C", 48)}{_TAIL_CALL_CHILD}}}
"""

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

_FRAME_WALK_TEXT = (
    ADVANCE_TEXT
    + f"""
define void @{FRAME_WALK}({NODE_PARAMETERS}) nounwind {{
entry:
  %child_at = getelementptr i8, ptr %node, i64 8
  %child_distance = load i64, ptr %child_at
  %child = getelementptr i8, ptr %node, i64 %child_distance
  %function = load ptr, ptr %child
  %extent_at = getelementptr i8, ptr %node, i64 16
  %extent = load i64, ptr %extent_at
  %cell_at = getelementptr i8, ptr %node, i64 24
  %cell_byte = load i64, ptr %cell_at
  %cell = getelementptr i8, ptr %frame, i64 %cell_byte
  %steps_at = getelementptr i8, ptr %node, i64 32
  %cancel_at = getelementptr i8, ptr %frame, i64 {CANCEL_BYTES}
  %cancel = load ptr, ptr %cancel_at
  br label %iteration
iteration:
  %i = phi i64 [ 0, %entry ], [ %i_next, %run ]
  %flag = load atomic i64, ptr %cancel monotonic, align 8
  %stop = icmp ne i64 %flag, 0
  br i1 %stop, label %exit, label %run
run:
  store i64 %i, ptr %cell
  call void %function(ptr %child, ptr %frame, ptr %A, ptr %B, ptr %C)
  call void @teir_advance(ptr %frame, ptr %steps_at, i64 1)
  %i_next = add i64 %i, 1
  %more = icmp slt i64 %i_next, %extent
  br i1 %more, label %iteration, label %back
back:
  %rewind = sub i64 0, %extent
  call void @teir_advance(ptr %frame, ptr %steps_at, i64 %rewind)
  br label %exit
exit:
  ret void
}}
"""
)

_GRID_TEXT = f"""
define void @{GRID}({NODE_PARAMETERS}) nounwind {{
  %chunks_at = getelementptr i8, ptr %node, i64 24
  %chunks = load i64, ptr %chunks_at
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

COPY_FRAME_TEXT = f"""
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

_GRID_JOB_TEXT = f"""
declare i64 @llvm.umin.i64(i64, i64)
define void @teir_grid_job({JOB_PARAMETERS}) nounwind {{
entry:
  %own = call ptr @teir_thread_frame(ptr %frame, i64 %participant)
  %child_at = getelementptr i8, ptr %node, i64 8
  %child_distance = load i64, ptr %child_at
  %child = getelementptr i8, ptr %node, i64 %child_distance
  %function = load ptr, ptr %child
  %points_at = getelementptr i8, ptr %node, i64 16
  %points = load i64, ptr %points_at
  %share = udiv i64 %points, %chunks
  %longer = urem i64 %points, %chunks
  %start_shares = mul i64 %share, %chunk
  %start_longer = call i64 @llvm.umin.i64(i64 %chunk, i64 %longer)
  %start = add i64 %start_shares, %start_longer
  %is_longer = icmp ult i64 %chunk, %longer
  %one_more = zext i1 %is_longer to i64
  %end_share = add i64 %start, %share
  %end = add i64 %end_share, %one_more
  %thread_slots_at = getelementptr i8, ptr %node, i64 32
  %thread_slots = load i64, ptr %thread_slots_at
  %axes_count_at = getelementptr i8, ptr %node, i64 40
  %axes_count = load i64, ptr %axes_count_at
  %arena_stride_at = getelementptr i8, ptr %frame, i64 {ARENA_STRIDE_BYTES}
  %arena_stride = load i64, ptr %arena_stride_at
  %arena_distance = mul i64 %arena_stride, %participant
  %slot_list = getelementptr i8, ptr %node, i64 48
  %slot_list_bytes = shl i64 %thread_slots, 3
  %axes = getelementptr i8, ptr %slot_list, i64 %slot_list_bytes
  %cancel_at = getelementptr i8, ptr %frame, i64 {CANCEL_BYTES}
  %cancel = load ptr, ptr %cancel_at
  br label %arena_test
arena_test:
  %slot_at = phi ptr [ %slot_list, %entry ], [ %slot_next, %arena ]
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
  %rest = phi i64 [ %start, %arena_test ], [ %rest_next, %place ]
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
  %at = phi i64 [ %start, %place_test ], [ %at_next, %stepped ]
  %flag = load atomic i64, ptr %cancel monotonic, align 8
  %stop = icmp ne i64 %flag, 0
  br i1 %stop, label %exit, label %run
run:
  call void %function(ptr %child, ptr %own, ptr null, ptr null, ptr null)
  %at_next = add i64 %at, 1
  %last = icmp uge i64 %at_next, %end
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

_RUN_TEXT = f"""
define void @{RUN}(ptr %frame) nounwind {{
  %root_at = getelementptr i8, ptr %frame, i64 {ROOT_BYTES}
  %root = load ptr, ptr %root_at
  %function = load ptr, ptr %root
  call {NODE_TYPE} %function(ptr %root, ptr %frame, ptr null, ptr null, ptr null)
  ret void
}}
"""
