"""The sparse loop of the table: coordinates that one or more compressed levels hold.

    sparse_walk   function, child, byte of the index cell, byte of the last cell, walks,
                  byte of the cursors in the frame, distance to the coordinate's steps,
                  then per walk: byte of the slot of pos, offset, width,
                  byte of the slot of crd, offset, width, stride, distance to its steps
                  steps: their count, then per step byte of the slot, stride

    run_walk      function, child, byte of the slot of pos, offset, width, size,
                  byte of the slot of the bounds, offset, first child (0: none), then steps

    row_run_walk  as run_walk, with the child of a single row in place of the first; then rows,
                  distance of their pos, distance to the steps of rows, steps

    block_walk    function, child, byte of the slot of pos, offset, width, distance to the end of
                  the fibres, size, child of a single position, then steps

Pointers live in the frame. Per walk the frame keeps a cursor and an end. With one walk every
position is visited; with more, each walk in turn seeks the coordinate the others agree on, by steps
that double and then halve.
"""

from __future__ import annotations

from teir.backends.llvm.layout import NODE_PARAMETERS
from teir.backends.llvm.nest_words import (
    CANCEL,
    CHILD,
    CHILD_FUNCTION,
    array,
    cell,
    leave_if_cancelled,
    word,
)

SPARSE_WALK = "teir_sparse_walk"
SPARSE_MEET = "teir_sparse_meet"
RUN_WALK = "teir_run_walk"
ROW_RUN_WALK = "teir_row_run_walk"
BLOCK_WALK = "teir_block_walk"

SEEK_TEXT = """
define internal i64 @teir_seek(ptr %crd, i64 %width, i64 %stride, i64 %from, i64 %end,
                               i64 %target) nounwind {
entry:
  %some = icmp slt i64 %from, %end
  br i1 %some, label %look, label %exit
look:
  %first_byte = mul i64 %from, %stride
  %first_at = getelementptr i8, ptr %crd, i64 %first_byte
  %first = call i64 @teir_load_index(ptr %first_at, i64 %width)
  %below = icmp slt i64 %first, %target
  br i1 %below, label %leap, label %exit
leap:
  %at = phi i64 [ %from, %look ], [ %leapt, %leap_on ]
  %step = phi i64 [ 1, %look ], [ %doubled, %leap_on ]
  %leapt = add i64 %at, %step
  %leap_inside = icmp slt i64 %leapt, %end
  br i1 %leap_inside, label %leap_read, label %narrow
leap_read:
  %leap_byte = mul i64 %leapt, %stride
  %leap_at = getelementptr i8, ptr %crd, i64 %leap_byte
  %leap_crd = call i64 @teir_load_index(ptr %leap_at, i64 %width)
  %leap_below = icmp slt i64 %leap_crd, %target
  br i1 %leap_below, label %leap_on, label %narrow
leap_on:
  %doubled = shl i64 %step, 1
  br label %leap
narrow:
  %near = phi i64 [ %at, %leap ], [ %at, %leap_read ], [ %near, %over ], [ %tried, %on ]
  %reach = phi i64 [ %step, %leap ], [ %step, %leap_read ], [ %half, %over ], [ %half, %on ]
  %half = lshr i64 %reach, 1
  %found = icmp eq i64 %half, 0
  br i1 %found, label %next, label %try
try:
  %tried = add i64 %near, %half
  %try_inside = icmp slt i64 %tried, %end
  br i1 %try_inside, label %try_read, label %over
try_read:
  %try_byte = mul i64 %tried, %stride
  %try_at = getelementptr i8, ptr %crd, i64 %try_byte
  %try_crd = call i64 @teir_load_index(ptr %try_at, i64 %width)
  %try_below = icmp slt i64 %try_crd, %target
  br i1 %try_below, label %on, label %over
on:
  br label %narrow
over:
  br label %narrow
next:
  %after = add i64 %near, 1
  ret i64 %after
exit:
  ret i64 %from
}
"""


_HEAD = (
    CHILD_FUNCTION
    + cell("cell", 2)
    + cell("last_cell", 3)
    + word("walks", 4)
    + cell("cursors", 5)
    + word("steps_distance", 6)
    + "  %steps = getelementptr i8, ptr %node, i64 %steps_distance\n"
    + CANCEL
    + "  %first_walk = getelementptr i8, ptr %node, i64 56\n"
)

_BOUNDS = """  %begin = call i64 @teir_load_index(ptr %pos, i64 %pos_width)
  %end_at = getelementptr i8, ptr %pos, i64 %pos_width
  %end = call i64 @teir_load_index(ptr %end_at, i64 %pos_width)
"""

