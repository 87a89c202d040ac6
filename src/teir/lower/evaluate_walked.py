"""The meaning of kernels that walk the fibres of sparse operands."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from teir.dtypes import DataType
from teir.ir.tile_arithmetic import Tile, contract
from teir.lower.access import Access
from teir.lower.evaluate_memory import Memory, accumulate_products
from teir.lower.kernel_program import (
    Address,
    Call,
)
from teir.lower.walked_kernels import (
    Follows,
    WalkedDots,
    WalkedRows,
    WalkedSampledSum,
    WalkedScatter,
    WalkedSum,
)


def _fibre(
    memory: Memory, arrays: Sequence[Address], types: tuple[DataType, DataType], shift: int
) -> list[tuple[int, int]]:
    """Position and coordinate of every stored element."""
    (pos, crd), (pos_type, crd_type) = arrays, types
    begin, end = (memory.number(pos, pos_type, shift + place * pos_type.width) for place in (0, 1))
    return [(p, memory.number(crd, crd_type, p * crd_type.width)) for p in range(begin, end)]


def _rows(memory: Memory, rows: WalkedRows, call: Call, count: int) -> list[dict[Follows, int]]:
    """What every row of a kernel says about its number and its coordinate."""
    begin, end = 0, count
    if rows.bounds is not None:
        begin, end = (
            memory.number(call.operands[0], rows.bounds, place * rows.bounds.width)
            for place in (0, 1)
        )
    return [
        {
            Follows.NOTHING: 0,
            Follows.POSITION: row,
            Follows.COORDINATE: 0
            if rows.crd is None
            else memory.number(call.operands[1], rows.crd, row * rows.crd.width),
        }
        for row in range(begin, end)
    ]


def _indices(
    memory: Memory, kernel: WalkedSum | WalkedScatter, call: Call, pos_step: int, pos_shift: int
) -> list[dict[Follows, int]]:
    """What every stored element says about positions and coordinates."""
    arrays = call.operands[: kernel.index_arrays]
    inner, types = arrays[-2:], (kernel.pos_type, kernel.crd_type)
    above = [(0, 0)]
    if kernel.outer is not None:
        above = _fibre(memory, arrays[-4:-2], kernel.outer, pos_shift)
        pos_shift = 0
    elif isinstance(kernel, WalkedScatter) and kernel.has_rows:
        above = [(row, 0) for row in range(call.arguments[-1])]
    by_coordinate = isinstance(kernel, WalkedScatter) and kernel.fibre is Follows.OUTER_COORDINATE
    return [
        {
            Follows.NOTHING: 0,
            Follows.POSITION: position,
            Follows.COORDINATE: coordinate,
            Follows.OUTER_POSITION: outer_position,
            Follows.OUTER_COORDINATE: outer_coordinate,
        }
        for outer_position, outer_coordinate in above
        for position, coordinate in _fibre(
            memory,
            inner,
            types,
            pos_shift + pos_step * (outer_coordinate if by_coordinate else outer_position),
        )
    ]


def walked_sum(memory: Memory, kernel: WalkedSum, call: Call) -> None:
    rows, count = kernel.rows, len(kernel.inputs)
    if rows is None:
        _walked_row(memory, kernel, call, 0, (0,) * (count + 1))
        return
    number, pos_row, *moves = call.arguments[-3 - count :]
    steps = (*moves[1:], moves[0])
    for index in _rows(memory, rows, call, number):
        moved = zip((*rows.inputs, rows.output), steps, strict=True)
        shifts = tuple(index[follows] * step for follows, step in moved)
        _walked_row(memory, kernel, call, index[Follows.POSITION] * pos_row, shifts)


def _walked_row(
    memory: Memory, kernel: WalkedSum, call: Call, pos_shift: int, shifts: Sequence[int]
) -> None:
    """One row of a `WalkedSum`: pos, the inputs and the output shifted by so many bytes."""
    last_lanes, accumulate, c_n, pos_step = call.arguments[:4]
    count, columns, before = len(kernel.inputs), kernel.columns, kernel.index_arrays
    along_fibre, along_columns = call.arguments[4 : 4 + count], call.arguments[4 + count :]
    along_columns = along_columns[:count]
    last = last_lanes if kernel.masked else kernel.lanes
    rows = (kernel.vectors - 1) * kernel.lanes + last
    in_type, out_type = kernel.in_type.numpy_dtype(), kernel.out_type.numpy_dtype()
    axes = ((columns, c_n), (rows, out_type.itemsize))
    output = memory.tile(call, before + count, out_type, axes, shifts[count])
    if kernel.chains is not None:
        _add_fibres(memory, kernel, call, (pos_step, pos_shift), shifts, output)
        return
    steps = []
    for index in _indices(memory, kernel, call, pos_step, pos_shift):
        tiles = []
        for number, one in enumerate(kernel.inputs):
            row = in_type.itemsize if one.access is Access.UNIT else 0
            column = along_columns[number] if one.has_columns else 0
            shift = index[one.follows] * along_fibre[number] + shifts[number]
            axes = ((columns, column), (rows, row))
            tiles.append(memory.tile(call, before + number, in_type, axes, shift))
        steps.append(tiles)
    shape = (columns, rows, len(steps))
    inputs = tuple(
        np.stack([tiles[number] for tiles in steps], -1) if steps else np.zeros(shape, in_type)
        for number in range(count)
    )
    accumulate_products(kernel.in_type, kernel.out_type, inputs, output, accumulate)


def _add_fibres(
    memory: Memory,
    kernel: WalkedSum,
    call: Call,
    along_pos: tuple[int, int],
    shifts: Sequence[int],
    output: Tile,
) -> None:
    """A sum of one number in chains, fibre by fibre."""
    accumulate, count, dtype = call.arguments[1], len(kernel.inputs), kernel.in_type.numpy_dtype()
    steps, before = call.arguments[4 : 4 + count], kernel.index_arrays
    total = output[0, 0] if accumulate else np.zeros((), dtype)
    indices = _indices(memory, kernel, call, *along_pos)
    outer = Follows.OUTER_POSITION
    for fibre in dict.fromkeys(index[outer] for index in indices):
        factors = tuple(
            np.array(
                [
                    memory.tile(call, before + number, dtype, (), index[one.follows] * step + shift)
                    for index in indices
                    if index[outer] == fibre
                ]
            )
            for number, (one, step, shift) in enumerate(
                zip(kernel.inputs, steps, shifts, strict=False)
            )
        )
        total = contract(factors, np.asarray(total, dtype), kernel.in_type, kernel.chains)
    output[...] = total


def walked_scatter(memory: Memory, kernel: WalkedScatter, call: Call) -> None:
    last_lanes, pos_step, *steps = call.arguments[: 3 + len(kernel.inputs)]
    last = last_lanes if kernel.masked else kernel.lanes
    rows = (kernel.vectors - 1) * kernel.lanes + last
    dtype, before = kernel.data_type.numpy_dtype(), kernel.index_arrays
    for index in _indices(memory, kernel, call, pos_step, 0):
        tiles = []
        for number, one in enumerate(kernel.inputs):
            row = dtype.itemsize if one.access is Access.UNIT else 0
            shift = index[one.follows] * steps[number]
            tiles.append(memory.tile(call, before + number, dtype, ((rows, row), (1, 0)), shift))
        shift = index[kernel.output] * steps[-1]
        place = before + len(kernel.inputs)
        output = memory.tile(call, place, dtype, ((rows, dtype.itemsize),), shift)
        if not tiles:
            output[...] = 0
            continue
        accumulate = int(kernel.accumulates)
        ends = (kernel.data_type, kernel.data_type)
        accumulate_products(*ends, tuple(tiles), output, accumulate)


def walked_dots(memory: Memory, kernel: WalkedDots, call: Call) -> None:
    if kernel.rows is None:
        _walked_dots_row(memory, kernel, call, 0, 0)
        return
    number, pos_row, _, a_row, _ = call.arguments[3:]
    for index in _rows(memory, kernel.rows, call, number):
        shift = index[kernel.rows.inputs[0]] * a_row
        _walked_dots_row(memory, kernel, call, index[Follows.POSITION] * pos_row, shift)


def _walked_dots_row(
    memory: Memory, kernel: WalkedDots, call: Call, pos_shift: int, shift: int
) -> None:
    """One row of a `WalkedDots`: pos and A shifted by so many bytes."""
    last_lanes, accumulate, b_stride = call.arguments[:3]
    operands = call.operands[0 if kernel.rows is None else kernel.rows.index_arrays :]
    before = len(call.operands) - len(operands)
    dtype = kernel.data_type.numpy_dtype()
    last = last_lanes if kernel.masked else kernel.chains
    row = (((kernel.vectors - 1) * kernel.chains + last, dtype.itemsize),)
    a = memory.tile(call, before + 2, dtype, row, shift)
    types = (kernel.pos_type, kernel.crd_type)
    for position, coordinate in _fibre(memory, operands[:2], types, pos_shift):
        b = memory.tile(call, before + 3, dtype, row, coordinate * b_stride)
        dot = contract((a, b), np.zeros((), dtype), kernel.data_type, kernel.chains)
        place = position * dtype.itemsize
        out = memory.tile(call, len(call.operands) - 1, dtype, (), place)
        start = out.copy() if accumulate else np.zeros((), dtype)
        if not kernel.scales:
            out[...] = start + dot
            continue
        scale = memory.tile(call, before + 4, dtype, (), place)
        factors = (scale.reshape(1), np.asarray(dot, dtype).reshape(1))
        out[...] = contract(factors, start, kernel.data_type)


def walked_sampled_sum(memory: Memory, kernel: WalkedSampledSum, call: Call) -> None:
    if kernel.rows is None:
        _walked_sampled_row(memory, kernel, call, 0, (0, 0))
        return
    number, pos_row, c_row, a_row = call.arguments[5:]
    for index in _rows(memory, kernel.rows, call, number):
        shifts = (index[kernel.rows.inputs[0]] * a_row, index[kernel.rows.output] * c_row)
        _walked_sampled_row(memory, kernel, call, index[Follows.POSITION] * pos_row, shifts)


def _walked_sampled_row(
    memory: Memory, kernel: WalkedSampledSum, call: Call, pos_shift: int, shifts: tuple[int, int]
) -> None:
    """One row of a `WalkedSampledSum`: pos, A and the output shifted by so many bytes."""
    dot_last, last, accumulate, *strides = call.arguments[:5]
    before = 0 if kernel.rows is None else kernel.rows.index_arrays
    dtype, lanes = kernel.data_type.numpy_dtype(), kernel.lanes
    sizes = (
        (kernel.dot_vectors - 1) * lanes + (dot_last if kernel.dot_masked else lanes),
        (kernel.vectors - 1) * lanes + (last if kernel.masked else lanes),
    )
    a = memory.tile(call, before + 2, dtype, ((sizes[0], dtype.itemsize),), shifts[0])
    factors: list[list[Tile]] = [[], [], []]
    types = (kernel.pos_type, kernel.crd_type)
    for position, coordinate in _fibre(memory, call.operands[before:][:2], types, pos_shift):
        b, d = (
            memory.tile(
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
            scale = memory.tile(call, before + 5, dtype, (), place)
            factors[0].append(np.broadcast_to(scale, d.shape))
        factors[1].append(np.broadcast_to(np.asarray(dot, dtype), d.shape))
        factors[2].append(d)
    row = ((sizes[1], dtype.itemsize),)
    output = memory.tile(call, len(call.operands) - 1, dtype, row, shifts[1])
    inputs = tuple(
        np.stack(each, -1) if each else np.zeros((sizes[1], 0), dtype)
        for each in factors[0 if kernel.scales else 1 :]
    )
    accumulate_products(kernel.data_type, kernel.data_type, inputs, output, accumulate)
