"""A kernel program as a table: the words the control functions of `nest` walk.

Pointers travel in three registers where they can: a subtree that uses at most three slots, calls
no kernel of more than three operands and holds no grid is entered once, and everything below it
passes its pointers on. Above such subtrees the pointers live in the frame. Constant offsets move
up to the nearest node that can add them, so a kernel below a plain loop costs no extra node.

    loop over frame slots
      enter A = slot 0 + 64, B = slot 1, C = slot 3     <- the offsets of the kernel below
        walk
          kernel leaf
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from functools import reduce
from math import prod
from operator import or_
from typing import assert_never

import msgspec

from teir.backends.llvm import nest, nest_blocks, nest_grid, nest_sparse, pool_ir
from teir.backends.llvm.layout import (
    REGISTER_OPERANDS,
    WORD_BYTES,
    index_bytes,
    slot_bytes,
)
from teir.backends.llvm.slot_registers import slot_registers
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
    Slot,
    SparseLoop,
    Step,
    Storage,
    Walk,
    inner_nodes,
)
from teir.lower.kernels import Kernel

ROW_ELEMENTS = 4
"""Stored elements that take as long as what every row takes besides its own."""

CHUNKS_PER_THREAD = 8
"""A grid is cut into this many shares per thread, so that threads that start late cost little."""

Offsets = tuple[int, int, int]
"""What must be added to A, B and C before a node is called."""

Placed = tuple[int, Offsets]
"""A node's place in the table in bytes, and the offsets its caller must add."""

_NO_OFFSETS: Offsets = (0, 0, 0)
_WALK_WORDS = 8
"""Words of one walk of a sparse loop."""
_IN_FRAME = 1
"""Bit of a reach: the subtree needs its pointers in the frame."""


class Table(msgspec.Struct, frozen=True):
    """The words of a table, where its root lies, and how many index cells its frames need."""

    words: array[int]
    root_bytes: int
    index_cells: int

    @property
    def address(self) -> int:
        return self.words.buffer_info()[0]


def build_table(
    program: KernelProgram,
    control: Mapping[str, int],
    kernels: Mapping[Kernel, int],
    threads: int,
) -> Table:
    """The table of ``program``.

    ``control`` holds the addresses of the control functions by symbol, ``kernels`` those of the
    kernels' leaf functions.
    """
    builder = _Builder(control, kernels, threads, program.slots, program.index_cells)
    return builder.build(program.roots)


