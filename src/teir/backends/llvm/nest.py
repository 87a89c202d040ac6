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
    grid          see `nest_grid`
    sparse_walk   see `nest_sparse`; `nest_blocks` for run_walk, row_run_walk and block_walk

Nodes below an `enter` carry their pointers in A, B and C; nodes above it keep them in the frame.
Every iteration of a loop reads the cancel flag once and ends the loop when it is set.
"""

from __future__ import annotations

from teir.backends.llvm.layout import (
    NODE_PARAMETERS,
    NODE_TYPE,
    ROOT_BYTES,
)
from teir.backends.llvm.nest_blocks import (
    BLOCK_WALK,
    ROW_RUN_WALK,
    RUN_WALK,
    emit_block_nest,
)
from teir.backends.llvm.nest_grid import ADVANCE_TEXT, GRID, emit_grid
from teir.backends.llvm.nest_sparse import SPARSE_MEET, SPARSE_WALK, emit_sparse_nest
from teir.backends.llvm.nest_words import (
    CANCEL,
    CHILD_FUNCTION,
    LOAD_INDEX_TEXT,
    cell,
    leave_if_cancelled,
    word,
)

WALK = "teir_walk"
INDEXED_WALK = "teir_indexed_walk"
SEQUENCE = "teir_sequence"
GUARDED = "teir_guarded"
ROUTE = "teir_route"
ENTER = "teir_enter"
FRAME_WALK = "teir_frame_walk"
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
    SPARSE_WALK,
    SPARSE_MEET,
    ROW_RUN_WALK,
    RUN_WALK,
    BLOCK_WALK,
    RUN,
)


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
            LOAD_INDEX_TEXT,
            emit_grid(),
            emit_sparse_nest(),
            emit_block_nest(),
            _RUN_TEXT,
        )
    )


def _walk(symbol: str, indexed: bool) -> str:
    strides = "".join(word(f"{name}_stride", number) for number, name in enumerate("abc", 3))
    store = "  store i64 %i, ptr %cell\n"
    return f"""
define void @{symbol}({NODE_PARAMETERS}) nounwind {{
entry:
{CHILD_FUNCTION}{word("extent", 2)}{strides}{cell("cell", 6) if indexed else ""}{CANCEL}\
  br label %iteration
iteration:
  %i = phi i64 [ 0, %entry ], [ %i_next, %run ]
  %a = phi ptr [ %A, %entry ], [ %a_next, %run ]
  %b = phi ptr [ %B, %entry ], [ %b_next, %run ]
  %c = phi ptr [ %C, %entry ], [ %c_next, %run ]
{leave_if_cancelled("exit", "run")}{store if indexed else ""}\
  call void %function(ptr %child, ptr %frame, ptr %a, ptr %b, ptr %c)
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
{word("count", 1)}  %bytes = shl i64 %count, 5
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
{word("count", 2)}  %bytes = shl i64 %count, 4
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
{CHILD_FUNCTION}  musttail call void %function(ptr %child, ptr %frame, ptr %A, ptr %B, ptr %C)
  ret void
exit:
  ret void
}}
"""


def _routed(register: str, number: int) -> str:
    name = register.lower()
    return f"""{word(f"{name}_from", number)}\
  %{name}_is_a = icmp eq i64 %{name}_from, 0
  %{name}_is_b = icmp eq i64 %{name}_from, 1
  %{name}_b_or_c = select i1 %{name}_is_b, ptr %B, ptr %C
  %{name}_base = select i1 %{name}_is_a, ptr %A, ptr %{name}_b_or_c
{word(f"{name}_offset", number + 1)}\
  %{name} = getelementptr i8, ptr %{name}_base, i64 %{name}_offset
"""


def _entered(register: str, number: int) -> str:
    name = register.lower()
    return f"""{cell(f"{name}_slot", number)}\
  %{name}_pointer = load ptr, ptr %{name}_slot
{word(f"{name}_offset", number + 1)}\
  %{name} = getelementptr i8, ptr %{name}_pointer, i64 %{name}_offset
"""


_TAIL_CALL_CHILD = f"""{CHILD_FUNCTION}\
  musttail call void %function(ptr %child, ptr %frame, ptr %a, ptr %b, ptr %c)
  ret void
"""

_ROUTE_TEXT = f"""
define void @{ROUTE}({NODE_PARAMETERS}) nounwind {{
{_routed("A", 2)}{_routed("B", 4)}{_routed("C", 6)}{_TAIL_CALL_CHILD}}}
"""

_ENTER_TEXT = f"""
define void @{ENTER}({NODE_PARAMETERS}) nounwind {{
{_entered("A", 2)}{_entered("B", 4)}{_entered("C", 6)}{_TAIL_CALL_CHILD}}}
"""

_FRAME_WALK_TEXT = (
    ADVANCE_TEXT
    + f"""
define void @{FRAME_WALK}({NODE_PARAMETERS}) nounwind {{
entry:
{CHILD_FUNCTION}{word("extent", 2)}{cell("cell", 3)}{CANCEL}\
  %steps_at = getelementptr i8, ptr %node, i64 32
  br label %iteration
iteration:
  %i = phi i64 [ 0, %entry ], [ %i_next, %run ]
{leave_if_cancelled("exit", "run")}  store i64 %i, ptr %cell
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

_RUN_TEXT = f"""
define void @{RUN}(ptr %frame) nounwind {{
  %root_at = getelementptr i8, ptr %frame, i64 {ROOT_BYTES}
  %root = load ptr, ptr %root_at
  %function = load ptr, ptr %root
  call {NODE_TYPE} %function(ptr %root, ptr %frame, ptr null, ptr null, ptr null)
  ret void
}}
"""
