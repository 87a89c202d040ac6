"""The sparse loop of the table: coordinates that one or more compressed levels hold.

    sparse_walk   function, child, byte of the index cell, byte of the last cell, walks,
                  byte of the cursors in the frame, distance to the coordinate's steps,
                  then per walk: byte of the slot of pos, offset, width,
                  byte of the slot of crd, offset, width, stride, distance to its steps
                  steps: their count, then per step byte of the slot, stride

Pointers live in the frame. Per walk the frame keeps a cursor and an end. With one walk every
position is visited; with more, each walk in turn seeks the coordinate the others agree on, by steps
that double and then halve.
"""

from __future__ import annotations

from teir.backends.llvm.layout import NODE_PARAMETERS
from teir.backends.llvm.nest_words import (
    BOUNDS,
    CANCEL,
    CHILD_FUNCTION,
    array,
    cell,
    leave_if_cancelled,
    word,
)

SPARSE_WALK = "teir_sparse_walk"
SPARSE_MEET = "teir_sparse_meet"

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

_ONE_TEXT = (
    f"define void @{SPARSE_WALK}({NODE_PARAMETERS}) nounwind {{\nentry:\n"
    + _HEAD
    + array("pos", "%first_walk", 0)
    + array("crd", "%first_walk", 3)
    + word("stride", 6, "%first_walk")
    + word("own_distance", 7, "%first_walk")
    + "  %own_steps = getelementptr i8, ptr %node, i64 %own_distance\n"
    + BOUNDS
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
    + BOUNDS
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


def emit_sparse_nest() -> str:
    """All the functions; `ADVANCE_TEXT` must stand in the same module."""
    return "\n".join((SEEK_TEXT, _ONE_TEXT, _MEET_TEXT))
