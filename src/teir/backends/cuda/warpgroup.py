"""How a contraction runs on warpgroup products: tile, boxes, stages; refused where it cannot.

The rows of a tile are a box over several axes of M, its columns one over several axes of N, and a
stage holds chunks of one axis of K; the other axes of K are walked. Boxes may reach beyond their
axes: loads fill with zeros there, and the epilogue leaves those elements out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from teir.backends.cuda.decision import Decision
from teir.backends.cuda.kernel import MULTIPROCESSORS, SHARED_LIMIT_BYTES, Family
from teir.backends.cuda.problem import ContractionProblem
from teir.backends.cuda.sides import Kind, Side, kinds_of, side_of
from teir.backends.cuda.tile_stores import (
    BUFFERS,
    Stores,
    TileStore,
    tile_store,
    writes_without_conflicts,
)
from teir.dtypes import DataType
from teir.lower.axes import TileAxis
from teir.tma.swizzle import ROW_BYTES, atom_bytes

GROUP_ROWS = 64
GROUP_THREADS = 128
STAGE_DEPTH_BYTES = 128
SWIZZLE_PERIOD = atom_bytes(128)
MOST_STAGES = 4
WIDTHS = (256, 192, 128, 96, 64, 48, 32, 16, 8)
"""Columns of a tile that are tried."""
PRODUCER_REGISTERS = 40
CONSUMER_REGISTERS = 232
INPUTS = (DataType.BF16, DataType.FP16, DataType.TF32)
_OUTPUTS = (*INPUTS, DataType.FP32)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpgroupPlan:
    """Everything the emitter needs; ``problem`` has its inputs in the order rows, columns.

    ``store`` is None where registers are stored by themselves.
    """

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
    store: TileStore | None

    @property
    def stores(self) -> Stores:
        return Stores.REGISTERS if self.store is None else Stores.TILES

    @property
    def decision(self) -> Decision:
        """The entry that asks for this plan."""
        return Decision(
            kernel=Family.WARPGROUP,
            tile=self.tile,
            stages=self.stages,
            cluster=self.cluster,
            stores=self.stores,
        )

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
    def piece_room(self) -> int:
        """Bytes from one piece of out in shared memory to the next."""
        return 0 if self.store is None else _whole_periods(self.store.piece_bytes)

    @property
    def output_bytes(self) -> int:
        """Shared memory of the epilogue: pieces of out, or tables of places in it."""
        if self.store is not None:
            return BUFFERS * self.piece_room
        return 8 * (self.left.tile_rows + self.right.tile_rows)

    @property
    def shared_bytes(self) -> int:
        return self.stages * (self.stage_bytes + 16) + self.output_bytes

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
    problem: ContractionProblem,
    rows: int,
    columns: int,
    most_stages: int = 0,
    cluster: int = 1,
    stores: Stores | None = None,
) -> WarpgroupPlan | None:
    """The plan with a tile of ``rows`` x ``columns``; None where there is none.

    ``most_stages`` of 0 leaves their number to the room there is. ``cluster`` is 1 or 2: so many
    blocks, neighbours along M, load the columns they share once. ``stores`` of None are tile
    stores where they are possible, meet in no bank and cost no stage.
    """
    plan = _one_stage(problem, rows, columns, cluster)
    if plan is None:
        return None
    store = tile_store(plan.problem, plan.left, plan.right)
    by_registers = _with_stages(plan, most_stages)
    by_tiles = None
    if store is not None:
        by_tiles = _with_stages(replace(plan, store=store), most_stages)
    if stores is not None:
        return by_tiles if stores is Stores.TILES else by_registers
    if store is None or by_tiles is None or by_registers is None:
        return by_registers
    width = plan.problem.operands[2].data_type.width
    is_free = writes_without_conflicts(store, plan.left, width)
    return by_tiles if is_free and by_tiles.stages == by_registers.stages else by_registers


def _with_stages(plan: WarpgroupPlan, most: int) -> WarpgroupPlan | None:
    """``plan`` with as many stages as there is room for, None where that is less than two."""
    room = SHARED_LIMIT_BYTES - plan.output_bytes
    stages = min(most or MOST_STAGES, room // (plan.stage_bytes + 16))
    return replace(plan, stages=stages) if stages >= 2 else None


def _one_stage(
    problem: ContractionProblem, rows: int, columns: int, cluster: int
) -> WarpgroupPlan | None:
    """The plan with one stage, stored by registers; None where there is no such tile."""
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
        side = side_of(problem, kinds, at, kind, tile_rows, chunk_axis, chunk, shares)
        if side is None or side.loads % shares:
            return None
        sides.append(side)
    others = [at for at, kind in enumerate(kinds) if kind is Kind.SUM and at != chunk_axis]
    chunks = -(-extent // chunk) * prod(problem.axes[at].extent for at in others)
    return WarpgroupPlan(
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
        store=None,
    )


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
