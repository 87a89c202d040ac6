"""A contraction on warpgroup products: one producer, one or two consumer warpgroups, persistent.

    producer (one thread)                       consumers (64 rows each)
    for tile, for step                          for tile
      wait empty[stage]                           for step
      expect bytes on full[stage]                   wait full[stage]; products of the stage
      tile loads of both inputs                     release the stage before
                                                  epilogue: ReLU, rounding, permuted stores

Barriers are those of `teir.tma.protocol.pipeline`, which the emulator explores.
"""

from __future__ import annotations

from math import prod

from teir.backends.cuda.emit_register_stores import (
    output_places,
    register_epilogue,
    stored_together,
)
from teir.backends.cuda.emit_tile_stores import tile_epilogue, tile_store_begin, tile_store_end
from teir.backends.cuda.kernel import MULTIPROCESSORS, CudaKernel, Family, TensorPointer
from teir.backends.cuda.maps import MAP_ALIGNMENT
from teir.backends.cuda.sides import STEP_BYTES, Kind, Side
from teir.backends.cuda.text import block, decode, whole_source
from teir.backends.cuda.warpgroup import (
    CONSUMER_REGISTERS,
    GROUP_ROWS,
    GROUP_THREADS,
    PRODUCER_REGISTERS,
    WarpgroupPlan,
)
from teir.dtypes import DataType
from teir.tma.operands import Major

_SHAPES = {
    DataType.BF16: ("16", "bf16"),
    DataType.FP16: ("16", "f16"),
    DataType.TF32: ("8", "tf32"),
}
SWEEP = 16
"""Tiles of M that share the tiles of N they need, for the sake of the L2 cache."""


def emit_warpgroup(plan: WarpgroupPlan, name: str) -> CudaKernel:
    """The kernel of a contraction."""
    tiles = prod(plan.turn_counts)
    body = [
        "SHARED(shared);",
        "const u32 first = shared_address(shared);",
        f"const u32 full = first + {_barriers_start(plan)};",
        f"const u32 empty = full + {plan.stages * 8};",
        *_output_room(plan),
        f"const u32 group = threadIdx.x / {GROUP_THREADS};",
        "if (threadIdx.x == 0) {",
        f"  for (u32 stage = 0; stage < {plan.stages}; ++stage) {{",
        "    barrier_init(full + stage * 8, 1);",
        f"    barrier_init(empty + stage * 8, {plan.groups * 4 * plan.cluster});",
        "  }",
        "  barriers_ready();",
        "}",
        *(["const u32 rank = cluster_rank();"] if plan.cluster > 1 else []),
        "cluster_sync();" if plan.cluster > 1 else "__syncthreads();",
        f"if (group == {plan.groups}) {{",
        *block(_producer(plan, tiles)),
        "} else {",
        *block(_consumer(plan, tiles)),
        "}",
        *(["cluster_sync();"] if plan.cluster > 1 else []),
    ]
    threads = (plan.groups + 1) * GROUP_THREADS
    target = "u8* out" if plan.store is None else "MAP out"
    head = f"KERNEL({threads}) {name}(MAP left, MAP right, {target}) {{"
    text = [*_product_text(plan), head, *block(body), "}"]
    pointer = TensorPointer(tensor=plan.problem.operands[2].tensor)
    return CudaKernel(
        name=name,
        family=Family.WARPGROUP,
        source=whole_source("\n".join(text), tiles=True),
        parameters=(plan.left.map, plan.right.map, plan.store.map if plan.store else pointer),
        blocks=min(tiles * plan.cluster, MULTIPROCESSORS),
        cluster=plan.cluster,
        threads=threads,
        shared_bytes=plan.shared_bytes,
        threads_and_registers=plan.threads_and_registers,
    )


def _product_text(plan: WarpgroupPlan) -> list[str]:
    """The instruction as a function; on the host, its meaning."""
    columns = plan.right.tile_rows
    count = columns // 2
    data_type = plan.left.operand.data_type
    depth, letters = _SHAPES[data_type]
    turned = [side.major is Major.MN for side in (plan.left, plan.right)]
    flags = "" if data_type is DataType.TF32 else f", {int(turned[0])}, {int(turned[1])}"
    sums = ", ".join(f"%{at}" for at in range(count))
    outputs = ", ".join(f'"+f"(d[{at}])' for at in range(count))
    kinds = ", ".join(str(one).lower() for one in turned)
    head = f"void warpgroup_product(float (&d)[{count}], u64 a, u64 b, int keep) {{"
    return [
        "#ifdef TEIR_HOST",
        f"static {head}",
        f"  host::product<{columns}, host::{data_type.value}, {kinds}>(d, a, b, keep);",
        "}",
        "#else",
        f"HOPPER {head}",
        '  asm volatile("{\\n.reg .pred p;\\n"',
        f'    "setp.ne.b32 p, %{count + 2}, 0;\\n"',
        f'    "wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{letters}.{letters} "',
        f'    "{{{sums}}}, %{count}, %{count + 1}, p, 1, 1{flags};\\n}}"',
        f'    : {outputs} : "l"(a), "l"(b), "r"(keep));',
        "}",
        "#endif",
    ]


