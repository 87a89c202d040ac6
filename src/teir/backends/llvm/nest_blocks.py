"""Sparse loops of the table that take many positions at a time: runs, runs of rows, blocks.

    run_walk      function, child, byte of the slot of pos, offset, width, size,
                  byte of the slot of the bounds, offset, first child (0: none), then steps

    row_run_walk  as run_walk, with the child of a single row in place of the first; then rows,
                  distance of their pos, distance to the steps of rows, steps

    block_walk    function, child, byte of the slot of pos, offset, width, distance to the end of
                  the fibres, size, child of a single position, then steps

Pointers live in the frame; the bounds of a run are two words that its calls read as a fibre's.
"""

from __future__ import annotations

from teir.backends.llvm.layout import NODE_PARAMETERS
from teir.backends.llvm.nest_words import (
    BOUNDS,
    CANCEL,
    CHILD,
    CHILD_FUNCTION,
    array,
    leave_if_cancelled,
    word,
)

RUN_WALK = "teir_run_walk"
ROW_RUN_WALK = "teir_row_run_walk"
BLOCK_WALK = "teir_block_walk"

_RUN_WALK_TEXT = (
    f"define void @{RUN_WALK}({NODE_PARAMETERS}) nounwind {{\nentry:\n"
    + CHILD
    + array("pos", "%node", 2)
    + BOUNDS
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


def emit_block_nest() -> str:
    """All the functions; those of `nest_sparse` must stand in the same module."""
    return "\n".join((_RUN_WALK_TEXT, _ROW_RUN_WALK_TEXT, _BLOCK_WALK_TEXT))
