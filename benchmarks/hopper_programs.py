"""Programs of the GPU benchmarks: contractions and permutations without loops but the outermost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from teir.ir.load import loads
from teir.ir.nodes import Program

WIDTHS = {"BF16": 2, "FP16": 2, "FP64": 8}


def product_program(expression: str, sizes: Mapping[str, int], kind: str) -> Program:
    """A contraction without loops but the outermost; the plan cuts it."""
    inputs, out = expression.split("->")
    indices = dict(zip(("in0", "in1", "out"), (*inputs.split(","), out), strict=True))
    width = WIDTHS.get(kind, 4)
    strides = {
        name: {i: width * prod(sizes[j] for j in held[at + 1 :]) for at, i in enumerate(held)}
        for name, held in indices.items()
    }
    rows = ['teir 1 "contraction"', *(f"tensor {name}: {kind}" for name in indices)]
    every = list(dict.fromkeys(indices["in0"] + indices["in1"]))
    for index in every:
        moves = [f"{name} {step[index]}" for name, step in strides.items() if index in step]
        rows.append(f"axis {index} = {sizes[index]}: {', '.join(moves)}")
    tile = list(out[1:])
    m = ", ".join(index for index in tile if index in indices["in0"])
    n = ", ".join(index for index in tile if index not in indices["in0"])
    k = ", ".join(index for index in every if index not in out)
    rows += [
        f"primitive zero = Zero (out; M=[{m}], N=[{n}])",
        f"primitive gemm = Contraction (in0, in1 -> out; M=[{m}], N=[{n}], K=[{k}])",
        f"parallel {out[0]} over {out[0]}",
        "  zero: zero",
        "  gemm: gemm",
    ]
    return loads("\n".join(rows) + "\n")


def copy_program(shape: Sequence[int], order: Sequence[int], kind: str) -> Program:
    """A Copy that permutes the axes of a dense array."""
    width = WIDTHS.get(kind, 4)
    rank = len(shape)
    outs = {axis: width * prod(shape[a] for a in order[at + 1 :]) for at, axis in enumerate(order)}
    rows = ['teir 1 "permutation"', f"tensor in0: {kind}", f"tensor out: {kind}"]
    for axis in range(rank):
        step = width * prod(shape[axis + 1 :])
        rows.append(f"axis a{axis} = {shape[axis]}: in0 {step}, out {outs[axis]}")
    inner = ", ".join(f"a{axis}" for axis in range(1, rank))
    rows += [f"primitive copy = Copy (in0 -> out; M=[{inner}], N=[])", "parallel a0 over a0"]
    return loads("\n".join([*rows, "  copy: copy"]) + "\n")
