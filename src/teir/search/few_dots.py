"""Products of very few rows with a matrix whose rows are adjacent along the sum: dots, which read
the matrix as it lies.

    [copy the few rows, so that they are adjacent along k]
    [parallel] batches, outer rows {
        two rows:    both rows { zero; Contraction M=[rows of the matrix] K=[.., k] lanes }
        three, four: rows of the matrix { zero; Contraction M=[few rows] K=[.., k] lanes } }

Register blocks would leave most of every vector empty, or need the matrix turned, which takes
longer than reading it. The few rows stay in the first cache. The loop around the sums becomes
columns of one call, two at once: with two rows the matrix is read once, four of its rows side by
side, which prefetchers follow better than two. That this is done, and in how many lanes, follows
from the extents alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from teir.dtypes import DataType
from teir.ir.nodes import Operation, Tensor
from teir.passes.extents import even_block
from teir.passes.parallelise import CHUNKS
from teir.search.dots import ROW_LANES_BYTES, lane_count
from teir.search.emission import Body, Emission, Roles
from teir.search.in_parts import run_of
from teir.search.machine import Machine
from teir.search.packing import Piece, cut
from teir.search.shape import ProductShape, extent_of, outermost_first
from teir.search.step import Span, fuse, is_adjacent
from teir.target import rows_apart

_TYPES = (DataType.BF16, DataType.FP16, DataType.FP32, DataType.FP64)
_MOST_FEW, _MOST_CONVERTED = 4, 6
"""Rows up to which dots take less time than register blocks: 0.2 to 0.9 of it on Zen 4; and those
of FP16, of which blocks convert every element as they meet it: 0.1 to 1.1, 0.4 in the mean."""
_FEWEST = 64
"""Rows of the matrix."""
_SHORTEST = 32
"""Products of a sum along the lanes, with two rows and with a matrix from memory. Two rows are
copied so that shorter sums are one, as they are in the matrix: drawn ones on Zen 4 0.13 to 1.13 of
the time, 0.5 in the mean."""
_JOINED = 128
"""Products of sums that three and four rows are copied for, in FP32: 0.24 to 1.46 of the time, 0.6
in the mean; shorter ones up to 1.7, in FP64 0.95 in the mean."""
_SHORTEST_NEAR = {DataType.BF16: 64, DataType.FP16: 128, DataType.FP32: 64}
"""The same with more rows and a matrix that a cache holds: sums over lanes take their time."""
_FROM_MEMORY_BYTES = 12 * 2**20
"""Of a matrix that second caches do not hold. Sums keep their order on every machine."""
_NEAR_BYTES = 2**14
"""The few rows that stay in the first cache. Those of narrow types may be longer: converting takes
more time than reading them from the second."""
_SECOND_BYTES, _PART_BYTES = 1 << 20, 1 << 18
"""Two rows, and three or four, that the second cache holds: 0.41 to 1.06 of the time of register
blocks on Golden Cove, whose vectors are for the greatest part empty or need the matrix turned."""
_AT_ONCE = 2
"""Columns of a call that are formed at once."""
_TOGETHER = 4
"""Rows of the matrix that a call forms at once."""
_LONGEST_BYTES = 8192
"""Rows of which four side by side, and the few, stay in the first cache."""


@dataclass(frozen=True, slots=True)
class FewDots:
    """The matrix and the few rows beside it, and the axes: ``k`` ends with the one of the lanes.

    ``joins``: sums that follow one another in the matrix are one only once the few rows lie so too.
    """

    matrix: Tensor
    near: Tensor
    out: Tensor
    around: tuple[Span, ...]
    rows: Span
    few: Span
    k: tuple[Span, ...]
    joins: bool

    @property
    def along(self) -> Span:
        return self.k[-1]


def few_dots_of(shape: ProductShape) -> FewDots | None:
    """The product as dots of a matrix with few rows; None for all others."""
    if shape.m is None or shape.n is None or shape.a.data_type not in _TYPES:
        return None
    most = _MOST_CONVERTED if shape.a.data_type is DataType.FP16 else _MOST_FEW
    if not shape.n_outer and shape.n.extent <= most:
        return _beside(shape, shape.a, (*shape.m_outer, shape.m), shape.b, shape.n)
    if not shape.m_outer and shape.m.extent <= most:
        return _beside(shape, shape.b, (*shape.n_outer, shape.n), shape.a, shape.m)
    return None


def _beside(
    shape: ProductShape, matrix: Tensor, side: tuple[Span, ...], near: Tensor, few: Span
) -> FewDots | None:
    k = outermost_first(shape.k, matrix)
    *outer, rows = outermost_first(side, matrix)
    if not is_adjacent(k[-1], matrix) or rows.extent < _FEWEST:
        return None
    width = matrix.data_type.width
    is_near = few.extent * extent_of(k) * width <= _most_bytes(rows, few, shape.out)
    if not is_near and not matrix.data_type.is_narrow:
        return None
    is_far = extent_of((*shape.c, *side, *k)) * width >= _FROM_MEMORY_BYTES
    least, run = _fewest_joined(few, matrix), extent_of(run_of(k[-1], k, matrix))
    is_cut = least is not None and k[-1].extent < least <= run
    summed = run if is_cut else k[-1].extent
    if summed < _SHORTEST:
        return None
    shortest_near = _SHORTEST_NEAR.get(matrix.data_type)
    is_short = shortest_near is None or summed < shortest_near
    if few.extent > _AT_ONCE and not is_far and is_short:
        return None
    around = (*outermost_first(shape.c, matrix), *outer)
    joins = is_cut or not is_adjacent(k[-1], near)
    return FewDots(matrix, near, shape.out, around, rows, few, k, joins)


def _fewest_joined(few: Span, matrix: Tensor) -> int | None:
    """Products of a sum from which copying the few rows to make it one pays; None where it never
    does."""
    if few.extent <= _AT_ONCE:
        return _SHORTEST
    return _JOINED if matrix.data_type is DataType.FP32 else None


def _most_bytes(rows: Span, few: Span, out: Tensor) -> int:
    """Bytes of the few rows beside which dots take less time than any register blocks.

    Those of FP64 read four rows, and three where the result has the few adjacent, as they lie.
    """
    if few.extent <= _AT_ONCE:
        return _SECOND_BYTES
    is_well_read = few.extent == _MOST_FEW or not is_adjacent(rows, out)
    if out.data_type is DataType.FP64 and is_well_read:
        return _NEAR_BYTES
    return _PART_BYTES


def emit_few_dots(emission: Emission, found: FewDots, machine: Machine) -> Body:
    """The nodes of a step that `few_dots_of` recognised."""
    body, dots = _with_adjacent_rows(emission, found)
    row_bytes = extent_of(dots.k) * dots.matrix.data_type.width
    are_columns = dots.few.extent <= _AT_ONCE and row_bytes <= _LONGEST_BYTES
    work = extent_of((*dots.around, dots.rows, dots.few, *dots.k))
    is_shared = machine.threads > 1 and work >= machine.threaded_work
    shares_rows = is_shared and extent_of(dots.around) < machine.threads
    block = dots.rows.extent
    if shares_rows:
        block = even_block(block, -(-block // (CHUNKS * machine.threads)), _TOGETHER)

    def rows_of(piece: Piece) -> Body:
        rows = piece.tile
        assert rows is not None
        together, one_by_one = (rows, dots.few) if are_columns else (dots.few, rows)
        leaf = partial(_leaf, emission, dots, together)
        chunk = partial(emission.loops, (one_by_one,), leaf, parallel=False)
        return emission.loops(piece.loops, chunk, parallel=shares_rows)

    def all_rows() -> Body:
        return sum(map(rows_of, cut(dots.rows, block)), Body())

    return body + emission.loops(dots.around, all_rows, parallel=is_shared)


def _leaf(emission: Emission, dots: FewDots, together: Span) -> Body:
    zero = emission.leaf(Operation.ZERO, (), dots.out.name, Roles(m=(together,)))
    return zero + emission.leaf(
        Operation.CONTRACTION,
        (dots.matrix.name, dots.near.name),
        dots.out.name,
        Roles(m=(together,), k=dots.k),
        data_type=dots.matrix.data_type,
        lanes=lane_count(ROW_LANES_BYTES, dots.out.data_type, dots.along),
    )


def _with_adjacent_rows(emission: Emission, dots: FewDots) -> tuple[Body, FewDots]:
    """The same with the few rows copied first where they are not adjacent along the lanes, or along
    sums that the copy joins.

    Every copied row begins with a line.
    """
    source = dots.near
    if not dots.joins:
        return Body(), dots
    near = Tensor(name=emission.name(f"{source.name}_turned"), data_type=source.data_type)
    laid: dict[int, Span] = {}
    stride = source.data_type.width
    for axis in reversed((*dots.around, dots.few, *dots.k)):
        if axis is dots.few:
            stride = rows_apart(stride)
        if axis.stride(source.name):
            laid[id(axis)] = axis.on(near.name, stride)
            stride *= axis.extent
    across = tuple(axis.only(source.name, near.name) for axis in laid.values())
    copy = emission.leaf(Operation.COPY, (source.name,), near.name, Roles(m=across))

    def on_near(axes: tuple[Span, ...]) -> tuple[Span, ...]:
        return tuple(laid.get(id(axis), axis) for axis in axes)

    moved = replace(
        dots,
        near=near,
        around=on_near(dots.around),
        few=laid.get(id(dots.few), dots.few),
        k=tuple(fuse([axis.only(dots.matrix.name, near.name) for axis in on_near(dots.k)])),
        joins=False,
    )
    return Body(copy.nodes, (*copy.scratch, near)), moved
