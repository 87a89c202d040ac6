"""Element-wise results with inputs by tile loads, stored as vectors.

A tile is a box along the output's unit axis and, where there is one, the next axis. Each input has
its own tensor map; an axis an input does not move along (a broadcast, stride 0) is no dimension of
it. Made where a program asks for it: plain loads serve as well for what is contiguous anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from teir.backends.cuda.emit_map import vector_lanes
from teir.backends.cuda.emit_number import combined
from teir.backends.cuda.kernel import (
    MULTIPROCESSORS,
    CudaKernel,
    Family,
    MapParameter,
    TensorPointer,
)
from teir.backends.cuda.maps import MAP_ALIGNMENT, MapAxis, tensor_map
from teir.backends.cuda.problem import MapProblem
from teir.backends.cuda.text import address, block, decode, whole_source

THREADS = 256
STAGES = 2
LARGEST_BOX = 256
ROWS = 8
TILE_ALIGNMENT = 128
BLOCKS_PER_MULTIPROCESSOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledInput:
    """One input: its map and coordinates, its bytes per tile, whether it moves along the rows."""

    map: MapParameter
    coordinates: tuple[str, ...]
    tile_bytes: int
    has_rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTiles:
    """The box, columns and rows, and the inputs in order."""

    columns: int
    rows: int
    inputs: tuple[TiledInput, ...]

    @property
    def stage_bytes(self) -> int:
        return sum(-(-one.tile_bytes // TILE_ALIGNMENT) for one in self.inputs) * TILE_ALIGNMENT


def map_tiles(problem: MapProblem) -> MapTiles | None:
    """How tile loads bring the inputs; None where pitches or types do not allow them."""
    width = problem.operands[-1].data_type.width
    operands = problem.operands
    if len(operands) < 2 or not problem.axes or problem.axes[-1].strides[-1] != width:
        return None
    if width > 8 or any(operand.data_type.width != width for operand in operands):
        return None
    unit = 16 // width
    columns = min(LARGEST_BOX, -(-problem.axes[-1].extent // unit) * unit)
    rows = min(ROWS, problem.axes[-2].extent) if len(problem.axes) > 1 else 1
    inputs = []
    for at, operand in enumerate(operands[:-1]):
        has_rows = len(problem.axes) > 1 and problem.axes[-2].strides[at] > 0
        boxes = {len(problem.axes) - 1: columns}
        if has_rows:
            boxes[len(problem.axes) - 2] = rows
        axes = [
            MapAxis(name=f"c{n}", extent=axis.extent, stride=axis.strides[at], box=boxes.get(n, 1))
            for n, axis in enumerate(problem.axes)
        ]
        found = tensor_map(operand, axes, 0)
        if found is None:
            return None
        size = found[0].described.tile_bytes
        one = TiledInput(map=found[0], coordinates=found[1], tile_bytes=size, has_rows=has_rows)
        inputs.append(one)
    return MapTiles(columns=columns, rows=rows, inputs=tuple(inputs))


def emit_map_tiles(problem: MapProblem, tiles: MapTiles, name: str) -> CudaKernel:
    """The kernel of an element-wise problem that `map_tiles` describes."""
    axes, last = problem.axes, len(problem.axes) - 1
    boxes = {last: tiles.columns, last - 1: tiles.rows}
    counts = {f"n{at}": -(-axis.extent // boxes.get(at, 1)) for at, axis in enumerate(axes)}
    count = prod(counts.values())
    where = [
        *decode("tile", counts, first_fastest=False, kind="i64"),
        *(f"const i64 c{at} = n{at} * {boxes.get(at, 1)};" for at in range(len(axes))),
    ]
    expected = sum(one.tile_bytes for one in tiles.inputs)
    load = [*where, f"barrier_expect(full + stage * 8, {expected});"]
    start = 0
    for at, one in enumerate(tiles.inputs):
        called = ", ".join(f"(int){name}" for name in one.coordinates)
        to = f"first + stage * {tiles.stage_bytes} + {start}"
        load.append(f"tile_load({to}, &map{at}, full + stage * 8, {called});")
        start += -(-one.tile_bytes // TILE_ALIGNMENT) * TILE_ALIGNMENT
    body = [
        "SHARED(shared);",
        "const u32 first = shared_address(shared);",
        f"const u32 full = first + {STAGES * tiles.stage_bytes};",
        "if (threadIdx.x == 0) {",
        f"  for (u32 stage = 0; stage < {STAGES}; ++stage) barrier_init(full + stage * 8, 1);",
        "  barriers_ready();",
        f"  for (u32 stage = 0; stage < {STAGES}; ++stage) {{",
        "    const i64 tile = blockIdx.x + (i64)stage * gridDim.x;",
        f"    if (tile >= {count}ll) break;",
        *block(block(load)),
        "  }",
        "}",
        "__syncthreads();",
        "u32 step = 0;",
        f"for (i64 tile = blockIdx.x; tile < {count}ll; tile += gridDim.x, ++step) {{",
        f"  const u32 stage = step % {STAGES};",
        *block(where),
        f"  barrier_wait(full + stage * 8, step / {STAGES} % 2);",
        f"  const u8* from = shared + stage * {tiles.stage_bytes};",
        *block(_elements(problem, tiles)),
        "  __syncthreads();",
        f"  const i64 ahead = tile + (i64){STAGES} * gridDim.x;",
        f"  if (threadIdx.x == 0 && ahead < {count}ll) {{",
        "    const i64 tile = ahead;",
        *block(block(load)),
        "  }",
        "}",
    ]
    maps = ", ".join(f"MAP map{at}" for at in range(len(tiles.inputs)))
    text = [f"KERNEL({THREADS}) {name}({maps}, u8* out) {{", *block(body), "}"]
    target = TensorPointer(tensor=problem.operands[-1].tensor)
    return CudaKernel(
        name=name,
        family=Family.MAP_TILES,
        source=whole_source("\n".join(text), tiles=True),
        parameters=(*(one.map for one in tiles.inputs), target),
        blocks=min(count, MULTIPROCESSORS * BLOCKS_PER_MULTIPROCESSOR),
        threads=THREADS,
        shared_bytes=STAGES * (tiles.stage_bytes + 8),
    )


def _elements(problem: MapProblem, tiles: MapTiles) -> list[str]:
    """The threads share the vectors of a tile."""
    out, axes, last = problem.operands[-1], problem.axes, len(problem.axes) - 1
    width, lanes = out.data_type.width, vector_lanes(problem)
    across, pack = tiles.columns // lanes, f"Pack<{lanes * width}>"
    terms = [(f"c{at}", axis.strides[-1]) for at, axis in enumerate(axes)]
    terms += [(f"(column * {lanes})", width)]
    inside = [f"c{last} + column * {lanes} < {axes[last].extent}"]
    if last > 0:
        terms.append(("row", axes[last - 1].strides[-1]))
        inside.append(f"c{last - 1} + row < {axes[last - 1].extent}")
    lines = [
        f"const u32 column = work % {across}, row = work / {across};",
        f"if (!({' && '.join(inside)})) continue;",
        f"Pack<{lanes * width}> result;",
    ]
    start = 0
    for at, one in enumerate(tiles.inputs):
        row = f"row * {tiles.columns * width} + " if one.has_rows else ""
        place = f"from + {start} + {row}column * {lanes * width}"
        lines.append(f"const {pack} v{at} = *(const {pack}*)({place});")
        start += -(-one.tile_bytes // TILE_ALIGNMENT) * TILE_ALIGNMENT
    for lane in range(lanes):
        values = [
            f"load_{operand.data_type.value}(v{at}.bytes + {lane * width})"
            for at, operand in enumerate(problem.operands[:-1])
        ]
        value = combined(problem.operation, values, out.data_type)
        lines.append(f"store_{out.data_type.value}(result.bytes + {lane * width}, {value});")
    lines.append(f"*(Pack<{lanes * width}>*)({address('out', out.offset, terms)}) = result;")
    head = f"for (u32 work = threadIdx.x; work < {across * tiles.rows}u; work += {THREADS}) {{"
    return [head, *block(lines), "}"]


def map_tiles_alignments(problem: MapProblem) -> dict[str, int]:
    """What the address of every tensor has to be a multiple of."""
    return {operand.tensor: MAP_ALIGNMENT for operand in problem.operands}
