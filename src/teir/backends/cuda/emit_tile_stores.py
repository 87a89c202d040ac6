"""The epilogue of warpgroup products by tile stores: pieces of columns through shared memory.

    for piece                                          two pieces of room, taken in turn
      thread 0 waits until the store before the last one has been read;  barrier
      every thread writes its sums of the piece, swizzled;  fence to the asynchronous proxy
      barrier;  thread 0 issues the store

The next tile's products begin while the last stores still read. `teir.backends.cuda.protocol`
has the same as a protocol for the emulator.
"""

from __future__ import annotations

from teir.backends.cuda.text import block, decode
from teir.backends.cuda.tile_stores import BUFFERS, TileStore, bank_turn
from teir.backends.cuda.warpgroup import GROUP_THREADS, WarpgroupPlan

_NO_SPOT = "0xffffffffu"


def tile_store_begin(plan: WarpgroupPlan, store: TileStore) -> list[str]:
    """Once per thread: where its two rows lie in a piece, and what its lane adds to that."""
    width = plan.problem.operands[2].data_type.width
    digits = {f"e{at}": box for at, box in zip(plan.left.rows, plan.left.boxes, strict=True)}
    pairs = zip(digits, store.row_steps, strict=True)
    place = " + ".join(f"{name} * {step}" for name, step in pairs)
    odd = ["const u32 odd = lane / 4 % 2;"] if bank_turn(store, width) else []
    return [
        "u32 spot[2];",
        '_Pragma("unroll")',
        "for (u32 h = 0; h < 2; ++h) {",
        "  const u32 row = threadIdx.x / 32 * 16 + lane / 4 + h * 8;",
        *block(decode("row", digits, first_fastest=True, kind="u32")),
        f"  spot[h] = row < {plan.left.box_rows}u ? {place} : {_NO_SPOT};",
        "}",
        *odd,
        "u32 piece = 0;",
    ]


def tile_epilogue(plan: WarpgroupPlan, store: TileStore) -> list[str]:
    """All pieces of a tile; ``c<axis>`` are the first indices of the tile."""
    lines: list[str] = []
    for number in range(store.pieces):
        lines += ["{", *block(_piece(plan, store, number)), "}"]
    return lines


def tile_store_end() -> list[str]:
    """Shared memory is given back when nothing reads it any more."""
    return ["if (threadIdx.x == 0) stores_read<0>();"]


def _piece(plan: WarpgroupPlan, store: TileStore, number: int) -> list[str]:
    sync = f"group_sync(1, {plan.groups * GROUP_THREADS});"
    first = number * store.columns
    moved = {}
    for at, box in zip(plan.right.rows, plan.right.boxes, strict=True):
        moved[f"c{at}"] = first % box
        first //= box
    called = ", ".join(
        f"(int){name}" + (f" + {moved[name]}" if moved.get(name) else "")
        for name in store.coordinates
    )
    return [
        f"const u32 to = pieces + piece % {BUFFERS} * {plan.piece_room};",
        f"if (threadIdx.x == 0) stores_read<{BUFFERS - 1}>();",
        sync,
        '_Pragma("unroll")',
        "for (u32 h = 0; h < 2; ++h) {",
        f"  if (spot[h] == {_NO_SPOT}) continue;",
        '  _Pragma("unroll")',
        f"  for (u32 j = 0; j < {store.columns // 8}; ++j) {{",
        *block(block(_pair(plan, store, number * store.columns // 8))),
        "  }",
        "}",
        "stores_fence();",
        sync,
        "if (threadIdx.x == 0) {",
        f"  tile_store(to, &out, {called});",
        "  stores_commit();",
        "}",
        "++piece;",
    ]


def _pair(plan: WarpgroupPlan, store: TileStore, first: int) -> list[str]:
    """Two neighbouring columns of fragment ``first + j``, or of the one ``odd`` rows take first."""
    out = plan.problem.operands[2].data_type
    turn = bank_turn(store, out.width)
    fragment = f"(j ^ odd * {turn})" if turn else "j"
    lines = [f"Pack<{2 * out.width}> pair;"]
    for c in (0, 1):
        value = f"sums[({first} + j) * 4 + h * 2 + {c}]"
        if turn:
            value = f"either(odd, sums[({first} + (j ^ {turn})) * 4 + h * 2 + {c}], {value})"
        if plan.problem.relu:
            value = f"relu({value})"
        lines.append(f"store_{out.value}(pair.bytes + {c * out.width}, {value});")
    column = f"{fragment} * {8 * out.width} + lane % 4 * {2 * out.width}"
    return [
        *lines,
        f"put_shared(to + swizzled<{store.span_bytes}>(spot[h] + {column}), pair);",
    ]
