"""The meaning of a kernel program: a slow interpreter, the reference for every emitter.

Grids run in order, one thread. Arenas are filled with NaN first, so that a read of scratch that
nobody wrote shows in the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import assert_never

import numpy as np

from teir.ir.tile_arithmetic import Tile
from teir.lower import evaluate_tiles as tiles
from teir.lower import evaluate_walked as walked
from teir.lower.asking_kernels import BeginAsking, BringLines
from teir.lower.copy_kernels import (
    CellCopy,
    JoinedTranspose,
    PermuteCopy,
    RowCopy,
    RunCopy,
    ShortTranspose,
    SteppedCopy,
    StreamCopy,
    StreamRows,
    StreamRuns,
    TransposeCopy,
)
from teir.lower.evaluate_memory import Bytes, Memory
from teir.lower.evaluate_parts import fibre_parts
from teir.lower.evaluate_sites import site_product
from teir.lower.kernel_program import (
    BlockLoop,
    Call,
    Grid,
    GridAxis,
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
)
from teir.lower.kernels import (
    BatchBlock,
    DotRows,
    Elementwise,
    GemmBlock,
    JoinedDots,
    LaneBlock,
    PairBlock,
    PanelBlock,
    PartCopy,
    ProductSum,
    RowSweep,
)
from teir.lower.site_kernels import SiteProduct
from teir.lower.tile_kernels import TileProduct
from teir.lower.walked_kernels import (
    FibreParts,
    WalkedDots,
    WalkedSampledSum,
    WalkedScatter,
    WalkedSum,
)

POISON = 0xFF


def evaluate_kernels(
    program: KernelProgram, operands: Mapping[str, Tile], bases: Mapping[str, int]
) -> None:
    """Run ``program`` on contiguous arrays in place; ``bases`` as in `teir.ir.evaluate`."""
    arenas = {
        Storage.RUN: np.full(program.run_scratch_bytes, POISON, np.uint8),
        Storage.THREAD: np.full(program.thread_scratch_bytes, POISON, np.uint8),
    }
    memory: list[Bytes] = []
    pointers: list[int] = []
    for slot in program.slots:
        if slot.storage is Storage.OPERAND:
            memory.append(operands[slot.tensor].reshape(-1).view(np.uint8))
            pointers.append(bases.get(slot.tensor, 0))
        else:
            memory.append(arenas[slot.storage])
            pointers.append(slot.start_bytes)
    _Machine(Memory(tuple(memory), pointers), [0] * program.index_cells).run(program.roots)


@dataclass(frozen=True, slots=True)
class _Machine:
    memory: Memory
    cells: list[int]

    def run(self, nodes: Sequence[KernelNode]) -> None:
        for node in nodes:
            match node:
                case Loop():
                    axis = GridAxis(extent=node.extent, steps=node.steps, index=node.index)
                    self.walk((axis,), node.body)
                case SparseLoop():
                    self.visit(node)
                case RunLoop():
                    self.run_by_run(node)
                case RowRunLoop():
                    self.rows_by_rows(node)
                case BlockLoop():
                    self.block_by_block(node)
                case Grid():
                    self.walk(node.axes, node.body)
                case Guarded():
                    if all(self.cells[test.index] == test.value for test in node.tests):
                        self.run(node.body)
                case Call():
                    self.call(node)
                case _:
                    assert_never(node)

    def walk(self, axes: Sequence[GridAxis], body: Sequence[KernelNode]) -> None:
        for point in product(*(range(axis.extent) for axis in axes)):
            for axis, index in zip(axes, point, strict=True):
                if axis.index is not None:
                    self.cells[axis.index] = index
                self.move(axis.steps, index)
            self.run(body)
            for axis, index in zip(axes, point, strict=True):
                self.move(axis.steps, -index)

    def visit(self, loop: SparseLoop) -> None:
        """The coordinates all walks hold, in ascending order."""
        levels = [self.level(walk) for walk in loop.walks]
        shared = sorted(set(levels[0]).intersection(*levels[1:]))
        for number, coordinate in enumerate(shared):
            if loop.index is not None:
                self.cells[loop.index] = number
            if loop.last is not None:
                self.cells[loop.last] = int(number == len(shared) - 1)
            before = list(self.memory.pointers)
            self.move(loop.steps, coordinate)
            for walk, level in zip(loop.walks, levels, strict=True):
                self.move(walk.steps, level[coordinate])
            self.run(loop.body)
            self.memory.pointers[:] = before

    def run_by_run(self, loop: RunLoop) -> None:
        begin, end = (
            self.memory.number(loop.pos, loop.pos_type, place * loop.pos_type.width)
            for place in (0, 1)
        )
        at = self.memory.pointers[loop.bounds.slot] + loop.bounds.offset_bytes
        bounds = np.ndarray((2,), np.int64, self.memory.content[loop.bounds.slot].data, at)
        starts = range(begin, end, loop.size) or range(begin, begin + bool(loop.first))
        for first in starts:
            bounds[:] = first, min(end, first + loop.size)
            self.move(loop.steps, -first)
            self.run(loop.first if loop.first and first == begin else loop.body)
            self.move(loop.steps, first)

    def rows_by_rows(self, loop: RowRunLoop) -> None:
        at = self.memory.pointers[loop.bounds.slot] + loop.bounds.offset_bytes
        bounds = np.ndarray((2,), np.int64, self.memory.content[loop.bounds.slot].data, at)
        row = 0
        while row < loop.extent:
            first, ends = self.memory.number(loop.pos, loop.pos_type, row * loop.pos_row), row
            width = loop.pos_type.width
            while ends < loop.extent:
                end = self.memory.number(loop.pos, loop.pos_type, ends * loop.pos_row + width)
                if end - first > loop.size:
                    break
                ends += 1
            self.move(loop.rows, row)
            if ends == row:
                self.run(loop.single)
                self.move(loop.rows, -row)
                row += 1
                continue
            bounds[:] = 0, ends - row
            self.move(loop.steps, -first)
            self.run(loop.body)
            self.move(loop.steps, first)
            self.move(loop.rows, -row)
            row = ends

    def block_by_block(self, loop: BlockLoop) -> None:
        position, end = (
            self.memory.number(loop.pos, loop.pos_type, place * loop.pos_type.width)
            for place in (0, loop.fibres)
        )
        while position < end:
            is_whole = end - position >= loop.size
            self.move(loop.steps, position)
            self.run(loop.body if is_whole else loop.rest)
            self.move(loop.steps, -position)
            position += loop.size if is_whole else 1

    def level(self, walk: Walk) -> dict[int, int]:
        """Coordinate to position."""
        begin, end = (
            self.memory.number(walk.pos, walk.pos_type, place * walk.pos_type.width)
            for place in (0, 1)
        )
        return {
            self.memory.number(walk.crd, walk.crd_type, walk.crd_stride_bytes * position): position
            for position in range(begin, end)
        }

    def move(self, steps: Sequence[Step], times: int) -> None:
        for step in steps:
            self.memory.pointers[step.slot] += step.stride_bytes * times

    def call(self, call: Call) -> None:
        match call.kernel:
            case GemmBlock():
                tiles.gemm_block(self.memory, call.kernel, call)
            case PartCopy():
                tiles.part_copy(self.memory, call.kernel, call)
            case PairBlock():
                tiles.pair_block(self.memory, call.kernel, call)
            case PanelBlock():
                tiles.panel_block(self.memory, call.kernel, call)
            case TileProduct():
                tiles.tile_product(self.memory, call.kernel, call)
            case ProductSum():
                tiles.product_sum(self.memory, call.kernel, call)
            case DotRows():
                tiles.dot_rows(self.memory, call.kernel, call)
            case JoinedDots():
                tiles.joined_dots(self.memory, call.kernel, call)
            case RowSweep():
                tiles.row_sweep(self.memory, call.kernel, call)
            case BatchBlock():
                tiles.batch_block(self.memory, call.kernel, call)
            case LaneBlock():
                tiles.lane_block(self.memory, call.kernel, call)
            case SiteProduct():
                site_product(self.memory, call.kernel, call)
            case Elementwise():
                tiles.elementwise(self.memory, call.kernel, call)
            case WalkedSum():
                walked.walked_sum(self.memory, call.kernel, call)
            case WalkedDots():
                walked.walked_dots(self.memory, call.kernel, call)
            case WalkedSampledSum():
                walked.walked_sampled_sum(self.memory, call.kernel, call)
            case WalkedScatter():
                walked.walked_scatter(self.memory, call.kernel, call)
            case FibreParts():
                fibre_parts(self.memory, call.kernel, call)
            case TransposeCopy():
                tiles.transpose_copy(self.memory, call.kernel, call)
            case JoinedTranspose():
                tiles.joined_transpose(self.memory, call.kernel, call)
            case ShortTranspose():
                tiles.short_transpose(self.memory, call.kernel, call)
            case SteppedCopy():
                tiles.stepped_copy(self.memory, call.kernel, call)
            case RowCopy() | StreamRows():
                tiles.row_copy(self.memory, call)
            case PermuteCopy() | StreamCopy():
                tiles.permute_copy(self.memory, call.kernel, call, 1)
            case CellCopy():
                tiles.cell_copy(self.memory, call.kernel, call)
            case RunCopy() | StreamRuns():
                tiles.permute_copy(self.memory, call.kernel, call, call.arguments[-1])
            case BringLines() | BeginAsking():
                pass
            case _:
                assert_never(call.kernel)
