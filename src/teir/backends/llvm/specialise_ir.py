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
from dataclasses import dataclass
from math import prod
from typing import assert_never

from teir.backends.llvm import layout, nest_grid, pool_ir
from teir.backends.llvm.emit_kernel import kernel_arguments, kernel_symbol
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.backends.llvm.nest_sparse import SEEK_TEXT
from teir.backends.llvm.nest_words import LOAD_INDEX_TEXT
from teir.backends.llvm.table import CHUNKS_PER_THREAD, ROW_ELEMENTS
from teir.lower.kernel_program import (
    Balance,
    Call,
    Grid,
    Guarded,
    KernelNode,
    KernelProgram,
    Loop,
    RowRunLoop,
    RunLoop,
    SparseLoop,
    Step,
    Storage,
    Walk,
    inner_nodes,
)
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

_HIDDEN = (*_LANE_COUNTS, *_BLOCK_LOOP)
"""Arguments whose values LLVM must not know."""


def emit_program(program: KernelProgram, isa: Isa, threads: int) -> str:
    """The definitions of ``PROGRAM`` and its grids; they call the kernels' bodies by symbol."""
    return "\n".join(_Functions(program, isa, threads).emit())


def specialised_cells(program: KernelProgram) -> int:
    """The index cells its frames need: the program's, and one per slot for grids."""
    return program.index_cells + len(program.slots)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is known at a point of a function: every slot's pointer, every index cell's value."""

    pointers: dict[int, str]
    indices: dict[int, str]


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
            for slot in sorted(self._slots(self._program.roots))
        }
        cancel = _cancel_flag(text)
        self._body(text, self._program.roots, _Scope(pointers, {}), cancel)
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

    def _slots(self, nodes: Iterable[KernelNode]) -> frozenset[int]:
        """The slots that calls below ``nodes`` use."""
        slots: frozenset[int] = frozenset()
        for node in nodes:
            if id(node) not in self._used:
                if isinstance(node, Call):
                    below = frozenset(operand.slot for operand in node.operands)
                else:
                    below = self._slots(inner_nodes(node))
                if isinstance(node, SparseLoop):
                    arrays = (slot for w in node.walks for slot in (w.pos.slot, w.crd.slot))
                    below |= frozenset(arrays)
                if isinstance(node, RunLoop | RowRunLoop):
                    below |= {node.pos.slot, node.bounds.slot}
                self._used[id(node)] = below
            slots |= self._used[id(node)]
        return slots

    def _load_slot(self, text: FunctionText, at: int) -> str:
        cell = text.value(f"getelementptr i8, ptr %frame, i64 {at}")
        return text.value(f"load ptr, ptr {cell}")

    def _body(
        self, text: FunctionText, nodes: tuple[KernelNode, ...], scope: _Scope, cancel: str
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
                    self._sparse(text, node, scope, cancel)
                case RunLoop():
                    self._runs(text, node, scope, cancel)
                case RowRunLoop():
                    self._row_runs(text, node, scope, cancel)
                case Grid():
                    self._grid(text, node, scope)
                case _:
                    assert_never(node)

    def _call(self, text: FunctionText, call: Call, scope: _Scope) -> None:
        pointers = [
            shift_pointer(text, scope.pointers[operand.slot], operand.offset_bytes)
            for operand in call.operands
        ]
        arguments = [f"ptr {pointer}" for pointer in pointers]
        for name, argument in zip(kernel_arguments(call.kernel), call.arguments, strict=True):
            value = _hidden(text, argument) if name in _HIDDEN else str(argument)
            arguments.append(f"i64 {value}")
        symbol = kernel_symbol(call.kernel, self._isa)
        text.effect(f"call void @{symbol}({', '.join(arguments)})")

    def _loop(self, text: FunctionText, loop: Loop, scope: _Scope, cancel: str) -> None:
        used = self._slots((loop,))
        steps = [step for step in loop.steps if step.slot in used]
        before, head, run, latch, after = _labels(text, 5)
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
        _branch_if_cancelled(text, cancel, after, run)
        pointers = scope.pointers | {slot: now for slot, (now, _) in moving.items()}
        indices = scope.indices if loop.index is None else scope.indices | {loop.index: index}
        self._body(text, loop.body, _Scope(pointers, indices), cancel)
        text.effect(f"br label %{latch}")
        text.label(latch)
        for step in steps:
            now, following = moving[step.slot]
            text.define(following, f"getelementptr i8, ptr {now}, i64 {step.stride_bytes}")
        text.define(index_next, f"add i64 {index}, 1")
        more = text.value(f"icmp slt i64 {index_next}, {loop.extent}")
        text.effect(f"br i1 {more}, label %{head}, label %{after}")
        text.label(after)

    def _sparse(self, text: FunctionText, loop: SparseLoop, scope: _Scope, cancel: str) -> None:
        """One cursor per walk; a coordinate that one walk skips sends the first on to the next."""
        walks = [_bounds(text, walk, scope) for walk in loop.walks]
        before, head, look, run, latch, after = _labels(text, 6)
        cursors = [text.fresh() for _ in walks]
        number, number_next, coordinate = text.fresh(), text.fresh(), text.fresh()
        text.effect(f"br label %{before}")
        text.label(before)
        text.effect(f"br label %{head}")
        later: list[tuple[str, str, list[str]]] = []
        text.label(look)
        _branch_if_cancelled(text, cancel, after, run)
        text.define(coordinate, _loaded_call(text, walks[0], cursors[0]))
        met = [cursors[0]]
        for place, walk in enumerate(walks[1:], 1):
            met.append(_seek(text, walk, cursors[place], coordinate))
            compare, differ, agree = _labels(text, 3)
            inside = text.value(f"icmp slt i64 {met[-1]}, {walk.end}")
            text.effect(f"br i1 {inside}, label %{compare}, label %{after}")
            text.label(compare)
            other = text.value(_loaded_call(text, walk, met[-1]))
            same = text.value(f"icmp eq i64 {other}, {coordinate}")
            text.effect(f"br i1 {same}, label %{agree}, label %{differ}")
            text.label(differ)
            first = _seek(text, walks[0], cursors[0], other)
            text.effect(f"br label %{head}")
            later.append((differ, number, [first, *met[1:], *cursors[place + 1 :]]))
            text.label(agree)
        pointers = dict(scope.pointers)
        below = self._slots(loop.body)
        _step_pointers(text, pointers, loop.steps, coordinate, below)
        for walk_node, position in zip(loop.walks, met, strict=True):
            _step_pointers(text, pointers, walk_node.steps, position, below)
        following = [text.value(f"add i64 {position}, 1") for position in met]
        indices = dict(scope.indices)
        if loop.index is not None:
            indices[loop.index] = number
        if loop.last is not None:
            ended = text.value(f"icmp eq i64 {following[0]}, {walks[0].end}")
            indices[loop.last] = text.value(f"zext i1 {ended} to i64")
        self._body(text, loop.body, _Scope(pointers, indices), cancel)
        text.effect(f"br label %{latch}")
        text.label(latch)
        text.define(number_next, f"add i64 {number}, 1")
        text.effect(f"br label %{head}")
        sources = [
            (before, "0", [walk.begin for walk in walks]),
            *later,
            (latch, number_next, following),
        ]
        text.label(head)
        counted = ", ".join(f"[ {value}, %{source} ]" for source, value, _ in sources)
        text.define(number, f"phi i64 {counted}")
        for place, cursor in enumerate(cursors):
            came = ", ".join(f"[ {values[place]}, %{source} ]" for source, _, values in sources)
            text.define(cursor, f"phi i64 {came}")
        more = text.value(f"icmp slt i64 {cursors[0]}, {walks[0].end}")
        text.effect(f"br i1 {more}, label %{look}, label %{after}")
        text.label(after)

    def _runs(self, text: FunctionText, loop: RunLoop, scope: _Scope, cancel: str) -> None:
        width = loop.pos_type.width
        pos = shift_pointer(text, scope.pointers[loop.pos.slot], loop.pos.offset_bytes)
        begin = text.value(f"call i64 @teir_load_index(ptr {pos}, i64 {width})")
        beyond = shift_pointer(text, pos, width)
        end = text.value(f"call i64 @teir_load_index(ptr {beyond}, i64 {width})")
        bounds = shift_pointer(text, scope.pointers[loop.bounds.slot], loop.bounds.offset_bytes)
        before, head, run, latch, after = _labels(text, 5)
        first, following = text.fresh(), text.fresh()
        if loop.first:
            stop = self._run(text, loop, (begin, end, bounds), loop.first, scope, cancel)
            begin = stop
        text.effect(f"br label %{before}")
        text.label(before)
        text.effect(f"br label %{head}")
        text.label(head)
        text.define(first, f"phi i64 [ {begin}, %{before} ], [ {following}, %{latch} ]")
        more = text.value(f"icmp slt i64 {first}, {end}")
        text.effect(f"br i1 {more}, label %{run}, label %{after}")
        text.label(run)
        stop = self._run(text, loop, (first, end, bounds), loop.body, scope, cancel)
        text.effect(f"br label %{latch}")
        text.label(latch)
        text.define(following, f"add i64 {stop}, 0")
        text.effect(f"br label %{head}")
        text.label(after)

    def _row_runs(self, text: FunctionText, loop: RowRunLoop, scope: _Scope, cancel: str) -> None:
        width = loop.pos_type.width
        pos = shift_pointer(text, scope.pointers[loop.pos.slot], loop.pos.offset_bytes)
        bounds = shift_pointer(text, scope.pointers[loop.bounds.slot], loop.bounds.offset_bytes)
        before, head, look, grow, trial, fits, grown = _labels(text, 7)
        one, after_one, run, after_run, after = _labels(text, 5)
        row, stop, stop_next = text.fresh(), text.fresh(), text.fresh()
        row_after_one, row_after_run = text.fresh(), text.fresh()
        text.effect(f"br label %{before}")
        text.label(before)
        text.effect(f"br label %{head}")
        text.label(head)
        text.define(
            row,
            f"phi i64 [ 0, %{before} ], [ {row_after_one}, %{after_one} ], "
            f"[ {row_after_run}, %{after_run} ]",
        )
        more = text.value(f"icmp slt i64 {row}, {loop.extent}")
        text.effect(f"br i1 {more}, label %{look}, label %{after}")
        text.label(look)
        start = shift_pointer(text, pos, text.value(f"mul i64 {row}, {loop.pos_row}"))
        first = text.value(f"call i64 @teir_load_index(ptr {start}, i64 {width})")
        text.effect(f"br label %{grow}")
        text.label(grow)
        text.define(stop, f"phi i64 [ {row}, %{look} ], [ {stop_next}, %{fits} ]")
        left = text.value(f"icmp slt i64 {stop}, {loop.extent}")
        text.effect(f"br i1 {left}, label %{trial}, label %{grown}")
        text.label(trial)
        byte = text.value(f"mul i64 {stop}, {loop.pos_row}")
        at = shift_pointer(text, shift_pointer(text, pos, byte), width)
        end = text.value(f"call i64 @teir_load_index(ptr {at}, i64 {width})")
        length = text.value(f"sub i64 {end}, {first}")
        is_room = text.value(f"icmp sle i64 {length}, {loop.size}")
        text.effect(f"br i1 {is_room}, label %{fits}, label %{grown}")
        text.label(fits)
        text.define(stop_next, f"add i64 {stop}, 1")
        text.effect(f"br label %{grow}")
        text.label(grown)
        pointers = dict(scope.pointers)
        _step_pointers(text, pointers, loop.rows, row, self._slots((loop,)))
        none = text.value(f"icmp eq i64 {stop}, {row}")
        text.effect(f"br i1 {none}, label %{one}, label %{run}")
        text.label(one)
        self._body(text, loop.single, _Scope(pointers, scope.indices), cancel)
        text.effect(f"br label %{after_one}")
        text.label(after_one)
        text.define(row_after_one, f"add i64 {row}, 1")
        text.effect(f"br label %{head}")
        text.label(run)
        count = text.value(f"sub i64 {stop}, {row}")
        text.effect(f"store i64 0, ptr {bounds}")
        text.effect(f"store i64 {count}, ptr {shift_pointer(text, bounds, 8)}")
        inside, back = dict(pointers), text.value(f"sub i64 0, {first}")
        _step_pointers(text, inside, loop.steps, back, self._slots(loop.body))
        self._body(text, loop.body, _Scope(inside, scope.indices), cancel)
        text.effect(f"br label %{after_run}")
        text.label(after_run)
        text.define(row_after_run, f"add i64 {stop}, 0")
        text.effect(f"br label %{head}")
        text.label(after)

    def _run(
        self,
        text: FunctionText,
        loop: RunLoop,
        places: tuple[str, str, str],
        body: tuple[KernelNode, ...],
        scope: _Scope,
        cancel: str,
    ) -> str:
        """One run from the first of ``places`` (first, end, bounds); returns where it stops."""
        first, end, bounds = places
        beyond = text.value(f"add i64 {first}, {loop.size}")
        over = text.value(f"icmp sgt i64 {beyond}, {end}")
        stop = text.value(f"select i1 {over}, i64 {end}, i64 {beyond}")
        text.effect(f"store i64 {first}, ptr {bounds}")
        text.effect(f"store i64 {stop}, ptr {shift_pointer(text, bounds, 8)}")
        back = text.value(f"sub i64 0, {first}")
        pointers = dict(scope.pointers)
        _step_pointers(text, pointers, loop.steps, back, self._slots(body))
        self._body(text, body, _Scope(pointers, scope.indices), cancel)
        return stop

    def _guarded(self, text: FunctionText, node: Guarded, scope: _Scope, cancel: str) -> None:
        run, after = _labels(text, 2)
        holds = "true"
        for test in node.tests:
            equal = text.value(f"icmp eq i64 {scope.indices[test.index]}, {test.value}")
            holds = text.value(f"and i1 {holds}, {equal}")
        text.effect(f"br i1 {holds}, label %{run}, label %{after}")
        text.label(run)
        self._body(text, node.body, scope, cancel)
        text.effect(f"br label %{after}")
        text.label(after)

    def _grid(self, text: FunctionText, grid: Grid, scope: _Scope) -> None:
        """Leave the scope in the frame and hand the grid's function to the pool."""
        used = sorted(self._slots((grid,)))
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

    def _job(self, name: str, grid: Grid, used: list[int], outer: _Scope) -> str:
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
        head, run, latch, after = _labels(text, 4)
        point, point_next = text.fresh(), text.fresh()
        some = text.value(f"icmp ult i64 {first}, {end}")
        text.effect(f"br i1 {some}, label %{head}, label %{after}")
        text.label(head)
        text.define(point, f"phi i64 [ {first}, %entry ], [ {point_next}, %{latch} ]")
        _branch_if_cancelled(text, cancel, after, run)
        scope = self._place(text, grid, point, _Scope(bases, indices))
        self._body(text, grid.body, scope, cancel)
        text.effect(f"br label %{latch}")
        text.label(latch)
        text.define(point_next, f"add i64 {point}, 1")
        more = text.value(f"icmp ult i64 {point_next}, {end}")
        text.effect(f"br i1 {more}, label %{head}, label %{after}")
        text.label(after)
        text.effect("ret void")
        head = f"define internal void @{name}({nest_grid.JOB_PARAMETERS}) nounwind {{"
        return f"{head}\n{text.text()}\n}}\n"

    def _place(self, text: FunctionText, grid: Grid, point: str, scope: _Scope) -> _Scope:
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
        return _Scope(pointers, indices)

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


