"""A permutation by tile loads: a swizzled tile in shared memory, read in columns of 16 bytes.

    thread 0: loads of four tiles                 tile: 64 of y (the output's unit axis)
    for (tile ...)                                      x one swizzle width of x (the input's)
      wait until it has landed
      every thread: 16 bytes down a column (x), a warp stores 32 or 64 adjacent y for each x
      barrier; thread 0: load the tile four ahead

A column unit read is free of bank conflicts because of the swizzle; elements of two bytes are
stored in pairs, so that a warp writes 128 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from teir.backends.cuda.kernel import (
    MULTIPROCESSORS,
    CudaKernel,
    Family,
    MapParameter,
    TensorPointer,
)
from teir.backends.cuda.maps import MapAxis, tensor_map
from teir.backends.cuda.problem import MapProblem
from teir.backends.cuda.text import address, block, decode, whole_source

THREADS = 256
STAGES = 4
ROWS = 64
UNIT_BYTES = 16
BLOCKS_PER_MULTIPROCESSOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TileTurn:
    """The axes of a turned copy: x is the input's unit axis, y the output's, the rest outer."""

    x: int
    y: int
    span_bytes: int


def tile_turn(problem: MapProblem) -> TileTurn | None:
    """How tile loads do this copy; None where its widths or pitches do not allow them."""
    source, target = problem.operands
    width = source.data_type.width
    if width not in (2, 4, 8) or target.data_type.width != width:
        return None
    x = next((at for at, axis in enumerate(problem.axes) if axis.strides[0] == width), None)
    y = len(problem.axes) - 1
    if x is None or x == y or problem.axes[x].extent * width < 32:
        return None
    span = 128 if problem.axes[x].extent * width > 64 else 64
    if problem.axes[x].extent * width == 32:
        span = 32
    turn = TileTurn(x=x, y=y, span_bytes=span)
    return turn if _map(problem, turn) is not None else None


def _map(problem: MapProblem, turn: TileTurn) -> MapParameter | None:
    source = problem.operands[0]
    boxes = {turn.x: turn.span_bytes // source.data_type.width, turn.y: ROWS}
    axes = [
        MapAxis(name=f"c{at}", extent=axis.extent, stride=axis.strides[0], box=boxes.get(at, 1))
        for at, axis in enumerate(problem.axes)
    ]
    found = tensor_map(source, axes, turn.span_bytes)
    return None if found is None else found[0]


def emit_turn_tiles(problem: MapProblem, turn: TileTurn, name: str) -> CudaKernel:
    """The kernel of a Copy that `tile_turn` describes."""
    source, target = problem.operands
    width = source.data_type.width
    columns = turn.span_bytes // width
    boxes = {turn.x: columns, turn.y: ROWS}
    axes = [
        MapAxis(name=f"c{at}", extent=axis.extent, stride=axis.strides[0], box=boxes.get(at, 1))
        for at, axis in enumerate(problem.axes)
    ]
    found = tensor_map(source, axes, turn.span_bytes)
    assert found is not None
    parameter, coordinates = found
    counts = {f"n{at}": -(-axis.extent // boxes.get(at, 1)) for at, axis in enumerate(problem.axes)}
    tiles = prod(counts.values())
    tile_bytes = ROWS * turn.span_bytes
    scaled = [f"const i64 c{at} = n{at} * {boxes.get(at, 1)};" for at in range(len(axes))]
    where = [*decode("tile", counts, first_fastest=False, kind="i64"), *scaled]
    called = ", ".join(f"(int){one}" for one in coordinates)
    load = [
        *where,
        f"barrier_expect(full + stage * 8, {tile_bytes});",
        f"tile_load(first + stage * {tile_bytes}, &map, full + stage * 8, {called});",
    ]
    body = [
        "SHARED(shared);",
        "const u32 first = shared_address(shared);",
        f"const u32 full = first + {STAGES * tile_bytes};",
        "if (threadIdx.x == 0) {",
        "  prefetch_map(&map);",
        f"  for (u32 stage = 0; stage < {STAGES}; ++stage) barrier_init(full + stage * 8, 1);",
        "  barriers_ready();",
        "}",
        "__syncthreads();",
        "if (threadIdx.x == 0) {",
        f"  for (u32 stage = 0; stage < {STAGES}; ++stage) {{",
        "    const i64 tile = blockIdx.x + (i64)stage * gridDim.x;",
        f"    if (tile >= {tiles}ll) break;",
        *block(block(load)),
        "  }",
        "}",
        "u32 step = 0;",
        f"for (i64 tile = blockIdx.x; tile < {tiles}ll; tile += gridDim.x, ++step) {{",
        f"  const u32 stage = step % {STAGES};",
        *block(where),
        f"  barrier_wait(full + stage * 8, step / {STAGES} % 2);",
        f"  const u8* from = shared + stage * {tile_bytes};",
        *block(_columns(problem, turn)),
        "  __syncthreads();",
        f"  const i64 ahead = tile + (i64){STAGES} * gridDim.x;",
        f"  if (threadIdx.x == 0 && ahead < {tiles}ll) {{",
        "    const i64 tile = ahead;",
        *block(block(load)),
        "  }",
        "}",
    ]
    text = [f"KERNEL({THREADS}) {name}(MAP map, u8* target) {{", *block(body), "}"]
    return CudaKernel(
        name=name,
        family=Family.TURN_TILES,
        source=whole_source("\n".join(text), tiles=True),
        parameters=(parameter, TensorPointer(tensor=target.tensor)),
        blocks=min(tiles, MULTIPROCESSORS * BLOCKS_PER_MULTIPROCESSOR),
        threads=THREADS,
        shared_bytes=STAGES * tile_bytes + STAGES * 8,
    )


def _columns(problem: MapProblem, turn: TileTurn) -> list[str]:
    """Each thread: units of 16 bytes of one row (or two), stored along y."""
    source, target = problem.operands
    width = source.data_type.width
    units = turn.span_bytes // UNIT_BYTES
    rows = 2 if width == 2 else 1
    groups = ROWS // rows
    per_unit = UNIT_BYTES // width
    x, y = problem.axes[turn.x], problem.axes[turn.y]
    span = turn.span_bytes
    column = f"*(const Unit*)(from + swizzled<{span}>(({{}}) * {span} + unit * 16))"
    base = [(f"c{at}", axis.strides[1]) for at, axis in enumerate(problem.axes)]
    lines = [
        f"const u32 group = work % {groups}, unit = work / {groups};",
        f"u8* to = {address('target', target.offset, base)} + (i64)group * {rows * width}"
        f" + (i64)(unit * {per_unit}) * {x.strides[1]}ll;",
    ]
    if rows == 2:
        lines += [
            "const u32 turned = group >> 2 & 1u;",
            f"const Unit one = {column.format('group * 2 + turned')};",
            f"const Unit two = {column.format('group * 2 + 1 - turned')};",
            "u32 even[4], odd[4];",
            '_Pragma("unroll")',
            "for (u32 w = 0; w < 4; ++w) {",
            "  even[w] = turned ? two.word[w] : one.word[w];",
            "  odd[w] = turned ? one.word[w] : two.word[w];",
            "}",
        ]
    else:
        lines += [f"const Pack<16> one = *(const Pack<16>*)&{column.format('group')};"]
    inside_y = f"c{turn.y} + group * {rows} < {y.extent}" if y.extent % ROWS else "true"
    inside_x = f"c{turn.x} + unit * {per_unit} + j < {x.extent}"
    test = inside_x if x.extent % (turn.span_bytes // width) else "true"
    lines += [
        f"if ({inside_y}) {{",
        '  _Pragma("unroll")',
        f"  for (u32 j = 0; j < {per_unit}; ++j) {{",
        f"    if ({test}) {{",
        *block(block(block(_store(problem, turn, rows)))),
        "    }",
        "  }",
        "}",
    ]
    head = f"for (u32 work = threadIdx.x; work < {groups * units}u; work += {THREADS}) {{"
    return ['_Pragma("unroll")', head, *block(lines), "}"]


def _store(problem: MapProblem, turn: TileTurn, rows: int) -> list[str]:
    source, target = problem.operands
    width = source.data_type.width
    step = problem.axes[turn.x].strides[1]
    y = problem.axes[turn.y]
    if rows == 1:
        bits = f"Pack<{width}>"
        return [f"*({bits}*)(to + (i64)j * {step}ll) = *(const {bits}*)(one.bytes + j * {width});"]
    lines = [
        "const u32 low = even[j / 2] >> j % 2 * 16 & 0xffffu;",
        "const u32 high = odd[j / 2] >> j % 2 * 16 & 0xffffu;",
        f"u8* at = to + (i64)j * {step}ll;",
    ]
    steps = (target.offset, *(axis.strides[1] for axis in problem.axes if axis is not y))
    if y.extent % 2 == 0 and all(one % 4 == 0 for one in steps):
        return [*lines, "*(u32*)at = high << 16 | low;"]
    second = f"c{turn.y} + group * 2 + 1 < {y.extent}"
    return [*lines, "*(u16*)at = (u16)low;", f"if ({second}) *(u16*)(at + 2) = (u16)high;"]


def pairs_alignment(problem: MapProblem) -> int:
    """What the output's address has to be a multiple of: a pair of 2-byte elements."""
    width = problem.operands[1].data_type.width
    return 4 if width == 2 else width
