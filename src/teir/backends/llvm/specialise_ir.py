"""The text of a kernel program as one function: loops, guards and calls with every number folded.

    loop:   phi of the iteration and of every pointer that moves; leave where the run is cancelled
            ... call kernel(pointers + offsets, constants) ...
            pointers += strides, next iteration

Grids become functions of their own that the pool calls. What enclosing loops have computed reaches
them through cells of the frame, and iterations of the grid's axes are recovered from the point's
number.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import assert_never

from teir.backends.llvm import layout, nest_grid, pool_ir
from teir.backends.llvm.emit_kernel import kernel_arguments, kernel_symbol
from teir.backends.llvm.emit_opaque import opaque
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.backends.llvm.nest_sparse import SEEK_TEXT
from teir.backends.llvm.nest_words import LOAD_INDEX_TEXT
from teir.backends.llvm.specialise_scope import Scope, branch_if_cancelled, labels
from teir.backends.llvm.specialise_sparse import (
    write_blocks,
    write_row_runs,
    write_runs,
    write_sparse_loop,
)
from teir.backends.llvm.table import CHUNKS_PER_THREAD, ROW_ELEMENTS
from teir.lower.kernel_program import (
    Balance,
    BlockLoop,
    Call,
    Grid,
    Guarded,
    KernelNode,
    KernelProgram,
    Loop,
    RowRunLoop,
    RunLoop,
    SparseLoop,
    Storage,
    inner_nodes,
)
from teir.lower.kernels import GemmBlock, Kernel
from teir.target import Isa

PROGRAM = "teir_program"
"""The function, of the type of a table node."""

_LANE_COUNTS = ("last_lanes", "m", "n")
"""Arguments that kernels make lane masks from. LLVM 22 stores four bytes where a 16-bit vector is
stored under a constant mask of one lane, so it must not know them; in a table it does not either.
"""

_BLOCK_LOOP = ("a_k", "b_k", "b_n", "accumulate")
"""What the loop of a register block is made of: its strides and which way leads into it. Where LLVM
knows them it rearranges the loop, and accumulators spill: half the speed on some blocks of 3 x 9.
"""

_REGISTER_BYTES = 16

_HIDDEN = (*_LANE_COUNTS, *_BLOCK_LOOP)
"""Arguments whose values LLVM must not know."""


def emit_program(program: KernelProgram, isa: Isa, threads: int) -> str:
    """The definitions of ``PROGRAM`` and its grids; they call the kernels' bodies by symbol."""
    return "\n".join(_Functions(program, isa, threads).emit())


def specialised_cells(program: KernelProgram) -> int:
    """The index cells its frames need: the program's, and one per slot for grids."""
    return program.index_cells + len(program.slots)