@dataclass(frozen=True, slots=True)
class _WalkBounds:
    """The positions of one walk, and where its coordinates lie."""

    begin: str
    end: str
    crd: str
    width: int
    stride: int


def _bounds(text: FunctionText, walk: Walk, scope: _Scope) -> _WalkBounds:
    width = walk.pos_type.width
    pos = shift_pointer(text, scope.pointers[walk.pos.slot], walk.pos.offset_bytes)
    begin = text.value(f"call i64 @teir_load_index(ptr {pos}, i64 {width})")
    beyond = shift_pointer(text, pos, width)
    end = text.value(f"call i64 @teir_load_index(ptr {beyond}, i64 {width})")
    crd = shift_pointer(text, scope.pointers[walk.crd.slot], walk.crd.offset_bytes)
    return _WalkBounds(begin, end, crd, walk.crd_type.width, walk.crd_stride_bytes)


def _loaded_call(text: FunctionText, walk: _WalkBounds, position: str) -> str:
    """The call that yields the coordinate at a position."""
    byte = text.value(f"mul i64 {position}, {walk.stride}")
    at = shift_pointer(text, walk.crd, byte)
    return f"call i64 @teir_load_index(ptr {at}, i64 {walk.width})"


def _seek(text: FunctionText, walk: _WalkBounds, position: str, target: str) -> str:
    """The first position from ``position`` on whose coordinate is at least ``target``."""
    return text.value(
        f"call i64 @teir_seek(ptr {walk.crd}, i64 {walk.width}, i64 {walk.stride}, "
        f"i64 {position}, i64 {walk.end}, i64 {target})"
    )


