"""Which elements of a step a thread of a product loads: lanes along what lies side by side.

Every thread moves ``parts`` pieces; their rows and their places along K are a start of its own plus
steps that are the same for all threads, so that addresses need no division.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from teir.backends.cuda.problem import unit_axis
from teir.backends.cuda.product import THREADS, ProductPlan
from teir.backends.cuda.product_sums import is_copied
from teir.backends.cuda.text import decode

SECTOR_BYTES = 32
COPY_BYTES = (16, 8)
"""What one asynchronous copy moves at once, beside a single element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Part p of a thread: row ``row + p % rows * row_step``, step ``k + p // rows * k_step``.

    ``lines`` declare ``row`` and ``k``; a part is ``vector`` neighbouring rows.
    """

    lines: Sequence[str]
    rows: int
    row_step: int
    k_step: int
    parts: int
    vector: int


def lanes_of(plan: ProductPlan, side: int, row: str, k: str) -> Lanes:
    """``row`` and ``k`` are the names of what a thread starts at."""
    used = plan.boxed(side)
    unit = unit_axis(plan.problem, side)
    if unit in plan.sums and unit not in (at for at, _ in used):
        return _along_k(plan, side, row, k)
    vector = _vector(plan, side)
    lanes = "threadIdx.x" if vector == 1 else f"threadIdx.x * {vector}"
    k_step = THREADS * vector // plan.side
    return Lanes(
        lines=(
            *_row_of(plan, side, f"{lanes} % {plan.side}", row),
            f"const u32 {k} = {lanes} / {plan.side};",
        ),
        rows=1,
        row_step=0,
        k_step=k_step,
        parts=plan.depth // k_step,
        vector=vector,
    )


def _along_k(plan: ProductPlan, side: int, row: str, k: str) -> Lanes:
    """Lanes by sectors along K, then by rows: what a warp writes lies in different banks."""
    group, below = _group(plan, side)
    together = THREADS // group
    rows = max(1, plan.side // together)
    k_step = (group if below == 1 else 1) * max(1, together // plan.side)
    above = f" + threadIdx.x / {group * plan.side} * {group}" if together > plan.side else ""
    return Lanes(
        lines=(
            f"const u32 {row} = threadIdx.x / {group} % {plan.side};",
            f"const u32 {k} = threadIdx.x % {group} * {below}{above};",
        ),
        rows=rows,
        row_step=min(together, plan.side),
        k_step=k_step,
        parts=plan.side * plan.depth // THREADS,
        vector=1,
    )


def _group(plan: ProductPlan, side: int) -> tuple[int, int]:
    """How many lanes lie along K, and how far apart: along the digit that is contiguous."""
    width = plan.problem.operands[side].data_type.width
    sector = min(plan.depth, max(1, SECTOR_BYTES // width))
    first, *others = plan.digits
    if first.strides[side] == width and first.extent >= sector:
        return sector, 1
    is_split = others and first.extent * others[0].extent == plan.depth
    if is_split and first.strides[side] == width:
        return first.extent, 1
    if is_split and others[0].strides[side] == width and plan.side * others[0].extent >= THREADS:
        return others[0].extent, first.extent
    return plan.depth, 1


def _row_of(plan: ProductPlan, side: int, lane: str, row: str) -> list[str]:
    """The row of a lane: lanes follow the order in which the rows lie in the input."""
    used = plan.boxed(side)
    order = tuple(sorted(used, key=lambda one: plan.problem.axes[one[0]].strides[side]))
    if order == used:
        return [f"const u32 {row} = {lane};"]
    boxes = {f"{row}{at}": box for at, box in order}
    above = {at: prod(box for _, box in used[:place]) for place, (at, _) in enumerate(used)}
    place = " + ".join(f"{row}{at} * {above[at]}" for at, _ in order)
    return [
        f"const u32 {row}_lane = {lane};",
        *decode(f"{row}_lane", boxes, True, "u32"),
        f"const u32 {row} = {row}_lane < {prod(boxes.values())} ? {place} : {row}_lane;",
    ]


def _vector(plan: ProductPlan, side: int) -> int:
    """Neighbouring rows that one copy can move, where the address of the operand allows."""
    width = plan.problem.operands[side].data_type.width
    counts = (wide // width for wide in COPY_BYTES if wide > width)
    return next((one for one in counts if _moves(plan, side, one)), 1)


def _moves(plan: ProductPlan, side: int, count: int) -> bool:
    """Are rows adjacent and aligned by ``count``, and are there so many for every thread?"""
    operand = plan.problem.operands[side]
    width = operand.data_type.width
    used = plan.boxed(side)
    if not is_copied(plan.problem, side) or not used or plan.side * plan.depth % (THREADS * count):
        return False
    fastest, box = used[0]
    axis = plan.problem.axes[fastest]
    if axis.strides[side] != width or axis.extent % count or box % count:
        return False
    others = [one.strides[side] for at, one in enumerate(plan.problem.axes) if at != fastest]
    return all(stride % (count * width) == 0 for stride in (*others, operand.offset))
