"""A contraction by fused multiply-adds: any strides, any type, operands through shared memory.

A block of 16 x 16 threads holds a tile of out in registers, ``per_thread`` squared elements each.
FP64 is summed by the tensor cores instead (`emit_double`), on tiles cut in the same way.
Tables of places say where the rows, columns and steps of a tile lie, so that loads are gathers
with the lanes along whatever axis is contiguous. The next step is loaded while one is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from teir.backends.cuda.emit_double import (
    DOUBLE_PITCH,
    double_declaration,
    double_places,
    double_results,
    double_sums,
)
from teir.backends.cuda.emit_map import pointer_names
from teir.backends.cuda.kernel import MULTIPROCESSORS, CudaKernel, Family, TensorPointer
from teir.backends.cuda.product import (
    BLOCKS_PER_MULTIPROCESSOR,
    DEPTH,
    SIDE_THREADS,
    THREADS,
    ProductPlan,
)
from teir.backends.cuda.text import address, block, computed, decode, whole_source
from teir.dtypes import DataType


def emit_product(plan: ProductPlan, name: str) -> CudaKernel:
    """The kernel of a contraction."""
    tiles = prod(plan.tile_counts)
    out = plan.problem.operands[2]
    number = computed(out.data_type)
    vector = _vector(plan, out.data_type)
    pitch = plan.side + (DOUBLE_PITCH if plan.by_tensor_cores else vector)
    own = _by_tensor_cores(plan) if plan.by_tensor_cores else _by_threads(plan, number, vector)
    body = [
        f"alignas(16) __shared__ {number} left_tile[{DEPTH}][{pitch}];",
        f"alignas(16) __shared__ {number} right_tile[{DEPTH}][{pitch}];",
        f"__shared__ i64 row_left[{plan.side}], row_out[{plan.side}];",
        f"__shared__ i64 column_right[{plan.side}], column_out[{plan.side}];",
        *own.places,
        f"for (i64 tile = blockIdx.x; tile < {tiles}ll; tile += gridDim.x) {{",
        *block(_tile_index(plan)),
        *block(_tables(plan)),
        "  __syncthreads();",
        f"  {own.declaration}",
        *block(_main_loop(plan, number, own.sums)),
        *block(own.results),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """What a thread holds of a tile: where, how a step adds to it, how it is stored."""

    places: Sequence[str]
    declaration: str
    sums: Sequence[str]
    results: Sequence[str]


def _by_tensor_cores(plan: ProductPlan) -> _Sums:
    return _Sums(
        places=double_places(plan),
        declaration=double_declaration(plan),
        sums=double_sums(plan),
        results=double_results(plan, _stored),
    )


def _by_threads(plan: ProductPlan, number: str, vector: int) -> _Sums:
    return _Sums(
        places=(
            f"const u32 across = threadIdx.x % {SIDE_THREADS} * {vector};",
            f"const u32 down = threadIdx.x / {SIDE_THREADS} * {vector};",
        ),
        declaration=f"{number} sums[{plan.per_thread}][{plan.per_thread}] = {{}};",
        sums=_multiply_adds(plan, number, vector),
        results=_results(plan, vector),
    )


def _multiply_adds(plan: ProductPlan, number: str, vector: int) -> list[str]:
    parts = plan.per_thread // vector
    width = SIDE_THREADS * vector
    return [
        '_Pragma("unroll")',
        f"for (u32 k = 0; k < {DEPTH}; ++k) {{",
        f"  {number} a[{plan.per_thread}], b[{plan.per_thread}];",
        '  _Pragma("unroll")',
        f"  for (u32 i = 0; i < {parts}; ++i) {{",
        f"    *(Row<{number}, {vector}>*)(a + i * {vector}) ="
        f" *(const Row<{number}, {vector}>*)&left_tile[k][down + i * {width}];",
        f"    *(Row<{number}, {vector}>*)(b + i * {vector}) ="
        f" *(const Row<{number}, {vector}>*)&right_tile[k][across + i * {width}];",
        "  }",
        '  _Pragma("unroll")',
        f"  for (u32 i = 0; i < {plan.per_thread}; ++i)",
        '    _Pragma("unroll")',
        f"    for (u32 j = 0; j < {plan.per_thread}; ++j)",
        "      sums[i][j] = madd(a[i], b[j], sums[i][j]);",
        "}",
    ]


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
        tests = " && ".join(
            [f"at < {prod(boxes)}u", *(f"c{at} + e{at} < {axes[at].extent}" for at, _ in pairs)]
        )
        lines += [
            f"for (u32 at = threadIdx.x; at < {plan.side}u; at += {THREADS}) {{",
            *block(decode("at", {f"e{a}": box for a, box in pairs}, True, "u32")),
            f"  {name}[at] = {tests} ? {address('(i64)0', offset, terms)} : NOWHERE;",
            "}",
        ]
    return lines


def _main_loop(plan: ProductPlan, number: str, sums: Sequence[str]) -> list[str]:
    count = plan.side * DEPTH // THREADS
    return [
        f"{number} left_next[{count}], right_next[{count}];",
        f"for (i64 step = -1; step < {plan.steps}ll; ++step) {{",
        f"  if (step + 1 < {plan.steps}ll) {{",
        *block(block(_side_load(plan, 0, "left_next", "row_left"))),
        *block(block(_side_load(plan, 1, "right_next", "column_right"))),
        "  }",
        "  if (step >= 0) {",
        *block(block(sums)),
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


def _results(plan: ProductPlan, vector: int) -> list[str]:
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
        *block(block(_stored(plan, "sums[i][j]"))),
        "  }",
        "}",
    ]


def _stored(plan: ProductPlan, sum_name: str) -> list[str]:
    """The element at ``place + right`` of out."""
    out = plan.problem.operands[2]
    kind, pointer = out.data_type.value, pointer_names(plan.problem.operands)[2]
    value = sum_name if plan.problem.from_zero else f"add({sum_name}, load_{kind}(to))"
    if plan.problem.relu:
        value = f"relu({value})"
    return [f"u8* to = {pointer} + place + right;", f"store_{kind}(to, {value});"]
