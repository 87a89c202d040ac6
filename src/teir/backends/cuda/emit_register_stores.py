"""The epilogue of warpgroup products from registers: every thread stores what it holds.

Tables in shared memory say where in ``out`` the rows and columns of a tile lie, and which lie
beyond it. Sums are added to what is there, rounded, and stored two, four or one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.cuda.sides import Kind
from teir.backends.cuda.text import address, block, decode
from teir.backends.cuda.warpgroup import GROUP_THREADS, WarpgroupPlan


def output_places(plan: WarpgroupPlan) -> list[str]:
    """Fill the tables: bytes of ``out`` for every row and column of the tile, NOWHERE beyond."""
    axes = plan.problem.axes
    batch = [(f"c{at}", axes[at].strides[2]) for at in plan.axes_of(Kind.BATCH)]
    offset = plan.problem.operands[2].offset
    lines = []
    threads = plan.groups * GROUP_THREADS
    for side, table, base in ((plan.left, "row", True), (plan.right, "column", False)):
        pairs = list(zip(side.rows, side.boxes, strict=True))
        digits = {f"e{at}": box for at, box in pairs}
        tests = [f"at < {side.box_rows}u"]
        tests += [f"c{at} + e{at} < {axes[at].extent}" for at, _ in pairs]
        terms = [(f"(c{at} + e{at})", axes[at].strides[2]) for at, _ in pairs]
        if base:
            terms += batch
        where = address("(i64)0", offset if base else 0, terms)
        lines += [
            f"for (u32 at = threadIdx.x; at < {side.tile_rows}u; at += {threads}) {{",
            *block(decode("at", digits, first_fastest=True, kind="u32")),
            f"  {table}_place[at] = {' && '.join(tests)} ? {where} : NOWHERE;",
            "}",
        ]
    return lines


def stored_together(plan: WarpgroupPlan) -> int:
    """Neighbouring columns that are neighbours in ``out`` and stored at once: 4, 2 or 1.

    Four of two bytes each: the four lanes of a row exchange what they hold, and store 32 bytes.
    """
    four = plan.problem.from_zero and plan.right.tile_rows % 16 == 0
    if plan.problem.operands[2].data_type.width == 2 and four and _are_neighbours(plan, 4):
        return 4
    return 2 if _are_neighbours(plan, 2) else 1


def _are_neighbours(plan: WarpgroupPlan, count: int) -> bool:
    axes, out = plan.problem.axes, plan.problem.operands[2]
    if not plan.right.rows or not out.data_type.width <= 4:
        return False
    first = plan.right.rows[0]
    if axes[first].strides[2] != out.data_type.width:
        return False
    if axes[first].extent % count or plan.right.boxes[0] % count:
        return False
    steps: Sequence[int] = [axis.strides[2] for at, axis in enumerate(axes) if at != first]
    return all(step % (count * out.data_type.width) == 0 for step in (*steps, out.offset))


def register_epilogue(plan: WarpgroupPlan) -> list[str]:
    out = plan.problem.operands[2].data_type
    kind = out.value
    if stored_together(plan) == 4:
        return _sector_epilogue(plan, kind)
    pairs = stored_together(plan) == 2
    store = []
    for c in (0, 1):
        value = f"sums[j * 4 + h * 2 + {c}]"
        if not plan.problem.from_zero:
            value = f"{value} + load_{kind}(to{c})"
        if plan.problem.relu:
            value = f"relu({value})"
        if pairs:
            store.append(f"store_{kind}(pair.bytes + {c * out.width}, {value});")
        else:
            store.append(f"if (right{c} != NOWHERE) store_{kind}(to{c}, {value});")
    places = [f"const i64 right{c} = column_place[j * 8 + lane % 4 * 2 + {c}];" for c in (0, 1)]
    pointers = [f"u8* to{c} = out + place + right{c};" for c in (0, 1)]
    if pairs:
        size = 2 * out.width
        store = [
            "if (right0 != NOWHERE) {",
            f"  Pack<{size}> pair;",
            *block(store),
            f"  *(Pack<{size}>*)to0 = pair;",
            "}",
        ]
    return [
        '_Pragma("unroll")',
        "for (u32 h = 0; h < 2; ++h) {",
        "  const i64 place = row_place[threadIdx.x / 32 * 16 + lane / 4 + h * 8];",
        "  if (place == NOWHERE) continue;",
        '  _Pragma("unroll")',
        f"  for (u32 j = 0; j < {plan.right.tile_rows // 8}; ++j) {{",
        *block(block([*places, *pointers, *store])),
        "  }",
        "}",
    ]


def _sector_epilogue(plan: WarpgroupPlan, kind: str) -> list[str]:
    """Sixteen columns of two-byte elements at a time, four lanes a row, 32 bytes.

    Lane t holds the pairs of columns 2t of two fragments, and stores the columns 4t to 4t + 3: it
    gets one pair from a lane that gives its first fragment and one from one that gives its second.
    """
    values = [f"sums[(j * 2 + m) * 4 + h * 2 + {c}]" for c in (0, 1)]
    if plan.problem.relu:
        values = [f"relu({value})" for value in values]
    return [
        "const u32 t = lane % 4, quad = lane - t, late = t / 2;",
        "const u32 source_a = quad + t % 2 * 2 + late, source_b = quad + t % 2 * 2 + 1 - late;",
        '_Pragma("unroll")',
        "for (u32 h = 0; h < 2; ++h) {",
        "  const i64 place = row_place[threadIdx.x / 32 * 16 + lane / 4 + h * 8];",
        '  _Pragma("unroll")',
        f"  for (u32 j = 0; j < {plan.right.tile_rows // 16}; ++j) {{",
        "    u32 pairs[2];",
        '    _Pragma("unroll")',
        "    for (u32 m = 0; m < 2; ++m) {",
        "      Pack<4> pair;",
        f"      store_{kind}(pair.bytes, {values[0]});",
        f"      store_{kind}(pair.bytes + 2, {values[1]});",
        "      pairs[m] = *(const u32*)&pair;",
        "    }",
        "    const u32 a = from_lane(t % 2 ? pairs[1] : pairs[0], source_a);",
        "    const u32 b = from_lane(t % 2 ? pairs[0] : pairs[1], source_b);",
        "    const i64 right = column_place[j * 16 + t * 4];",
        "    if (place != NOWHERE && right != NOWHERE)",
        "      *(Row<u32, 2>*)(out + place + right) = {{late ? b : a, late ? a : b}};",
        "  }",
        "}",
    ]
