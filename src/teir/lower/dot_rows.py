"""Lowering of a Contraction that names its lanes: chains along the last reduction."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from teir.dtypes import DataType
from teir.lower.axes import TileAxis, fuse_adjacent, fuse_any_order, wrap_in_loops
from teir.lower.blocking import full_lanes
from teir.lower.dot_columns import columns_of_loop
from teir.lower.elementwise import access
from teir.lower.joined_dots import lower_joined_dots
from teir.lower.kernel_program import Address, Call, KernelNode, Loop
from teir.lower.kernels import DotRows
from teir.target import PAGE_BYTES, Isa

APART = 2
"""Times its length that a row may lie behind the one before, where the matrices of a loop around
the tile count as one that comes from memory."""
_ACCUMULATORS = 8
"""Accumulators of one block: chains enough to hide the latency of the fused multiply-add."""
_MOST_ROWS = 4
FAR_ROWS = 8
"""Rows at once where each is long and none in the same lines of the first cache as the next: more
streams are then followed from the third cache (4 to 12 % less time; shorter rows lose that)."""
_FAR_BYTES = 1 << 20
_LONG_ROW_BYTES = 7 << 10
STREAMED_BYTES = 16 << 20
_STREAMED_PAIRS_BYTES = 1 << 20
_SHORTEST_STREAMED_ROW_BYTES = 256
_LONGEST_STREAMED_ROW_BYTES = 12 << 10
"""Rows that come from memory are read one after the other: rows of a page read side by side are
more than the hardware prefetchers follow, at half the bandwidth. Where two inputs move from row to
row that is so from the third cache already, at four fifths. Rows of one input that reach over
several pages are read side by side, as from the third cache: the prefetchers stop at every page,
and meanwhile other rows go on (Zen 4: 0.55 to 0.7 of the time)."""


def lower_dot_rows(
    axes: Sequence[TileAxis],
    operands: tuple[Address, ...],
    types: tuple[DataType, DataType],
    chains: int,
    from_zero: bool,
    isa: Isa,
    matrices: int,
) -> tuple[KernelNode, ...]:
    """Loops around one `DotRows` or `JoinedDots` call; all reductions run inside it.

    ``axes`` are all those of the tile, reductions in order; ``types`` those of the inputs and the
    output; ``matrices``: as many as follow one another in the loops around the tile.
    """
    inputs = len(operands) - 1
    free = fuse_any_order([axis for axis in axes if axis.strides[-1]])
    reductions = _reductions([axis for axis in axes if not axis.strides[-1]], chains, inputs)
    joined = lower_joined_dots(free, reductions, operands, types, chains, from_zero, isa)
    if joined is not None:
        return joined
    nothing = TileAxis(1, (0,) * (inputs + 1))
    rows = max(free, key=_row_worth, default=nothing)
    lanes = min(chains, full_lanes(isa, *types))
    in_type, out_type = types
    is_streamed = _is_streamed(rows, reductions, in_type.width, matrices)
    vectors = chains // lanes
    at_once = 1 if is_streamed else _rows_at_once(rows, reductions, vectors, in_type, isa)
    kernel = DotRows(
        in_type=in_type,
        out_type=out_type,
        inputs=inputs,
        reductions=len(reductions),
        chains=chains,
        lanes=lanes,
        rows=at_once,
        accesses=tuple(access(stride, in_type.width) for stride in reductions[-1].strides[:-1]),
        shared=tuple(stride == 0 for stride in rows.strides[:-1]),
        out_access=access(rows.strides[-1] or out_type.width, out_type.width),
    )
    arguments = (
        rows.extent,
        int(not from_zero),
        *(axis.extent for axis in reductions),
        *rows.strides,
        *(stride for axis in reductions for stride in axis.strides[:-1]),
    )
    call = Call(kernel=kernel, operands=operands, arguments=arguments)
    *loops, inner = [axis for axis in free if axis is not rows] or [nothing]
    body = wrap_in_loops((inner,), operands, (call,)) if inner.extent > 1 else (call,)
    if isinstance(body[0], Loop):
        body = columns_of_loop(body[0], isa) or body
    return wrap_in_loops(loops, operands, body)


def _reductions(axes: list[TileAxis], chains: int, inputs: int) -> list[TileAxis]:
    """The reductions, fused where that leaves every product in its chain; at least one."""
    if not axes:
        return [TileAxis(1, (0,) * (inputs + 1))]
    if axes[-1].extent % chains == 0:
        return fuse_adjacent(axes)
    return [*fuse_adjacent(axes[:-1]), axes[-1]]


def _is_streamed(rows: TileAxis, reductions: Sequence[TileAxis], width: int, matrices: int) -> bool:
    """True for large inputs that move from row to row, in rows neither too short to matter nor
    so long that they are read side by side."""
    row_bytes = width * prod(axis.extent for axis in reductions)
    strides = [abs(stride) for stride in rows.strides[:-1] if stride]
    if row_bytes < _SHORTEST_STREAMED_ROW_BYTES or not strides:
        return False
    is_one = len(strides) == 1
    if is_one and width * reductions[-1].extent >= _LONGEST_STREAMED_ROW_BYTES:
        return False
    if len(reductions) > 1 or max(strides) > APART * row_bytes:
        matrices = 1
    least = STREAMED_BYTES if is_one else _STREAMED_PAIRS_BYTES
    return len(strides) * rows.extent * row_bytes * matrices >= least


def _row_worth(axis: TileAxis) -> tuple[bool, int]:
    """Rows that share an input come first, then many rows."""
    return 0 in axis.strides[:-1], axis.extent


def _rows_at_once(
    rows: TileAxis, reductions: Sequence[TileAxis], vectors: int, in_type: DataType, isa: Isa
) -> int:
    row_bytes = in_type.width * prod(axis.extent for axis in reductions)
    strides = [abs(stride) for stride in rows.strides[:-1]]
    is_matrix = len(strides) > 1 and sum(1 for stride in strides if stride) == 1
    if is_matrix and reads_long_rows(row_bytes, rows.extent, max(strides), isa):
        return max(1, min(FAR_ROWS, 2 * _ACCUMULATORS // vectors))
    most = max(1, min(_MOST_ROWS, _ACCUMULATORS // vectors))
    while most > rows.extent:
        most //= 2
    return most


def reads_long_rows(row_bytes: int, rows: int, stride_bytes: int, isa: Isa) -> bool:
    """True for a matrix in the third cache whose rows are long and fall into different sets, where
    there are registers for `FAR_ROWS`."""
    is_far = row_bytes * rows >= _FAR_BYTES and rows >= _MOST_ROWS * FAR_ROWS
    is_apart = row_bytes >= _LONG_ROW_BYTES and stride_bytes % PAGE_BYTES != 0
    return isa.is_avx512 and is_far and is_apart
