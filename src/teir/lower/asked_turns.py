"""Asking for the rows that the next turn of a loop reads, a line at a time inside the blocks.

    loop over rows              loop over rows
      loop over columns           BeginAsking(the rows of the next turn)
        GemmBlock           ->    loop over columns
                                    GemmBlock (asks for one line at every pass)

Where a turn moves both inputs and a Contraction asks for both, its blocks ask for all of one, then
for all of the other: a cell for each, the second follows the first.

Every block of columns asks on where the one before left off, so no line is asked for twice, and
none in a row with others: what is more than the core can have on their way is forgotten. Measured
on Zen 5, FP64, where every block asked for all rows: products of class b 0.82 to 0.88 of the time,
`abc-adec-ebd` 0.83 (FP32 0.85).

Where requests are kept, blocks do so if they make as many passes as the turn has lines: 32 of 800
tensors times a matrix took 0.95 of the time of lines in a row (Zen 4), at worst 1.03. What fewer
passes leave is missed, and took up to twice as long. Of both inputs a pass asks for as many lines
as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.memory_hints import memory_hints
from teir.ir.nodes import Axis, InvocationNode, IterationNode, Operation, Primitive
from teir.lower.access import Access
from teir.lower.asking_kernels import CELL_BYTES, BeginAsking, BringLines
from teir.lower.calls import calls_of
from teir.lower.context import Context, Path, axes_of, operands_of
from teir.lower.kernel_program import Address, Call, Guarded, KernelNode, Loop, Storage
from teir.lower.kernels import GemmBlock
from teir.target import LINE_BYTES

_PLAIN = (DataType.FP32, DataType.FP64)
_MOST_LINES = 4
"""Lines of both inputs that a pass asks for at most, where requests are kept."""
_B_AHEAD = 15
"""The place of ``b_ahead`` among the arguments of a `GemmBlock`."""


class _Asked(NamedTuple):
    """An input that a Contraction below a loop asks for: its tensor, and the path of the leaf."""

    tensor: str
    primitive: Primitive
    path: Path


def asks_for_inputs(primitives: Sequence[Primitive]) -> bool:
    """True where a Contraction asks for one of its inputs ahead."""
    for one in primitives:
        if not one.metadata or one.operation is not Operation.CONTRACTION:
            continue
        if not memory_hints(one).prefetched.isdisjoint(one.inputs):
            return True
    return False


def asking_for_next_turn(
    node: IterationNode, body: tuple[KernelNode, ...], path: Path, context: Context
) -> tuple[KernelNode, ...]:
    """``body``, the lowered children of ``node``, so that it asks for what the next turn reads.

    The same where no Contraction names an input that this loop moves and no loop inside does, or
    no block of the body can ask. ``path`` is that of the children, in a ``context`` that asks.
    """
    axis = context.axes[node.axis]
    asked = _asked_below(node, axis, path, context)
    passes = _passes(body) if asked else 0
    if passes == 0:
        return body
    regions = _regions(asked, axis, context)
    if regions is None:
        return body
    lines = _lines_of_pass(regions, passes, context)
    if lines is None:
        return body
    cells = [
        Address(slot=len(context.room.slots) + number, offset_bytes=0)
        for number in range(len(regions))
    ]
    begun: tuple[KernelNode, ...] = ()
    for region, cell, following in zip(regions, cells, (*cells[1:], cells[-1]), strict=True):
        context.room.add("what blocks ask for", DataType.FP64, Storage.THREAD, CELL_BYTES)
        operands = (region.ahead, cell, following)
        begun += (Call(kernel=BeginAsking(), operands=operands, arguments=region.words),)
    return (*begun, *_asking(body, _Blocks(cells[0], lines, len(regions) == 1)))


def _asked_below(node: IterationNode, axis: Axis, path: Path, context: Context) -> list[_Asked]:
    """The inputs of the first Contraction below ``node`` that ``axis`` moves, and no axis further
    inside."""
    for child in node.children:
        if isinstance(child, InvocationNode):
            primitive = context.primitives[child.primitive]
            if primitive.operation is not Operation.CONTRACTION:
                continue
            asked = memory_hints(primitive).prefetched
            moved = [one for one in primitive.inputs if one in asked and axis.strides.get(one)]
            if moved:
                return [_Asked(name, primitive, path) for name in moved]
            continue
        inside = context.axes[child.axis]
        if inside.is_sparse:
            continue
        found = [
            one
            for one in _asked_below(child, axis, path.inside(inside), context)
            if not (inside.extent > 1 and inside.strides.get(one.tensor))
        ]
        if found:
            return found
    return []


class _Region(NamedTuple):
    """Where an input lies in the next turn, and the arguments of its `BeginAsking`."""

    ahead: Address
    words: tuple[int, int, int, int, int]


def _regions(asked: Sequence[_Asked], axis: Axis, context: Context) -> list[_Region] | None:
    """What each input is in the next turn of ``axis``; None where one has no simple region."""
    regions = []
    for tensor, primitive, inner in asked:
        consumed = axes_of(primitive, context)
        words = _region(tensor, consumed, context)
        if words is None:
            return None
        names = primitive.operands
        operands, _ = operands_of(names, inner, consumed, context)
        now = operands[names.index(tensor)]
        ahead = replace(now, offset_bytes=now.offset_bytes + axis.strides[tensor])
        regions.append(_Region(ahead, words))
    return regions


def _region(
    tensor: str, axes: Sequence[Axis], context: Context
) -> tuple[int, int, int, int, int] | None:
    """The bytes of a run of a tensor along ``axes``, then two axes of runs; None where they are
    more."""
    slot = context.slots.slots[context.slots.number[tensor]]
    run = slot.data_type.width
    left: list[tuple[int, int]] = []
    moving = [(axis.strides[tensor], axis.extent) for axis in axes if axis.strides.get(tensor)]
    for stride, extent in sorted(moving):
        if stride <= run and not left:
            run = stride * (extent - 1) + run
        elif left and stride == left[-1][0] * left[-1][1]:
            left[-1] = (left[-1][0], left[-1][1] * extent)
        else:
            left.append((stride, extent))
    if len(left) > 2:
        return None
    (m_step, m), (n_step, n) = (*left, *[(0, 1)] * (2 - len(left)))
    return run, m, m_step, n, n_step


def _lines(region: tuple[int, int, int, int, int]) -> float:
    """The lines of so many runs, which begin anywhere in a line."""
    run_bytes, m, _, n, _ = region
    return m * n * (1 + (run_bytes - 1) / LINE_BYTES)


def _lines_of_pass(regions: Sequence[_Region], passes: int, context: Context) -> int | None:
    """How many lines every pass asks for; None where passes are too few for what is kept."""
    if context.isa.forgets_requests:
        return 1
    lines = math.ceil(sum(_lines(region.words) for region in regions) / passes)
    return lines if lines <= (1 if len(regions) == 1 else _MOST_LINES) else None


def _passes(nodes: tuple[KernelNode, ...]) -> int:
    """How many passes the blocks that may ask make in one turn."""
    return sum(
        times * _blocks(call) * -(-_products(call) // call.kernel.usual_steps)
        for call, times in calls_of(nodes)
        if isinstance(call.kernel, GemmBlock) and _may_ask(call.kernel)
    )


def _may_ask(kernel: GemmBlock) -> bool:
    """True for blocks whose columns are several vectors, in a loop over the sum, that ask for
    nothing in passing yet."""
    is_plain = kernel.in_type in _PLAIN and kernel.in_type is kernel.out_type
    is_looped = kernel.depth is None and kernel.c_access is Access.UNIT
    return not kernel.asks and is_plain and is_looped and kernel.vectors > 1


def _blocks(block: Call) -> int:
    """The blocks that one call forms (the last argument of repeated ones)."""
    assert isinstance(block.kernel, GemmBlock)
    return block.arguments[-1] if block.kernel.repeats else 1


def _products(block: Call) -> int:
    """The products of a sum: along k, the batch and the outer one (arguments of `GemmBlock`)."""
    k, _, _, batch, _, _, outer, *_ = block.arguments
    return k * batch * outer


class _Blocks(NamedTuple):
    """How blocks ask: from which cell, for how many lines a pass, and whether for columns of the
    next tile besides."""

    cell: Address
    lines: int
    for_columns: bool


def _asking(nodes: tuple[KernelNode, ...], how: _Blocks) -> tuple[KernelNode, ...]:
    """Blocks that ask for what the cell says instead of rows of their own."""
    found: list[KernelNode] = []
    for node in nodes:
        match node:
            case Call(kernel=BringLines()):
                pass
            case Call(kernel=GemmBlock() as kernel):
                found.append(_asking_block(node, kernel, how))
            case Loop() | Guarded():
                found.append(replace(node, body=_asking(node.body, how)))
            case _:
                found.append(node)
    return tuple(found)


def _asking_block(call: Call, kernel: GemmBlock, how: _Blocks) -> Call:
    """The call where it may ask, else the same."""
    if not _may_ask(kernel):
        return call
    words = call.arguments[:-1] if kernel.brings else call.arguments
    if not how.for_columns:
        words = (*words[:_B_AHEAD], 0, *words[_B_AHEAD + 1 :])
    asking = replace(kernel, brings=False, asks=how.lines)
    return replace(call, kernel=asking, operands=(*call.operands, how.cell), arguments=words)
