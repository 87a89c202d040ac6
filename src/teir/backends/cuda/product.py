"""How a contraction runs on register tiles: tile and boxes; refused without rows or columns.

A block of 16 x 16 threads holds a square tile of out. Its rows and columns are boxes over several
axes each, K is walked in steps of 8 or 16 (`product_sums`), and FP64 is multiplied by the tensor
cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from teir.backends.cuda.boxes import boxes_of
from teir.backends.cuda.kernel import MULTIPROCESSORS
from teir.backends.cuda.problem import ContractionProblem
from teir.backends.cuda.product_sums import depth_of, is_double, sum_digits
from teir.backends.cuda.sides import Kind, kinds_of
from teir.backends.cuda.text import computed
from teir.backends.cuda.warpgroup import output_along_columns
from teir.lower.axes import TileAxis

SIDE_THREADS = 16
THREADS = SIDE_THREADS**2
BLOCKS_PER_MULTIPROCESSOR = 2
PER_THREAD = (8, 4, 2)
"""Elements per thread and side that are tried; complex ones need twice the registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductPlan:
    """The tile: axes of its rows and columns, fastest first, with boxes, and the axes of K.

    ``digits`` are the parts of those axes in the order in which K is walked, the fastest first, and
    ``depth`` is how much of it is one step.
    """

    problem: ContractionProblem
    per_thread: int
    rows: tuple[int, ...]
    row_boxes: tuple[int, ...]
    columns: tuple[int, ...]
    column_boxes: tuple[int, ...]
    sums: tuple[int, ...]
    batches: tuple[int, ...]
    digits: tuple[TileAxis, ...]
    depth: int

    @property
    def by_tensor_cores(self) -> bool:
        return is_double(self.problem)

    @property
    def side(self) -> int:
        """Rows of a tile, and columns."""
        return SIDE_THREADS * self.per_thread

    def boxed(self, side: int) -> tuple[tuple[int, int], ...]:
        """The axes of the tile's rows (0) or columns (1), fastest first, and their boxes."""
        axes, boxes = (self.rows, self.columns)[side], (self.row_boxes, self.column_boxes)[side]
        return tuple(zip(axes, boxes, strict=True))

    @property
    def tile_counts(self) -> tuple[int, int, int]:
        axes = self.problem.axes
        rows, columns = (
            prod(-(-axes[at].extent // box) for at, box in self.boxed(side)) for side in (0, 1)
        )
        return rows, columns, prod(axes[at].extent for at in self.batches)

    @property
    def steps(self) -> int:
        return -(-self.summed // self.depth)

    @property
    def summed(self) -> int:
        return prod(self.problem.axes[at].extent for at in self.sums)


def product_plan(problem: ContractionProblem) -> ProductPlan | None:
    """The tile with the best estimate; None where the contraction has no rows or columns."""
    return next(product_plans(problem), None)


def product_plans(problem: ContractionProblem) -> Iterator[ProductPlan]:
    """Every tile that is tried, the quickest by estimate first."""
    found = (plan_product(problem, SIDE_THREADS * count) for count in PER_THREAD)
    yield from sorted((plan for plan in found if plan is not None), key=_estimate)


def _estimate(plan: ProductPlan) -> float:
    """Waves times the instructions of a tile, which loads and waits whatever its size. A model."""
    waves = -(-prod(plan.tile_counts) // (MULTIPROCESSORS * BLOCKS_PER_MULTIPROCESSOR))
    return waves * (plan.per_thread**2 + 12.0)


def plan_product(problem: ContractionProblem, side: int) -> ProductPlan | None:
    """The plan with a tile of ``side`` squared; None where there is none."""
    is_complex = computed(problem.operands[2].data_type) in ("c64", "c128")
    per_thread = side // SIDE_THREADS
    if side % SIDE_THREADS or per_thread not in (PER_THREAD[1:] if is_complex else PER_THREAD):
        return None
    problem = output_along_columns(problem)
    kinds = kinds_of(problem)

    def axes_of(kind: Kind, side: int) -> tuple[int, ...]:
        found = [at for at, one in enumerate(kinds) if one is kind]
        return tuple(sorted(found, key=lambda at: problem.axes[at].strides[side]))

    rows, columns, sums = axes_of(Kind.ROW, 0), axes_of(Kind.COLUMN, 2), axes_of(Kind.SUM, 0)
    depth = depth_of(problem, sums)
    row_boxes = _boxes([problem.axes[at].extent for at in rows], side)
    column_boxes = _boxes([problem.axes[at].extent for at in columns], side)
    if row_boxes is None or column_boxes is None:
        return None
    return ProductPlan(
        problem=problem,
        per_thread=per_thread,
        rows=rows,
        row_boxes=row_boxes,
        columns=columns,
        column_boxes=column_boxes,
        sums=sums,
        batches=axes_of(Kind.BATCH, 2),
        digits=sum_digits(problem, sums, depth),
        depth=depth,
    )


def _boxes(extents: Sequence[int], side: int) -> tuple[int, ...] | None:
    """The boxes of a tile: quads of the fastest axis where that takes no more tiles."""
    found = boxes_of(extents, side, 1, False)
    quads = boxes_of(extents, side, 4, False) if extents and extents[0] % 4 == 0 else None
    if found is None or quads is None:
        return found
    count, others = (
        prod(-(-extent // box) for extent, box in zip(extents, boxes, strict=True))
        for boxes in (found, quads)
    )
    return quads if others <= count else found
