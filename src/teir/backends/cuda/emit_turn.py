"""A permutation through shared memory with plain loads: any widths, any pitches.

    for (tile ...)                  as many blocks as fit loop over the tiles
      the box, in the order of the input, into shared memory
      barrier
      the box, in the order of the output, out of it
      barrier

A tile is a box over some axes: enough of the input's fastest axes for long runs, and enough of the
output's (`turn_boxes`). Tiles wholly inside the tensor are walked without a test (`turn_walk`).
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.cuda.kernel import MULTIPROCESSORS, CudaKernel, Family, TensorPointer
from teir.backends.cuda.problem import MapProblem, unit_axis
from teir.backends.cuda.text import address, block, whole_source
from teir.backends.cuda.tile_order import tile_order
from teir.backends.cuda.turn_boxes import TurnTile, turn_tile
from teir.backends.cuda.turn_walk import Walk, begin, steps, walk_of


def is_turned(problem: MapProblem) -> bool:
    """True where input and output have different unit axes."""
    if len(problem.operands) != 2 or len(problem.axes) < 2:
        return False
    inner = problem.axes[-1]
    source, target = problem.operands
    if inner.strides[1] != target.data_type.width or inner.strides[0] == source.data_type.width:
        return False
    return unit_axis(problem, 0) is not None


def emit_turn(problem: MapProblem, name: str, tile: TurnTile | None = None) -> CudaKernel:
    """The kernel of a Copy whose input and output have different unit axes."""
    tile = tile or turn_tile(problem)
    order = tile_order(problem.axes, tile.boxes)
    source, target = problem.operands
    walks = [walk_of(problem, tile, side) for side in (0, 1)]
    body = [
        "SHARED(shared);",
        *(line for walk in walks for line in begin(walk)),
        f"for ({order.kind} tile = blockIdx.x; tile < {order.last}; tile += gridDim.x) {{",
        *block(order.digits()),
        *block(f"const i64 o{at} = (i64)n{at} * {box};" for at, box in enumerate(tile.boxes)),
        *block(_moves(problem, tile, walks)),
        "}",
    ]
    head = f"KERNEL_BLOCKS({tile.threads}, {tile.blocks}) {name}(u8* source, u8* target) {{"
    return CudaKernel(
        name=name,
        family=Family.TURN,
        source=whole_source("\n".join([head, *block(body), "}"]), tiles=False),
        parameters=tuple(TensorPointer(tensor=one.tensor) for one in (source, target)),
        blocks=min(order.tiles, MULTIPROCESSORS * tile.blocks),
        threads=tile.threads,
        shared_bytes=tile.room * target.data_type.width,
    )


def _moves(problem: MapProblem, tile: TurnTile, walks: Sequence[Walk]) -> list[str]:
    """Both sides of a tile, with tests only where an edge of the tensor cuts it."""
    axes = problem.axes
    ragged = [at for at, box in enumerate(tile.boxes) if axes[at].extent % box]
    left = {at: f"least({axes[at].extent}ll - o{at}, {tile.boxes[at]}ll)" for at in ragged}
    lines = [f"const u32 m{at} = (u32){one};" for at, one in left.items()]
    origin = [f"o{at}" for at in range(len(axes))]
    for side, (name, constant) in enumerate((("source", "const "), ("target", ""))):
        terms = [(one, axis.strides[side]) for one, axis in zip(origin, axes, strict=True)]
        place = address(name, problem.operands[side].offset, terms)
        lines.append(f"{constant}u8* const side{side} = {place} + reach{side};")
    inside = " && ".join(f"m{at} == {tile.boxes[at]}" for at in ragged)
    for walk in walks:
        lines += [*_side(walk, ragged, inside), "__syncthreads();"]
    return lines


def _side(walk: Walk, ragged: Sequence[int], inside: str) -> list[str]:
    whole = steps(walk, f"side{walk.side}", [])
    if not ragged:
        return whole
    tested = steps(walk, f"side{walk.side}", ragged)
    return [f"if ({inside}) {{", *block(whole), "} else {", *block(tested), "}"]
