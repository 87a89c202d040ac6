"""Loops around dots of many rows with one row that become columns of the call.

    Loop j < 4 (in1 += 40000, out += 4)          Call DotRows(2 columns at once, n=4, ...)
      Call DotRows(in0, in1 -> out)          ->

A vector of the rows, once loaded, is then used by every column of a block, and the vectors of the
columns by every row: 4 rows by 2 columns take 6 loads for 8 products instead of 10. The chains of a
sum stay as they are, so no bit changes.
"""

from __future__ import annotations

from msgspec.structs import replace

from teir.lower.kernel_program import Call, Loop
from teir.lower.kernels import DotRows
from teir.target import Isa

_COLUMNS = 2
_ACCUMULATORS = 16
"""Of the 32 registers: the others hold what is loaded, and hide its latency."""


def columns_of_loop(loop: Loop, isa: Isa) -> tuple[Call, ...] | None:
    """The loop's turns as columns of one call; None where they stay turns."""
    match loop.body:
        case (Call(kernel=DotRows(inputs=2, columns=1) as kernel) as call,):
            pass
        case _:
            return None
    sums = kernel.rows * kernel.chains // kernel.lanes
    if not isa.is_avx512 or kernel.in_type.is_complex:
        return None
    if loop.extent < _COLUMNS or _COLUMNS * sums > _ACCUMULATORS:
        return None
    slots = [address.slot for address in call.operands]
    moves = {step.slot: step.stride_bytes for step in loop.steps if step.stride_bytes}
    if len(set(slots)) < len(slots) or sum(kernel.shared) != 1:
        return None
    strides = tuple(moves.get(slot, 0) for slot in slots)
    are_shared = tuple(stride != 0 for stride in strides[:-1])
    if are_shared != kernel.shared or not _are_apart(call, loop.extent, strides[-1]):
        return None
    arguments = (*call.arguments, loop.extent, *strides)
    return (replace(call, kernel=replace(kernel, columns=_COLUMNS), arguments=arguments),)


def _are_apart(call: Call, columns: int, column_bytes: int) -> bool:
    """True where no two results share a byte, so that their order is free."""
    assert isinstance(call.kernel, DotRows)
    rows = call.arguments[0]
    row_bytes = call.arguments[2 + call.kernel.reductions + call.kernel.inputs]
    width = call.kernel.out_type.width
    near, far = sorted(((abs(row_bytes), rows), (abs(column_bytes), columns)))
    return near[0] >= width and far[0] >= near[0] * near[1]
