"""Random well-formed, race-free programs, and how large their values may be.

Four kinds: a contraction, an element-wise operation, and two stages joined by a temporary (packing,
a wide accumulator, a parallel reduction whose slices a second root adds up, a chain of products).
Inputs are small integers, so small that every partial sum is exact in every type that holds it:
results are compared with ``==``.
"""

from __future__ import annotations

from collections.abc import Mapping

from teir.dtypes import DataType
from teir.ir.nodes import (
    Operation,
)
from teir.soak.draws import DrawInt, chance, choose, subset
from teir.soak.layouts import draw_extents, lay_out
from teir.soak.nests import Placement, Sheet, Statement, write_nest
from teir.soak.parts import (
    BINARY,
    FLOATS,
    ORDERED,
    DrawnProgram,
    declared_type,
    draw_axes,
    exact_integers,
    finished,
    input_names,
    largest_input,
    output_layout,
    placed_axes,
    sum_type,
)
from teir.soak.stages import draw_stages


def draw_program(draw: DrawInt, work: int = 50_000) -> DrawnProgram:
    """A program of at most about ``work`` multiply-adds."""
    kind = choose(draw, (_contraction, _elementwise, draw_stages, _contraction, draw_stages))
    return kind(draw, work)


def _contraction(draw: DrawInt, work: int) -> DrawnProgram:
    inputs = input_names(choose(draw, (2, 2, 1, 3, 4, 2)))
    data_type = choose(draw, FLOATS)
    out_type = sum_type(draw, data_type)
    room = exact_integers(data_type) if data_type is out_type else 2**20
    extents, reduced = draw_axes(draw, work, min(room // 4, work))
    free = tuple(name for name in extents if name not in reduced)
    holders = {name: _holders(draw, inputs, name in reduced) for name in extents}
    layouts = {
        tensor: _input_layout(draw, extents, holders, tensor, data_type) for tensor in inputs
    }
    layouts["out"] = output_layout(draw, {name: extents[name] for name in free}, out_type)
    types = dict.fromkeys(inputs, data_type) | {"out": out_type}
    axes = placed_axes(draw, extents, layouts, types)
    named = (inputs[0], inputs[0]) if len(inputs) == 2 and chance(draw, 4) else inputs
    statement = Statement(
        operation=Operation.CONTRACTION,
        inputs=named,
        output="out",
        axes=axes,
        data_type=declared_type(draw, data_type),
        zero=choose(draw, tuple(Placement)),
        relu=_finish(draw, out_type),
        complete=chance(draw, 70),
    )
    terms = 1
    for name in reduced:
        terms *= extents[name]
    largest = largest_input(len(inputs), terms, data_type, min(room, exact_integers(out_type)))
    sheet = Sheet()
    roots = write_nest(draw, sheet, statement)
    return finished(sheet, types, (), roots, largest)


def _elementwise(draw: DrawInt, work: int) -> DrawnProgram:
    operation = choose(draw, (Operation.COPY, Operation.RELU, Operation.ZERO, *BINARY))
    data_type = choose(draw, FLOATS)
    if data_type.is_complex and operation in ORDERED:
        data_type = DataType.FP32
    out_type = choose(draw, FLOATS) if operation is Operation.COPY else data_type
    if data_type.is_complex and not out_type.is_complex:
        out_type = data_type
    arity = 2 if operation in BINARY else 0 if operation is Operation.ZERO else 1
    inputs = input_names(arity)
    names = "abcdef"[: draw(0, 6)]
    extents = dict(zip(names, draw_extents(draw, len(names), work), strict=True))
    layouts = {
        tensor: lay_out(draw, extents, data_type.width, shared_bytes=True) for tensor in inputs
    }
    in_place = operation is Operation.RELU and chance(draw, 30)
    written = dict(extents)
    if in_place or operation is Operation.ZERO:
        written = {name: extent for name, extent in extents.items() if not chance(draw, 15)}
    layouts["out"] = output_layout(draw, written, out_type)
    types = dict.fromkeys(inputs, data_type) | {"out": out_type}
    statement = Statement(
        operation=operation,
        inputs=("out",) if in_place else inputs,
        output="out",
        axes=placed_axes(draw, extents, layouts, types),
        data_type=declared_type(draw, data_type) if data_type is out_type else None,
        complete=chance(draw, 70),
    )
    divisors = frozenset({"in1"}) if operation is Operation.DIV else frozenset[str]()
    sheet = Sheet()
    return finished(sheet, types, (), write_nest(draw, sheet, statement), 7, divisors)


def _holders(draw: DrawInt, inputs: tuple[str, ...], is_reduced: bool) -> tuple[str, ...]:
    """The inputs that an axis addresses: at least one, all of two for a usual reduction."""
    if is_reduced and chance(draw, 90):
        return inputs
    return subset(draw, inputs, 50) or (choose(draw, inputs),)


def _input_layout(
    draw: DrawInt,
    extents: Mapping[str, int],
    holders: Mapping[str, tuple[str, ...]],
    tensor: str,
    data_type: DataType,
) -> dict[str, int]:
    held = {name: extent for name, extent in extents.items() if tensor in holders[name]}
    return lay_out(draw, held, data_type.width, shared_bytes=True)


def _finish(draw: DrawInt, data_type: DataType) -> Placement:
    if data_type.is_complex or not chance(draw, 40):
        return Placement.NONE
    return choose(draw, (Placement.BESIDE, Placement.GUARDED))