class _Functions:
    """The functions of one program while they are written."""

    __slots__ = ("_done", "_grids", "_isa", "_program", "_threads", "_used")

    def __init__(self, program: KernelProgram, isa: Isa, threads: int) -> None:
        self._program = program
        self._isa = isa
        self._threads = threads
        self._done: list[str] = []
        self._grids = 0
        self._used: dict[int, frozenset[int]] = {}

    def emit(self) -> list[str]:
        text = FunctionText()
        text.label("entry")
        pointers = {
            slot: self._load_slot(text, layout.slot_bytes(slot))
            for slot in sorted(self.slots(self._program.roots))
        }
        cancel = _cancel_flag(text)
        self.body(text, self._program.roots, Scope(pointers, {}), cancel)
        text.effect("ret void")
        head = f"define void @{PROGRAM}({layout.NODE_PARAMETERS}) nounwind {{"
        self._done.append(f"{head}\n{text.text()}\n}}\n")
        if _holds_sparse(self._program.roots):
            self._done.append(SEEK_TEXT)
        if self._grids or _holds_sparse(self._program.roots):
            self._done.append(LOAD_INDEX_TEXT)
        if self._grids:
            self._done += [nest_grid.GRID_FORK_TEXT, nest_grid.SHARE_TEXT]
            self._done.append("declare i64 @llvm.umin.i64(i64, i64)\n")
        return self._done

    def slots(self, nodes: Iterable[KernelNode]) -> frozenset[int]:
        """The slots that calls below ``nodes`` use."""
        slots: frozenset[int] = frozenset()
        for node in nodes:
            if id(node) not in self._used:
                if isinstance(node, Call):
                    below = frozenset(operand.slot for operand in node.operands)
                else:
                    below = self.slots(inner_nodes(node))
                if isinstance(node, SparseLoop):
                    arrays = (slot for w in node.walks for slot in (w.pos.slot, w.crd.slot))
                    below |= frozenset(arrays)
                if isinstance(node, RunLoop | RowRunLoop):
                    below |= {node.pos.slot, node.bounds.slot}
                if isinstance(node, BlockLoop):
                    below |= {node.pos.slot}
                if isinstance(node, Grid) and node.balance is not None:
                    below |= {node.balance.pos.slot}
                self._used[id(node)] = below
            slots |= self._used[id(node)]
        return slots

    def _load_slot(self, text: FunctionText, at: int) -> str:
        cell = text.value(f"getelementptr i8, ptr %frame, i64 {at}")
        return text.value(f"load ptr, ptr {cell}")

    def body(
        self, text: FunctionText, nodes: tuple[KernelNode, ...], scope: Scope, cancel: str
    ) -> None:
        for node in nodes:
            match node:
                case Call():
                    self._call(text, node, scope)
                case Loop():
                    self._loop(text, node, scope, cancel)
                case Guarded():
                    self._guarded(text, node, scope, cancel)
                case SparseLoop():
                    write_sparse_loop(self, text, node, scope, cancel)
                case RunLoop():
                    write_runs(self, text, node, scope, cancel)
                case RowRunLoop():
                    write_row_runs(self, text, node, scope, cancel)
                case BlockLoop():
                    write_blocks(self, text, node, scope, cancel)
                case Grid():
                    self._grid(text, node, scope)
                case _:
                    assert_never(node)

    def _call(self, text: FunctionText, call: Call, scope: Scope) -> None:
        pointers = [
            shift_pointer(text, scope.pointers[operand.slot], operand.offset_bytes)
            for operand in call.operands
        ]
        arguments = [f"ptr {pointer}" for pointer in pointers]
        for name, argument in zip(kernel_arguments(call.kernel), call.arguments, strict=True):
            value = (
                opaque(text, "i64", argument) if _is_hidden(call.kernel, name) else str(argument)
            )
            arguments.append(f"i64 {value}")
        symbol = kernel_symbol(call.kernel, self._isa)
        text.effect(f"call void @{symbol}({', '.join(arguments)})")

    def _loop(self, text: FunctionText, loop: Loop, scope: Scope, cancel: str) -> None:
        used = self.slots((loop,))
        steps = [step for step in loop.steps if step.slot in used]
        before, head, run, latch, after = labels(text, 5)
        index, index_next = text.fresh(), text.fresh()
        moving = {step.slot: (text.fresh(), text.fresh()) for step in steps}
        text.effect(f"br label %{before}")
        text.label(before)
        text.effect(f"br label %{head}")
        text.label(head)
        text.define(index, f"phi i64 [ 0, %{before} ], [ {index_next}, %{latch} ]")
        for slot, (now, following) in moving.items():
            start = scope.pointers[slot]
            text.define(now, f"phi ptr [ {start}, %{before} ], [ {following}, %{latch} ]")
        branch_if_cancelled(text, cancel, after, run)
        pointers = scope.pointers | {slot: now for slot, (now, _) in moving.items()}
        indices = scope.indices if loop.index is None else scope.indices | {loop.index: index}
        self.body(text, loop.body, Scope(pointers, indices), cancel)
        text.effect(f"br label %{latch}")
        text.label(latch)
        for step in steps:
            now, following = moving[step.slot]
            text.define(following, f"getelementptr i8, ptr {now}, i64 {step.stride_bytes}")
        text.define(index_next, f"add i64 {index}, 1")
        more = text.value(f"icmp slt i64 {index_next}, {loop.extent}")
        text.effect(f"br i1 {more}, label %{head}, label %{after}")
        text.label(after)

    def _guarded(self, text: FunctionText, node: Guarded, scope: Scope, cancel: str) -> None:
        run, after = labels(text, 2)
        holds = "true"
        for test in node.tests:
            equal = text.value(f"icmp eq i64 {scope.indices[test.index]}, {test.value}")
            holds = text.value(f"and i1 {holds}, {equal}")
        text.effect(f"br i1 {holds}, label %{run}, label %{after}")
        text.label(run)
        self.body(text, node.body, scope, cancel)
        text.effect(f"br label %{after}")
        text.label(after)

    def _grid(self, text: FunctionText, grid: Grid, scope: Scope) -> None:
        """Leave the scope in the frame and hand the grid's function to the pool."""
        used = sorted(self.slots((grid,)))
        for slot in used:
            cell = text.value(f"getelementptr i8, ptr %frame, i64 {self._spill(slot)}")
            text.effect(f"store ptr {scope.pointers[slot]}, ptr {cell}")
        for number, value in scope.indices.items():
            cell = text.value(f"getelementptr i8, ptr %frame, i64 {self._index_cell(number)}")
            text.effect(f"store i64 {value}, ptr {cell}")
        job = f"teir_grid{self._grids}"
        self._grids += 1
        self._done.append(self._job(job, grid, used, scope))
        points = prod(axis.extent for axis in grid.axes)
        chunks = min(points, CHUNKS_PER_THREAD * self._threads, pool_ir.MOST_CHUNKS)
        text.effect(f"call void @teir_grid_fork(ptr @{job}, ptr null, ptr %frame, i64 {chunks})")

    def _job(self, name: str, grid: Grid, used: list[int], outer: Scope) -> str:
        """The function of one chunk of a grid."""
        text = FunctionText()
        text.label("entry")
        bases = {slot: self._load_slot(text, self._spill(slot)) for slot in used}
        self._move_to_own_arena(text, bases)
        indices = {}
        for number in outer.indices:
            cell = text.value(f"getelementptr i8, ptr %frame, i64 {self._index_cell(number)}")
            indices[number] = text.value(f"load i64, ptr {cell}")
        cancel = _cancel_flag(text)
        points = prod(axis.extent for axis in grid.axes)
        if grid.balance is None:
            first, end = _chunk_bounds(text, points)
        else:
            first, end = _share_bounds(text, points, grid.balance, bases[grid.balance.pos.slot])
        head, run, latch, after = labels(text, 4)
        point, point_next = text.fresh(), text.fresh()
        some = text.value(f"icmp ult i64 {first}, {end}")
        text.effect(f"br i1 {some}, label %{head}, label %{after}")
        text.label(head)
        text.define(point, f"phi i64 [ {first}, %entry ], [ {point_next}, %{latch} ]")
        branch_if_cancelled(text, cancel, after, run)
        scope = self._place(text, grid, point, Scope(bases, indices))
        self.body(text, grid.body, scope, cancel)
        text.effect(f"br label %{latch}")
        text.label(latch)
        text.define(point_next, f"add i64 {point}, 1")
        more = text.value(f"icmp ult i64 {point_next}, {end}")
        text.effect(f"br i1 {more}, label %{head}, label %{after}")
        text.label(after)
        text.effect("ret void")
        head = f"define internal void @{name}({nest_grid.JOB_PARAMETERS}) nounwind {{"
        return f"{head}\n{text.text()}\n}}\n"

    def _place(self, text: FunctionText, grid: Grid, point: str, scope: Scope) -> Scope:
        """Pointers and index values at one point; the last axis runs fastest."""
        pointers, indices = dict(scope.pointers), dict(scope.indices)
        rest = point
        for axis in reversed(grid.axes):
            index = text.value(f"urem i64 {rest}, {axis.extent}")
            rest = text.value(f"udiv i64 {rest}, {axis.extent}")
            if axis.index is not None:
                indices[axis.index] = index
            for step in axis.steps:
                if step.slot in pointers:
                    distance = text.value(f"mul i64 {index}, {step.stride_bytes}")
                    pointers[step.slot] = shift_pointer(text, pointers[step.slot], distance)
        return Scope(pointers, indices)

    def _move_to_own_arena(self, text: FunctionText, bases: dict[int, str]) -> None:
        private = [slot for slot in bases if self._program.slots[slot].storage is Storage.THREAD]
        if not private:
            return
        cell = text.value(f"getelementptr i8, ptr %frame, i64 {layout.ARENA_STRIDE_BYTES}")
        stride = text.value(f"load i64, ptr {cell}")
        distance = text.value(f"mul i64 {stride}, %participant")
        for slot in private:
            bases[slot] = shift_pointer(text, bases[slot], distance)

    def _index_cell(self, index: int) -> int:
        return layout.index_bytes(len(self._program.slots), index)

    def _spill(self, slot: int) -> int:
        """Where a slot's pointer waits for a grid; the slot's own place keeps its start."""
        return self._index_cell(self._program.index_cells + slot)


