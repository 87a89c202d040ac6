"""Lowering of sparse loops whose leaf adds into what the visited element addresses.

    k over a fibre { T[k] += b * C[q] }        the output moves with the coordinate
    j, k over two levels { T[k] += B[p] * C[q] }      the fibres of k by position or coordinate of j
    k over a fibre { A[p] = T[k]; T[k] = 0 }   one kernel after the other

Free axes of the leaf that are not its row become loops around the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from teir.ir.nodes import Axis, Operation, Primitive
from teir.lower.access import Access
from teir.lower.axes import TileAxis, fuse_any_order, wrap_in_loops
from teir.lower.blocking import full_lanes
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.walked_fibre import Fibre, Leaf
from teir.lower.walked_kernels import Follows, WalkedInput, WalkedScatter
from teir.target import Isa

_MOST_VECTORS = 16
_MOST_WITHOUT_MASK = 16
"""Short vectors of a row that take less time than one store under a mask and the load behind it."""


def lower_walked_scatter(leaf: Leaf, fibre: Fibre, isa: Isa) -> tuple[KernelNode, ...] | None:
    """Calls of `WalkedScatter`; None where the leaf reduces, or no position moves its output.

    A leaf without inputs sets to zero.
    """
    data_type, inputs = leaf.out_type, leaf.operands[:-1]
    if leaf.in_type is not data_type or data_type is not data_type.accumulator:
        return None
    if data_type.is_complex or any(not axis.strides[-1] for axis in leaf.axes):
        return None
    output, step = fibre.move(leaf.operands[-1])
    if output is Follows.NOTHING or any(one.slot == leaf.operands[-1].slot for one in inputs):
        return None
    free = fuse_any_order(leaf.axes)
    row = next((axis for axis in free if _is_row(axis, data_type.width)), None)
    if row is None and free:
        return None
    outer = [axis for axis in free if axis is not row]
    body = _pieces(leaf, fibre, row, (output, step), isa)
    return wrap_in_loops(outer, leaf.operands, body)


def may_be_split(leaves: Sequence[Primitive], axis: Axis, axes: Mapping[str, Axis]) -> bool:
    """True where the leaves of a sparse loop may run one after the other, each over all visits.

    What one writes and another touches lies in bytes of its own at every visit.
    """
    known = {Operation.ZERO, Operation.CONTRACTION}
    if any(leaf.operation not in known for leaf in leaves):
        return False
    touched = [set(_touched(leaf)) for leaf in leaves]
    for number, leaf in enumerate(leaves):
        others = set().union(*(names for n, names in enumerate(touched) if n != number))
        if leaf.output in others and not all(
            _is_apart(one, leaf.output, axis, axes)
            for one in leaves
            if leaf.output in _touched(one)
        ):
            return False
    return True


def _touched(leaf: Primitive) -> tuple[str, ...]:
    return (leaf.output,) if leaf.operation is Operation.ZERO else leaf.operands


def _is_apart(leaf: Primitive, tensor: str, axis: Axis, axes: Mapping[str, Axis]) -> bool:
    """True where visits touch different bytes: the tile ends before the next one begins."""
    consumed = [axes[name] for name in leaf.axes]
    if any(one.offsets[tensor] for one in consumed):
        return False
    tile = sum(one.strides[tensor] * (one.extent - 1) for one in consumed)
    return axis.strides[tensor] > tile


def _is_row(axis: TileAxis, width: int) -> bool:
    return axis.strides[-1] == width and all(one in (0, width) for one in axis.strides[:-1])


def _pieces(
    leaf: Leaf,
    fibre: Fibre,
    row: TileAxis | None,
    output: tuple[Follows, int],
    isa: Isa,
) -> tuple[KernelNode, ...]:
    """The row in register blocks."""
    extent = 1 if row is None else row.extent
    lanes = _lanes(extent, full_lanes(isa, leaf.in_type, leaf.out_type))
    strides = (0,) * len(leaf.operands) if row is None else row.strides
    vectors = -(-extent // lanes)
    calls: tuple[KernelNode, ...] = ()
    for start in range(0, vectors, _MOST_VECTORS):
        size = min(_MOST_VECTORS, vectors - start)
        last = min(lanes, extent - (start + size - 1) * lanes)
        shift = start * lanes
        operands = tuple(
            Address(slot=one.slot, offset_bytes=one.offset_bytes + shift * along)
            for one, along in zip(leaf.operands, strides, strict=True)
        )
        calls += (_call(leaf, fibre, operands, strides, output, (size, lanes, last)),)
    return calls


def _lanes(extent: int, full: int) -> int:
    """Lanes of the vectors of a row; such that none needs a mask, where that takes few of them.

    What was stored under a mask is not forwarded: a load of the row waits until it is written.
    """
    whole = min(full, extent & -extent)
    return whole if extent // whole <= _MOST_WITHOUT_MASK else full


def _call(
    leaf: Leaf,
    fibre: Fibre,
    operands: Sequence[Address],
    strides: Sequence[int],
    output: tuple[Follows, int],
    block: tuple[int, int, int],
) -> Call:
    above = fibre.above
    vectors, lanes, last = block
    moves = [fibre.move(one) for one in operands[:-1]]
    steps = (*(step for _, step in moves), output[1])
    kernel = WalkedScatter(
        data_type=leaf.out_type,
        pos_type=fibre.pos_type,
        crd_type=fibre.crd_type,
        lanes=lanes,
        vectors=vectors,
        masked=last < lanes,
        inputs=tuple(
            WalkedInput(
                access=Access.UNIT if along else Access.BROADCAST,
                follows=follows,
                has_columns=False,
            )
            for (follows, _), along in zip(moves, strides, strict=False)
        ),
        output=output[0],
        adjacent=tuple(step == leaf.out_type.width for step in steps),
        accumulates=leaf.accumulate,
        outer=None if above is None else (above.pos_type, above.crd_type),
        fibre=fibre.number,
    )
    arrays = () if above is None else (above.pos, above.crd)
    pos_step = 0 if above is None else above.move(fibre.pos)[1]
    return Call(
        kernel=kernel,
        operands=(*arrays, fibre.pos, fibre.crd, *operands),
        arguments=(last, pos_step, *steps),
    )
