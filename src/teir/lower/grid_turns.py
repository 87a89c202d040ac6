"""Grids in which one thread does some turns of the last axis in a row, for one copy of rows.

    Grid m < 32, n < 32              Grid m < 32, n < 4
      PartCopy(in0 -> room)            PartCopy(in0 -> room)
      GemmBlock(room, in1 -> out)  ->  Loop n < 8
                                         GemmBlock(room, in1 -> out)

Where rows are copied for register blocks (`teir.lower.packed_rows`) and that axis moves none.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from teir.ir.nodes import Bytes, InvocationNode, IterationNode, Node, Operation
from teir.lower.context import Context, Path
from teir.lower.kernel_program import Grid, Loop
from teir.lower.moved_nodes import times
from teir.lower.part_loops import copies_before_loop
from teir.target import MANY_REGISTERS

_MOST_TURNS = 8
_FEWEST_POINTS = 32
"""Of the grid, that are left for threads to share."""


def grid_in_turns(
    grid: Grid, children: Sequence[Node], path: Path, context: Context
) -> Grid | None:
    """The grid with fewer points, each of several turns; None where no rows are copied for them.

    ``children`` are what its body was lowered from, ``path`` is theirs.
    """
    if context.isa.vector_registers >= MANY_REGISTERS or not _has_product(children, context):
        return None
    *others, last = grid.axes
    axis = path.axes[-1]
    turns = _turns(grid)
    if turns == 1 or last.index is not None or axis.extent != last.extent:
        return None
    around = replace(
        axis,
        extent=axis.extent // turns,
        strides=Bytes({name: turns * stride for name, stride in axis.strides.items()}),
    )
    axes = (*path.axes[:-1], around, replace(axis, extent=turns))
    body = context.siblings(children, replace(path, axes=axes), context)
    moved = copies_before_loop(Loop(extent=turns, steps=last.steps, index=None, body=body))
    if moved is None:
        return None
    steps = tuple([times(step, turns) for step in last.steps])
    fewer = replace(last, extent=around.extent, steps=steps)
    return replace(grid, axes=(*others, fewer), body=moved)


def _has_product(nodes: Sequence[Node], context: Context) -> bool:
    return any(_is_product(node, context) for node in nodes)


def _is_product(node: Node, context: Context) -> bool:
    while isinstance(node, IterationNode) and len(node.children) == 1:
        (node,) = node.children
    if not isinstance(node, InvocationNode):
        return False
    return context.primitives[node.primitive].operation is Operation.CONTRACTION


def _turns(grid: Grid) -> int:
    """Turns of a point, that divide the last axis and leave enough points; 1 where none do."""
    points = 1
    for axis in grid.axes:
        points *= axis.extent
    extent = grid.axes[-1].extent
    found = 1
    for turns in range(2, _MOST_TURNS + 1):
        if extent % turns == 0 and points // turns >= _FEWEST_POINTS:
            found = turns
    return found