def _step_pointers(
    text: FunctionText,
    pointers: dict[int, str],
    steps: tuple[Step, ...],
    times: str,
    used: frozenset[int],
) -> None:
    for step in steps:
        if step.slot in used:
            distance = text.value(f"mul i64 {times}, {step.stride_bytes}")
            pointers[step.slot] = shift_pointer(text, pointers[step.slot], distance)


def _holds_sparse(nodes: Iterable[KernelNode]) -> bool:
    return any(
        isinstance(node, SparseLoop | RunLoop | RowRunLoop)
        or (not isinstance(node, Call) and _holds_sparse(inner_nodes(node)))
        for node in nodes
    )


def _hidden(text: FunctionText, number: int) -> str:
    """``number`` in a register, its value unknown to LLVM."""
    return text.value(f'call i64 asm "", "=r,0"(i64 {number})')


def _labels(text: FunctionText, count: int) -> list[str]:
    return [text.fresh().replace("%v", "b") for _ in range(count)]


def _cancel_flag(text: FunctionText) -> str:
    cell = text.value(f"getelementptr i8, ptr %frame, i64 {layout.CANCEL_BYTES}")
    return text.value(f"load ptr, ptr {cell}")


def _branch_if_cancelled(text: FunctionText, cancel: str, stop: str, go_on: str) -> None:
    flag = text.value(f"load atomic i64, ptr {cancel} monotonic, align 8")
    stopped = text.value(f"icmp ne i64 {flag}, 0")
    text.effect(f"br i1 {stopped}, label %{stop}, label %{go_on}")
    text.label(go_on)


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