_ONE_TEXT = (
    f"define void @{SPARSE_WALK}({NODE_PARAMETERS}) nounwind {{\nentry:\n"
    + _HEAD
    + array("pos", "%first_walk", 0)
    + array("crd", "%first_walk", 3)
    + word("stride", 6, "%first_walk")
    + word("own_distance", 7, "%first_walk")
    + "  %own_steps = getelementptr i8, ptr %node, i64 %own_distance\n"
    + _BOUNDS
    + """  %any = icmp slt i64 %begin, %end
  br i1 %any, label %visit, label %exit
visit:
  %p = phi i64 [ %begin, %entry ], [ %p_next, %run ]
"""
    + leave_if_cancelled("exit", "run")
    + """  %byte = mul i64 %p, %stride
  %at = getelementptr i8, ptr %crd, i64 %byte
  %coordinate = call i64 @teir_load_index(ptr %at, i64 %crd_width)
  %number = sub i64 %p, %begin
  store i64 %number, ptr %cell
  %p_next = add i64 %p, 1
  %is_last = icmp eq i64 %p_next, %end
  %last = zext i1 %is_last to i64
  store i64 %last, ptr %last_cell
  call void @teir_advance(ptr %frame, ptr %own_steps, i64 %p)
  call void @teir_advance(ptr %frame, ptr %steps, i64 %coordinate)
  call void %function(ptr %child, ptr %frame, ptr %A, ptr %B, ptr %C)
  %p_back = sub i64 0, %p
  %coordinate_back = sub i64 0, %coordinate
  call void @teir_advance(ptr %frame, ptr %own_steps, i64 %p_back)
  call void @teir_advance(ptr %frame, ptr %steps, i64 %coordinate_back)
  br i1 %is_last, label %exit, label %visit
exit:
  ret void
}
"""
)


def _each(label: str, amount: str) -> str:
    """Blocks that add ``amount`` times every cursor to what is addressed by position."""
    sign = "" if amount == "1" else f"  %{label}_moved = sub i64 0, %{label}_cursor\n"
    times = f"%{label}_cursor" if amount == "1" else f"%{label}_moved"
    return f"""{label}:
  br label %{label}_test
{label}_test:
  %{label}_w = phi i64 [ 0, %{label} ], [ %{label}_next, %{label}_step ]
  %{label}_more = icmp ult i64 %{label}_w, %walks
  br i1 %{label}_more, label %{label}_step, label %{label}_done
{label}_step:
  %{label}_byte = shl i64 %{label}_w, 6
  %{label}_walk = getelementptr i8, ptr %first_walk, i64 %{label}_byte
  %{label}_distance_at = getelementptr i8, ptr %{label}_walk, i64 56
  %{label}_distance = load i64, ptr %{label}_distance_at
  %{label}_steps = getelementptr i8, ptr %node, i64 %{label}_distance
  %{label}_place = shl i64 %{label}_w, 4
  %{label}_cursor_at = getelementptr i8, ptr %cursors, i64 %{label}_place
  %{label}_cursor = load i64, ptr %{label}_cursor_at
{sign}  call void @teir_advance(ptr %frame, ptr %{label}_steps, i64 {times})
  %{label}_next = add i64 %{label}_w, 1
  br label %{label}_test
{label}_done:
"""


