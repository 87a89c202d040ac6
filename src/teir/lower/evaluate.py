"""The meaning of a kernel program: a slow interpreter, the reference for every emitter.

Grids run in order, one thread. Arenas are filled with NaN first, so that a read of scratch that
nobody wrote shows in the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, assert_never

import numpy as np

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.ir.tile_arithmetic import Tile, combine, contract, convert
from teir.lower.kernel_program import (
    Address,
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
    Access,
    BatchBlock,
    DotRows,
    Elementwise,
    Follows,
    GemmBlock,
    LaneBlock,
    PanelBlock,
    PermuteCopy,
    ProductSum,
    RowSweep,
    RunCopy,
    TransposeCopy,
    WalkedDots,
    WalkedRows,
    WalkedSampledSum,
    WalkedScatter,
    WalkedSum,
)

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
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
    _Machine(tuple(memory), pointers, [0] * program.index_cells).run(program.roots)


@dataclass(frozen=True, slots=True)
class _Machine:
    memory: tuple[Bytes, ...]
    pointers: list[int]
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
            before = list(self.pointers)
            self.move(loop.steps, coordinate)
            for walk, level in zip(loop.walks, levels, strict=True):
                self.move(walk.steps, level[coordinate])
            self.run(loop.body)
            self.pointers[:] = before

    def run_by_run(self, loop: RunLoop) -> None:
        begin, end = (
            self.number(loop.pos, loop.pos_type, place * loop.pos_type.width) for place in (0, 1)
        )
        at = self.pointers[loop.bounds.slot] + loop.bounds.offset_bytes
        bounds = np.ndarray((2,), np.int64, self.memory[loop.bounds.slot].data, at)
        starts = range(begin, end, loop.size) or range(begin, begin + bool(loop.first))
        for first in starts:
            bounds[:] = first, min(end, first + loop.size)
            self.move(loop.steps, -first)
            self.run(loop.first if loop.first and first == begin else loop.body)
            self.move(loop.steps, first)

    def rows_by_rows(self, loop: RowRunLoop) -> None:
        at = self.pointers[loop.bounds.slot] + loop.bounds.offset_bytes
        bounds = np.ndarray((2,), np.int64, self.memory[loop.bounds.slot].data, at)
        row = 0
        while row < loop.extent:
            first, ends = self.number(loop.pos, loop.pos_type, row * loop.pos_row), row
            width = loop.pos_type.width
            while ends < loop.extent:
                end = self.number(loop.pos, loop.pos_type, ends * loop.pos_row + width)
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

    def level(self, walk: Walk) -> dict[int, int]:
        """Coordinate to position."""
        begin, end = (
            self.number(walk.pos, walk.pos_type, place * walk.pos_type.width) for place in (0, 1)
        )
        return {
            self.number(walk.crd, walk.crd_type, walk.crd_stride_bytes * position): position
            for position in range(begin, end)
        }

    def number(self, address: Address, data_type: DataType, distance: int) -> int:
        start = self.pointers[address.slot] + address.offset_bytes + distance
        content = self.memory[address.slot]
        if not 0 <= start <= content.size - data_type.width:
            raise LookupError(f"byte {start} of {content.size}")
        return int(np.ndarray((), data_type.numpy_dtype(), content.data, start)[()])

    def move(self, steps: Sequence[Step], times: int) -> None:
        for step in steps:
            self.pointers[step.slot] += step.stride_bytes * times

    def call(self, call: Call) -> None:
        match call.kernel:
            case GemmBlock():
                self.gemm_block(call.kernel, call)
            case PanelBlock():
                self.panel_block(call.kernel, call)
            case ProductSum():
                self.product_sum(call.kernel, call)
            case DotRows():
                self.dot_rows(call.kernel, call)
            case RowSweep():
                self.row_sweep(call.kernel, call)
            case BatchBlock():
                self.batch_block(call.kernel, call)
            case LaneBlock():
                self.lane_block(call.kernel, call)
            case Elementwise():
                self.elementwise(call.kernel, call)
            case WalkedSum():
                self.walked_sum(call.kernel, call)
            case WalkedDots():
                self.walked_dots(call.kernel, call)
            case WalkedSampledSum():
                self.walked_sampled_sum(call.kernel, call)
            case WalkedScatter():
                self.walked_scatter(call.kernel, call)
            case TransposeCopy():
                self.transpose_copy(call.kernel, call)
            case PermuteCopy():
                self.permute_copy(call.kernel, call, 1)
            case RunCopy():
                self.permute_copy(call.kernel, call, call.arguments[-1])
            case _:
                assert_never(call.kernel)

    def tile(
        self,
        call: Call,
        operand: int,
        dtype: np.dtype[Any],
        axes: Sequence[tuple[int, int]],
        shift_bytes: int = 0,
    ) -> Tile:
        """The elements of one operand; ``axes`` are (extent, stride in bytes) pairs."""
        address = call.operands[operand]
        start = self.pointers[address.slot] + address.offset_bytes + shift_bytes
        content = self.memory[address.slot]
        end = start + sum((extent - 1) * stride for extent, stride in axes) + dtype.itemsize
        if start < 0 or end > content.size:
            raise LookupError(f"bytes {start} to {end} of {content.size}")
        shape = tuple(extent for extent, _ in axes)
        strides = tuple(stride for _, stride in axes)
        return np.ndarray(shape, dtype, content.data, start, strides)

    def gemm_block(self, kernel: GemmBlock, call: Call) -> None:
        k, a_k, b_k, batch, a_batch, b_batch, outer, a_outer, b_outer = call.arguments[:9]
        b_n, c_n, accumulate, last_lanes, a_m, c_m = call.arguments[9:15]
        in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
        a_m = in_type.itemsize if kernel.a_access is Access.UNIT else a_m
        c_m = out_type.itemsize if kernel.c_access is Access.UNIT else c_m
        last = last_lanes if kernel.masked else kernel.lanes
        rows = (kernel.vectors - 1) * kernel.lanes + last
        columns = kernel.columns * (call.arguments[-1] if kernel.repeats else 1)
        depth_a = ((outer, a_outer), (batch, a_batch), (k, a_k))
        depth_b = ((outer, b_outer), (batch, b_batch), (k, b_k))
        a = self.tile(call, 0, in_type, ((rows, a_m), (columns, 0), *depth_a))
        b = self.tile(call, 1, in_type, ((rows, 0), (columns, b_n), *depth_b))
        c = self.tile(call, 2, out_type, ((rows, c_m), (columns, c_n)))
        ends = (kernel.in_type, kernel.out_type)
        self.accumulate(*ends, (a, b), c, accumulate, flushes=kernel.flushes)

    def panel_block(self, kernel: PanelBlock, call: Call) -> None:
        k, a_k, b_k, b_n, c_n, c_run, accumulate, _, _, _ = call.arguments
        dtype, columns = kernel.data_type.numpy_dtype(), kernel.columns
        b_n = dtype.itemsize if kernel.adjacent_columns else b_n
        run_rows = kernel.rows // kernel.runs
        step = dtype.itemsize
        in_runs = ((kernel.runs, run_rows * step), (run_rows, step), (columns, 0))
        a = self.tile(call, 0, dtype, (*in_runs, (k, a_k)))
        b = self.tile(call, 1, dtype, ((kernel.runs, 0), (run_rows, 0), (columns, b_n), (k, b_k)))
        c = self.tile(call, 2, dtype, ((kernel.runs, c_run), (run_rows, step), (columns, c_n)))
        self.accumulate(kernel.data_type, kernel.data_type, (a, b), c, accumulate)

    def product_sum(self, kernel: ProductSum, call: Call) -> None:
        count = kernel.inputs
        m, k, batch, accumulate = call.arguments[:4]
        lanes = call.arguments[4 : 5 + count]
        k_strides = call.arguments[5 + count : 5 + 2 * count]
        batch_strides = call.arguments[5 + 2 * count :]
        in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
        inputs = tuple(
            self.tile(call, number, in_type, ((m, along_m), (batch, along_batch), (k, along_k)))
            for number, (along_m, along_k, along_batch) in enumerate(
                zip(lanes[:-1], k_strides, batch_strides, strict=True)
            )
        )
        output = self.tile(call, count, out_type, ((m, lanes[-1]),))
        self.accumulate(kernel.in_type, kernel.out_type, inputs, output, accumulate)

    def batch_block(self, kernel: BatchBlock, call: Call) -> None:
        batch, a_batch, b_batch, c_batch, last_lanes = call.arguments
        in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
        last = last_lanes if kernel.masked else kernel.lanes
        rows, columns = (kernel.vectors - 1) * kernel.lanes + last, kernel.columns
        along_a = ((columns, 0), (rows, in_type.itemsize), (kernel.depth, kernel.a_k))
        along_b = ((columns, kernel.b_n), (rows, 0), (kernel.depth, kernel.b_k))
        along_c = ((columns, kernel.c_n), (rows, out_type.itemsize))
        a = self.tile(call, 0, in_type, ((batch, a_batch), *along_a))
        b = self.tile(call, 1, in_type, ((batch, b_batch), *along_b))
        c = self.tile(call, 2, out_type, ((batch, c_batch), *along_c))
        self.accumulate(kernel.in_type, kernel.out_type, (a, b), c, int(not kernel.from_zero))

    def row_sweep(self, kernel: RowSweep, call: Call) -> None:
        m, k, a_k, b_k, accumulate = call.arguments
        dtype = kernel.data_type.numpy_dtype()
        a = self.tile(call, 0, dtype, ((m, dtype.itemsize), (k, a_k)))
        b_m = dtype.itemsize if kernel.b_access is Access.UNIT else 0
        b = self.tile(call, 1, dtype, ((m, b_m), (k, b_k)))
        c = self.tile(call, 2, dtype, ((m, dtype.itemsize),))
        self.accumulate(kernel.data_type, kernel.data_type, (a, b), c, accumulate)

    def fibre(
        self, arrays: Sequence[Address], types: tuple[DataType, DataType], shift: int = 0
    ) -> list[tuple[int, int]]:
        """Position and coordinate of every stored element."""
        (pos, crd), (pos_type, crd_type) = arrays, types
        begin, end = (
            self.number(pos, pos_type, shift + place * pos_type.width) for place in (0, 1)
        )
        return [(p, self.number(crd, crd_type, p * crd_type.width)) for p in range(begin, end)]

    def rows(self, rows: WalkedRows, call: Call, count: int) -> list[dict[Follows, int]]:
        """What every row of a kernel says about its number and its coordinate."""
        begin, end = 0, count
        if rows.bounds is not None:
            begin, end = (
                self.number(call.operands[0], rows.bounds, place * rows.bounds.width)
                for place in (0, 1)
            )
        return [
            {
                Follows.NOTHING: 0,
                Follows.POSITION: row,
                Follows.COORDINATE: 0
                if rows.crd is None
                else self.number(call.operands[1], rows.crd, row * rows.crd.width),
            }
            for row in range(begin, end)
        ]

    def indices(
        self, kernel: WalkedSum | WalkedScatter, call: Call, pos_step: int, pos_shift: int
    ) -> list[dict[Follows, int]]:
        """What every stored element says about positions and coordinates."""
        arrays = call.operands[: kernel.index_arrays]
        inner, types = arrays[-2:], (kernel.pos_type, kernel.crd_type)
        above = [(0, 0)]
        if kernel.outer is not None:
            above = self.fibre(arrays[-4:-2], kernel.outer, pos_shift)
            pos_shift = 0
        by_coordinate = (
            isinstance(kernel, WalkedScatter) and kernel.fibre is Follows.OUTER_COORDINATE
        )
        return [
            {
                Follows.NOTHING: 0,
                Follows.POSITION: position,
                Follows.COORDINATE: coordinate,
                Follows.OUTER_POSITION: outer_position,
                Follows.OUTER_COORDINATE: outer_coordinate,
            }
            for outer_position, outer_coordinate in above
            for position, coordinate in self.fibre(
                inner,
                types,
                pos_shift + pos_step * (outer_coordinate if by_coordinate else outer_position),
            )
        ]

    def walked_sum(self, kernel: WalkedSum, call: Call) -> None:
        rows, count = kernel.rows, len(kernel.inputs)
        if rows is None:
            self.walked_row(kernel, call, 0, (0,) * (count + 1))
            return
        number, pos_row, *moves = call.arguments[-3 - count :]
        steps = (*moves[1:], moves[0])
        for index in self.rows(rows, call, number):
            moved = zip((*rows.inputs, rows.output), steps, strict=True)
            shifts = tuple(index[follows] * step for follows, step in moved)
            self.walked_row(kernel, call, index[Follows.POSITION] * pos_row, shifts)

    def walked_row(
        self, kernel: WalkedSum, call: Call, pos_shift: int, shifts: Sequence[int]
    ) -> None:
        """One row of a `WalkedSum`: pos, the inputs and the output shifted by so many bytes."""
        last_lanes, accumulate, c_n, pos_step = call.arguments[:4]
        count, columns, before = len(kernel.inputs), kernel.columns, kernel.index_arrays
        along_fibre, along_columns = call.arguments[4 : 4 + count], call.arguments[4 + count :]
        along_columns = along_columns[:count]
        last = last_lanes if kernel.masked else kernel.lanes
        rows = (kernel.vectors - 1) * kernel.lanes + last
        in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
        steps = []
        for index in self.indices(kernel, call, pos_step, pos_shift):
            tiles = []
            for number, one in enumerate(kernel.inputs):
                row = in_type.itemsize if one.access is Access.UNIT else 0
                column = along_columns[number] if one.has_columns else 0
                shift = index[one.follows] * along_fibre[number] + shifts[number]
                axes = ((columns, column), (rows, row))
                tiles.append(self.tile(call, before + number, in_type, axes, shift))
            steps.append(tiles)
        axes = ((columns, c_n), (rows, out_type.itemsize))
        output = self.tile(call, before + count, out_type, axes, shifts[count])
        shape = (columns, rows, len(steps))
        inputs = tuple(
            np.stack([tiles[number] for tiles in steps], -1) if steps else np.zeros(shape, in_type)
            for number in range(count)
        )
        self.accumulate(kernel.in_type, kernel.out_type, inputs, output, accumulate)

    def walked_scatter(self, kernel: WalkedScatter, call: Call) -> None:
        last_lanes, pos_step, *steps = call.arguments
        last = last_lanes if kernel.masked else kernel.lanes
        rows = (kernel.vectors - 1) * kernel.lanes + last
        dtype, before = kernel.data_type.numpy_dtype(), kernel.index_arrays
        for index in self.indices(kernel, call, pos_step, 0):
            tiles = []
            for number, one in enumerate(kernel.inputs):
                row = dtype.itemsize if one.access is Access.UNIT else 0
                shift = index[one.follows] * steps[number]
                tiles.append(self.tile(call, before + number, dtype, ((rows, row), (1, 0)), shift))
            shift = index[kernel.output] * steps[-1]
            place = before + len(kernel.inputs)
            output = self.tile(call, place, dtype, ((rows, dtype.itemsize),), shift)
            if not tiles:
                output[...] = 0
                continue
            accumulate = int(kernel.accumulates)
            ends = (kernel.data_type, kernel.data_type)
            self.accumulate(*ends, tuple(tiles), output, accumulate)

    def walked_dots(self, kernel: WalkedDots, call: Call) -> None:
        if kernel.rows is None:
            self.walked_dots_row(kernel, call, 0, 0)
            return
        number, pos_row, _, a_row, _ = call.arguments[3:]
        for index in self.rows(kernel.rows, call, number):
            shift = index[kernel.rows.inputs[0]] * a_row
            self.walked_dots_row(kernel, call, index[Follows.POSITION] * pos_row, shift)

    def walked_dots_row(self, kernel: WalkedDots, call: Call, pos_shift: int, shift: int) -> None:
        """One row of a `WalkedDots`: pos and A shifted by so many bytes."""
        last_lanes, accumulate, b_stride = call.arguments[:3]
        operands = call.operands[0 if kernel.rows is None else kernel.rows.index_arrays :]
        before = len(call.operands) - len(operands)
        dtype = kernel.data_type.numpy_dtype()
        last = last_lanes if kernel.masked else kernel.chains
        row = (((kernel.vectors - 1) * kernel.chains + last, dtype.itemsize),)
        a = self.tile(call, before + 2, dtype, row, shift)
        types = (kernel.pos_type, kernel.crd_type)
        for position, coordinate in self.fibre(operands[:2], types, pos_shift):
            b = self.tile(call, before + 3, dtype, row, coordinate * b_stride)
            dot = contract((a, b), np.zeros((), dtype), kernel.data_type, kernel.chains)
            place = position * dtype.itemsize
            out = self.tile(call, len(call.operands) - 1, dtype, (), place)
            start = out.copy() if accumulate else np.zeros((), dtype)
            if not kernel.scales:
                out[...] = start + dot
                continue
            scale = self.tile(call, before + 4, dtype, (), place)
            factors = (scale.reshape(1), np.asarray(dot, dtype).reshape(1))
            out[...] = contract(factors, start, kernel.data_type)

    def walked_sampled_sum(self, kernel: WalkedSampledSum, call: Call) -> None:
        if kernel.rows is None:
            self.walked_sampled_row(kernel, call, 0, (0, 0))
            return
        number, pos_row, c_row, a_row = call.arguments[5:]
        for index in self.rows(kernel.rows, call, number):
            shifts = (index[kernel.rows.inputs[0]] * a_row, index[kernel.rows.output] * c_row)
            self.walked_sampled_row(kernel, call, index[Follows.POSITION] * pos_row, shifts)

    def walked_sampled_row(
        self, kernel: WalkedSampledSum, call: Call, pos_shift: int, shifts: tuple[int, int]
    ) -> None:
        """One row of a `WalkedSampledSum`: pos, A and the output shifted by so many bytes."""
        dot_last, last, accumulate, *strides = call.arguments[:5]
        before = 0 if kernel.rows is None else kernel.rows.index_arrays
        dtype, lanes = kernel.data_type.numpy_dtype(), kernel.lanes
        sizes = (
            (kernel.dot_vectors - 1) * lanes + (dot_last if kernel.dot_masked else lanes),
            (kernel.vectors - 1) * lanes + (last if kernel.masked else lanes),
        )
        a = self.tile(call, before + 2, dtype, ((sizes[0], dtype.itemsize),), shifts[0])
        factors: list[list[Tile]] = [[], [], []]
        types = (kernel.pos_type, kernel.crd_type)
        for position, coordinate in self.fibre(call.operands[before:][:2], types, pos_shift):
            b, d = (
                self.tile(
                    call,
                    before + 3 + place,
                    dtype,
                    ((sizes[place], dtype.itemsize),),
                    coordinate * strides[place],
                )
                for place in (0, 1)
            )
            dot = np.zeros((), dtype) + contract(
                (a, b), np.zeros((), dtype), kernel.data_type, kernel.lanes
            )
            place = position * dtype.itemsize
            if kernel.scales:
                scale = self.tile(call, before + 5, dtype, (), place)
                factors[0].append(np.broadcast_to(scale, d.shape))
            factors[1].append(np.broadcast_to(np.asarray(dot, dtype), d.shape))
            factors[2].append(d)
        row = ((sizes[1], dtype.itemsize),)
        output = self.tile(call, len(call.operands) - 1, dtype, row, shifts[1])
        inputs = tuple(
            np.stack(each, -1) if each else np.zeros((sizes[1], 0), dtype)
            for each in factors[0 if kernel.scales else 1 :]
        )
        self.accumulate(kernel.data_type, kernel.data_type, inputs, output, accumulate)

    def lane_block(self, kernel: LaneBlock, call: Call) -> None:
        m, k, a_k, b_k, batch, a_batch, b_batch, outer, a_outer, b_outer = call.arguments[:10]
        a_row, b_column, c_row, c_column, accumulate = call.arguments[10:]
        in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
        rows, columns, lanes = kernel.rows, kernel.columns, (m, in_type.itemsize)
        depth_a = ((outer, a_outer), (batch, a_batch), (k, a_k))
        depth_b = ((outer, b_outer), (batch, b_batch), (k, b_k))
        a = self.tile(call, 0, in_type, ((rows, a_row), (columns, 0), lanes, *depth_a))
        b = self.tile(call, 1, in_type, ((rows, 0), (columns, b_column), lanes, *depth_b))
        adjacent = (m, out_type.itemsize)
        c = self.tile(call, 2, out_type, ((rows, c_row), (columns, c_column), adjacent))
        self.accumulate(kernel.in_type, kernel.out_type, (a, b), c, accumulate)

    def dot_rows(self, kernel: DotRows, call: Call) -> None:
        count, depth = kernel.inputs, kernel.reductions
        m, accumulate = call.arguments[:2]
        extents, strides = call.arguments[2 : 2 + depth], call.arguments[2 + depth :]
        along_m, along_k = strides[: count + 1], strides[count + 1 :]
        in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
        inputs = tuple(
            self.tile(
                call,
                number,
                in_type,
                ((m, along_m[number]), *zip(extents, along_k[number::count], strict=True)),
            )
            for number in range(count)
        )
        output = self.tile(call, count, out_type, ((m, along_m[-1]),))
        self.accumulate(kernel.in_type, kernel.out_type, inputs, output, accumulate, kernel.chains)

    def accumulate(
        self,
        in_type: DataType,
        out_type: DataType,
        inputs: tuple[Tile, ...],
        output: Tile,
        accumulate: int,
        chains: int | None = None,
        flushes: bool = False,
    ) -> None:
        start = output.astype(out_type.accumulator.numpy_dtype())
        if not accumulate:
            start = np.zeros_like(start)
        output[...] = convert(contract(inputs, start, in_type, chains, flushes), out_type)

    def elementwise(self, kernel: Elementwise, call: Call) -> None:
        operands = 1 if kernel.operation is Operation.ZERO else len(call.operands)
        m, n = call.arguments[:2]
        along_m, along_n = call.arguments[2 : 2 + operands], call.arguments[2 + operands :]
        types = [kernel.in_type] * (operands - 1) + [kernel.out_type]
        tiles = [
            self.tile(call, number, types[number].numpy_dtype(), ((m, row), (n, column)))
            for number, (row, column) in enumerate(zip(along_m, along_n, strict=True))
        ]
        if kernel.operation is Operation.ZERO:
            tiles[-1][...] = 0
            return
        wide = tuple(tile.astype(kernel.in_type.accumulator.numpy_dtype()) for tile in tiles[:-1])
        inputs = tuple(tiles[:-1]) if kernel.operation is Operation.COPY else wide
        tiles[-1][...] = convert(combine(kernel.operation, inputs), kernel.out_type)

    def transpose_copy(self, kernel: TransposeCopy, call: Call) -> None:
        m, n, in_n, out_m = call.arguments
        element = np.dtype(f"V{kernel.element_bytes}")
        source = self.tile(call, 0, element, ((m, kernel.element_bytes), (n, in_n)))
        target = self.tile(call, 1, element, ((m, out_m), (n, kernel.element_bytes)))
        target[...] = source

    def permute_copy(self, kernel: PermuteCopy | RunCopy, call: Call, run: int) -> None:
        rows, rows_in, columns, columns_out = (call.arguments[at : at + 3] for at in (0, 3, 6, 9))
        outer, outer_in, outer_out = (call.arguments[at : at + 2] for at in (12, 14, 16))
        unit_bytes = run * kernel.element_bytes
        element = np.dtype(f"V{unit_bytes}")
        rows_out = _adjacent(rows, unit_bytes)
        columns_in = _adjacent(columns, unit_bytes)
        extents = (*outer, *columns, *rows)
        source_strides = (*outer_in, *columns_in, *rows_in)
        target_strides = (*outer_out, *columns_out, *rows_out)
        source = self.tile(call, 0, element, tuple(zip(extents, source_strides, strict=True)))
        target = self.tile(call, 1, element, tuple(zip(extents, target_strides, strict=True)))
        target[...] = source


def _adjacent(extents: Sequence[int], width: int) -> tuple[int, ...]:
    """The strides of axes that walk memory element by element, the first axis fastest."""
    return tuple(width * prod(extents[:axis]) for axis in range(len(extents)))
