"""A permutation by tile loads: swizzled tiles in shared memory, read in columns of 16 bytes.

    thread 0: loads of the first tiles            tile: rows of y (the output's unit axis)
    for (tile ...)                                      spans of 128 bytes of x (the input's)
      wait until it has landed
      every thread: 16 bytes down a column (x), a warp stores 32 or 64 adjacent y for each x
      barrier; thread 0: load the tile that many stages ahead

The tile is as `tile_turn` says. Eight lanes that read one unit of eight rows meet eight different
groups of banks, by the swizzle. Elements of two bytes are stored in pairs, so that a warp writes
128 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.cuda.kernel import MULTIPROCESSORS, CudaKernel, Family, TensorPointer
from teir.backends.cuda.problem import MapProblem
from teir.backends.cuda.text import address, block, whole_source
from teir.backends.cuda.tile_order import TileOrder, tile_order
from teir.backends.cuda.tile_turn import TileTurn, span_map, tile_boxes

THREADS = 256
UNIT_BYTES = 16


def emit_turn_tiles(problem: MapProblem, turn: TileTurn, name: str) -> CudaKernel:
    """The kernel of a Copy that `tile_turn` describes."""
    found = span_map(problem, turn)
    assert found is not None
    parameter, coordinates = found
    width = problem.operands[0].data_type.width
    boxes = tile_boxes(problem, turn, turn.columns(width))
    order = tile_order(problem.axes, boxes)
    where = [*order.digits(), *(f"const i64 c{at} = n{at} * {b};" for at, b in enumerate(boxes))]
    load = [*where, *_load(turn, coordinates, turn.span_bytes // width)]
    columns = [*where, *_wait(turn), *_columns(problem, turn)]
    body = [*_begin(turn, order, load), *_loop(turn, order, load, columns)]
    head = f"KERNEL_BLOCKS({THREADS}, {turn.blocks}) {name}(MAP map, u8* target) {{"
    target = problem.operands[1]
    return CudaKernel(
        name=name,
        family=Family.TURN_TILES,
        source=whole_source("\n".join([head, *block(body), "}"]), tiles=True),
        parameters=(parameter, TensorPointer(tensor=target.tensor)),
        blocks=min(order.tiles, MULTIPROCESSORS * turn.blocks),
        threads=THREADS,
        shared_bytes=turn.shared_bytes,
    )


def _load(turn: TileTurn, coordinates: Sequence[str], columns: int) -> list[str]:
    """One barrier for all spans of a tile; what lies past the end of x comes as zeros."""
    called = ", ".join(f"(int){one}" for one in coordinates)
    lines = [f"barrier_expect(full + stage * 8, {turn.tile_bytes});"]
    for span in range(turn.spans):
        to = f"first + stage * {turn.tile_bytes} + {span * turn.region_bytes}"
        at = f"const i64 x = c{turn.x} + {span * columns};"
        lines.append(f"{{ {at} tile_load({to}, &map, full + stage * 8, {called}); }}")
    return lines


def _begin(turn: TileTurn, order: TileOrder, load: Sequence[str]) -> list[str]:
    return [
        "SHARED(shared);",
        "const u32 first = shared_address(shared);",
        f"const u32 full = first + {turn.stages * turn.tile_bytes};",
        "if (threadIdx.x == 0) {",
        "  prefetch_map(&map);",
        f"  for (u32 stage = 0; stage < {turn.stages}; ++stage) barrier_init(full + stage * 8, 1);",
        "  barriers_ready();",
        "}",
        "__syncthreads();",
        "if (threadIdx.x == 0) {",
        f"  NO_UNROLL for (u32 stage = 0; stage < {turn.stages}; ++stage) {{",
        f"    const {order.kind} tile = blockIdx.x + ({order.kind})stage * gridDim.x;",
        f"    if (tile >= {order.last}) break;",
        *block(block(load)),
        "  }",
        "}",
    ]


def _loop(
    turn: TileTurn, order: TileOrder, load: Sequence[str], columns: Sequence[str]
) -> list[str]:
    kind = order.kind
    return [
        "u32 stage = 0, parity = 0;",
        f"for ({kind} tile = blockIdx.x; tile < {order.last}; tile += gridDim.x) {{",
        *block(columns),
        "  __syncthreads();",
        f"  const {kind} ahead = tile + ({kind}){turn.stages} * gridDim.x;",
        f"  if (threadIdx.x == 0 && ahead < {order.last}) {{",
        f"    const {kind} tile = ahead;",
        *block(block(load)),
        "  }",
        f"  if (++stage == {turn.stages}) {{",
        "    stage = 0;",
        "    parity ^= 1;",
        "  }",
        "}",
    ]


def _wait(turn: TileTurn) -> list[str]:
    return [
        "barrier_wait(full + stage * 8, parity);",
        f"const u8* from = shared + stage * {turn.tile_bytes};",
    ]


def _columns(problem: MapProblem, turn: TileTurn) -> list[str]:
    """Each thread: units of 16 bytes of one row (or two), stored along y."""
    target, x, y = problem.operands[1], problem.axes[turn.x], problem.axes[turn.y]
    base = [(f"c{at}", axis.strides[1]) for at, axis in enumerate(problem.axes)]
    count = _groups(turn, target.data_type.width) * (turn.span_bytes // UNIT_BYTES) * turn.spans
    lines = _work(problem, turn)
    if count % THREADS:
        lines = [f"if (work < {count}u) {{", *block(lines), "}"]
    return [
        f"const u32 most_x = (u32)({x.extent} - c{turn.x});",
        f"const u32 most_y = (u32)({y.extent} - c{turn.y});",
        f"u8* const corner = {address('target', target.offset, base)};",
        '_Pragma("unroll")',
        f"for (u32 part = 0; part < {-(-count // THREADS)}; ++part) {{",
        f"  const u32 work = threadIdx.x + part * {THREADS};",
        *block(lines),
        "}",
    ]


def _groups(turn: TileTurn, width: int) -> int:
    """Rows of a tile, or pairs of them."""
    return turn.rows // (2 if width == 2 else 1)


def _work(problem: MapProblem, turn: TileTurn) -> list[str]:
    """A unit read and its elements stored; tested only where a tile can hang over."""
    width = problem.operands[0].data_type.width
    rows, per_unit = (2 if width == 2 else 1), UNIT_BYTES // width
    groups, per_span = _groups(turn, width), turn.span_bytes // UNIT_BYTES
    x, y = problem.axes[turn.x], problem.axes[turn.y]
    is_ragged = x.extent % turn.columns(width) > 0
    inside = f"group * {rows} < most_y" if y.extent % turn.rows else "true"
    test = f"j < (int)(most_x - unit * {per_unit})" if is_ragged else "true"
    return [
        f"const u32 group = work % {groups}, unit = work / {groups};",
        f"u8* to = corner + group * {rows * width} + (i64)(unit * {per_unit}) * {x.strides[1]}ll;",
        f"const u8* region = from + unit / {per_span} * {turn.region_bytes};",
        *_unit(turn, rows),
        f"if ({inside}) {{",
        '  _Pragma("unroll")',
        f"  for (int j = 0; j < {per_unit}; ++j) {{",
        f"    if ({test}) {{",
        *block(block(block(_store(problem, turn, rows)))),
        "    }",
        "  }",
        "}",
    ]


def _unit(turn: TileTurn, rows: int) -> list[str]:
    """Read 16 bytes of a row; of two rows, every other four lanes the second one first.

    Eight lanes that read rows 0, 2, 4, 6 and 9, 11, 13, 15 meet different groups of banks.
    """
    span = turn.span_bytes
    across = f"unit % {span // UNIT_BYTES} * {UNIT_BYTES}"
    column = f"*(const Unit*)(region + swizzled<{span}>(({{}}) * {span} + {across}))"
    if rows == 1:
        return [f"const Unit one = {column.format('group')};"]
    return [
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


def _store(problem: MapProblem, turn: TileTurn, rows: int) -> list[str]:
    source, target = problem.operands
    width = source.data_type.width
    step = problem.axes[turn.x].strides[1]
    y = problem.axes[turn.y]
    if rows == 1 and width == 4:
        return [f"*(u32*)(to + (i64)j * {step}ll) = one.word[j];"]
    if rows == 1:
        pair = "Row<u32, 2>{one.word[j * 2], one.word[j * 2 + 1]}"
        return [f"*(Row<u32, 2>*)(to + (i64)j * {step}ll) = {pair};"]
    lines = [
        "const u32 low = even[j / 2] >> j % 2 * 16 & 0xffffu;",
        "const u32 high = odd[j / 2] >> j % 2 * 16 & 0xffffu;",
        f"u8* at = to + (i64)j * {step}ll;",
    ]
    steps = (target.offset, *(axis.strides[1] for axis in problem.axes if axis is not y))
    if y.extent % 2 == 0 and all(one % 4 == 0 for one in steps):
        return [*lines, "*(u32*)at = high << 16 | low;"]
    second = "group * 2 + 1 < most_y"
    return [*lines, "*(u16*)at = (u16)low;", f"if ({second}) *(u16*)(at + 2) = (u16)high;"]


def pairs_alignment(problem: MapProblem) -> int:
    """What the output's address has to be a multiple of: a pair of 2-byte elements."""
    width = problem.operands[1].data_type.width
    return 4 if width == 2 else width
