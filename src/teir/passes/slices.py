"""Private accumulators over K: the parallel reduction of `teir.passes.parallelise`."""

from __future__ import annotations

from msgspec.structs import replace

from teir.ir.nodes import (
    Bytes,
    Operation,
    Policy,
    Tensor,
)
from teir.passes.cutting import cut, looped
from teir.passes.draft import Draft, Siblings
from teir.passes.groups import Group, extent_of, with_axes

_DEPTH = 512
"""Products per thread and output element below which slices do not pay."""


def wants_slices(draft: Draft, group: Group, threads: int) -> bool:
    """True where the sum is long enough to be shared, and is not rounded on the way."""
    primitive = draft.primitives[group.main.primitive]
    output = draft.tensors[primitive.output].data_type
    if output.accumulator is not output or any(leaf.guard for leaf in group.leaves):
        return False
    summed = [name for name in primitive.axes if not draft.axes[name].strides[primitive.output]]
    if not summed or draft.axes[summed[0]].extent < threads:
        return False
    return extent_of(draft, summed) >= threads * _DEPTH


def with_slices(draft: Draft, group: Group, threads: int) -> tuple[Siblings, Tensor]:
    """The group summed in ``threads`` slices of scratch, and the scratch the program must own."""
    primitive = draft.primitives[group.main.primitive]
    output = primitive.output
    partial = draft.scratch(f"{output}_slices", draft.tensors[output].data_type)
    free = [name for name in primitive.axes if draft.axes[name].strides[output]]
    outermost = next(name for name in primitive.axes if name not in free)
    slices, *rest = cut(draft, outermost, draft.axes[outermost].extent // threads)
    assert slices.blocks is not None
    room = partial.data_type.width
    for name in sorted(free, key=lambda name: draft.axes[name].strides[output]):
        _move(draft, name, partial.name, room)
        room *= draft.axes[name].extent
    _move(draft, slices.blocks, partial.name, -(-room // 64) * 64)
    zero = draft.invoke(Operation.ZERO, (), partial.name, m=free)
    inner = draft.primitive(
        draft.primitives[with_axes(draft, group.main, {outermost: slices.inside}, ()).primitive],
        output=partial.name,
    )
    product = replace(group.main, name=draft.name(group.main.name), primitive=inner)
    loop = looped(draft, slices.blocks, (zero, product), Policy.PARALLEL)
    added = draft.invoke(Operation.CONTRACTION, (partial.name,), output, m=free, k=(slices.blocks,))
    left = [with_axes(draft, group.main, {outermost: piece.inside}, ()) for piece in rest]
    return (*loop, *group.before, added, *left, *group.after), partial


def _move(draft: Draft, axis: str, tensor: str, stride: int) -> None:
    """Let an axis move a new tensor too; nothing else touches that tensor."""
    known = draft.axes[axis]
    draft.axes[axis] = replace(known, strides=Bytes({**known.strides, tensor: stride}))