_MEET_TEXT = (
    f"define void @{SPARSE_MEET}({NODE_PARAMETERS}) nounwind {{\nentry:\n"
    + _HEAD
    + """  br label %start
start:
  %start_w = phi i64 [ 0, %entry ], [ %start_next, %start ]
  %start_byte = shl i64 %start_w, 6
  %start_walk = getelementptr i8, ptr %first_walk, i64 %start_byte
"""
    + array("pos", "%start_walk", 0)
    + _BOUNDS
    + """  %start_place = shl i64 %start_w, 4
  %start_cursor = getelementptr i8, ptr %cursors, i64 %start_place
  store i64 %begin, ptr %start_cursor
  %start_end = getelementptr i8, ptr %start_cursor, i64 8
  store i64 %end, ptr %start_end
  %start_next = add i64 %start_w, 1
  %start_more = icmp ult i64 %start_next, %walks
  br i1 %start_more, label %start, label %visit
visit:
  %number = phi i64 [ 0, %start ], [ %number_next, %put_done ]
  %least = phi i64 [ 0, %start ], [ %least_next, %put_done ]
"""
    + leave_if_cancelled("exit", "scan")
    + """  %w = phi i64 [ 0, %visit ], [ %w_next, %held ]
  %agreed = phi i64 [ 0, %visit ], [ %agreed_next, %held ]
  %target = phi i64 [ %least, %visit ], [ %coordinate, %held ]
  %walk_byte = shl i64 %w, 6
  %walk = getelementptr i8, ptr %first_walk, i64 %walk_byte
"""
    + array("crd", "%walk", 3)
    + word("stride", 6, "%walk")
    + """  %place = shl i64 %w, 4
  %cursor_at = getelementptr i8, ptr %cursors, i64 %place
  %cursor = load i64, ptr %cursor_at
  %limit_at = getelementptr i8, ptr %cursor_at, i64 8
  %limit = load i64, ptr %limit_at
  %sought = call i64 @teir_seek(ptr %crd, i64 %crd_width, i64 %stride, i64 %cursor, i64 %limit,
                                i64 %target)
  store i64 %sought, ptr %cursor_at
  %inside = icmp slt i64 %sought, %limit
  br i1 %inside, label %held, label %exit
held:
  %byte = mul i64 %sought, %stride
  %at = getelementptr i8, ptr %crd, i64 %byte
  %coordinate = call i64 @teir_load_index(ptr %at, i64 %crd_width)
  %same = icmp eq i64 %coordinate, %target
  %one_more = add i64 %agreed, 1
  %agreed_next = select i1 %same, i64 %one_more, i64 1
  %after = add i64 %w, 1
  %wraps = icmp eq i64 %after, %walks
  %w_next = select i1 %wraps, i64 0, i64 %after
  %all = icmp eq i64 %agreed_next, %walks
  br i1 %all, label %take, label %scan
"""
    + _each("take", "1")
    + """  store i64 %number, ptr %cell
  call void @teir_advance(ptr %frame, ptr %steps, i64 %coordinate)
  call void %function(ptr %child, ptr %frame, ptr %A, ptr %B, ptr %C)
  %coordinate_back = sub i64 0, %coordinate
  call void @teir_advance(ptr %frame, ptr %steps, i64 %coordinate_back)
  %number_next = add i64 %number, 1
  %least_next = add i64 %coordinate, 1
  br label %put
"""
    + _each("put", "-1")
    + """  br label %visit
exit:
  ret void
}
"""
)


_RUN_WALK_TEXT = (
    f"define void @{RUN_WALK}({NODE_PARAMETERS}) nounwind {{\nentry:\n"
    + CHILD
    + array("pos", "%node", 2)
    + _BOUNDS
    + word("size", 5)
    + word("bounds_slot", 6)
    + word("bounds_offset", 7)
    + """  %bounds_cell = getelementptr i8, ptr %frame, i64 %bounds_slot
  %bounds_start = load ptr, ptr %bounds_cell
  %bounds = getelementptr i8, ptr %bounds_start, i64 %bounds_offset
  %bounds_end = getelementptr i8, ptr %bounds, i64 8
  %steps = getelementptr i8, ptr %node, i64 72
  %first_at = getelementptr i8, ptr %node, i64 64
  %first_distance = load i64, ptr %first_at
  %first = getelementptr i8, ptr %node, i64 %first_distance
  %no_first = icmp eq i64 %first_distance, 0
  br i1 %no_first, label %test, label %run
test:
  %p_now = phi i64 [ %begin, %entry ], [ %p_next, %run ]
  %more = icmp slt i64 %p_now, %end
  br i1 %more, label %run, label %exit
run:
  %p = phi i64 [ %begin, %entry ], [ %p_now, %test ]
  %is_first = icmp eq i64 %p, %begin
  %has_first = xor i1 %no_first, true
  %takes_first = and i1 %is_first, %has_first
  %called = select i1 %takes_first, ptr %first, ptr %child
  %code = load ptr, ptr %called
  %p_next = add i64 %p, %size
  %over = icmp sgt i64 %p_next, %end
  %stop = select i1 %over, i64 %end, i64 %p_next
  store i64 %p, ptr %bounds
  store i64 %stop, ptr %bounds_end
  %back = sub i64 0, %p
  call void @teir_advance(ptr %frame, ptr %steps, i64 %back)
  call void %code(ptr %called, ptr %frame, ptr %A, ptr %B, ptr %C)
  call void @teir_advance(ptr %frame, ptr %steps, i64 %p)
  br label %test
exit:
  ret void
}
"""
)


