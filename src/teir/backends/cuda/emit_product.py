"""A contraction by fused multiply-adds: any strides, any type, operands through shared memory.

A block of 16 x 16 threads holds a tile of out in registers, ``per_thread`` squared elements each.
FP64 is summed by the tensor cores instead (`emit_double`), on tiles cut in the same way.
Tables of places say where the rows and columns of a tile lie; `emit_product_loads` brings the
steps of K to shared memory, `product_lanes` with the lanes along whatever axis is contiguous.
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
from teir.backends.cuda.emit_product_loads import Loads, declared, first_sums, main_loop
from teir.backends.cuda.kernel import MULTIPROCESSORS, CudaKernel, Family, TensorPointer
from teir.backends.cuda.product import (
    BLOCKS_PER_MULTIPROCESSOR,
    SIDE_THREADS,
    THREADS,
    ProductPlan,
)
from teir.backends.cuda.text import address, block, computed, decode, whole_source
from teir.dtypes import DataType


def emit_product(plan: ProductPlan, name: str) -> CudaKernel:
    """The kernel of a contraction."""
    operands = plan.problem.operands
    number = computed(operands[2].data_type)
    unit = max(1, 16 // operands[2].data_type.accumulator.width)
    pitch = plan.side + (DOUBLE_PITCH if plan.by_tensor_cores else unit)
    loads = Loads(plan=plan, number=number, pitch=pitch)
    tensors = tuple(dict.fromkeys(one.tensor for one in operands))
    signature = ", ".join(f"u8* {one}" for one in dict.fromkeys(pointer_names(operands)))
    # Two blocks of 128 registers per thread stand on a multiprocessor; wider sums need more.
    head = f"KERNEL_BLOCKS({THREADS}, {BLOCKS_PER_MULTIPROCESSOR if number == 'float' else 1})"
    text = [f"{head} {name}({signature}) {{", *block(_body(plan, loads)), "}"]
    return CudaKernel(
        name=name,
        family=Family.PRODUCT,
        source=whole_source("\n".join(text), tiles=False),
        parameters=tuple(TensorPointer(tensor=one) for one in tensors),
        blocks=min(prod(plan.tile_counts), MULTIPROCESSORS * BLOCKS_PER_MULTIPROCESSOR),
        threads=THREADS,
        shared_bytes=loads.shared_bytes,
    )


def _body(plan: ProductPlan, loads: Loads) -> list[str]:
    tiles = prod(plan.tile_counts)
    vector = _vector(plan, plan.problem.operands[2].data_type)
    by_cores = plan.by_tensor_cores
    own = _by_tensor_cores(plan) if by_cores else _by_threads(plan, loads.number, vector)
    kind = "u32" if tiles < 2**31 else "i64"
    return [
        *declared(loads),
        f"__shared__ i64 row_left[{plan.side}], row_out[{plan.side}];",
        f"__shared__ i64 column_right[{plan.side}], column_out[{plan.side}];",
        *own.places,
        f"for ({kind} tile = blockIdx.x; tile < {tiles}ll; tile += gridDim.x) {{",
        *block(_tile_index(plan)),
        *block(_tables(plan)),
        *block(first_sums(loads)),
        "  __syncthreads();",
        f"  {own.declaration}",
        *block(main_loop(loads, own.sums)),
        *block(own.results),
        "  __syncthreads();",
        "}",
    ]


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
        f"for (u32 k = 0; k < {plan.depth}; ++k) {{",
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
    for tile, pairs in (("row_tile", plan.boxed(0)), ("column_tile", plan.boxed(1))):
        counts = {f"n{at}": -(-axes[at].extent // box) for at, box in pairs}
        lines += decode(tile, counts, first_fastest=True, kind="i64")
        lines += [f"const i64 c{at} = n{at} * {box};" for at, box in pairs]
    batches = {f"c{at}": axes[at].extent for at in plan.batches}
    return [*lines, *decode("batch", batches, first_fastest=True, kind="i64")]


def _tables(plan: ProductPlan) -> list[str]:
    """Bytes from the operands' addresses, batch and offset included.

    Beyond an axis out is NOWHERE, and the inputs have the tile's first row, which is never stored.
    """
    axes, operands = plan.problem.axes, plan.problem.operands
    lines = []
    rows, columns = plan.boxed(0), plan.boxed(1)
    for pairs, name, side in (
        (rows, "row_left", 0),
        (rows, "row_out", 2),
        (columns, "column_right", 1),
        (columns, "column_out", 2),
    ):
        used = tuple(at for at, _ in pairs)
        batches, offset = plan.batches, operands[side].offset
        if name == "column_out":
            batches, offset = (), 0
        first = [(f"c{at}", axes[at].strides[side]) for at in (*used, *batches)]
        terms = [*first, *((f"e{at}", axes[at].strides[side]) for at in used)]
        beyond = "NOWHERE" if side == 2 else address("(i64)0", offset, first)
        tests = " && ".join(
            [
                f"at < {prod(box for _, box in pairs)}u",
                *(f"c{at} + e{at} < {axes[at].extent}" for at, _ in pairs),
            ]
        )
        lines += [
            f"if (const u32 at = threadIdx.x; at < {plan.side}u) {{",
            *block(decode("at", {f"e{a}": box for a, box in pairs}, True, "u32")),
            f"  {name}[at] = {tests} ? {address('(i64)0', offset, terms)} : {beyond};",
            "}",
        ]
    return lines


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
