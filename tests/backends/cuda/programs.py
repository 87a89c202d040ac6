"""Programs for the GPU backend, and operands whose addresses are aligned as GPU memory is."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from teir.dtypes import DataType
from teir.ir.load import loads
from teir.ir.nodes import Program

Buffer = np.ndarray[Any, np.dtype[Any]]


def aligned(count: int, data_type: DataType) -> Buffer:
    """Zeros at an address that is a multiple of 256."""
    dtype = data_type.numpy_dtype()
    raw = np.zeros(count * dtype.itemsize + 256, np.uint8)
    start = -raw.ctypes.data % 256
    return raw[start : start + count * dtype.itemsize].view(dtype)


def drawn(count: int, data_type: DataType, seed: int) -> Buffer:
    """Standard normal numbers, aligned."""
    numbers = aligned(count, data_type)
    numbers[:] = np.random.default_rng(seed).standard_normal(count)
    return numbers


def permutation(
    shape: Sequence[int], order: Sequence[int], data_type: DataType, pad: int = 0
) -> tuple[Program, int]:
    """A Copy that permutes, and the input's elements; ``pad`` elements lie after every row."""
    width, rank = data_type.width, len(shape)
    ins, outs = [0] * rank, [0] * rank
    step = 1
    for axis in reversed(range(rank)):
        ins[axis] = step
        step = step * shape[axis] + (pad if axis == rank - 1 else 0)
    room, step = step, 1
    for axis in reversed(order):
        outs[axis] = step
        step *= shape[axis]
    rows = [
        'teir 1 "permutation"',
        f"tensor in0: {data_type.value}",
        f"tensor out: {data_type.value}",
    ]
    for axis, extent in enumerate(shape):
        strides = f"in0 {ins[axis] * width}, out {outs[axis] * width}"
        rows.append(f"axis a{axis} = {extent}: {strides}")
    rows.append(f"primitive copy = Copy (in0 -> out; M=[a{rank - 1}], N=[])")
    rows += [f"{'  ' * at}parallel a{at} over a{at}" for at in range(rank - 1)]
    rows.append(f"{'  ' * (rank - 1)}copy: copy")
    return loads("\n".join(rows) + "\n"), room


def sum_by_tiles(
    random_: random.Random, most: int, most_units: int
) -> tuple[Program, dict[str, int]]:
    """A sum whose inputs come by tile loads, and the elements of each tensor.

    Up to four axes, of at most ``most`` elements but the last, which has up to ``most_units`` of 16
    bytes; in0 has gaps, in1 may lack the first axis.
    """
    kinds = (DataType.FP32, DataType.FP64, DataType.BF16, DataType.FP16)
    data_type = random_.choice(kinds)
    shape = [random_.randint(2, most) for _ in range(random_.choice((1, 2, 3)))]
    shape.append(random_.randint(1, most_units) * 16 // data_type.width)
    steps = dict.fromkeys(("in0", "in1", "out"), 1)
    axes = []
    for axis in reversed(range(len(shape))):
        moved = ["in0", "out"] if axis == 0 and random_.random() < 0.4 else list(steps)
        moves = ", ".join(f"{one} {steps[one] * data_type.width}" for one in moved)
        axes.append(f"axis a{axis} = {shape[axis]}: {moves}")
        pad = random_.choice((0, 16)) // data_type.width
        for one in moved:
            steps[one] = steps[one] * shape[axis] + (pad if one == "in0" else 0)
    inner = ", ".join(f"a{axis}" for axis in range(1, len(shape)))
    rows = [
        'teir 1 "sum"',
        *(f"tensor {one}: {data_type.value}" for one in steps),
        *axes,
        f"primitive sum = Add (in0, in1 -> out; M=[{inner}], N=[])"
        ' with {"cuda": {"kernel": "map-tiles"}}',
        "parallel a0 over a0",
        "  sum: sum",
    ]
    return loads("\n".join(rows) + "\n"), steps


def strides_of(indices: str, sizes: Mapping[str, int], width: int) -> dict[str, int]:
    """Row-major byte strides of a tensor with the given indices."""
    strides, step = {}, width
    for index in reversed(indices):
        strides[index] = step
        step *= sizes[index]
    return strides


def contraction(
    expression: str,
    sizes: Mapping[str, int],
    data_type: DataType,
    out_type: DataType | None = None,
    zero: bool = True,
    relu: bool = False,
) -> tuple[Program, dict[str, int]]:
    """``"mk,kn->mn"`` as one parallel loop around whole tiles, and the elements of each tensor."""
    inputs, out = expression.split("->")
    left, right = inputs.split(",")
    kinds = {"in0": data_type, "in1": data_type, "out": out_type or data_type}
    indices = {"in0": left, "in1": right, "out": out}
    strides = {name: strides_of(indices[name], sizes, kinds[name].width) for name in kinds}
    rows = ['teir 1 "contraction"']
    rows += [f"tensor {name}: {kind.value}" for name, kind in kinds.items()]
    for index in dict.fromkeys(left + right):
        moves = [f"{name} {step[index]}" for name, step in strides.items() if index in step]
        rows.append(f"axis {index} = {sizes[index]}: {', '.join(moves)}")
    grid, *tile = out
    roles = {
        "M": [i for i in tile if i in left],
        "N": [i for i in tile if i not in left],
        "K": [i for i in dict.fromkeys(left + right) if i not in out],
    }
    free = f"M=[{', '.join(roles['M'])}], N=[{', '.join(roles['N'])}]"
    rows.append(f"primitive zero = Zero (out; {free})")
    rows.append(
        f"primitive gemm = Contraction (in0, in1 -> out; {free}, K=[{', '.join(roles['K'])}])"
    )
    rows.append(f"primitive relu = ReLU (out -> out; {free})")
    used = [("zero", zero), ("gemm", True), ("relu", relu)]
    rows = [
        row for row in rows if all(has or f"primitive {name} " not in row for name, has in used)
    ]
    rows.append(f"parallel {grid} over {grid}")
    rows += [f"  {name}: {name}" for name, has in used if has]
    counts = {name: prod(sizes[index] for index in indices[name]) for name in kinds}
    return loads("\n".join(rows) + "\n"), counts