class _Builder(msgspec.Struct):
    """One table while it is built; children are appended before the node that holds them."""

    _control: Mapping[str, int]
    _kernels: Mapping[Kernel, int]
    _threads: int
    _slots: tuple[Slot, ...]
    _cells: int
    _words: list[int] = msgspec.field(default_factory=list)
    _reach_of: dict[int, int] = msgspec.field(default_factory=dict)

    def build(self, roots: tuple[KernelNode, ...]) -> Table:
        root = self._in_frame(roots)
        return Table(array("q", self._words), root, self._cells)

    def _reach(self, node: KernelNode) -> int:
        """The slots used below a node: bit 1 + slot for each, and bit `_IN_FRAME`."""
        known = self._reach_of.get(id(node))
        if known is not None:
            return known
        reach = 0
        children: tuple[KernelNode, ...] = ()
        match node:
            case Call():
                reach = _IN_FRAME if len(node.operands) > REGISTER_OPERANDS else 0
                for operand in node.operands:
                    reach |= 2 << operand.slot
            case Loop() | Guarded():
                children = node.body
            case Grid():
                reach, children = _IN_FRAME, node.body
            case RunLoop() | RowRunLoop():
                reach = _IN_FRAME | 2 << node.pos.slot | 2 << node.bounds.slot
                children = inner_nodes(node)
            case BlockLoop():
                reach, children = _IN_FRAME | 2 << node.pos.slot, inner_nodes(node)
            case SparseLoop():
                reach, children = _IN_FRAME, node.body
                for walk in node.walks:
                    reach |= 2 << walk.pos.slot | 2 << walk.crd.slot
            case _:
                assert_never(node)
        for child in children:
            reach |= self._reach(child)
        self._reach_of[id(node)] = reach
        return reach

    def _reach_all(self, nodes: tuple[KernelNode, ...]) -> int:
        return reduce(or_, map(self._reach, nodes), 0)

    def _append(self, words: list[int]) -> int:
        at = WORD_BYTES * len(self._words)
        self._words += words
        return at

    def _append_above(self, symbol: str, child: int, words: list[int]) -> int:
        """A node of one control function and one child: the words after these two."""
        at = WORD_BYTES * len(self._words)
        self._words += (self._control[symbol], child - at, *words)
        return at

    @property
    def _next(self) -> int:
        return WORD_BYTES * len(self._words)

    # Above the enter nodes: pointers live in the frame.

    def _in_frame(self, nodes: tuple[KernelNode, ...]) -> int:
        reaches = list(map(self._reach, nodes))
        reach = reduce(or_, reaches, 0)
        if _fits_registers(reach):
            return self._enter(nodes, reach)
        if len(nodes) == 1:
            return self._node_in_frame(nodes[0])
        members: list[Placed] = []
        for node, own in zip(nodes, reaches, strict=True):
            at = self._enter((node,), own) if _fits_registers(own) else self._node_in_frame(node)
            members.append((at, _NO_OFFSETS))
        return self._sequence(members)

    def _node_in_frame(self, node: KernelNode) -> int:
        match node:
            case Loop():
                child = self._in_frame(node.body)
                cell = self._new_cell() if node.index is None else self._cell(node.index)
                distance = child - self._next
                head = [self._control[nest.FRAME_WALK], distance, node.extent, cell]
                return self._append(head + self._steps(node.steps, self._reach(node)))
            case Guarded():
                return self._guarded(node, self._in_frame(node.body))
            case Grid():
                return self._grid(node)
            case SparseLoop():
                return self._sparse(node)
            case RunLoop():
                return self._runs(node)
            case RowRunLoop():
                return self._row_runs(node)
            case BlockLoop():
                return self._blocks(node)
            case Call():
                words = [self._kernels[node.kernel], *node.arguments]
                for operand in node.operands:
                    words += (operand.slot, operand.offset_bytes)
                return self._append(words)
            case _:
                assert_never(node)

    def _grid(self, node: Grid) -> int:
        child = self._in_frame(node.body)
        reach = self._reach(node)
        points = prod(axis.extent for axis in node.axes)
        chunks = min(points, CHUNKS_PER_THREAD * self._threads, pool_ir.MOST_CHUNKS)
        axes: list[int] = []
        for axis in reversed(node.axes):
            cell = self._new_cell() if axis.index is None else self._cell(axis.index)
            axes += (axis.extent, cell)
            axes += self._steps(axis.steps, reach)
        head = [self._control[nest_grid.GRID], child - self._next, points, chunks]
        slots = enumerate(self._slots)
        thread_slots = [slot_bytes(n) for n, slot in slots if slot.storage is Storage.THREAD]
        counts = [len(thread_slots), len(node.axes), *_share_words(node.balance)]
        return self._append(head + counts + thread_slots + axes)

    def _sparse(self, node: SparseLoop) -> int:
        child = self._in_frame(node.body)
        reach = self._reach_all(node.body)
        index = self._new_cell() if node.index is None else self._cell(node.index)
        last = self._new_cell() if node.last is None else self._cell(node.last)
        cursors = [self._new_cell() for _ in range(2 * len(node.walks))]
        symbol = nest_sparse.SPARSE_WALK if len(node.walks) == 1 else nest_sparse.SPARSE_MEET
        head = [self._control[symbol], child - self._next, index, last, len(node.walks)]
        lists = [
            self._steps(steps, reach) for steps in (node.steps, *(w.steps for w in node.walks))
        ]
        place = WORD_BYTES * (len(head) + 2 + _WALK_WORDS * len(node.walks))
        places = []
        for words in lists:
            places.append(place)
            place += WORD_BYTES * len(words)
        head += [cursors[0], places[0]]
        for walk, steps_at in zip(node.walks, places[1:], strict=True):
            head += [*_walk_words(walk), steps_at]
        return self._append(head + [word for words in lists for word in words])

    def _runs(self, node: RunLoop) -> int:
        child = self._in_frame(node.body)
        first = self._in_frame(node.first) if node.first else None
        pos = [slot_bytes(node.pos.slot), node.pos.offset_bytes, node.pos_type.width]
        bounds = [slot_bytes(node.bounds.slot), node.bounds.offset_bytes]
        head = [self._control[nest_blocks.RUN_WALK], child - self._next, *pos, node.size, *bounds]
        head.append(0 if first is None else first - self._next)
        return self._append(head + self._steps(node.steps, self._reach_all(inner_nodes(node))))

    def _row_runs(self, node: RowRunLoop) -> int:
        child, single = self._in_frame(node.body), self._in_frame(node.single)
        reach = self._reach(node)
        pos = [slot_bytes(node.pos.slot), node.pos.offset_bytes, node.pos_type.width]
        bounds = [slot_bytes(node.bounds.slot), node.bounds.offset_bytes]
        symbol = self._control[nest_blocks.ROW_RUN_WALK]
        head = [symbol, child - self._next, *pos, node.size, *bounds, single - self._next]
        steps, rows = self._steps(node.steps, reach), self._steps(node.rows, reach)
        place = WORD_BYTES * (len(head) + 3)
        head += [node.extent, node.pos_row, place + WORD_BYTES * len(steps)]
        return self._append(head + steps + rows)

    def _blocks(self, node: BlockLoop) -> int:
        child, rest = self._in_frame(node.body), self._in_frame(node.rest)
        width = node.pos_type.width
        head = [self._control[nest_blocks.BLOCK_WALK], child - self._next]
        head += [slot_bytes(node.pos.slot), node.pos.offset_bytes, width]
        head += [node.fibres * width, node.size, rest - self._next]
        return self._append(head + self._steps(node.steps, self._reach(node)))

    def _new_cell(self) -> int:
        """A cell no guard reads."""
        self._cells += 1
        return self._cell(self._cells - 1)

    def _steps(self, steps: tuple[Step, ...], reach: int) -> list[int]:
        words = [0]
        for step in steps:
            if reach & (2 << step.slot):
                words += (slot_bytes(step.slot), step.stride_bytes)
        words[0] = len(words) // 2
        return words

    def _cell(self, index: int) -> int:
        return index_bytes(len(self._slots), index)

    def _enter(self, nodes: tuple[KernelNode, ...], reach: int) -> int:
        registers = slot_registers(nodes, reach)
        child, offsets = self._in_registers(nodes, registers)
        words = [slot_bytes(0), 0] * REGISTER_OPERANDS
        words[1::2] = offsets
        for slot, register in registers.items():
            words[2 * register] = slot_bytes(slot)
        return self._append_above(nest.ENTER, child, words)

    # Below the enter nodes: pointers live in A, B and C.

    def _in_registers(self, nodes: tuple[KernelNode, ...], registers: dict[int, int]) -> Placed:
        if len(nodes) != 1:
            members = [self._in_registers((node,), registers) for node in nodes]
            return self._sequence(members), _NO_OFFSETS
        (node,) = nodes
        match node:
            case Call():
                return self._leaf(node, registers)
            case Loop():
                child, offsets = self._in_registers(node.body, registers)
                strides = [0, 0, 0]
                for step in node.steps:
                    register = registers.get(step.slot)
                    if register is not None:
                        strides[register] = step.stride_bytes
                if node.index is None:
                    return self._append_above(nest.WALK, child, [node.extent, *strides]), offsets
                words = [node.extent, *strides, self._cell(node.index)]
                return self._append_above(nest.INDEXED_WALK, child, words), offsets
            case Guarded():
                child, offsets = self._in_registers(node.body, registers)
                return self._guarded(node, child), offsets
            case Grid() | SparseLoop() | RunLoop() | RowRunLoop() | BlockLoop():
                raise AssertionError("grids and sparse loops keep their pointers in the frame")
            case _:
                assert_never(node)

    def _leaf(self, call: Call, registers: dict[int, int]) -> Placed:
        leaf = self._append([self._kernels[call.kernel], *call.arguments])
        sources, offsets = [], []
        for operand in call.operands:
            sources.append(registers[operand.slot])
            offsets.append(operand.offset_bytes)
        missing = REGISTER_OPERANDS - len(offsets)
        if sources == [0, 1, 2][: len(sources)]:
            first, second, third = (*offsets, *(0,) * missing)
            return leaf, (first, second, third)
        words: list[int] = []
        for source, offset in zip(sources, offsets, strict=True):
            words += (source, offset)
        words += [0] * (2 * missing)
        return self._append_above(nest.ROUTE, leaf, words), _NO_OFFSETS

    # Either way.

    def _sequence(self, members: list[Placed]) -> int:
        at = self._next
        words = [self._control[nest.SEQUENCE], len(members)]
        for child, offsets in members:
            words += (child - at, *offsets)
        return self._append(words)

    def _guarded(self, node: Guarded, child: int) -> int:
        words = [self._control[nest.GUARDED], child - self._next, len(node.tests)]
        for test in node.tests:
            words += (self._cell(test.index), test.value)
        return self._append(words)


def _fits_registers(reach: int) -> bool:
    """True where the pointers of a subtree of this reach travel in registers."""
    return reach > 0 and not reach & _IN_FRAME and reach.bit_count() <= REGISTER_OPERANDS


def _share_words(balance: Balance | None) -> list[int]:
    """The words of a grid that say where its shares end."""
    if balance is None:
        return [0] * 5
    return [
        slot_bytes(balance.pos.slot),
        balance.pos.offset_bytes,
        balance.stride_bytes,
        balance.pos_type.width,
        ROW_ELEMENTS * balance.rows,
    ]


def _walk_words(walk: Walk) -> list[int]:
    pos = [slot_bytes(walk.pos.slot), walk.pos.offset_bytes, walk.pos_type.width]
    crd = [slot_bytes(walk.crd.slot), walk.crd.offset_bytes, walk.crd_type.width]
    return [*pos, *crd, walk.crd_stride_bytes]