def _holds_sparse(nodes: Iterable[KernelNode]) -> bool:
    return any(
        isinstance(node, SparseLoop | RunLoop | RowRunLoop | BlockLoop)
        or (not isinstance(node, Call) and _holds_sparse(inner_nodes(node)))
        for node in nodes
    )


def _is_hidden(kernel: Kernel, name: str) -> bool:
    """True for arguments whose values LLVM must not know.

    Columns narrower than a vector register that follow one another are stored one by one: LLVM
    would join them by shuffles, at the end of the longest chain.
    """
    if name == "c_n" and isinstance(kernel, GemmBlock):
        return kernel.lanes * kernel.out_type.width < _REGISTER_BYTES
    return name in _HIDDEN


def _cancel_flag(text: FunctionText) -> str:
    cell = text.value(f"getelementptr i8, ptr %frame, i64 {layout.CANCEL_BYTES}")
    return text.value(f"load ptr, ptr {cell}")


def _share_bounds(text: FunctionText, points: int, balance: Balance, base: str) -> tuple[str, str]:
    """First point and end of chunk ``%chunk`` where chunks hold as many stored elements."""
    pos = text.value(f"getelementptr i8, ptr {base}, i64 {balance.pos.offset_bytes}")
    following = text.value("add i64 %chunk, 1")
    ends = []
    for chunk in ("%chunk", following):
        words = (balance.stride_bytes, balance.pos_type.width, points, ROW_ELEMENTS * balance.rows)
        numbers = ", ".join(f"i64 {word}" for word in words)
        call = f"call i64 @teir_share(ptr {pos}, {numbers}, i64 {chunk}, i64 %chunks)"
        ends.append(text.value(call))
    return ends[0], ends[1]


def _chunk_bounds(text: FunctionText, points: int) -> tuple[str, str]:
    """First point and end of chunk ``%chunk`` of ``%chunks``, as the table's grids cut them."""
    share = text.value(f"udiv i64 {points}, %chunks")
    longer = text.value(f"urem i64 {points}, %chunks")
    shares = text.value(f"mul i64 {share}, %chunk")
    before = text.value(f"call i64 @llvm.umin.i64(i64 %chunk, i64 {longer})")
    first = text.value(f"add i64 {shares}, {before}")
    is_longer = text.value(f"icmp ult i64 %chunk, {longer}")
    one_more = text.value(f"zext i1 {is_longer} to i64")
    end = text.value(f"add i64 {first}, {share}")
    return first, text.value(f"add i64 {end}, {one_more}")