_ROW_RUN_WALK_TEXT = (
    f"define void @{ROW_RUN_WALK}({NODE_PARAMETERS}) nounwind {{\nentry:\n"
    + CHILD
    + array("pos", "%node", 2)
    + word("size", 5)
    + word("bounds_slot", 6)
    + word("bounds_offset", 7)
    + word("single_distance", 8)
    + word("extent", 9)
    + word("pos_row", 10)
    + word("rows_distance", 11)
    + """  %bounds_cell = getelementptr i8, ptr %frame, i64 %bounds_slot
  %bounds_start = load ptr, ptr %bounds_cell
  %bounds = getelementptr i8, ptr %bounds_start, i64 %bounds_offset
  %bounds_end = getelementptr i8, ptr %bounds, i64 8
  %single = getelementptr i8, ptr %node, i64 %single_distance
  %rows = getelementptr i8, ptr %node, i64 %rows_distance
  %steps = getelementptr i8, ptr %node, i64 96
  %code = load ptr, ptr %child
  %single_code = load ptr, ptr %single
  br label %test
test:
  %row = phi i64 [ 0, %entry ], [ %after_one, %one ], [ %after_run, %run ]
  %more = icmp slt i64 %row, %extent
  br i1 %more, label %look, label %exit
look:
  %byte = mul i64 %row, %pos_row
  %start = getelementptr i8, ptr %pos, i64 %byte
  %first = call i64 @teir_load_index(ptr %start, i64 %pos_width)
  %back = sub i64 0, %row
  br label %grow
grow:
  %stop = phi i64 [ %row, %look ], [ %stop_next, %fits ]
  %at = phi ptr [ %start, %look ], [ %at_next, %fits ]
  %left = icmp slt i64 %stop, %extent
  br i1 %left, label %try, label %grown
try:
  %end_at = getelementptr i8, ptr %at, i64 %pos_width
  %end = call i64 @teir_load_index(ptr %end_at, i64 %pos_width)
  %length = sub i64 %end, %first
  %is_room = icmp sle i64 %length, %size
  br i1 %is_room, label %fits, label %grown
fits:
  %stop_next = add i64 %stop, 1
  %at_next = getelementptr i8, ptr %at, i64 %pos_row
  br label %grow
grown:
  call void @teir_advance(ptr %frame, ptr %rows, i64 %row)
  %none = icmp eq i64 %stop, %row
  br i1 %none, label %one, label %run
one:
  call void %single_code(ptr %single, ptr %frame, ptr %A, ptr %B, ptr %C)
  call void @teir_advance(ptr %frame, ptr %rows, i64 %back)
  %after_one = add i64 %row, 1
  br label %test
run:
  %count = sub i64 %stop, %row
  store i64 0, ptr %bounds
  store i64 %count, ptr %bounds_end
  %first_back = sub i64 0, %first
  call void @teir_advance(ptr %frame, ptr %steps, i64 %first_back)
  call void %code(ptr %child, ptr %frame, ptr %A, ptr %B, ptr %C)
  call void @teir_advance(ptr %frame, ptr %steps, i64 %first)
  call void @teir_advance(ptr %frame, ptr %rows, i64 %back)
  %after_run = add i64 %stop, 0
  br label %test
exit:
  ret void
}
"""
)


_BLOCK_WALK_TEXT = (
    f"define void @{BLOCK_WALK}({NODE_PARAMETERS}) nounwind {{\nentry:\n"
    + CHILD_FUNCTION
    + array("pos", "%node", 2)
    + word("fibres_bytes", 5)
    + word("size", 6)
    + word("rest_distance", 7)
    + CANCEL
    + """  %begin = call i64 @teir_load_index(ptr %pos, i64 %pos_width)
  %end_at = getelementptr i8, ptr %pos, i64 %fibres_bytes
  %end = call i64 @teir_load_index(ptr %end_at, i64 %pos_width)
  %rest = getelementptr i8, ptr %node, i64 %rest_distance
  %rest_function = load ptr, ptr %rest
  %steps = getelementptr i8, ptr %node, i64 64
  br label %visit
visit:
  %p = phi i64 [ %begin, %entry ], [ %p_next, %run ]
  %any = icmp slt i64 %p, %end
  br i1 %any, label %look, label %exit
look:
"""
    + leave_if_cancelled("exit", "run")
    + """  %stop_at = add i64 %p, %size
  %is_whole = icmp sle i64 %stop_at, %end
  %code = select i1 %is_whole, ptr %function, ptr %rest_function
  %called = select i1 %is_whole, ptr %child, ptr %rest
  %taken = select i1 %is_whole, i64 %size, i64 1
  %p_next = add i64 %p, %taken
  call void @teir_advance(ptr %frame, ptr %steps, i64 %p)
  call void %code(ptr %called, ptr %frame, ptr %A, ptr %B, ptr %C)
  %p_back = sub i64 0, %p
  call void @teir_advance(ptr %frame, ptr %steps, i64 %p_back)
  br label %visit
exit:
  ret void
}
"""
)


def emit_sparse_nest() -> str:
    """All the functions; `ADVANCE_TEXT` must stand in the same module."""
    return "\n".join(
        (SEEK_TEXT, _ONE_TEXT, _MEET_TEXT, _RUN_WALK_TEXT, _ROW_RUN_WALK_TEXT, _BLOCK_WALK_TEXT)
    )
