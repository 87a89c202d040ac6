"""Lowering of a sparse loop together with its leaf: one kernel call walks a whole fibre.

    j over a fibre { A[i, :] += B[p] * C[j, :] }      WalkedSum
    j over a fibre { t = C[i, :] . D[j, :]; A[p] += B[p] * t }      WalkedDots

Free axes of the leaf that fill no register block become loops around the kernel: every sum keeps
the order of the fibre.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.lower.access import Access
from teir.lower.axes import TileAxis, fuse_any_order, wrap_in_loops
from teir.lower.blocking import full_lanes
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.walked_fibre import Fibre, Leaf
from teir.lower.walked_kernels import Follows, WalkedDots, WalkedInput, WalkedSum
from teir.target import LINE_BYTES, Isa

_MOST_VECTORS = 16
_BLOCK_VECTORS = 4
_MOST_COLUMNS = 12
_AHEAD = 16
_MOST_AHEAD = 48
_AHEAD_BYTES = 12 << 10
"""So many positions ahead rows are asked for; more of short ones, into the second cache, which has
room for them. Measured on Zen 4 with rows of 256 bytes of 7 MB: 48 positions take 0.87 of the time
that 16 take; of 512 bytes and more all from 16 to 64 take as long, to 3 %."""
_FAR_BYTES = 3 << 20
_FARTHER_BYTES = 6 << 20
_FARTHEST_BYTES = 10 << 20
_SHORT_ROW_BYTES = 512
"""Operands of this size are gathered ahead, into the second cache: more lines can be on their way
there than to the first. Smaller ones lie near, and asking for them costs.

