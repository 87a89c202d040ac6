"""A contraction by fused multiply-adds: any strides, any type, operands through shared memory.

A block of 16 x 16 threads holds a tile of out in registers, ``per_thread`` squared elements each.
Tables of places say where the rows, columns and steps of a tile lie, so that loads are gathers
with the lanes along whatever axis is contiguous. The next step is loaded while one is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from teir.backends.cuda.emit_map import pointer_names
from teir.backends.cuda.kernel import MULTIPROCESSORS, CudaKernel, Family, TensorPointer
from teir.backends.cuda.problem import ContractionProblem
from teir.backends.cuda.text import address, block, computed, decode, whole_source
from teir.backends.cuda.warpgroup import Kind, boxes_of, kinds_of, output_along_columns
from teir.dtypes import DataType

SIDE_THREADS = 16
THREADS = SIDE_THREADS**2
DEPTH = 16
BLOCKS_PER_MULTIPROCESSOR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductPlan:
    """The tile: axes of its rows and columns, fastest first, with boxes, and the axes of K."""

    problem: ContractionProblem
    per_thread: int
    rows: tuple[int, ...]
    row_boxes: tuple[int, ...]
    columns: tuple[int, ...]
    column_boxes: tuple[int, ...]
    sums: tuple[int, ...]
    batches: tuple[int, ...]

    @property
    def side(self) -> int:
        """Rows of a tile, and columns."""
        return SIDE_THREADS * self.per_thread

    def tiles(self, axes: Sequence[int], boxes: Sequence[int]) -> int:
        pairs = zip(axes, boxes, strict=True)
        return prod(-(-self.problem.axes[at].extent // box) for at, box in pairs)

    @property
    def tile_counts(self) -> tuple[int, int, int]:
        batches = prod(self.problem.axes[at].extent for at in self.batches)
        rows = self.tiles(self.rows, self.row_boxes)
        return rows, self.tiles(self.columns, self.column_boxes), batches

    @property
    def steps(self) -> int:
        return -(-self.summed // DEPTH)

    @property
    def summed(self) -> int:
        return prod(self.problem.axes[at].extent for at in self.sums)


def product_plan(problem: ContractionProblem) -> ProductPlan | None:
    """The tile with the best estimate; None where the contraction has no rows or columns."""
    problem = output_along_columns(problem)
    wide = computed(problem.operands[2].data_type) == "float"
    plans = [_plan(problem, count) for count in ((8, 4, 2) if wide else (4, 2))]
    found = [plan for plan in plans if plan is not None]
    return min(found, key=_estimate, default=None)


def _estimate(plan: ProductPlan) -> float:
    """Waves times the work of a tile; small tiles load more per product. A model."""
    waves = -(-prod(plan.tile_counts) // (MULTIPROCESSORS * BLOCKS_PER_MULTIPROCESSOR))
    return waves * (plan.per_thread**2 + 2.0 * plan.per_thread + 2.0)


def _plan(problem: ContractionProblem, per_thread: int) -> ProductPlan | None:
    kinds = kinds_of(problem)

    def axes_of(kind: Kind, side: int) -> tuple[int, ...]:
        found = [at for at, one in enumerate(kinds) if one is kind]
        return tuple(sorted(found, key=lambda at: problem.axes[at].strides[side]))

    rows, columns = axes_of(Kind.ROW, 0), axes_of(Kind.COLUMN, 2)
    side = SIDE_THREADS * per_thread
    row_boxes = boxes_of([problem.axes[at].extent for at in rows], side, 1)
    column_boxes = boxes_of([problem.axes[at].extent for at in columns], side, 1)
    if row_boxes is None or column_boxes is None:
        return None
    return ProductPlan(
        problem=problem,
        per_thread=per_thread,
        rows=rows,
        row_boxes=row_boxes,
        columns=columns,
        column_boxes=column_boxes,
        sums=axes_of(Kind.SUM, 0),
        batches=axes_of(Kind.BATCH, 2),
    )


def emit_product(plan: ProductPlan, name: str) -> CudaKernel:
    """The kernel of a contraction."""
    tiles = prod(plan.tile_counts)
    out = plan.problem.operands[2]
    number = computed(out.data_type)
    vector = _vector(plan, out.data_type)
    pitch = plan.side + vector
    body = [
        f"alignas(16) __shared__ {number} left_tile[{DEPTH}][{pitch}];",
        f"alignas(16) __shared__ {number} right_tile[{DEPTH}][{pitch}];",
        f"__shared__ i64 row_left[{plan.side}], row_out[{plan.side}];",
        f"__shared__ i64 column_right[{plan.side}], column_out[{plan.side}];",
        f"const u32 across = threadIdx.x % {SIDE_THREADS} * {vector};",
        f"const u32 down = threadIdx.x / {SIDE_THREADS} * {vector};",
        f"for (i64 tile = blockIdx.x; tile < {tiles}ll; tile += gridDim.x) {{",
        *block(_tile_index(plan)),
        *block(_tables(plan)),
        "  __syncthreads();",
        f"  {number} sums[{plan.per_thread}][{plan.per_thread}] = {{}};",
        *block(_main_loop(plan, number, vector)),
        *block(_epilogue(plan, vector)),
        "  __syncthreads();",
        "}",
    ]
    operands = plan.problem.operands
    tensors = tuple(dict.fromkeys(one.tensor for one in operands))
    signature = ", ".join(f"u8* {one}" for one in dict.fromkeys(pointer_names(operands)))
    text = [f"KERNEL({THREADS}) {name}({signature}) {{", *block(body), "}"]
    return CudaKernel(
        name=name,
        family=Family.PRODUCT,
        source=whole_source("\n".join(text), tiles=False),
        parameters=tuple(TensorPointer(tensor=one) for one in tensors),
        blocks=min(tiles, MULTIPROCESSORS * BLOCKS_PER_MULTIPROCESSOR),
        threads=THREADS,
    )


def _vector(plan: ProductPlan, out: DataType) -> int:
    """Neighbouring elements one thread owns: up to 16 bytes of them."""
    return min(plan.per_thread, max(1, 16 // out.accumulator.width))


def _tile_index(plan: ProductPlan) -> list[str]:
    rows, columns, _ = plan.tile_counts
    axes = plan.problem.axes
    lines = [
        f"const i64 row_tile = tile % {rows}ll, column_tile = tile / {rows}ll % {columns}ll;",
        f"const i64 batch = tile / {rows * columns}ll;",
    ]
    for tile, used, boxes in (
        ("row_tile", plan.rows, plan.row_boxes),
        ("column_tile", plan.columns, plan.column_boxes),
    ):
        pairs = list(zip(used, boxes, strict=True))
        counts = {f"n{at}": -(-axes[at].extent // box) for at, box in pairs}
        lines += decode(tile, counts, first_fastest=True, kind="i64")
        lines += [f"const i64 c{at} = n{at} * {box};" for at, box in pairs]
    batches = {f"c{at}": axes[at].extent for at in plan.batches}
    return [*lines, *decode("batch", batches, first_fastest=True, kind="i64")]


def _tables(plan: ProductPlan) -> list[str]:
    """Bytes from the operands' addresses, batch and offset included; NOWHERE beyond an axis."""
    axes, operands = plan.problem.axes, plan.problem.operands
    lines = []
    for used, boxes, name, side in (
        (plan.rows, plan.row_boxes, "row_left", 0),
        (plan.rows, plan.row_boxes, "row_out", 2),
        (plan.columns, plan.column_boxes, "column_right", 1),
        (plan.columns, plan.column_boxes, "column_out", 2),
    ):
        pairs = list(zip(used, boxes, strict=True))
        terms = [(f"(c{at} + e{at})", axes[at].strides[side]) for at, _ in pairs]
        offset = 0
        if name != "column_out":
            terms += [(f"c{at}", axes[at].strides[side]) for at in plan.batches]
            offset = operands[side].offset
        tests = " && ".join(f"c{at} + e{at} < {axes[at].extent}" for at, _ in pairs)
        lines += [
            f"for (u32 at = threadIdx.x; at < {plan.side}u; at += {THREADS}) {{",
            *block(decode("at", {f"e{a}": box for a, box in pairs}, True, "u32")),
            f"  {name}[at] = {tests} ? {address('(i64)0', offset, terms)} : NOWHERE;",
            "}",
        ]
    return lines


