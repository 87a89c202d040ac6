"""Rows that deep fibres gather from beyond the second cache, some rows after the others.

    parallel i over i                                    parallel i over i
      sequential j.B over j.B                              (the same, with the advice to walk all
        scratch T1: FP64                                    fibres as far as coordinate 2047 first,
        clear_T1: zero_T1                        ->         then as far as 4095, and so on)
        sequential k.B over k.B
          T1: add_T1
        A: add_A

Where the third cache is far a gather of scattered rows takes as long as their lines take from
there. With so many rows at once that they stay in the second every row comes from there once,
however often it is gathered. Parts cost what follows the sum of a fibre, once for each, and
results are added up in memory. Slabs of columns, for which no fibre is cut, read what is stored as
often and took longer wherever fibres were long.

Measured in C on a Golden Cove core, 568,000 gathers of 28,800 rows of FP64: 64 columns 22.7 ms,
in 8, 12 and 15 parts 14.6, 13.2 and 13; 32 columns 12.2, in 8 parts 7.4; 16 columns 6.0, in 4
parts 3.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.coordinate_parts import PartedNest, parted_nest, with_coordinates_at_once
from teir.ir.nodes import Axis, InvocationNode, Node, Operation, Primitive, Program
from teir.passes.draft import below
from teir.passes.facts import Facts
from teir.passes.part_sizes import FarRows, coordinates_of_part, part_cache
from teir.target import LINE_BYTES


def with_gathered_parts(program: Program, stored: Mapping[str, int], facts: Facts) -> Program:
    """The program with the advice to walk the fibres of a root in parts, where that pays.

    ``stored``: the elements of index arrays of coordinates by the name of their tensor. The same
    object where nothing pays (`teir.passes.part_sizes`).
    """
    cache = part_cache(facts)
    if cache is None:
        return program
    axes, primitives = program.axis_table(), program.primitive_table()
    types = {name: one.data_type for name, one in program.tensor_table().items()}
    for root in program.roots:
        nest = parted_nest(root, axes, primitives, types)
        far = None if nest is None else _far_rows(nest, axes, primitives, types, stored)
        size = None if far is None else coordinates_of_part(far, cache)
        if nest is None or size is None:
            continue
        leaf = primitives[nest.leaf.primitive]
        primitives[leaf.name] = replace(leaf, metadata=with_coordinates_at_once(size))
    made = tuple(primitives.values())
    return program if made == program.primitives else replace(program, primitives=made)


def _far_rows(
    nest: PartedNest,
    axes: Mapping[str, Axis],
    primitives: Mapping[str, Primitive],
    types: Mapping[str, DataType],
    stored: Mapping[str, int],
) -> FarRows | None:
    """What the leaf gathers, and what is done beside; None where that is no row of whole lines."""
    above, rows = axes[nest.fibres.axis], axes[nest.walk.axis]
    row_bytes = _row_bytes(nest, axes, primitives, types)
    if not row_bytes:
        return None
    gathers = stored.get(rows.segments[0].crd, 0)
    fibres = stored.get(above.segments[0].crd, 0)
    leaf, following = primitives[nest.leaf.primitive], _following(nest, primitives)
    private = {tensor.name for node in (nest.rows, nest.fibres) for tensor in node.scratch}
    results = [one for one in (leaf, *following) if one.output not in private]
    return FarRows(
        row_bytes=row_bytes,
        rows=rows.extent,
        gathers=gathers,
        fibres=fibres,
        elements=gathers * prod(axes[name].extent for name in leaf.axes),
        formed=fibres * sum(prod(axes[name].extent for name in one.axes) for one in following),
        moved_bytes=sum(_result_bytes(nest, one, axes, types, fibres) for one in results),
    )


def _result_bytes(
    nest: PartedNest,
    one: Primitive,
    axes: Mapping[str, Axis],
    types: Mapping[str, DataType],
    fibres: int,
) -> int:
    """Bytes of its output that a primitive touches in one walk over all fibres."""
    rows, above = axes[nest.rows.axis], axes[nest.fibres.axis]
    tiles = fibres if above.strides[one.output] else rows.extent
    moving = (axes[name].extent for name in one.axes if axes[name].strides[one.output])
    return tiles * prod(moving) * types[one.output].width


def _row_bytes(
    nest: PartedNest,
    axes: Mapping[str, Axis],
    primitives: Mapping[str, Primitive],
    types: Mapping[str, DataType],
) -> int:
    """Bytes of what the leaf gathers at one coordinate; 0 where that is no row of whole lines."""
    walked, leaf = axes[nest.walk.axis], primitives[nest.leaf.primitive]
    by_position = walked.segments[0].by_position
    gathered = [one for one in leaf.inputs if walked.strides[one] and one not in by_position]
    if len(gathered) != 1 or leaf.metadata or len(leaf.axes) != 1:
        return 0
    (name,), row = gathered, axes[leaf.axes[0]]
    if len({types[one] for one in leaf.operands}) > 1 or row.is_sparse:
        return 0
    width = types[name].width
    is_real = types[name] in (DataType.FP32, DataType.FP64)
    row_bytes = row.extent * width
    is_row = row.strides[name] == width and walked.strides[name] == row_bytes
    return row_bytes if is_real and is_row and row_bytes % LINE_BYTES == 0 else 0


def _following(nest: PartedNest, primitives: Mapping[str, Primitive]) -> list[Primitive]:
    """The Contractions that are done once for each fibre, or for each row of fibres."""
    used: list[Node] = list(below((nest.rows,)))
    return [
        primitives[one.primitive]
        for one in used
        if isinstance(one, InvocationNode)
        and one is not nest.leaf
        and primitives[one.primitive].operation is Operation.CONTRACTION
    ]