Of long rows the hardware fetches most by itself. Neighbouring rows of a matrix often gather the
same; fibres of deeper levels, which are many more, seldom do. Where sampled dots are the result, no
other operand is gathered: more of this one stays in the third cache.
"""
ASKED_BYTES = 3 << 20
"""Where requests are what brings lines in time (`Isa.asks_nearest`), sampled rows are asked for
from this size on: beside a second cache of 2 MiB many of them come from beyond it."""


def lower_walked_sum(leaf: Leaf, fibre: Fibre, isa: Isa) -> tuple[KernelNode, ...] | None:
    """Calls of `WalkedSum`; None where the leaf reduces, or the fibre moves what it adds into."""
    if fibre.move(leaf.operands[-1])[0] is not Follows.NOTHING or leaf.in_type.is_complex:
        return None
    if fibre.number is not Follows.OUTER_POSITION:
        return None
    if any(not axis.strides[-1] for axis in leaf.axes):
        return None
    free = fuse_any_order(leaf.axes)
    row = next((axis for axis in free if _is_row(axis, leaf)), None)
    if row is None and free:
        return None
    rest = [axis for axis in free if axis is not row]
    column = max(
        (axis for axis in rest if row is not None and not _moves_rows(axis, row)),
        key=lambda axis: axis.extent,
        default=None,
    )
    outer = [axis for axis in rest if axis is not column]
    body = _blocks(leaf, fibre, row, column, isa)
    return wrap_in_loops(outer, leaf.operands, body)


def _is_row(axis: TileAxis, leaf: Leaf) -> bool:
    return axis.strides[-1] == leaf.out_type.width and all(
        stride in (0, leaf.in_type.width) for stride in axis.strides[:-1]
    )


def _moves_rows(axis: TileAxis, row: TileAxis) -> bool:
    """True when rows of inputs would have to be read again for every column."""
    return any(
        stride and along_row
        for stride, along_row in zip(axis.strides[:-1], row.strides[:-1], strict=True)
    )


def _blocks(
    leaf: Leaf, fibre: Fibre, row: TileAxis | None, column: TileAxis | None, isa: Isa
) -> tuple[KernelNode, ...]:
    lanes = 1 if row is None else full_lanes(isa, leaf.in_type, leaf.out_type)
    extent = 1 if row is None else row.extent
    vectors = -(-extent // lanes)
    columns = 1 if column is None else column.extent
    most = _MOST_VECTORS if columns == 1 else _BLOCK_VECTORS
    most = most if isa.has_masks else max(1, most // 2)
    pieces = -(-vectors // most)
    room = (24 if isa.has_masks else 8) // -(-vectors // pieces)
    at_once = min(columns, max(1, min(room, _MOST_COLUMNS)))
    nodes: tuple[KernelNode, ...] = ()
    start = 0
    for piece in range(pieces):
        size = vectors // pieces + (piece < vectors % pieces)
        last = extent - (start + size - 1) * lanes
        for first, wide, count in _column_cuts(columns, at_once):
            block = _Block(size, lanes, min(last, lanes), wide)
            shift = tuple(
                (0 if row is None else start * lanes * along_row)
                + (0 if column is None else first * along_column)
                for along_row, along_column in zip(
                    _strides(row, leaf), _strides(column, leaf), strict=True
                )
            )
            call = _sum_call(leaf, fibre, row, column, block, shift, isa)
            walk = TileAxis(count, tuple(wide * one for one in _strides(column, leaf)))
            nodes += wrap_in_loops((walk,), leaf.operands, (call,)) if count > 1 else (call,)
        start += size
    return nodes


def _column_cuts(columns: int, most: int) -> list[tuple[int, int, int]]:
    """First column, columns of a block, number of blocks: whole blocks, then the rest."""
    whole, left = divmod(columns, most)
    cuts = [(0, most, whole)] if whole else []
    return [*cuts, (whole * most, left, 1)] if left else cuts


def _strides(axis: TileAxis | None, leaf: Leaf) -> tuple[int, ...]:
    return (0,) * len(leaf.operands) if axis is None else axis.strides


@dataclass(frozen=True, slots=True)
class _Block:
    """A register block: the last vector has ``last`` lanes."""

    vectors: int
    lanes: int
    last: int
    columns: int


def _sum_call(
    leaf: Leaf,
    fibre: Fibre,
    row: TileAxis | None,
    column: TileAxis | None,
    block: _Block,
    shift: tuple[int, ...],
    isa: Isa,
) -> Call:
    moves = [fibre.move(address) for address in leaf.operands[:-1]]
    steps = tuple(step for _, step in moves)
    along_row, along_column = _strides(row, leaf), _strides(column, leaf)
    inputs = tuple(
        WalkedInput(
            access=Access.UNIT if along_row[number] else Access.BROADCAST,
            follows=follows,
            has_columns=along_column[number] != 0 and block.columns > 1,
        )
        for number, (follows, _) in enumerate(moves)
    )
    above = fibre.above
    arrays = () if above is None else (above.pos, above.crd)
    pos_step = 0 if above is None else above.move(fibre.pos)[1]
    operands = tuple(
        Address(slot=address.slot, offset_bytes=address.offset_bytes + distance)
        for address, distance in zip(leaf.operands, shift, strict=True)
    )
    return Call(
        kernel=_sum_kernel(leaf, fibre, block, inputs, steps, isa),
        operands=(*arrays, fibre.pos, fibre.crd, *operands),
        arguments=(
            block.last,
            int(leaf.accumulate),
            along_column[-1],
            pos_step,
            *steps,
            *along_column[:-1],
        ),
    )


def _sum_kernel(
    leaf: Leaf,
    fibre: Fibre,
    block: _Block,
    inputs: tuple[WalkedInput, ...],
    steps: tuple[int, ...],
    isa: Isa,
) -> WalkedSum:
    """The kernel of a block; an entry of the fibre moves the inputs ``steps`` bytes on."""
    above = fibre.above
    return WalkedSum(
        in_type=leaf.in_type,
        out_type=leaf.out_type,
        pos_type=fibre.pos_type,
        crd_type=fibre.crd_type,
        lanes=block.lanes,
        vectors=block.vectors,
        columns=block.columns,
        masked=block.last < block.lanes,
        inputs=inputs,
        aligns=_aligned_input(leaf, inputs, steps, block, isa),
        outer=None if above is None else (above.pos_type, above.crd_type),
        ahead=_rows_ahead(leaf, block, isa) if _is_far(fibre, inputs, steps) else None,
        chains=leaf.chains,
        adjacent=tuple(
            step == leaf.in_type.width or (leaf.chains is None and not _is_stored(one))
            for one, step in zip(inputs, steps, strict=True)
        ),
    )


def _rows_ahead(leaf: Leaf, block: _Block, isa: Isa) -> int:
    if isa.asks_nearest:
        return _AHEAD
    row_bytes = block.vectors * block.lanes * leaf.in_type.width
    return min(_MOST_AHEAD, max(_AHEAD, _AHEAD_BYTES // row_bytes))


def _is_stored(one: WalkedInput) -> bool:
    """Whether an input has an element for every stored one."""
    return one.follows is Follows.POSITION


def _is_far(fibre: Fibre, inputs: Sequence[WalkedInput], steps: Sequence[int]) -> bool:
    """True where gathered rows lie beyond the second cache, scattered over more than it holds."""
    if fibre.above is not None and fibre.above.move(fibre.pos)[1] != fibre.pos_type.width:
        return False
    return any(
        lies_far(step, fibre)
        for one, step in zip(inputs, steps, strict=True)
        if one.access is Access.UNIT and one.follows is Follows.COORDINATE
    )


def lies_far(step: int, fibre: Fibre) -> bool:
    return _is_at_least(step, fibre, _FARTHER_BYTES)


def _is_at_least(step: int, fibre: Fibre, bytes_: int) -> bool:
    """Whether the rows gathered take ``bytes_``, or less where few are gathered again."""
    is_scattered = fibre.is_deep and step <= _SHORT_ROW_BYTES
    return step * fibre.extent >= (_FAR_BYTES if is_scattered else bytes_)


def _aligned_input(
    leaf: Leaf, inputs: Sequence[WalkedInput], steps: Sequence[int], block: _Block, isa: Isa
) -> int | None:
    if not isa.has_masks or block.columns > 1 or block.last < block.lanes or block.vectors < 2:
        return None
    if leaf.in_type is not leaf.out_type or leaf.in_type.width * block.lanes != LINE_BYTES:
        return None
    for number, one in enumerate(inputs):
        gathers = one.access is Access.UNIT and one.follows is Follows.COORDINATE
        if gathers and steps[number] % LINE_BYTES == 0:
            return number
    return None


def scaled_end(leaf: Leaf, fibre: Fibre, dot: int) -> tuple[Address, Address] | None:
    """The scale and the output of ``out[p] += scale[p] * dot``; None for any other leaf."""
    if leaf.axes or len(leaf.operands) != 3 or leaf.in_type is not leaf.out_type:
        return None
    *inputs, output = leaf.operands
    others = [address for address in inputs if address.slot != dot]
    along = (Follows.POSITION, leaf.in_type.width)
    if len(others) != 1 or fibre.move(others[0]) != along or fibre.move(output) != along:
        return None
    return others[0], output


def lower_walked_dots(
    dot: Leaf, fibre: Fibre, chains: int, ends: Sequence[Address], isa: Isa, *, is_result: bool
) -> tuple[KernelNode, ...] | None:
    """A call of `WalkedDots` for a sum over adjacent elements of a fixed and a gathered row.

    ``ends`` are the scale, where there is one, and the output, both adjacent along the fibre.
    ``is_result``: the dots are not what other gathered rows are multiplied with next.
    """
    data_type = dot.in_type
    if len(dot.axes) != 1 or len(dot.operands) != 3 or data_type is not dot.out_type:
        return None
    if data_type.is_complex or data_type is not data_type.accumulator:
        return None
    axis = dot.axes[0]
    if axis.strides != (data_type.width, data_type.width, 0):
        return None
    first, second = dot.operands[:2]
    if fibre.move(first)[0] is not Follows.NOTHING:
        first, second = second, first
    follows, step = fibre.move(second)
    if fibre.move(first)[0] is not Follows.NOTHING or follows is not Follows.COORDINATE:
        return None
    lanes = min(chains, full_lanes(isa, data_type, data_type))
    vectors, last = -(-axis.extent // chains), (axis.extent - 1) % chains + 1
    if vectors * chains > _MOST_VECTORS * lanes or (last < chains and isa in (Isa.PLAIN, Isa.NEON)):
        return None
    line = lanes == chains and lanes * data_type.width == LINE_BYTES and isa.has_masks
    far_bytes = _FARTHEST_BYTES if is_result else _FARTHER_BYTES
    far_bytes = ASKED_BYTES if isa.asks_nearest else far_bytes
    kernel = WalkedDots(
        data_type=data_type,
        pos_type=fibre.pos_type,
        crd_type=fibre.crd_type,
        lanes=lanes,
        chains=chains,
        vectors=vectors,
        masked=last < chains,
        scales=len(ends) > 1,
        aligns=line and last == chains and step % LINE_BYTES == 0 and vectors > 2,
        ahead=_AHEAD if _is_at_least(step, fibre, far_bytes) else None,
    )
    operands = (fibre.pos, fibre.crd, first, second, *ends)
    arguments = (last, int(dot.accumulate), step)
    return (Call(kernel=kernel, operands=operands, arguments=arguments),)