def _main_loop(plan: ProductPlan, number: str, vector: int) -> list[str]:
    count = plan.side * DEPTH // THREADS
    parts = plan.per_thread // vector
    width = SIDE_THREADS * vector
    return [
        f"{number} left_next[{count}], right_next[{count}];",
        f"for (i64 step = -1; step < {plan.steps}ll; ++step) {{",
        f"  if (step + 1 < {plan.steps}ll) {{",
        *block(block(_side_load(plan, 0, "left_next", "row_left"))),
        *block(block(_side_load(plan, 1, "right_next", "column_right"))),
        "  }",
        "  if (step >= 0) {",
        '    _Pragma("unroll")',
        f"    for (u32 k = 0; k < {DEPTH}; ++k) {{",
        f"      {number} a[{plan.per_thread}], b[{plan.per_thread}];",
        '      _Pragma("unroll")',
        f"      for (u32 i = 0; i < {parts}; ++i) {{",
        f"        *(Row<{number}, {vector}>*)(a + i * {vector}) ="
        f" *(const Row<{number}, {vector}>*)&left_tile[k][down + i * {width}];",
        f"        *(Row<{number}, {vector}>*)(b + i * {vector}) ="
        f" *(const Row<{number}, {vector}>*)&right_tile[k][across + i * {width}];",
        "      }",
        '      _Pragma("unroll")',
        f"      for (u32 i = 0; i < {plan.per_thread}; ++i)",
        '        _Pragma("unroll")',
        f"        for (u32 j = 0; j < {plan.per_thread}; ++j)",
        "          sums[i][j] = madd(a[i], b[j], sums[i][j]);",
        "    }",
        "    __syncthreads();",
        "  }",
        f"  if (step + 1 < {plan.steps}ll) {{",
        *block(block(_side_store(plan, 0, "left_next", "left_tile"))),
        *block(block(_side_store(plan, 1, "right_next", "right_tile"))),
        "    __syncthreads();",
        "  }",
        "}",
    ]


