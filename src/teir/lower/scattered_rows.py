"""Rows that are one number, or one for every position, and loops around kernels that scatter them.

i { j over a fibre { T[j] += B[p] * x[i] } }     one call for many rows i, one after the other
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from teir.lower.kernel_program import Call, KernelNode, Step
from teir.lower.walked_kernels import Follows, WalkedScatter, WalkedSum


def has_short_rows(body: Sequence[KernelNode]) -> bool:
    """True where a row is one number, or one for every position of a fibre."""
    match body:
        case (Call(kernel=WalkedSum() as kernel),):
            return kernel.chains is not None
        case (Call(kernel=WalkedScatter() as kernel),):
            return kernel.vectors == 1
        case _:
            return False


def scatter_with_rows(
    call: Call, kernel: WalkedScatter, steps: Sequence[Step], rows: int
) -> tuple[Call, ...] | None:
    """The fibres of all rows, one after the other; None where a row moves more than inputs."""
    moved = {step.slot: step.stride_bytes for step in steps}
    pos, crd, *inputs, output = call.operands
    if pos.slot not in moved or crd.slot in moved or output.slot in moved:
        return None
    if any(one.slot == output.slot for one in (pos, crd, *inputs)):
        return None
    last_lanes, _, *strides, out_stride = call.arguments
    followed, along = [], []
    for one, address, stride in zip(kernel.inputs, inputs, strides, strict=True):
        row = moved.get(address.slot, 0)
        if row and one.follows is not Follows.NOTHING:
            return None
        followed.append(replace(one, follows=Follows.OUTER_POSITION) if row else one)
        along.append(row or stride)
    width = kernel.data_type.width
    return (
        Call(
            kernel=replace(
                kernel,
                inputs=tuple(followed),
                adjacent=(*(stride == width for stride in along), kernel.adjacent[-1]),
                has_rows=True,
            ),
            operands=call.operands,
            arguments=(last_lanes, moved[pos.slot], *along, out_stride, rows),
        ),
    )
