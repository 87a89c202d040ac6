"""What drawn programs are put together from: types, axes, bounds of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import (
    Axis,
    Bytes,
    Node,
    Operation,
    Program,
    Tensor,
)
from teir.soak.draws import DrawInt, chance, choose, shuffled
from teir.soak.layouts import draw_extents, draw_offsets, lay_out
from teir.soak.nests import Sheet

FLOATS = (
    DataType.FP32,
    DataType.FP64,
    DataType.BF16,
    DataType.FP16,
    DataType.TF32,
    DataType.C64,
    DataType.C128,
)
BINARY = (
    Operation.ADD,
    Operation.SUB,
    Operation.MUL,
    Operation.DIV,
    Operation.MIN,
    Operation.MAX,
)
SUMMED, FREE = "kluvw", "mnpqr"
"""Names of axes."""
ORDERED = (Operation.MIN, Operation.MAX, Operation.RELU)
"""Operations that complex numbers do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnProgram:
    """A program and the integers its operands may hold.

    ``largest`` bounds the absolute value of every operand element; ``divisors`` names the tensors
    that hold powers of two instead.
    """

    program: Program
    largest: int
    divisors: frozenset[str]


def exact_integers(data_type: DataType) -> int:
    """All integers up to this absolute value are exact in storage and as product inputs."""
    match data_type:
        case DataType.BF16:
            return 2**8
        case DataType.FP16 | DataType.TF32:
            return 2**11
        case DataType.FP32 | DataType.C64:
            return 2**24
        case DataType.FP64 | DataType.C128:
            return 2**53
        case DataType.I32 | DataType.I64:
            raise ValueError("index types take no part in arithmetic")


def draw_axes(draw: DrawInt, work: int, sum_budget: int) -> tuple[dict[str, int], tuple[str, ...]]:
    """Extents by name in a random order, and the names of the axes that are summed over."""
    sums = draw_extents(draw, choose(draw, (1, 0, 2, 1, 3, 4, 5)), sum_budget)
    product = 1
    for extent in sums:
        product *= extent
    frees = draw_extents(draw, choose(draw, (2, 1, 0, 3, 2, 4, 5)), max(1, work // product))
    named = {
        **dict(zip(SUMMED, sums, strict=False)),
        **dict(zip(FREE, frees, strict=False)),
    }
    return {name: named[name] for name in shuffled(draw, tuple(named))}, tuple(SUMMED[: len(sums)])


def output_layout(draw: DrawInt, extents: Mapping[str, int], data_type: DataType) -> dict[str, int]:
    return lay_out(draw, extents, data_type.width, shared_bytes=False)


def placed_axes(
    draw: DrawInt,
    extents: Mapping[str, int],
    layouts: Mapping[str, Mapping[str, int]],
    types: Mapping[str, DataType],
) -> tuple[Axis, ...]:
    """The axes; a tensor may have an offset on an axis that it holds."""
    axes = []
    for name, extent in extents.items():
        moved = [
            (tensor, data_type.width)
            for tensor, data_type in types.items()
            if name in layouts[tensor]
        ]
        strides = {tensor: layout.get(name, 0) for tensor, layout in layouts.items()}
        offsets = draw_offsets(draw, moved)
        axes.append(Axis(name=name, extent=extent, strides=Bytes(strides), offsets=Bytes(offsets)))
    return tuple(axes)


def sum_type(draw: DrawInt, data_type: DataType) -> DataType:
    if data_type in (DataType.BF16, DataType.FP16) and chance(draw, 40):
        return DataType.FP32
    return data_type


def declared_type(draw: DrawInt, data_type: DataType) -> DataType | None:
    return data_type if chance(draw, 50) else None


def largest_input(factors: int, terms: int, data_type: DataType, room: int) -> int:
    """The largest absolute value of an input with which no sum leaves the exact integers."""
    growth = 2 ** (factors - 1) if data_type.is_complex else 1
    for largest in (5, 3, 2):
        if 2 * growth * terms * largest**factors + largest <= room:
            return largest
    return 1


def input_names(count: int) -> tuple[str, ...]:
    return tuple(f"in{number}" for number in range(count))


def finished(
    sheet: Sheet,
    types: Mapping[str, DataType],
    scratch: tuple[Tensor, ...],
    roots: tuple[Node, ...],
    largest: int,
    divisors: frozenset[str] = frozenset(),
) -> DrawnProgram:
    program = Program(
        name="drawn",
        tensors=tuple(Tensor(name=name, data_type=kind) for name, kind in types.items()),
        axes=tuple(sheet.axes.values()),
        primitives=tuple(
            replace(primitive, name=name) for primitive, name in sheet.primitives.items()
        ),
        roots=roots,
        scratch=scratch,
    )
    return DrawnProgram(program=program, largest=largest, divisors=divisors)
