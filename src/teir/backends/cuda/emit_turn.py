"""A permutation through shared memory with plain loads: any widths, any pitches.

A tile is a box over some axes: enough of the input's fastest axes for runs of 128 bytes, and enough
of the output's. It is read in the order of the input and written in that of the output; a pad after
every run of the input keeps both sides from meeting in one bank.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from teir.backends.cuda.kernel import CudaKernel, Family, TensorPointer
from teir.backends.cuda.problem import MapProblem
from teir.backends.cuda.text import address, block, decode, whole_source
from teir.lower.axes import TileAxis

THREADS = 256
RUN_BYTES = 128
LEAST_RUN = 16
LEAST_ELEMENTS = 2048
MOST_ELEMENTS = 8192
MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTile:
    """The box: one extent per axis of the problem, and the input's run it holds."""

    boxes: tuple[int, ...]
    run: int

    @property
    def elements(self) -> int:
        return prod(self.boxes)


def is_turned(problem: MapProblem) -> bool:
    """True where input and output have different unit axes."""
    if len(problem.operands) != 2 or len(problem.axes) < 2:
        return False
    inner = problem.axes[-1]
    source, target = problem.operands
    if inner.strides[1] != target.data_type.width or inner.strides[0] == source.data_type.width:
        return False
    return any(axis.strides[0] == source.data_type.width for axis in problem.axes)


def turn_tile(problem: MapProblem) -> TurnTile:
    """Boxes with runs of 128 bytes on both sides, larger where that leaves a small tile."""
    width = problem.operands[-1].data_type.width
    need = max(LEAST_RUN, RUN_BYTES // width)
    boxes = [1] * len(problem.axes)
    run = _grow(problem.axes, 0, boxes, need)
    _grow(problem.axes, 1, boxes, need)
    order = sorted(range(len(boxes)), key=lambda at: problem.axes[at].strides[1])
    for at in order * 2:
        axis = problem.axes[at]
        while prod(boxes) < LEAST_ELEMENTS and boxes[at] < axis.extent:
            boxes[at] = min(axis.extent, boxes[at] * 2)
    while prod(boxes) > MOST_ELEMENTS:
        largest = max(range(len(boxes)), key=lambda at: boxes[at])
        boxes[largest] = -(-boxes[largest] // 2)
    return TurnTile(boxes=tuple(boxes), run=run)


def _grow(axes: tuple[TileAxis, ...], side: int, boxes: list[int], need: int) -> int:
    """Widen ``boxes`` along the fastest axes of one side until a run is long enough."""
    run = 1
    fastest = [at for at in range(len(axes)) if axes[at].strides[side]]
    for at in sorted(fastest, key=lambda one: axes[one].strides[side]):
        if run >= need:
            break
        boxes[at] = max(boxes[at], min(axes[at].extent, -(-need // run)))
        run *= boxes[at]
    return run


def emit_turn(problem: MapProblem, name: str) -> CudaKernel:
    """The kernel of a Copy whose input and output have different unit axes."""
    tile = turn_tile(problem)
    axes = problem.axes
    counts = {f"n{at}": -(-axes[at].extent // box) for at, box in enumerate(tile.boxes)}
    tiles = prod(counts.values())
    places, elements = _shared_strides(axes, tile)
    source, target = problem.operands
    width = target.data_type.width
    origin = [f"const i64 o{at} = n{at} * {box};" for at, box in enumerate(tile.boxes)]
    body = [
        "SHARED(shared);",
        f"for (i64 tile = blockIdx.x; tile < {tiles}ll; tile += gridDim.x) {{",
        *block(decode("tile", counts, first_fastest=False, kind="i64")),
        *block(origin),
        *block(_side(problem, tile, places, side=0)),
        "  __syncthreads();",
        *block(_side(problem, tile, places, side=1)),
        "  __syncthreads();",
        "}",
    ]
    text = [f"KERNEL({THREADS}) {name}(u8* source, u8* target) {{", *block(body), "}"]
    return CudaKernel(
        name=name,
        family=Family.TURN,
        source=whole_source("\n".join(text), tiles=False),
        parameters=tuple(TensorPointer(tensor=one.tensor) for one in (source, target)),
        blocks=min(tiles, MOST_BLOCKS),
        threads=THREADS,
        shared_bytes=elements * max(width, source.data_type.width),
    )


def _shared_strides(axes: tuple[TileAxis, ...], tile: TurnTile) -> tuple[list[int], int]:
    """Where an element of the box lies in shared memory, and how many there is room for."""
    order = sorted(range(len(axes)), key=lambda at: axes[at].strides[0])
    strides = [0] * len(axes)
    step = 1
    is_padded = False
    for at in order:
        strides[at] = step
        step *= tile.boxes[at]
        if not is_padded and step >= tile.run and tile.boxes[at] > 1:
            step += 1 if step % 2 == 0 else 0
            is_padded = True
    return strides, step


def _side(problem: MapProblem, tile: TurnTile, places: list[int], side: int) -> list[str]:
    """Walk the box in the order of one operand: into shared memory (0) or out of it (1)."""
    axes = problem.axes
    order = [at for at in range(len(axes)) if tile.boxes[at] > 1]
    order.sort(key=lambda at: axes[at].strides[side])
    names = {f"e{at}": tile.boxes[at] for at in order} or {"e0": 1}
    operand = problem.operands[side]
    ragged = [at for at in order if axes[at].extent % tile.boxes[at]]
    tests = " && ".join(f"o{at} + e{at} < {axes[at].extent}" for at in ragged)
    terms = [(f"o{at}", axis.strides[side]) for at, axis in enumerate(axes)]
    terms += [(f"e{at}", axes[at].strides[side]) for at in order]
    pointer = address(("source", "target")[side], operand.offset, terms)
    place = " + ".join(f"e{at} * {places[at]}" for at in order) or "0"
    bits = f"Pack<{operand.data_type.width}>"
    shared = f"(({bits}*)shared)[{place}]"
    move = f"{shared} = *(const {bits}*)({pointer});"
    if side == 1:
        move = f"*({bits}*)({pointer}) = {shared};"
    inner = [*decode("element", names, first_fastest=True, kind="u32")]
    inner.append(f"if ({tests}) {move}" if tests else move)
    head = f"for (u32 element = threadIdx.x; element < {tile.elements}u; element += {THREADS}) {{"
    return ['_Pragma("unroll 8")', head, *block(inner), "}"]
