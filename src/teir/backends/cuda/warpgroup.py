"""How a contraction runs on warpgroup products: tile, boxes, stages; refused where it cannot.

The rows of a tile are a box over several axes of M, its columns one over several axes of N, and a
stage holds chunks of one axis of K; the other axes of K are walked. Boxes may reach beyond their
axes: loads fill with zeros there, and the epilogue leaves those elements out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import prod

from teir.backends.cuda.kernel import MULTIPROCESSORS, SHARED_LIMIT_BYTES, MapParameter
from teir.backends.cuda.maps import MapAxis, tensor_map
from teir.backends.cuda.problem import ContractionProblem, Operand
from teir.dtypes import DataType
from teir.lower.axes import TileAxis
from teir.tma.operands import Major
from teir.tma.swizzle import ROW_BYTES, atom_bytes

GROUP_ROWS = 64
LARGEST_BOX = 256
GROUP_THREADS = 128
STEP_BYTES = 32
STAGE_DEPTH_BYTES = 128
SWIZZLE_PERIOD = atom_bytes(128)
MOST_STAGES = 4
WIDTHS = (256, 192, 128, 96, 64, 48, 32, 16, 8)
"""Columns of a tile that are tried."""
PRODUCER_REGISTERS = 40
CONSUMER_REGISTERS = 232
INPUTS = (DataType.BF16, DataType.FP16, DataType.TF32)
_OUTPUTS = (*INPUTS, DataType.FP32)


class Kind(Enum):
    """What an axis does, by the operands it moves."""

    BATCH = "C"
    ROW = "M"
    COLUMN = "N"
    SUM = "K"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One input: the axes that are its rows, fastest first, with their boxes, and its tile.

    ``span_bytes`` is the swizzle: of a chunk of K where K is contiguous, of rows where they are.
    A tile of one chunk has ``loads`` instructions, ``load_bytes`` apart. The boxes may hold fewer
    rows than the tile: the others are never loaded, and nothing of them is stored.
    """

    operand: Operand
    at: int
    major: Major
    span_bytes: int
    rows: tuple[int, ...]
    boxes: tuple[int, ...]
    tile_rows: int
    map: MapParameter
    coordinates: tuple[str, ...]
    chunk: int
    shares: int
    """Into how many loads a tile that is contiguous along K is cut: one per block of a cluster."""

    @property
    def box_rows(self) -> int:
        """Rows of the tile that are loaded."""
        return prod(self.boxes)

    @property
    def chunk_bytes(self) -> int:
        return self.tile_rows * self.chunk * self.operand.data_type.width

    @property
    def loaded_bytes(self) -> int:
        """Bytes that arrive for one chunk."""
        return self.box_rows * self.chunk * self.operand.data_type.width

    @property
    def loads(self) -> int:
        if self.major is Major.K:
            return self.shares
        return self.box_rows * self.operand.data_type.width // self.span_bytes

    @property
    def load_bytes(self) -> int:
        return self.loaded_bytes // self.loads

    def descriptor_bits(self) -> int:
        """The descriptor of the tile without its start address (PTX ISA)."""
        mode = {128: 1, 64: 2, 32: 3}[self.span_bytes]
        leading = 16 if self.major is Major.K else self.chunk * self.span_bytes
        return leading // 16 << 16 | 8 * self.span_bytes // 16 << 32 | mode << 62

    def start_of_rows(self, row: int) -> int:
        """Bytes from the start of a chunk's tile to row ``row``, a multiple of 64 or the span."""
        if self.major is Major.K:
            return row * self.span_bytes
        per_load = self.span_bytes // self.operand.data_type.width
        return row // per_load * self.load_bytes

    def start_of_step(self, step: int) -> int:
        """Bytes to the ``step``-th 32 bytes of K."""
        if self.major is Major.K:
            return step * STEP_BYTES
        return step * (STEP_BYTES // self.operand.data_type.width) * self.span_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpgroupPlan:
    """Everything the emitter needs; ``problem`` has its inputs in the order rows, columns."""

    problem: ContractionProblem
    kinds: tuple[Kind, ...]
    left: Side
    right: Side
    chunk_axis: int
    chunk: int
    chunks_per_stage: int
    chunks: int
    stages: int
    groups: int
    cluster: int

    @property
    def steps(self) -> int:
        return -(-self.chunks // self.chunks_per_stage)

    @property
    def right_start(self) -> int:
        """Where in a stage the tiles of the right input begin: at a whole period of any swizzle."""
        return _whole_periods(self.chunks_per_stage * self.left.chunk_bytes)

    @property
    def stage_bytes(self) -> int:
        return self.right_start + _whole_periods(self.chunks_per_stage * self.right.chunk_bytes)

    @property
    def loaded_bytes(self) -> int:
        """Bytes that arrive for one stage."""
        return self.chunks_per_stage * (self.left.loaded_bytes + self.right.loaded_bytes)

    @property
    def table_bytes(self) -> int:
        return 8 * (self.left.tile_rows + self.right.tile_rows)

    @property
    def shared_bytes(self) -> int:
        return self.stages * (self.stage_bytes + 16) + self.table_bytes

    def axes_of(self, kind: Kind) -> tuple[int, ...]:
        return tuple(at for at, one in enumerate(self.kinds) if one is kind)

    @property
    def tile(self) -> tuple[int, int, int]:
        """Rows, columns, and depth of one stage."""
        return self.left.tile_rows, self.right.tile_rows, self.chunk * self.chunks_per_stage

    @property
    def tile_counts(self) -> tuple[int, int, int]:
        """Tiles along M, along N, and batches."""
        rows = _tiles(self.problem.axes, self.left)
        columns = _tiles(self.problem.axes, self.right)
        return rows, columns, prod(self.problem.axes[at].extent for at in self.axes_of(Kind.BATCH))

    @property
    def turn_counts(self) -> tuple[int, int, int]:
        """As `tile_counts`, the tiles of M taken by a whole cluster at a time."""
        rows, columns, batches = self.tile_counts
        return -(-rows // self.cluster), columns, batches

    @property
    def threads_and_registers(self) -> tuple[tuple[int, int], ...]:
        """Roles of a block; empty where the compiler is left free."""
        if self.groups == 1:
            return ()
        consumers = (self.groups * GROUP_THREADS, CONSUMER_REGISTERS)
        return ((GROUP_THREADS, PRODUCER_REGISTERS), consumers)


def _whole_periods(size_bytes: int) -> int:
    """Products read operands by the address bits that loads swizzle: tiles begin at a period."""
    return -(-size_bytes // SWIZZLE_PERIOD) * SWIZZLE_PERIOD


def _tiles(axes: Sequence[TileAxis], side: Side) -> int:
    pairs = zip(side.rows, side.boxes, strict=True)
    return prod(-(-axes[at].extent // box) for at, box in pairs)


def kinds_of(problem: ContractionProblem) -> tuple[Kind, ...]:
    """The kind of every axis."""
    found = []
    for axis in problem.axes:
        left, right, out = axis.strides
        if not out:
            found.append(Kind.SUM)
        elif bool(left) == bool(right):
            found.append(Kind.BATCH)
        else:
            found.append(Kind.ROW if left else Kind.COLUMN)
    return tuple(found)


def warpgroup_plans(problem: ContractionProblem) -> Iterator[WarpgroupPlan]:
    """Every tile that is tried, the quickest by estimate first."""
    found = []
    for groups in (2, 1):
        for columns in WIDTHS:
            plan = plan_tile(problem, groups * GROUP_ROWS, columns)
            if plan is not None:
                found.append(plan)
    yield from sorted(found, key=estimate)


def warpgroup_plan(problem: ContractionProblem) -> WarpgroupPlan | None:
    """The tile with the best estimate; None where warpgroup products cannot do it."""
    return next(warpgroup_plans(problem), None)


def estimate(plan: WarpgroupPlan) -> float:
    """Time in units of one 64 x 256 product over one stage; a model, not a measurement.

    Waves of tiles, each of its products (narrow tiles wait for the operand of M) and its epilogue.
    """
    rows, columns, batches = plan.tile_counts
    waves = -(-rows * columns * batches // MULTIPROCESSORS)
    depth = plan.steps * plan.chunks_per_stage * plan.chunk * plan.left.operand.data_type.width
    products = plan.groups * max(plan.right.tile_rows, 64) / 256 * depth / STAGE_DEPTH_BYTES
    epilogue = plan.groups * plan.right.tile_rows / 64
    return waves * (products + epilogue + 6)


def output_along_columns(problem: ContractionProblem) -> ContractionProblem:
    """The problem with its inputs exchanged where the output's unit axis is one of M."""
    width = problem.operands[2].data_type.width
    for axis, kind in zip(problem.axes, kinds_of(problem), strict=True):
        if axis.strides[2] == width and kind is Kind.ROW:
            left, right, out = problem.operands
            axes = tuple(
                TileAxis(one.extent, (one.strides[1], one.strides[0], one.strides[2]))
                for one in problem.axes
            )
            return replace(problem, operands=(right, left, out), axes=axes)
    return problem


def plan_tile(
    problem: ContractionProblem, rows: int, columns: int, most_stages: int = 0, cluster: int = 1
) -> WarpgroupPlan | None:
    """The plan with a tile of ``rows`` x ``columns``; None where there is none.

    ``most_stages`` of 0 leaves their number to the room there is. ``cluster`` is 1 or 2: so many
    blocks, neighbours along M, load the columns they share once.
    """
    problem = output_along_columns(problem)
    if problem.operands[0].data_type not in INPUTS or rows not in (GROUP_ROWS, 2 * GROUP_ROWS):
        return None
    if problem.operands[2].data_type not in _OUTPUTS or columns % 8 or not 8 <= columns <= 256:
        return None
    kinds = kinds_of(problem)
    chunk_axis = _chunk_axis(problem, kinds)
    if chunk_axis is None:
        return None
    width = problem.operands[0].data_type.width
    extent = problem.axes[chunk_axis].extent
    chunk = next((span // width for span in (32, 64) if extent * width <= span), ROW_BYTES // width)
    sides = []
    if cluster not in (1, 2):
        return None
    for at, kind, tile_rows in ((0, Kind.ROW, rows), (1, Kind.COLUMN, columns)):
        shares = cluster if kind is Kind.COLUMN else 1
        side = _side(problem, kinds, at, kind, tile_rows, chunk_axis, chunk, shares)
        if side is None or side.loads % shares:
            return None
        sides.append(side)
    others = [at for at, kind in enumerate(kinds) if kind is Kind.SUM and at != chunk_axis]
    chunks = -(-extent // chunk) * prod(problem.axes[at].extent for at in others)
    plan = WarpgroupPlan(
        problem=problem,
        kinds=kinds,
        left=sides[0],
        right=sides[1],
        chunk_axis=chunk_axis,
        chunk=chunk,
        chunks_per_stage=min(chunks, STAGE_DEPTH_BYTES // (chunk * width)),
        chunks=chunks,
        stages=1,
        groups=rows // GROUP_ROWS,
        cluster=cluster,
    )
    room = SHARED_LIMIT_BYTES - plan.table_bytes
    stages = min(most_stages or MOST_STAGES, room // (plan.stage_bytes + 16))
    return replace(plan, stages=stages) if stages >= 2 else None


def _chunk_axis(problem: ContractionProblem, kinds: Sequence[Kind]) -> int | None:
    """The axis of K that is loaded in chunks: contiguous where any input is contiguous in K."""
    width = problem.operands[0].data_type.width
    both = [
        at
        for at, axis in enumerate(problem.axes)
        if kinds[at] is Kind.SUM and axis.strides[0] and axis.strides[1]
    ]
    unit = [at for at in both if width in problem.axes[at].strides[:2]]
    if len(unit) > 1 or not both:
        return None
    return unit[0] if unit else max(both, key=lambda at: problem.axes[at].extent)


def _side(
    problem: ContractionProblem,
    kinds: Sequence[Kind],
    at: int,
    kind: Kind,
    tile_rows: int,
    chunk_axis: int,
    chunk: int,
    shares: int,
) -> Side | None:
    operand, axes = problem.operands[at], problem.axes
    width = operand.data_type.width
    rows = [one for one, found in enumerate(kinds) if found is kind]
    rows.sort(key=lambda one: axes[one].strides[at])
    is_k = axes[chunk_axis].strides[at] == width
    is_mn = bool(rows) and axes[rows[0]].strides[at] == width and width == 2
    if is_k == is_mn:
        return None
    unit = axes[rows[0]].extent * width if is_mn else chunk * width
    span = next((one for one in (32, 64) if unit <= one), ROW_BYTES)
    least = span // width if is_mn else 1
    extents = [axes[one].extent for one in rows]
    boxes = boxes_of(extents, tile_rows, least, exact=shares > 1)
    if boxes is None:
        return None
    boxed = dict(zip(rows, boxes, strict=True)) if is_k else {rows[0]: span // width}
    if is_k and shares > 1:
        outer = max((at for at in rows if boxed[at] > 1), key=rows.index, default=rows[-1])
        # A share is a run of rows, and starts where the pattern of the swizzle does.
        if boxed[outer] % shares or tile_rows // shares % 8:
            return None
        boxed[outer] //= shares
    boxed[chunk_axis] = chunk
    found = tensor_map(
        operand,
        [
            MapAxis(name=f"c{one}", extent=axis.extent, stride=axis.strides[at], box=box)
            for one, axis in enumerate(axes)
            for box in (boxed.get(one, 1),)
        ],
        span,
    )
    if found is None:
        return None
    return Side(
        operand=operand,
        at=at,
        major=Major.K if is_k else Major.MN,
        span_bytes=span,
        rows=tuple(rows),
        boxes=boxes,
        tile_rows=tile_rows,
        map=found[0],
        coordinates=found[1],
        chunk=chunk,
        shares=shares,
    )


def boxes_of(extents: Sequence[int], total: int, least: int, exact: bool) -> tuple[int, ...] | None:
    """The boxes with the fewest tiles: at most ``total`` elements, or ``exact``ly so many.

    The first is a multiple of ``least``. Where tiles of ``total`` elements are no more, those are
    taken, of them the ones with the least overhang: 10 x 24 in tiles of 128 is 2 tiles of 5 x 24
    and not 4 of 8 x 16.
    """
    if not extents:
        return () if total == 1 else None
    found = [boxes for boxes in _factors(len(extents), total) if max(boxes) <= LARGEST_BOX]
    if not exact:
        found += _narrower(extents, total, least)
    found = [boxes for boxes in found if boxes[0] % least == 0]
    if not found:
        return None

    def covered(boxes: tuple[int, ...]) -> tuple[int, bool, int, tuple[int, ...]]:
        counts = [-(-extent // box) for extent, box in zip(extents, boxes, strict=True)]
        whole = prod(count * box for count, box in zip(counts, boxes, strict=True))
        return prod(counts), prod(boxes) < total, whole, tuple(-box for box in boxes)

    return min(found, key=covered)


def _factors(parts: int, total: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(1, total + 1):
        if total % first == 0:
            for rest in _factors(parts - 1, total // first):
                yield (first, *rest)


def _narrower(extents: Sequence[int], total: int, least: int) -> Iterator[tuple[int, ...]]:
    """Boxes of at most ``total`` elements, each the smallest for its number of tiles."""
    extent, *others = extents
    room = min(total, LARGEST_BOX)
    if not others:
        # The widest box, then no wider than its number of tiles needs.
        count = -(-extent // (room // least * least)) if room >= least else 0
        if count:
            yield (_multiple(-(-extent // count), least),)
        return
    counts = {-(-extent // box) for box in range(least, room + 1, least)}
    for box in sorted({_multiple(-(-extent // count), least) for count in counts}):
        for rest in _narrower(others, total // box, 1):
            yield (box, *rest)


def _multiple(number: int, of: int) -> int:
    return -(-number // of) * of