def _tile_index(plan: WarpgroupPlan) -> list[str]:
    """From the tile's number to ``c<axis>``, the first index of every free axis."""
    rows, columns, _ = plan.turn_counts
    plane = rows * columns
    lines = [
        f"const i64 in_plane = tile % {plane}ll, batch = tile / {plane}ll;",
        f"const i64 sweep = in_plane / {SWEEP * columns}ll * {SWEEP};",
        f"const i64 height = {rows}ll - sweep < {SWEEP} ? {rows}ll - sweep : {SWEEP};",
        f"const i64 in_sweep = in_plane % {SWEEP * columns}ll;",
        "const i64 row_turn = sweep + in_sweep % height, column_tile = in_sweep / height;",
        f"const i64 row_tile = row_turn{f' * {plan.cluster} + rank' if plan.cluster > 1 else ''};",
    ]
    axes = plan.problem.axes
    for tile, side in (("row_tile", plan.left), ("column_tile", plan.right)):
        pairs = list(zip(side.rows, side.boxes, strict=True))
        counts = {f"n{at}": -(-axes[at].extent // box) for at, box in pairs}
        lines += decode(tile, counts, first_fastest=True, kind="i64")
        lines += [f"const i64 c{at} = n{at} * {box};" for at, box in pairs]
    batches = {f"c{at}": axes[at].extent for at in plan.axes_of(Kind.BATCH)}
    return [*lines, *decode("batch", batches, first_fastest=False, kind="i64")]


def _producer(plan: WarpgroupPlan, tiles: int) -> list[str]:
    lines = [f"fewer_registers<{PRODUCER_REGISTERS}>();"] if plan.threads_and_registers else []
    loads = [
        f"barrier_wait(empty + stage * 8, (round / {plan.stages} & 1) ^ 1);",
        f"barrier_expect(full + stage * 8, {plan.loaded_bytes});",
        f"const u32 at = first + stage * {plan.stage_bytes};",
        *_loads(plan),
    ]
    return [
        *lines,
        f"if (threadIdx.x == {plan.groups * GROUP_THREADS}) {{",
        "  prefetch_map(&left);",
        "  prefetch_map(&right);",
        "  u32 round = 0;",
        f"  {_tile_loop(plan, tiles)}",
        *block(block(_tile_index(plan))),
        "    NO_UNROLL",
        f"    for (i64 step = 0; step < {plan.steps}ll; ++step, ++round) {{",
        f"      const u32 stage = round % {plan.stages};",
        *block(block(block(loads))),
        "    }",
        "  }",
        "}",
    ]


def _tile_loop(plan: WarpgroupPlan, tiles: int) -> str:
    """Blocks of a cluster take tiles together."""
    start, step = "blockIdx.x", "gridDim.x"
    if plan.cluster > 1:
        start, step = f"blockIdx.x / {plan.cluster}", f"gridDim.x / {plan.cluster}"
    return f"for (i64 tile = {start}; tile < {tiles}ll; tile += {step}) {{"


def _loads(plan: WarpgroupPlan) -> list[str]:
    """All tile loads of one stage. Chunks beyond the last lie out of bounds on both inputs."""
    axes = plan.problem.axes
    others = [at for at in plan.axes_of(Kind.SUM) if at != plan.chunk_axis]
    count = -(-axes[plan.chunk_axis].extent // plan.chunk)
    digits = {f"n{plan.chunk_axis}": count} | {f"c{at}": axes[at].extent for at in others}
    lines = []
    for number in range(plan.chunks_per_stage):
        inner = [
            f"const i64 chunk = step * {plan.chunks_per_stage} + {number};",
            *decode("chunk", digits, first_fastest=False, kind="i64"),
            f"const i64 c{plan.chunk_axis} = n{plan.chunk_axis} * {plan.chunk};",
            *_side_loads(plan.left, "left", number * plan.left.chunk_bytes),
        ]
        right = plan.right_start + number * plan.right.chunk_bytes
        if plan.cluster > 1:
            inner += _shared_loads(plan, right)
        else:
            inner += _side_loads(plan.right, "right", right)
        lines += ["{", *block(inner), "}"]
    return lines


def _side_loads(side: Side, name: str, start: int) -> list[str]:
    lines = []
    width = side.operand.data_type.width
    for load in range(side.loads):
        moved = _row_digits(side, load * side.span_bytes // width) if side.loads > 1 else {}
        called = ", ".join(
            f"(int){one}" + (f" + {moved[one]}" if moved.get(one) else "")
            for one in side.coordinates
        )
        to = f"at + {start + load * side.load_bytes}"
        lines.append(f"tile_load({to}, &{name}, full + stage * 8, {called});")
    return lines


def _shared_loads(plan: WarpgroupPlan, start: int) -> list[str]:
    """Each block of a cluster loads its share of the columns, for all of them."""
    side, cluster = plan.right, plan.cluster
    lines = []
    mask = (1 << cluster) - 1
    for share in range(cluster):
        loads = []
        for load in range(share * side.loads // cluster, (share + 1) * side.loads // cluster):
            row = load * side.tile_rows // side.loads
            moved = _row_digits(side, row)
            called = ", ".join(
                f"(int){one}" + (f" + {moved[one]}" if moved.get(one) else "")
                for one in side.coordinates
            )
            to = f"at + {start + load * side.load_bytes}"
            loads.append(f"tile_load_all({mask}, {to}, &right, full + stage * 8, {called});")
        lines += [f"if (rank == {share}) {{", *block(loads), "}"]
    return lines


def _row_digits(side: Side, row: int) -> dict[str, int]:
    """The index of every row axis inside the box, for row number ``row`` of the tile."""
    digits = {}
    for at, box in zip(side.rows, side.boxes, strict=True):
        digits[f"c{at}"] = row % box
        row //= box
    return digits


def _barriers_start(plan: WarpgroupPlan) -> int:
    """Behind the stages, and behind the pieces of out, which want the alignment of stages."""
    return plan.stages * plan.stage_bytes + (plan.output_bytes if plan.store else 0)


def _output_room(plan: WarpgroupPlan) -> list[str]:
    if plan.store is not None:
        return [f"const u32 pieces = first + {plan.stages * plan.stage_bytes};"]
    return [
        f"i64* row_place = (i64*)(shared + {plan.stages * (plan.stage_bytes + 16)});",
        f"i64* column_place = row_place + {plan.left.tile_rows};",
    ]


def _consumer(plan: WarpgroupPlan, tiles: int) -> list[str]:
    lines = [f"more_registers<{CONSUMER_REGISTERS}>();"] if plan.threads_and_registers else []
    lines += ["const u32 lane = threadIdx.x % 32;", "u32 round = 0;"]
    head = _tile_loop(plan, tiles)
    sums = f"float sums[{plan.right.tile_rows // 2}];"
    if plan.store is not None:
        body = [sums, *_products(plan), *_tile_index(plan), *tile_epilogue(plan, plan.store)]
        begin = tile_store_begin(plan, plan.store)
        return [*lines, *begin, head, *block(body), "}", *tile_store_end()]
    sync = f"group_sync(1, {plan.groups * GROUP_THREADS});"
    where = ["{", *block([*_tile_index(plan), *output_places(plan)]), "}"]
    body = [*where, sync, sums, *_products(plan), *register_epilogue(plan), sync]
    return [*lines, head, *block(body), "}"]


def _products(plan: WarpgroupPlan) -> list[str]:
    left, right = plan.left, plan.right
    width = left.operand.data_type.width
    steps = plan.chunk * width // STEP_BYTES
    rows = left.start_of_rows(GROUP_ROWS)
    inner = [
        f"const u32 stage = round % {plan.stages};",
        f"barrier_wait(full + stage * 8, round / {plan.stages} & 1);",
        f"const u32 at = first + stage * {plan.stage_bytes};",
        f"const u64 a = {left.descriptor_bits()}ull | matrix_start(at + group * {rows});",
        f"const u64 b = {right.descriptor_bits()}ull | matrix_start(at + {plan.right_start});",
        "products_fence();",
    ]
    for number in range(plan.chunks_per_stage):
        for step in range(steps):
            a = (number * left.chunk_bytes + left.start_of_step(step)) // 16
            b = (number * right.chunk_bytes + right.start_of_step(step)) // 16
            keep = "step != 0" if number == step == 0 else "1"
            inner.append(f"warpgroup_product(sums, a + {a}, b + {b}, {keep});")
    inner += [
        "products_commit();",
        "products_wait<1>();",
        f"if (step != 0) {_release(plan)}",
    ]
    return [
        "NO_UNROLL",
        f"for (i64 step = 0; step < {plan.steps}ll; ++step, ++round) {{",
        *block(inner),
        "}",
        "products_wait<0>();",
        "sums_settled(sums);",
        _release(plan),
    ]


def _release(plan: WarpgroupPlan) -> str:
    """One lane of a warp gives the stage of the round before back, to every block it came from."""
    barrier = f"empty + (round - 1) % {plan.stages} * 8"
    if plan.cluster == 1:
        return f"if (lane == 0) barrier_arrive({barrier});"
    return f"if (lane < {plan.cluster}) barrier_arrive_at(lane, {barrier});"


def warpgroup_alignments(plan: WarpgroupPlan) -> dict[str, int]:
    """What the address of every tensor has to be a multiple of."""
    left, right, out = plan.problem.operands
    needed = {left.tensor: MAP_ALIGNMENT, right.tensor: MAP_ALIGNMENT}
    if plan.store is not None:
        return needed | {out.tensor: MAP_ALIGNMENT}
    width = out.data_type.width * stored_together(plan)
    return needed | {out.tensor: max(width, needed.get(out.tensor, 1))}
