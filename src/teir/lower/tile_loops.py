"""Loops around a `TileProduct` that become its own.

    Loop i < 32 (in1 += 16384, out += 2048)        Call TileProduct(..., n_outer=32, ...)
      Call TileProduct(...)                    ->

A panel of A then is packed once for all columns, a tile of columns of B once for all rows, and the
registers are configured once. A loop may go in whose indices are rows, or columns, and whose
results are apart from each other; of a long one as many turns as one call may take. A small call
takes such a loop across one inside it that it cannot take. What changes
only the results of its own turn, and comes after them, then has a loop of its own behind the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.lower.kernel_program import Call, KernelNode, Loop, Step
from teir.lower.kernels import Elementwise
from teir.lower.tile_kernels import TileProduct
from teir.lower.tile_products import settled
from teir.passes.extents import largest_divisor

_LONGEST_CALL = 1 << 33
"""Products of one call, which nothing can interrupt: ten milliseconds of those by tiles."""
_SMALL_CALL = 1 << 20
"""Products of a call that is worth lengthening across a loop it cannot take."""
_ROWS_AT, _COLUMNS_AT, _ROW_STRIDE_AT = 16, 19, 22
"""Where the outer axes of the rows and of the columns begin among the arguments, and the step from
row to row."""


def tiles_of_loop(loop: Loop) -> tuple[KernelNode, ...] | None:
    """The loop's turns in one call, or fewer turns of a longer call; None where it stays."""
    match loop.body:
        case (Call(kernel=TileProduct()) as call, *others):
            taken = _taken(call, loop)
        case (Loop(body=(Call(kernel=TileProduct()) as call,)) as inner,):
            return _exchanged(loop, inner, call)
        case _:
            return None
    if taken is None or not all(_changes_own_results(other, call, taken[1][1]) for other in others):
        return None
    at, strides = taken
    size = largest_divisor(loop.extent, _LONGEST_CALL // _products(call))
    if size == 1 or (others and size < loop.extent):
        return None
    outer = _outer_axis(call, at, size, strides)
    arguments = (*call.arguments[:at], *outer, *call.arguments[at + 3 :])
    longer = settled(_continued(replace(call, arguments=arguments), at))
    if others:
        return longer, replace(loop, body=tuple(others))
    if size == loop.extent:
        return (longer,)
    steps = tuple(Step(slot=one.slot, stride_bytes=one.stride_bytes * size) for one in loop.steps)
    return (replace(loop, extent=loop.extent // size, steps=steps, body=(longer,)),)


def _exchanged(loop: Loop, inner: Loop, call: Call) -> tuple[KernelNode, ...] | None:
    """The loop taken by a small call across the loop inside, whose results are apart as well."""
    if _products(call) > _SMALL_CALL:
        return None
    taken = tiles_of_loop(replace(loop, body=(call,)))
    match taken:
        case (Call(kernel=TileProduct()) as longer,):
            stride = sum(
                one.stride_bytes for one in inner.steps if one.slot == call.operands[2].slot
            )
            if _are_apart(longer, (inner.extent, stride)):
                return (replace(inner, body=(longer,)),)
    return None


def _taken(call: Call, loop: Loop) -> tuple[int, tuple[int, int]] | None:
    """The arguments the loop becomes: where they stand, the strides of the factor and of C."""
    moves = {step.slot: step.stride_bytes for step in loop.steps}
    a, b, c = (moves.get(address.slot, 0) for address in call.operands[:3])
    factors, result = call.operands[:2], call.operands[2]
    if result.slot in [one.slot for one in factors] or bool(a) == bool(b):
        return None
    at, stride = (_ROWS_AT, a) if a else (_COLUMNS_AT, b)
    is_taken = call.arguments[at] != 1 and not _goes_on(call, at, (stride, c))
    if is_taken or not _are_apart(call, (loop.extent, c)):
        return None
    return at, (stride, c)


def _outer_axis(call: Call, at: int, size: int, strides: tuple[int, int]) -> tuple[int, ...]:
    """Extent and strides of the outer axis with ``size`` turns of the loop in it."""
    if _goes_on(call, at, strides):
        return (size * call.arguments[at], *call.arguments[at + 1 : at + 3])
    return (size, *strides)


def _goes_on(call: Call, at: int, strides: tuple[int, int]) -> bool:
    """True where a loop goes on where the outer axis that the call has already ends."""
    extent, *steps = call.arguments[at : at + 3]
    return extent > 1 and strides == (extent * steps[0], extent * steps[1])


def _changes_own_results(other: KernelNode, call: Call, apart: int) -> bool:
    """True for element-wise work on nothing but the results, ``apart`` bytes from turn to turn."""
    assert isinstance(call.kernel, TileProduct)
    result, width = call.operands[2], call.kernel.out_type.width
    first = result.offset_bytes
    last = _last(first, _result_axes(call), width)
    changed = _changed(other, result.slot, call.kernel.out_type)
    return changed is not None and first <= changed[0] and changed[1] <= last <= first + apart


def _changed(node: KernelNode, slot: int, kind: DataType) -> tuple[int, int] | None:
    """From where to where a node reads and writes the slot; None where it does anything else."""
    match node:
        case Call(kernel=Elementwise(in_type=in_type, out_type=out_type)):
            if in_type is not kind or out_type is not kind:
                return None
            return _changed_by_call(node, slot, kind.width)
        case Loop(extent=extent, steps=steps, body=(inner,)):
            within = _changed(inner, slot, kind)
            stride = sum(step.stride_bytes for step in steps if step.slot == slot)
            if within is None or stride < 0:
                return None
            return within[0], within[1] + (extent - 1) * stride
        case _:
            return None


def _changed_by_call(call: Call, slot: int, width: int) -> tuple[int, int] | None:
    count = len(call.operands)
    if any(place.slot != slot for place in call.operands) or min(call.arguments[2:]) < 0:
        return None
    m, n = call.arguments[:2]
    along_m, along_n = call.arguments[2 : 2 + count], call.arguments[2 + count :]
    first = min(place.offset_bytes for place in call.operands)
    last = max(
        _last(place.offset_bytes, ((m, row), (n, column)), width)
        for place, row, column in zip(call.operands, along_m, along_n, strict=True)
    )
    return first, last


def _last(start: int, axes: Sequence[tuple[int, int]], width: int) -> int:
    """Where the last element ends."""
    return start + sum((extent - 1) * stride for extent, stride in axes) + width


def _continued(call: Call, at: int) -> Call:
    """The same with one axis for two, where the outer one goes on where the inner one ends."""
    assert isinstance(call.kernel, TileProduct)
    arguments = list(call.arguments)
    size, factor, result = arguments[at : at + 3]
    kernel, is_rows = call.kernel, at == _ROWS_AT
    inner = arguments[0] if is_rows else arguments[1]
    steps = (arguments[11], arguments[12])
    if is_rows:
        steps = (arguments[_ROW_STRIDE_AT], kernel.out_type.width)
    if (factor, result) != (inner * steps[0], inner * steps[1]):
        return call
    arguments[0 if is_rows else 1] = inner * size
    arguments[at : at + 3] = (1, 0, 0)
    return replace(call, arguments=tuple(arguments))


def _are_apart(call: Call, more: tuple[int, int]) -> bool:
    """True where no two results of the call, repeated so often and so far apart, share a byte."""
    axes = (*_result_axes(call), more)
    reached = 0
    for extent, stride in sorted((axis for axis in axes if axis[0] > 1), key=lambda one: one[1]):
        if stride <= 0 or stride < reached:
            return False
        reached = stride * extent
    return True


def _result_axes(call: Call) -> tuple[tuple[int, int], ...]:
    assert isinstance(call.kernel, TileProduct)
    arguments = call.arguments
    return (
        (arguments[0], call.kernel.out_type.width),
        (arguments[1], arguments[12]),
        (arguments[_ROWS_AT], arguments[_ROWS_AT + 2]),
        (arguments[_COLUMNS_AT], arguments[_COLUMNS_AT + 2]),
    )


def _products(call: Call) -> int:
    return prod(call.arguments[at] for at in (0, 1, 2, 5, 8, _ROWS_AT, _COLUMNS_AT))
