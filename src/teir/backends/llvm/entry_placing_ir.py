"""The entry point's run, part of `teir.backends.llvm.entry_ir`.

It is entered at %claim with all arguments as expected, and left for %release_unexpected where it
does not run. The frame is claimed, the run counted, addresses put in their places where they are
not those of the last run, buffers given back and PyTorch told of what was written.
"""

from __future__ import annotations

from teir.backends.llvm.entry_layout import (
    operand_text,
    table_word,
    view_text,
)
from teir.backends.llvm.entry_tensors_ir import NO, TELL
from teir.backends.llvm.nest import RUN


def _slot_text(name: str) -> str:
    """``%<name>_slot``: the place in the frame of the address of operand number ``%<name>``."""
    return f"""{operand_text(name)}
  %{name}_slot_byte_at = getelementptr i8, ptr %{name}_operand, i64 32
  %{name}_slot_byte = load i64, ptr %{name}_slot_byte_at
  %{name}_slot = getelementptr i8, ptr %frame, i64 %{name}_slot_byte"""


PLACING_TEXT = f"""claim:
  %claim_swap = cmpxchg ptr %busy_at, i32 0, i32 1 acquire monotonic
  %claimed = extractvalue {{ i32, i1 }} %claim_swap, 1
  br i1 %claimed, label %count_run, label %release_unexpected
count_run:
  %left_at_at = getelementptr i8, ptr %record, i64 48
  %left_at = load ptr, ptr %left_at_at
  %left = load i64, ptr %left_at
  %left_next = sub i64 %left, 1
  store i64 %left_next, ptr %left_at
  %pays = icmp eq i64 %left_next, 0
  br i1 %pays, label %ask, label %known_test
ask:
  store atomic i32 0, ptr %busy_at release, align 4
  br label %release_unexpected
known_test:
  %known = phi i64 [ 0, %count_run ], [ %known_next, %known_same ]
{_slot_text("known")}
  %known_start = load ptr, ptr %known_slot
{view_text("known")}
  %now_start = load ptr, ptr %known_view
  %is_known = icmp eq ptr %now_start, %known_start
  br i1 %is_known, label %known_same, label %overlap
known_same:
  %known_next = add i64 %known, 1
  %more_known = icmp slt i64 %known_next, %wanted
  br i1 %more_known, label %known_test, label %lock_test
place:
  %placed = phi i64 [ 0, %written_done ], [ %placed_next, %place ]
{_slot_text("placed")}
{view_text("placed")}
  %start = load ptr, ptr %placed_view
  store ptr %start, ptr %placed_slot
  %placed_next = add i64 %placed, 1
  %more_places = icmp slt i64 %placed_next, %wanted
  br i1 %more_places, label %place, label %lock_test
lock_test:
  %unlocks_at = getelementptr i8, ptr %record, i64 24
  %unlocks = load i64, ptr %unlocks_at
  %keeps_lock = icmp eq i64 %unlocks, 0
  br i1 %keeps_lock, label %run_locked, label %run_unlocked
run_locked:
  call void @{RUN}(ptr %frame)
  br label %finish
run_unlocked:
{table_word("PyEval_SaveThread")}
{table_word("PyEval_RestoreThread")}
  %thread = call ptr %PyEval_SaveThread()
  call void @{RUN}(ptr %frame)
  call void %PyEval_RestoreThread(ptr %thread)
  br label %finish
finish:
  store atomic i32 0, ptr %busy_at release, align 4
  br i1 %holds, label %release, label %answer
release:
  %released = phi i64 [ 0, %finish ], [ %released_next, %release_done ]
{view_text("released")}
  %released_owner_at = getelementptr i8, ptr %released_view, i64 8
  %released_owner = load ptr, ptr %released_owner_at
  %is_held = icmp ne ptr %released_owner, null
  br i1 %is_held, label %release_one, label %release_done
release_one:
  call void %PyBuffer_Release(ptr %released_view)
  br label %release_done
release_done:
  %released_next = add i64 %released, 1
  %more_releases = icmp slt i64 %released_next, %wanted
  br i1 %more_releases, label %release, label %answer

answer:
  %written_tensors = load i32, ptr %tensors
  %wrote_arrays = icmp eq i32 %written_tensors, {NO}
  %tells_nobody = or i1 %wrote_arrays, %is_new
  br i1 %tells_nobody, label %ran, label %tell
tell:
  %is_told = call i1 @{TELL}(ptr %record, ptr %arguments, i64 %wanted)
  ret i1 %is_told
ran:
  ret i1 true
unexpected:
  ret i1 false
}}
"""
