"""Kernel programs written by hand, each as small as the thing it is about."""

from __future__ import annotations

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.access import Access
from teir.lower.kernel_program import (
    Address,
    Call,
    Grid,
    GridAxis,
    KernelNode,
    KernelProgram,
    Loop,
    Slot,
    Step,
    Storage,
)
from teir.lower.kernels import Elementwise, ProductSum

WIDTH = 4


def slot(name: str, storage: Storage = Storage.OPERAND, start_bytes: int = 0) -> Slot:
    return Slot(tensor=name, data_type=DataType.FP32, storage=storage, start_bytes=start_bytes)


def elementwise(operation: Operation, *operands: tuple[int, int], count: int = 1) -> Call:
    """``operation`` on ``count`` adjacent FP32 elements; operands as (slot, offset)."""
    kernel = Elementwise(
        operation=operation,
        in_type=DataType.FP32,
        out_type=DataType.FP32,
        lanes=4,
        accesses=(Access.UNIT,) * len(operands),
    )
    return Call(
        kernel=kernel,
        operands=tuple(Address(slot=s, offset_bytes=offset) for s, offset in operands),
        arguments=(count, 1, *(WIDTH,) * len(operands), *(0,) * len(operands)),
    )


def add(*operands: tuple[int, int], count: int = 1) -> Call:
    return elementwise(Operation.ADD, *operands, count=count)


def product(*operands: tuple[int, int]) -> Call:
    """One element: out += the product of all inputs."""
    inputs = len(operands) - 1
    kernel = ProductSum(
        in_type=DataType.FP32,
        out_type=DataType.FP32,
        inputs=inputs,
        lanes=4,
        accesses=(Access.UNIT,) * len(operands),
    )
    return Call(
        kernel=kernel,
        operands=tuple(Address(slot=s, offset_bytes=offset) for s, offset in operands),
        arguments=(1, 1, 1, 1, *(WIDTH,) * len(operands), *(0,) * inputs, *(0,) * inputs),
    )


def steps(*pairs: tuple[int, int]) -> tuple[Step, ...]:
    """Steps as (slot, elements)."""
    return tuple(Step(slot=s, stride_bytes=WIDTH * elements) for s, elements in pairs)


def loop(extent: int, moves: tuple[Step, ...], *body: KernelNode, index: int | None = None) -> Loop:
    return Loop(extent=extent, steps=moves, index=index, body=body)


def grid(*body: KernelNode, axes: tuple[tuple[int, tuple[Step, ...], int | None], ...]) -> Grid:
    return Grid(axes=tuple(GridAxis(extent=e, steps=s, index=i) for e, s, i in axes), body=body)


def program(
    names: str, *roots: KernelNode, scratch: tuple[Slot, ...] = (), cells: int = 0
) -> KernelProgram:
    """Operand slots named by the words of ``names``, then ``scratch``, one page of each arena."""
    return KernelProgram(
        slots=(*(slot(name) for name in names.split()), *scratch),
        roots=roots,
        index_cells=cells,
        run_scratch_bytes=4096,
        thread_scratch_bytes=4096,
    )


ENDLESS = program("a out", loop(2**45, (), elementwise(Operation.COPY, (0, 0), (1, 0))))
"""A loop that nobody waits for."""

SHARED = program(
    "a b out",
    grid(add((0, 0), (1, 0), (2, 0)), axes=((60, steps((0, 1), (1, 1), (2, 1)), None),)),
)
"""A grid of additions of 60 elements."""