def _places(plan: ProductPlan, side: int) -> list[str]:
    """Which element of the tile a thread moves: lanes along what is contiguous in the operand."""
    width = plan.problem.operands[side].data_type.width
    along_k = any(plan.problem.axes[at].strides[side] == width for at in plan.sums)
    if along_k:
        return [f"const u32 k = element % {DEPTH}, row = element / {DEPTH};"]
    return [f"const u32 row = element % {plan.side}, k = element / {plan.side};"]


def _side_load(plan: ProductPlan, side: int, target: str, table: str) -> list[str]:
    operand = plan.problem.operands[side]
    pointer = pointer_names(plan.problem.operands)[side]
    axes = plan.problem.axes
    digits = {f"k{at}": axes[at].extent for at in plan.sums}
    terms = [(f"k{at}", axes[at].strides[side]) for at in plan.sums]
    kind = operand.data_type.value
    value = f"load_{kind}({address(f'{pointer} + place', 0, terms)})"
    if operand.data_type is DataType.TF32:
        value = f"tf32({value})"
    inner = [
        f"const u32 element = threadIdx.x + part * {THREADS};",
        *_places(plan, side),
        f"const i64 sum = (step + 1) * {DEPTH} + k;",
        *decode("sum", digits, first_fastest=True, kind="i64"),
        f"const i64 place = {table}[row];",
        f"{target}[part] = {computed(operand.data_type)}{{}};",
        f"if (place != NOWHERE && sum < {plan.summed}ll) {target}[part] = {value};",
    ]
    count = plan.side * DEPTH // THREADS
    head = f"for (u32 part = 0; part < {count}; ++part) {{"
    return ['_Pragma("unroll")', head, *block(inner), "}"]


def _side_store(plan: ProductPlan, side: int, source: str, target: str) -> list[str]:
    count = plan.side * DEPTH // THREADS
    inner = [
        f"const u32 element = threadIdx.x + part * {THREADS};",
        *_places(plan, side),
        f"{target}[k][row] = {source}[part];",
    ]
    head = f"for (u32 part = 0; part < {count}; ++part) {{"
    return ['_Pragma("unroll")', head, *block(inner), "}"]


def _epilogue(plan: ProductPlan, vector: int) -> list[str]:
    out = plan.problem.operands[2]
    kind, pointer = out.data_type.value, pointer_names(plan.problem.operands)[2]
    value = "sums[i][j]" if plan.problem.from_zero else f"add(sums[i][j], load_{kind}(to))"
    if plan.problem.relu:
        value = f"relu({value})"
    width = SIDE_THREADS * vector
    places = f"[{{}} + {{}} / {vector} * {width} + {{}} % {vector}]"
    return [
        '_Pragma("unroll")',
        f"for (u32 i = 0; i < {plan.per_thread}; ++i) {{",
        f"  const i64 place = row_out{places.format('down', 'i', 'i')};",
        "  if (place == NOWHERE) continue;",
        '  _Pragma("unroll")',
        f"  for (u32 j = 0; j < {plan.per_thread}; ++j) {{",
        f"    const i64 right = column_out{places.format('across', 'j', 'j')};",
        "    if (right == NOWHERE) continue;",
        f"    u8* to = {pointer} + place + right;",
        f"    store_{kind}(to, {value});",
        "  }",
        "}",
    ]
