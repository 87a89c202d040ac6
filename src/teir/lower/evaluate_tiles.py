"""The meaning of kernels over tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.ir.tile_arithmetic import Tile, combine, convert
from teir.lower.access import Access
from teir.lower.copy_kernels import (
    CELL_AXES,
    WALK_AXES,
    CellCopy,
    JoinedTranspose,
    PermuteCopy,
    RunCopy,
    ShortTranspose,
    SteppedCopy,
    StreamCopy,
    StreamRuns,
    TransposeCopy,
)
from teir.lower.evaluate_memory import Memory, accumulate_products
from teir.lower.kernel_program import (
    Call,
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
from teir.lower.tile_kernels import TileProduct


def gemm_block(memory: Memory, kernel: GemmBlock, call: Call) -> None:
    k, a_k, b_k, batch, a_batch, b_batch, outer, a_outer, b_outer = call.arguments[:9]
    b_n, c_n, accumulate, last_lanes, a_m, c_m = call.arguments[9:15]
    in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
    a_m = in_type.itemsize if kernel.a_access is Access.UNIT else a_m
    c_m = out_type.itemsize if kernel.c_access is Access.UNIT else c_m
    last = last_lanes if kernel.masked else kernel.lanes
    kept = kernel.lanes - last_lanes if kernel.keeps else 0
    rows = (kernel.vectors - 1) * kernel.lanes + last - kept
    columns = kernel.columns * (call.arguments[-1] if kernel.repeats else 1)
    depth_a = ((outer, a_outer), (batch, a_batch), (k, a_k))
    depth_b = ((outer, b_outer), (batch, b_batch), (k, b_k))
    if kernel.splits_numbers:
        a = _rows_in_parts(memory, kernel, call, ((columns, 0), *depth_a))[:rows]
    else:
        a = memory.tile(call, 0, in_type, ((rows, a_m), (columns, 0), *depth_a), kept * a_m)
    b = memory.tile(call, 1, in_type, ((rows, 0), (columns, b_n), *depth_b))
    c = memory.tile(call, 2, out_type, ((rows, c_m), (columns, c_n)), kept * c_m)
    ends = (kernel.in_type, kernel.out_type)
    accumulate_products(*ends, (a, b), c, accumulate, flushes=kernel.flushes)


def _rows_in_parts(
    memory: Memory, kernel: GemmBlock, call: Call, axes: tuple[tuple[int, int], ...]
) -> Tile:
    """All lanes of A, which lies as `PartCopy` writes it, along ``axes``."""
    number_bytes, lanes = kernel.in_type.width // 2, 2 * kernel.lanes
    part_bytes = lanes * number_bytes
    number = np.dtype(f"f{number_bytes}")
    rows = ((kernel.vectors // 2, 2 * part_bytes), (lanes, number_bytes))
    real, imaginary = (
        memory.tile(call, 0, number, (*rows, *axes), part * part_bytes) for part in (0, 1)
    )
    numbers = np.empty(real.shape, kernel.in_type.numpy_dtype())
    numbers.real, numbers.imag = real, imaginary
    return numbers.reshape(-1, *numbers.shape[2:])


def part_copy(memory: Memory, kernel: PartCopy, call: Call) -> None:
    k, a_k, batch, a_batch, outer, a_outer, last_lanes = call.arguments
    dtype, lanes = kernel.data_type.numpy_dtype(), kernel.lanes
    rows = (kernel.vectors - 1) * lanes + (last_lanes if kernel.masked else lanes)
    axes = ((outer, a_outer), (batch, a_batch), (k, a_k), (rows, dtype.itemsize))
    whole = np.zeros((outer * batch * k, kernel.vectors * lanes), dtype)
    whole[:, :rows] = memory.tile(call, 0, dtype, axes).reshape(-1, rows)
    numbers = whole.reshape(-1)
    if kernel.data_type.is_complex:
        parted = numbers.view(numbers.real.dtype).reshape(-1, kernel.vectors // 2, 2 * lanes, 2)
        numbers = parted.swapaxes(2, 3).reshape(-1)
    room = memory.tile(call, 1, numbers.dtype, ((numbers.size, numbers.itemsize),))
    room[...] = numbers


def tile_product(memory: Memory, kernel: TileProduct, call: Call) -> None:
    m, n, k, a_k, b_k, batch, a_batch, b_batch, outer, a_outer, b_outer = call.arguments[:11]
    b_n, c_n, accumulate, piece, a_piece = call.arguments[11:16]
    m_outer, a_m_outer, c_m_outer, n_outer, b_n_outer, c_n_outer, a_m = call.arguments[16:23]
    in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
    pieces = k // piece
    depth_a = ((outer, a_outer), (batch, a_batch), (pieces, a_piece), (piece, a_k))
    depth_b = ((outer, b_outer), (batch, b_batch), (pieces, piece * b_k), (piece, b_k))
    rows_a, rows_b = ((m_outer, a_m_outer), (m, a_m)), ((m_outer, 0), (m, 0))
    columns_a, columns_b = ((n_outer, 0), (n, 0)), ((n_outer, b_n_outer), (n, b_n))
    rows_c = ((m_outer, c_m_outer), (m, out_type.itemsize))
    columns_c = ((n_outer, c_n_outer), (n, c_n))
    a = memory.tile(call, 0, in_type, (*rows_a, *columns_a, *depth_a))
    b = memory.tile(call, 1, in_type, (*rows_b, *columns_b, *depth_b))
    c = memory.tile(call, 2, out_type, (*rows_c, *columns_c))
    ends = (kernel.in_type, kernel.out_type)
    accumulate_products(*ends, (a, b), c, accumulate, flushes=True)


def panel_block(memory: Memory, kernel: PanelBlock, call: Call) -> None:
    k, a_k, b_k, b_n, c_n, c_run, accumulate = call.arguments[:7]
    blocks, b_block, c_block = call.arguments[-3:] if kernel.repeats else (1, 0, 0)
    dtype, columns = kernel.data_type.numpy_dtype(), kernel.columns
    b_n = dtype.itemsize if kernel.adjacent_columns else b_n
    run_rows = kernel.rows // kernel.runs
    step = dtype.itemsize
    a_rows = ((kernel.runs, run_rows * step), (run_rows, step))
    b_rows = ((kernel.runs, 0), (run_rows, 0))
    c_rows = ((kernel.runs, c_run), (run_rows, step))
    a = memory.tile(call, 0, dtype, ((blocks, 0), *a_rows, (columns, 0), (k, a_k)))
    b = memory.tile(call, 1, dtype, ((blocks, b_block), *b_rows, (columns, b_n), (k, b_k)))
    c = memory.tile(call, 2, dtype, ((blocks, c_block), *c_rows, (columns, c_n)))
    accumulate_products(kernel.data_type, kernel.data_type, (a, b), c, accumulate)


def pair_block(memory: Memory, kernel: PairBlock, call: Call) -> None:
    k, a_k, b_k, batch, a_batch, b_batch = call.arguments[:6]
    b_n, c_n, c_run, _, blocks, b_block, c_block = call.arguments[6:]
    dtype, columns = DataType.BF16.numpy_dtype(), kernel.columns
    step, run_rows = dtype.itemsize, kernel.rows // kernel.runs
    b_k = step if kernel.b_adjacent else b_k
    a_rows = ((kernel.runs, run_rows * step), (run_rows, step))
    b_rows = ((kernel.runs, 0), (run_rows, 0))
    c_rows = ((kernel.runs, c_run), (run_rows, step))
    a_k_axes, b_k_axes = ((batch, a_batch), (k, a_k)), ((batch, b_batch), (k, b_k))
    a = memory.tile(call, 0, dtype, ((blocks, 0), *a_rows, (columns, 0), *a_k_axes))
    b = memory.tile(call, 1, dtype, ((blocks, b_block), *b_rows, (columns, b_n), *b_k_axes))
    c = memory.tile(call, 2, dtype, ((blocks, c_block), *c_rows, (columns, c_n)))
    accumulate = int(kernel.accumulates)
    accumulate_products(DataType.BF16, DataType.BF16, (a, b), c, accumulate, flushes=True)


def product_sum(memory: Memory, kernel: ProductSum, call: Call) -> None:
    count = kernel.inputs
    m, k, batch, accumulate = call.arguments[:4]
    lanes = call.arguments[4 : 5 + count]
    k_strides = call.arguments[5 + count : 5 + 2 * count]
    batch_strides = call.arguments[5 + 2 * count :]
    in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
    inputs = tuple(
        memory.tile(call, number, in_type, ((m, along_m), (batch, along_batch), (k, along_k)))
        for number, (along_m, along_k, along_batch) in enumerate(
            zip(lanes[:-1], k_strides, batch_strides, strict=True)
        )
    )
    output = memory.tile(call, count, out_type, ((m, lanes[-1]),))
    accumulate_products(kernel.in_type, kernel.out_type, inputs, output, accumulate)


def batch_block(memory: Memory, kernel: BatchBlock, call: Call) -> None:
    batch, a_batch, b_batch, c_batch, last_lanes = call.arguments
    in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
    last = last_lanes if kernel.masked else kernel.lanes
    rows, columns = (kernel.vectors - 1) * kernel.lanes + last, kernel.columns
    along_a = ((columns, 0), (rows, in_type.itemsize), (kernel.depth, kernel.a_k))
    along_b = ((columns, kernel.b_n), (rows, 0), (kernel.depth, kernel.b_k))
    along_c = ((columns, kernel.c_n), (rows, out_type.itemsize))
    a = memory.tile(call, 0, in_type, ((batch, a_batch), *along_a))
    b = memory.tile(call, 1, in_type, ((batch, b_batch), *along_b))
    c = memory.tile(call, 2, out_type, ((batch, c_batch), *along_c))
    accumulate_products(kernel.in_type, kernel.out_type, (a, b), c, int(not kernel.from_zero))


def row_sweep(memory: Memory, kernel: RowSweep, call: Call) -> None:
    m, k, a_k, b_k, accumulate = call.arguments
    dtype = kernel.data_type.numpy_dtype()
    a = memory.tile(call, 0, dtype, ((m, dtype.itemsize), (k, a_k)))
    b_m = dtype.itemsize if kernel.b_access is Access.UNIT else 0
    b = memory.tile(call, 1, dtype, ((m, b_m), (k, b_k)))
    c = memory.tile(call, 2, dtype, ((m, dtype.itemsize),))
    accumulate_products(kernel.data_type, kernel.data_type, (a, b), c, accumulate)


def lane_block(memory: Memory, kernel: LaneBlock, call: Call) -> None:
    m, k, a_k, b_k, batch, a_batch, b_batch, outer, a_outer, b_outer = call.arguments[:10]
    a_row, b_column, c_row, c_column, accumulate = call.arguments[10:]
    in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
    rows, columns, lanes = kernel.rows, kernel.columns, (m, in_type.itemsize)
    depth_a = ((outer, a_outer), (batch, a_batch), (k, a_k))
    depth_b = ((outer, b_outer), (batch, b_batch), (k, b_k))
    a = memory.tile(call, 0, in_type, ((rows, a_row), (columns, 0), lanes, *depth_a))
    b = memory.tile(call, 1, in_type, ((rows, 0), (columns, b_column), lanes, *depth_b))
    adjacent = (m, out_type.itemsize)
    c = memory.tile(call, 2, out_type, ((rows, c_row), (columns, c_column), adjacent))
    accumulate_products(kernel.in_type, kernel.out_type, (a, b), c, accumulate)


def dot_rows(memory: Memory, kernel: DotRows, call: Call) -> None:
    count, depth = kernel.inputs, kernel.reductions
    m, accumulate = call.arguments[:2]
    extents, strides = call.arguments[2 : 2 + depth], call.arguments[2 + depth :]
    along_m, along_k = strides[: count + 1], strides[count + 1 : (count + 1) + depth * count]
    if kernel.columns > 1:
        n, *along_n = strides[-count - 2 :]
        one = replace(kernel, columns=1)
        for column in range(n):
            operands = tuple(
                replace(address, offset_bytes=address.offset_bytes + column * stride)
                for address, stride in zip(call.operands, along_n, strict=True)
            )
            dot_rows(memory, one, replace(call, kernel=one, operands=operands))
        return
    in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
    inputs = tuple(
        memory.tile(
            call,
            number,
            in_type,
            ((m, along_m[number]), *zip(extents, along_k[number::count], strict=True)),
        )
        for number in range(count)
    )
    output = memory.tile(call, count, out_type, ((m, along_m[-1]),))
    accumulate_products(kernel.in_type, kernel.out_type, inputs, output, accumulate, kernel.chains)


def joined_dots(memory: Memory, kernel: JoinedDots, call: Call) -> None:
    k, accumulate = call.arguments
    dtype, columns = kernel.data_type.numpy_dtype(), kernel.columns
    width = dtype.itemsize
    inputs = tuple(
        memory.tile(
            call,
            number,
            dtype,
            ((columns, 0), (k, width)) if spread else ((columns, width), (k, columns * width)),
        )
        for number, spread in enumerate(kernel.spread)
    )
    output = memory.tile(call, len(inputs), dtype, ((columns, width),))
    ends = (kernel.data_type, kernel.data_type)
    accumulate_products(*ends, inputs, output, accumulate, kernel.chains)


def elementwise(memory: Memory, kernel: Elementwise, call: Call) -> None:
    operands = 1 if kernel.operation is Operation.ZERO else len(call.operands)
    m, n = call.arguments[:2]
    along_m, along_n = call.arguments[2 : 2 + operands], call.arguments[2 + operands :]
    types = [kernel.in_type] * (operands - 1) + [kernel.out_type]
    tiles = [
        memory.tile(call, number, types[number].numpy_dtype(), ((m, row), (n, column)))
        for number, (row, column) in enumerate(zip(along_m, along_n, strict=True))
    ]
    if kernel.operation is Operation.ZERO:
        tiles[-1][...] = 0
        return
    wide = tuple(tile.astype(kernel.in_type.accumulator.numpy_dtype()) for tile in tiles[:-1])
    inputs = tuple(tiles[:-1]) if kernel.operation is Operation.COPY else wide
    tiles[-1][...] = convert(combine(kernel.operation, inputs), kernel.out_type)


def transpose_copy(memory: Memory, kernel: TransposeCopy, call: Call) -> None:
    m, n, in_n, out_m, *out_row = call.arguments
    width, grouped = kernel.element_bytes, kernel.grouped
    element = np.dtype(f"V{width}")
    rows = (m // grouped, grouped)
    along = kernel.step * width
    reads = ((rows[0], grouped * along), (rows[1], along), (n, in_n))
    writes = ((rows[0], out_m), (rows[1], sum(out_row)), (n, width))
    source = memory.tile(call, 0, element, reads)
    target = memory.tile(call, 1, element, writes)
    target[...] = source


def joined_transpose(memory: Memory, kernel: JoinedTranspose, call: Call) -> None:
    m, n0, n1, in_n0, in_n1, out_m, o, in_o, out_o = call.arguments
    width = kernel.element_bytes
    element = np.dtype(f"V{width}")
    reads = ((o, in_o), (m, width), (n1, in_n1), (n0, in_n0))
    writes = ((o, out_o), (m, out_m), (n1, n0 * width), (n0, width))
    memory.tile(call, 1, element, writes)[...] = memory.tile(call, 0, element, reads)


def short_transpose(memory: Memory, kernel: ShortTranspose, call: Call) -> None:
    n, apart, o, in_o, out_o = call.arguments
    width, side = kernel.element_bytes, kernel.side
    element = np.dtype(f"V{width}")
    together, separate = (side * width, width), (width, apart)
    along = kernel.step * width
    along_in = (along, apart) if kernel.joins else (side * along, along)
    along_out = together if kernel.joins else separate
    reads = ((o, in_o), (n, along_in[0]), (side, along_in[1]))
    writes = ((o, out_o), (n, along_out[0]), (side, along_out[1]))
    memory.tile(call, 1, element, writes)[...] = memory.tile(call, 0, element, reads)


def stepped_copy(memory: Memory, kernel: SteppedCopy, call: Call) -> None:
    n, o, in_o, out_o = call.arguments
    width = kernel.element_bytes
    element = np.dtype(f"V{width}")
    source = memory.tile(call, 0, element, ((o, in_o), (n, kernel.step * width)))
    memory.tile(call, 1, element, ((o, out_o), (n, width)))[...] = source


def row_copy(memory: Memory, call: Call) -> None:
    row_bytes, n, in_n, out_n, o, in_o, out_o = call.arguments
    byte = np.dtype(np.uint8)
    source = memory.tile(call, 0, byte, ((o, in_o), (n, in_n), (row_bytes, 1)))
    target = memory.tile(call, 1, byte, ((o, out_o), (n, out_n), (row_bytes, 1)))
    target[...] = source


def permute_copy(
    memory: Memory, kernel: PermuteCopy | RunCopy | StreamCopy | StreamRuns, call: Call, run: int
) -> None:
    rows, rows_in, columns, columns_out = (call.arguments[at : at + 3] for at in (0, 3, 6, 9))
    outer, outer_in, outer_out = (call.arguments[at : at + 2] for at in (12, 14, 16))
    unit_bytes = run * kernel.element_bytes
    element = np.dtype(f"V{unit_bytes}")
    rows_out = _adjacent(rows, unit_bytes)
    step = kernel.step if isinstance(kernel, PermuteCopy) else 1
    columns_in = _adjacent(columns, step * unit_bytes)
    extents = (*outer, *columns, *rows)
    source_strides = (*outer_in, *columns_in, *rows_in)
    target_strides = (*outer_out, *columns_out, *rows_out)
    source = memory.tile(call, 0, element, tuple(zip(extents, source_strides, strict=True)))
    target = memory.tile(call, 1, element, tuple(zip(extents, target_strides, strict=True)))
    target[...] = source


def cell_copy(memory: Memory, kernel: CellCopy, call: Call) -> None:
    axes: list[tuple[int, ...]] = []
    for start, count in ((0, CELL_AXES), (3 * CELL_AXES, WALK_AXES)):
        parts = (call.arguments[start + part * count :][:count] for part in range(3))
        axes += zip(*parts, strict=True)
    element = np.dtype(f"V{kernel.element_bytes}")
    moving = [axis for axis in axes if axis[0] > 1]
    reads, writes = (tuple((axis[0], axis[side]) for axis in moving) for side in (1, 2))
    memory.tile(call, 1, element, writes)[...] = memory.tile(call, 0, element, reads)


def _adjacent(extents: Sequence[int], width: int) -> tuple[int, ...]:
    """The strides of axes that walk memory element by element, the first axis fastest."""
    return tuple(width * prod(extents[:axis]) for axis in range(len(extents)))
