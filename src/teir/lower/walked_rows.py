"""Loops around kernels that walk fibres become rows of those kernels.

    i { j over a fibre { A[i, :] += B[p] C[j, :] } }                 one call for many rows i
    j over a fibre { k over a fibre { A[q, :] += B[p] C[k, :] } }    one call for all positions q

A call per row costs as much as a short fibre. Rows write apart from one another and read nothing
that is written, so neither their order nor how many are formed at once is seen in a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.kernel_program import (
    Address,
    BlockLoop,
    Call,
    Grid,
    GridAxis,
    KernelNode,
    Loop,
    RowRunLoop,
    RunLoop,
    SparseLoop,
    Step,
)
from teir.lower.moved_nodes import shifted, times
from teir.lower.scattered_rows import has_short_rows, scatter_with_rows
from teir.lower.walked_kernels import (
    Follows,
    WalkedDots,
    WalkedRows,
    WalkedSampledSum,
    WalkedScatter,
    WalkedSum,
)
from teir.target import LINE_BYTES, Isa

_MOST_ROWS = 256
"""Rows of one call below a grid at most: shares for threads, and places to stop at."""
_MOST_SHORT_ROWS = 512
"""The same of rows of one number, of which a call would take longer than few."""
_LEAST_SHARES = 16
_MOST_ROWS_OF_LOOP = 4096
_TOGETHER = 3
_DOTS_TOGETHER = 2
_SAMPLED_REGISTERS = 30
_Moves = Mapping[int, tuple[Follows, int]]


def rows_of_loop(loop: Loop, isa: Isa) -> tuple[KernelNode, ...] | None:
    """Calls in place of a loop over rows; None where it is none."""
    match loop.body[0]:
        case Call(kernel=WalkedSum() | WalkedScatter()) if has_short_rows(loop.body):
            return None if loop.index is not None else _blocks_of_short_rows(loop, isa)
        case RunLoop() | Call(kernel=WalkedSum() | WalkedDots() | WalkedSampledSum()):
            pass
        case _:
            return None
    if loop.index is not None or loop.extent > _MOST_ROWS_OF_LOOP:
        return None
    return _rows_of(loop.body, loop.steps, loop.extent, isa)


def _blocks_of_short_rows(loop: Loop, isa: Isa) -> tuple[KernelNode, ...] | None:
    """Rows in their order, some of them in every call: there are places to stop at."""
    if loop.extent <= _MOST_ROWS_OF_LOOP:
        return _rows_of(loop.body, loop.steps, loop.extent, isa)
    whole, left = divmod(loop.extent, _MOST_ROWS_OF_LOOP)
    blocks = _rows_of(loop.body, loop.steps, _MOST_ROWS_OF_LOOP, isa)
    if blocks is None:
        return None
    steps = tuple(times(step, _MOST_ROWS_OF_LOOP) for step in loop.steps)
    nodes = (Loop(extent=whole, steps=steps, index=None, body=blocks),)
    rest = _rows_of(loop.body, loop.steps, left, isa) if left else None
    if rest is None:
        return nodes
    moved = {step.slot: whole * step.stride_bytes for step in steps}
    return (*nodes, *(shifted(node, moved) for node in rest))


def rows_of_grid(grid: Grid, isa: Isa) -> tuple[KernelNode, ...] | None:
    """A grid of blocks of rows, then one of the rows that are left; None where it has no rows."""
    *outer, axis = grid.axes
    if axis.index is not None or axis.extent < 2 * _LEAST_SHARES:
        return None
    most = _MOST_SHORT_ROWS if has_short_rows(grid.body) else _MOST_ROWS
    rows = min(most, axis.extent // _LEAST_SHARES)
    whole, left = divmod(axis.extent, rows)
    blocks = _rows_of(grid.body, axis.steps, rows, isa)
    if blocks is None:
        return None
    steps = tuple(times(step, rows) for step in axis.steps)
    balance = grid.balance
    if balance is not None:
        stride = rows * balance.stride_bytes
        balance = structs.replace(balance, stride_bytes=stride, rows=rows * balance.rows)
    axes = (*outer, GridAxis(extent=whole, steps=steps, index=None))
    nodes = (Grid(axes=axes, body=blocks, balance=balance),)
    rest = _rows_of(grid.body, axis.steps, left, isa) if left else None
    if rest is None:
        return nodes
    moved = {step.slot: whole * step.stride_bytes for step in steps}
    tail = tuple(shifted(node, moved) for node in rest)
    last = GridAxis(extent=1, steps=(), index=None)
    return (*nodes, Grid(axes=(*outer, last), body=tail))


def rows_of_fibre(loop: SparseLoop, isa: Isa) -> tuple[KernelNode, ...] | None:
    """Calls in place of a sparse loop over rows; None where it is none."""
    if len(loop.walks) != 1 or loop.index is not None or loop.last is not None:
        return None
    (walk,) = loop.walks
    if walk.crd_stride_bytes != walk.crd_type.width:
        return None
    moves = {step.slot: (Follows.COORDINATE, step.stride_bytes) for step in loop.steps}
    for step in walk.steps:
        if step.slot in moves:
            return None
        moves[step.slot] = (Follows.POSITION, step.stride_bytes)
    moves.pop(walk.crd.slot, None)
    calls = []
    for call in loop.body:
        made = _call_with_rows(call, moves, 0, isa)
        if made is None:
            return None
        kernel = made.kernel
        assert isinstance(kernel, WalkedSum | WalkedDots | WalkedSampledSum)
        assert kernel.rows is not None
        uses = Follows.COORDINATE in (*kernel.rows.inputs, kernel.rows.output)
        crd_type = walk.crd_type if uses else None
        rows = replace(kernel.rows, bounds=walk.pos_type, crd=crd_type)
        arrays = (walk.pos, walk.crd) if uses else (walk.pos,)
        calls.append(
            Call(
                kernel=replace(kernel, rows=rows),
                operands=(*arrays, *made.operands),
                arguments=made.arguments,
            )
        )
    return tuple(calls)


def _rows_of(
    body: Sequence[KernelNode], steps: Sequence[Step], rows: int, isa: Isa
) -> tuple[KernelNode, ...] | None:
    """``body`` for so many rows that ``steps`` are apart; None where rows would meet."""
    match body:
        case (RunLoop() as runs,):
            return _row_runs(runs, steps, rows, isa)
        case (BlockLoop() as blocks,):
            return _blocks_of_rows(blocks, steps, rows)
        case (Call(kernel=WalkedScatter(outer=None, has_rows=False) as kernel) as call,):
            return scatter_with_rows(call, kernel, steps, rows)
        case _:
            return _with_rows(body, steps, rows, isa)


def _blocks_of_rows(
    blocks: BlockLoop, steps: Sequence[Step], rows: int
) -> tuple[KernelNode, ...] | None:
    """Blocks of the positions of all rows, which only the fibres tell apart."""
    if [*steps] != [Step(slot=blocks.pos.slot, stride_bytes=blocks.pos_type.width)]:
        return None
    return (replace(blocks, fibres=rows * blocks.fibres),)


def _row_runs(
    runs: RunLoop, steps: Sequence[Step], rows: int, isa: Isa
) -> tuple[KernelNode, ...] | None:
    """Runs of whole rows in place of the runs of every row: all of them begin from zero or none."""
    moved = {step.slot: step.stride_bytes for step in steps}
    if runs.bounds.slot in moved or any(step.slot in moved for step in runs.steps):
        return None
    calls = tuple(_on_fibre(node, runs) for node in runs.first or runs.body)
    made = _with_rows(calls, steps, rows, isa)
    if made is None:
        return None
    return (
        RowRunLoop(
            extent=rows,
            pos=runs.pos,
            pos_type=runs.pos_type,
            pos_row=moved[runs.pos.slot],
            size=runs.size,
            bounds=runs.bounds,
            rows=tuple(steps),
            steps=runs.steps,
            body=tuple(_within(call, runs.bounds) for call in made),
            single=(runs,),
        ),
    )


def _on_fibre(node: KernelNode, runs: RunLoop) -> KernelNode:
    """A call for a run of positions as one for all of the fibre."""
    match node:
        case Call(kernel=WalkedSum() | WalkedDots() as kernel) if node.operands[0] == runs.bounds:
            return Call(
                kernel=replace(kernel, pos_type=runs.pos_type),
                operands=(runs.pos, *node.operands[1:]),
                arguments=node.arguments,
            )
        case _:
            return node


def _within(call: Call, bounds: Address) -> Call:
    """The call with the number of its rows read from memory."""
    kernel = call.kernel
    assert isinstance(kernel, WalkedSum | WalkedDots)
    assert kernel.rows is not None
    rows = replace(kernel.rows, bounds=DataType.I64)
    return Call(
        kernel=replace(kernel, rows=rows),
        operands=(bounds, *call.operands),
        arguments=call.arguments,
    )


def rows_of_block(
    body: Sequence[KernelNode], steps: Sequence[Step], rows: int, isa: Isa
) -> tuple[Call, ...] | None:
    """``body`` for so many positions, which ``steps`` are apart; None where it is not for rows."""
    return _with_rows(body, steps, rows, isa)


def _with_rows(
    body: Sequence[KernelNode], steps: Sequence[Step], rows: int, isa: Isa
) -> tuple[Call, ...] | None:
    moves = {step.slot: (Follows.POSITION, step.stride_bytes) for step in steps}
    calls = []
    for node in body:
        call = _call_with_rows(node, moves, rows, isa)
        if call is None:
            return None
        calls.append(call)
    return tuple(calls)


def _call_with_rows(node: KernelNode, moves: _Moves, rows: int, isa: Isa) -> Call | None:
    """The call for rows that move slots by ``moves``; None where rows would meet."""
    match node:
        case Call(kernel=WalkedSum(rows=None) as kernel):
            return _sum_with_rows(node, kernel, moves, rows, isa)
        case Call(kernel=WalkedDots(rows=None) as kernel):
            return _dots_with_rows(node, kernel, moves, rows, isa)
        case Call(kernel=WalkedSampledSum(rows=None) as kernel):
            return _sampled_with_rows(node, kernel, moves, rows, isa)
        case _:
            return None


def _dots_with_rows(
    node: Call, kernel: WalkedDots, moves: _Moves, rows: int, isa: Isa
) -> Call | None:
    pos, crd, a, b, *ends = node.operands
    if any(one.slot in moves for one in (crd, b, *ends)):
        return None
    if any(one.slot == ends[-1].slot for one in (pos, crd, a, b, *ends[:-1])):
        return None
    (follows, pos_row), (a_follows, a_row) = _move(moves, pos), _move(moves, a)
    if follows is not Follows.POSITION or (kernel.aligns and a_row % LINE_BYTES):
        return None
    has_groups = isa.has_masks and rows and pos_row == kernel.pos_type.width
    rows_value = WalkedRows(
        bounds=None,
        crd=None,
        inputs=(a_follows, Follows.NOTHING),
        output=Follows.NOTHING,
        together=_DOTS_TOGETHER if has_groups else 1,
    )
    ahead = kernel.ahead if pos_row == kernel.pos_type.width else None
    return Call(
        kernel=replace(kernel, rows=rows_value, ahead=ahead),
        operands=node.operands,
        arguments=(*node.arguments, rows, pos_row, 0, a_row, 0),
    )


def _sampled_with_rows(
    node: Call, kernel: WalkedSampledSum, moves: _Moves, rows: int, isa: Isa
) -> Call | None:
    pos, crd, a, *others, output = node.operands
    if any(one.slot in moves for one in (crd, *others)):
        return None
    if any(one.slot == output.slot for one in (pos, crd, a, *others)):
        return None
    (follows, pos_row), (a_follows, a_row) = _move(moves, pos), _move(moves, a)
    out_follows, c_row = _move(moves, output)
    last = node.arguments[1] if kernel.masked else kernel.lanes
    row = ((kernel.vectors - 1) * kernel.lanes + last) * kernel.data_type.width
    if follows is not Follows.POSITION or c_row < row:
        return None
    has_groups = isa.has_masks and rows and pos_row == kernel.pos_type.width
    rows_value = WalkedRows(
        bounds=None,
        crd=None,
        inputs=(a_follows,),
        output=out_follows,
        together=_sampled_together(kernel) if has_groups else 1,
    )
    ahead = kernel.ahead if pos_row == kernel.pos_type.width else None
    return Call(
        kernel=replace(kernel, rows=rows_value, ahead=ahead),
        operands=node.operands,
        arguments=(*node.arguments, rows, pos_row, c_row, a_row),
    )


def _sampled_together(kernel: WalkedSampledSum) -> int:
    """Rows whose vectors all fit the registers."""
    each = kernel.dot_vectors + kernel.vectors + 2
    return max(1, min(_TOGETHER, _SAMPLED_REGISTERS // each))


def _sum_with_rows(
    node: Call, kernel: WalkedSum, moves: _Moves, rows: int, isa: Isa
) -> Call | None:
    arrays = node.operands[: kernel.index_arrays]
    inputs = node.operands[kernel.index_arrays : -1]
    output = node.operands[-1]
    if any(one.slot == output.slot for one in (*arrays, *inputs)):
        return None
    if any(array.slot in moves for array in arrays[1:]):
        return None
    follows, pos_row = _move(moves, arrays[0])
    if follows is not Follows.POSITION:
        return None
    row_moves = [_move(moves, one) for one in inputs]
    out_follows, c_row = _move(moves, output)
    is_apart = _lies_apart(node, kernel, c_row) or _adds_up(node, kernel, out_follows, rows)
    if not is_apart or not _keeps_lines(kernel, row_moves):
        return None
    has_groups = rows and kernel.outer is None and pos_row == kernel.pos_type.width
    rows_value = WalkedRows(
        bounds=None,
        crd=None,
        inputs=tuple(follows for follows, _ in row_moves),
        output=out_follows,
        together=_together(kernel, row_moves, isa) if has_groups else 1,
    )
    steps = tuple(step for _, step in row_moves)
    ahead = kernel.ahead if pos_row == _pos_type(kernel).width else None
    return Call(
        kernel=replace(kernel, rows=rows_value, ahead=ahead),
        operands=node.operands,
        arguments=(*node.arguments, rows, pos_row, c_row, *steps),
    )


def _pos_type(kernel: WalkedSum) -> DataType:
    """The type of the bounds that rows move."""
    return kernel.pos_type if kernel.outer is None else kernel.outer[0]


def _move(moves: _Moves, address: Address) -> tuple[Follows, int]:
    return moves.get(address.slot, (Follows.NOTHING, 0))


def _lies_apart(call: Call, kernel: WalkedSum, c_row: int) -> bool:
    """True when no element is in two rows of the output."""
    last_lanes, _, c_n = call.arguments[:3]
    last = last_lanes if kernel.masked else kernel.lanes
    row = ((kernel.vectors - 1) * kernel.lanes + last) * kernel.out_type.width
    if kernel.columns == 1:
        return c_row >= row
    # Rows of columns, or columns of rows.
    return c_row >= (kernel.columns - 1) * c_n + row or (
        c_row >= row and c_n >= row and c_n % c_row == 0
    )


def _adds_up(call: Call, kernel: WalkedSum, output: Follows, rows: int) -> bool:
    """True where all rows add into one number, which every row takes from the one before."""
    accumulate = call.arguments[1]
    is_number = kernel.chains is not None and output is Follows.NOTHING
    return is_number and bool(accumulate) and rows > 0


def _keeps_lines(kernel: WalkedSum, moves: Sequence[tuple[Follows, int]]) -> bool:
    """True when the rows that are read in whole lines begin at one place of a line."""
    return kernel.aligns is None or moves[kernel.aligns][1] % LINE_BYTES == 0


def _together(kernel: WalkedSum, moves: Sequence[tuple[Follows, int]], isa: Isa) -> int:
    """Rows formed at once where their fibres agree: those that gather the same."""
    if not isa.has_masks or kernel.columns > 1 or kernel.in_type.is_complex:
        return 1
    shares = any(
        one.access is Access.UNIT and one.follows is Follows.COORDINATE and not step
        for one, (_, step) in zip(kernel.inputs, moves, strict=True)
    )
    return _TOGETHER if shares else 1
