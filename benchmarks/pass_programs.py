"""The programs on which `passes.py` measures the passes: products and a transposition, in FP32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import teir
from teir.ir.nodes import Program

Walk = tuple[int, dict[str, int]]
"""The extent of an axis, and elements per step on every tensor it moves."""

_OPERANDS = "tensor in0: FP32\ntensor in1: FP32\ntensor out: FP32\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A program, the pass it shows, its multiply-adds, and the kernel sizes asked for."""

    title: str
    omitted: str
    program: Program
    products: int | None
    max_kernel_size: int | None = None
    min_kernel_size: int | None = None


def square(side: int, leading: int | None = None) -> dict[str, Walk]:
    """The axes of a column-major product; columns begin ``leading`` elements apart."""
    far = side if leading is None else leading
    return {
        "m": (side, {"in0": 1, "out": 1}),
        "n": (side, {"in1": far, "out": far}),
        "k": (side, {"in0": far, "in1": 1}),
    }


def six_axes(side: int, part: int) -> dict[str, Walk]:
    """The same product with every axis in two: parts of ``part`` indices."""
    axes: dict[str, Walk] = {}
    for name, (_, strides) in square(side).items():
        far = {tensor: part * stride for tensor, stride in strides.items()}
        axes[f"{name}0"] = (side // part, far)
        axes[f"{name}1"] = (part, strides)
    return axes


def product(
    axes: Mapping[str, Walk],
    order: str,
    tile: Mapping[str, str] | None = None,
    guards: str = "k",
    finish: bool = False,
    parallel: str = "",
) -> Program:
    """Loops in this order around Zero at the first of ``guards``, and a Contraction.

    ``tile`` gives the axes of the roles M, N and K of both; without it they act on elements.
    """
    roles = {"M": "", "N": "", "K": "", **(tile or {})}
    free = f"M=[{roles['M']}], N=[{roles['N']}]"
    depth = 0
    lines = []
    for axis in order.split():
        policy = "parallel" if axis == parallel else "sequential"
        lines.append(f"{'  ' * depth}{policy} {axis} over {axis}")
        depth += 1
    asked = {kind: " and ".join(f"{kind}({k})" for k in guards.split()) for kind in _KINDS}
    suffix = {kind: f" if {text}" if text else "" for kind, text in asked.items()}
    lines.append(f"{'  ' * depth}zero: zero_tile{suffix['first']}")
    lines.append(f"{'  ' * depth}gemm: gemm_tile")
    primitives = [
        f"primitive zero_tile = Zero FP32 (out; {free})",
        f"primitive gemm_tile = Contraction FP32 (in0, in1 -> out; {free}, K=[{roles['K']}])",
    ]
    if finish:
        lines.append(f"{'  ' * depth}relu: relu_tile{suffix['last']}")
        primitives.append(f"primitive relu_tile = ReLU FP32 (out -> out; {free})")
    head = f'teir 1 "product"\n{_OPERANDS}'
    return teir.loads(head + "\n".join([*_axis_lines(axes), *primitives, *lines]) + "\n")


_KINDS = ("first", "last")


def transposition(side: int) -> Program:
    """A square matrix turned, element by element."""
    axes = {"i": (side, {"in0": side, "out": 1}), "j": (side, {"in0": 1, "out": side})}
    lines = [
        'teir 1 "transposition"\ntensor in0: FP32\ntensor out: FP32',
        *_axis_lines(axes),
        "primitive copy = Copy FP32 (in0 -> out; M=[], N=[])",
        "sequential i over i\n  sequential j over j\n    do_copy: copy\n",
    ]
    return teir.loads("\n".join(lines))


def _axis_lines(axes: Mapping[str, Walk]) -> Iterator[str]:
    for name, (extent, strides) in axes.items():
        walk = ", ".join(f"{tensor} {4 * stride}" for tensor, stride in strides.items())
        yield f"axis {name} = {extent}: {walk}"


def tiled(side: int, rows: int, columns: int, depth: int, order: str) -> Program:
    """A product with tiles cut by hand, ReLU at its end."""
    sizes = {"m": rows, "n": columns, "k": depth}
    axes: dict[str, Walk] = {}
    for name, (extent, strides) in square(side).items():
        far = {tensor: sizes[name] * stride for tensor, stride in strides.items()}
        axes[name] = (extent // sizes[name], far)
        axes[f"{name}i"] = (sizes[name], strides)
    tile = {"M": "mi", "N": "ni", "K": "ki"}
    return product(axes, order, tile, finish=True)


def batch(count: int, side: int) -> Program:
    """Products of small matrices, one invocation each."""
    axes = square(side)
    axes["b"] = (count, dict.fromkeys(("in0", "in1", "out"), side * side))
    return product(axes, "b", {"M": "m", "N": "n", "K": "k"}, guards="")


def with_single_index(side: int) -> Program:
    """A product inside which a parallel loop of one iteration stands."""
    axes = square(side)
    axes["b"] = (1, {"in0": 1, "in1": 1, "out": 1})
    return product(axes, "m n b k", parallel="b")


def long_sum(side: int, depth: int) -> Program:
    """Few results of long sums, as one tile."""
    axes: dict[str, Walk] = {
        "m": (side, {"in0": 1, "out": 1}),
        "n": (side, {"in1": depth, "out": side}),
        "k": (depth, {"in0": side, "in1": 1}),
    }
    return product(axes, "", {"M": "m", "N": "n", "K": "k"}, guards="")


def one_thread() -> tuple[Measured, ...]:
    """A program for every pass that does something for one thread."""
    nest = "m n k"
    return (
        Measured(
            title="320^3 around a parallel loop of one iteration",
            omitted="drop trivial axes",
            program=with_single_index(320),
            products=320**3,
        ),
        Measured(
            title="1600^3 in six axes of 64 and 25",
            omitted="fuse axes",
            program=product(six_axes(1600, 25), "m0 m1 n0 n1 k0 k1", guards="k0 k1"),
            products=1600**3,
        ),
        Measured(
            title="320^3, element by element",
            omitted="identify primitives",
            program=product(square(320), nest),
            products=320**3,
        ),
        Measured(
            title="1024^3 in tiles of 32^3, Zero and ReLU inside",
            omitted="lift zero",
            program=tiled(1024, 32, 32, 32, nest),
            products=1024**3,
        ),
        Measured(
            title="1024^3 in tiles of 32^3, sums outermost",
            omitted="order axes",
            program=tiled(1024, 32, 32, 32, "k m n"),
            products=1024**3,
        ),
        Measured(
            title="20000 products of 8^3",
            omitted="promote batch",
            program=batch(20_000, 8),
            products=20_000 * 8**3,
        ),
        Measured(
            title="1600^3, columns 8192 bytes apart",
            omitted="block caches",
            program=product(square(1600, 2048), nest),
            products=1600**3,
        ),
        Measured(
            title="a 1000 x 1000 matrix turned",
            omitted="block caches",
            program=transposition(1000),
            products=None,
        ),
        Measured(
            title="1600^3, columns 8192 bytes apart",
            omitted="pack operands",
            program=product(square(1600, 2048), nest),
            products=1600**3,
        ),
    )


def two_threads() -> tuple[Measured, ...]:
    """Programs that two threads share in two ways."""
    return (
        Measured(
            title="1600^3, two threads",
            omitted="parallelise",
            program=product(square(1600), "m n k"),
            products=1600**3,
        ),
        Measured(
            title="24 x 24 sums of 400,000 products, two threads",
            omitted="parallelise",
            program=long_sum(24, 400_000),
            products=24 * 24 * 400_000,
        ),
        Measured(
            title="8 x 8 sums of 400,000 products, two threads",
            omitted="parallelise",
            program=long_sum(8, 400_000),
            products=8 * 8 * 400_000,
        ),
    )


def kernel_sizes() -> tuple[Measured, ...]:
    """1009, a prime, whole (edges masked in the kernels) and in blocks with branches."""
    return tuple(
        Measured(
            title=f"1009^3 in blocks of at most {largest}",
            omitted="split axes",
            program=product(square(1009), "m n k"),
            products=1009**3,
            max_kernel_size=largest,
            min_kernel_size=16,
        )
        for largest in (64, 128, 256)
    )
