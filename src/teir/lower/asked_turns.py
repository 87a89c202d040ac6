"""Asking for the rows that the next turn of a loop reads, a line at a time inside the blocks.

    loop over rows              loop over rows
      loop over columns           BeginAsking(the rows of the next turn)
        GemmBlock           ->    loop over columns
                                    GemmBlock (asks for one line at every pass)

Every block of columns asks on where the one before left off, so no line is asked for twice, and
none in a row with others: what is more than the core can have on their way is forgotten. Measured
on Zen 5, FP64, where every block asked for all rows: products of class b 0.82 to 0.88 of the time,
`abc-adec-ebd` 0.83 (FP32 0.85).

Where requests are kept, blocks do so if they make as many passes as the turn has lines: 32 of 800
tensors times a matrix took 0.95 of the time of lines in a row (Zen 4), at worst 1.03. What fewer
passes leave is missed, and took up to twice as long.
"""

from __future__ import annotations

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
    if asked is None:
        return body
    if not any(isinstance(call.kernel, GemmBlock) for call, _ in calls_of(body)):
        return body
    tensor, primitive, inner = asked
    consumed = axes_of(primitive, context)
    region = _region(tensor, consumed, context)
    if region is None:
        return body
    cell_at = len(context.room.slots)
    cell = Address(slot=cell_at, offset_bytes=0)
    asking = _asking(body, cell)
    passes = _passes(asking, cell)
    if not passes or not (context.isa.forgets_requests or passes >= _lines(region)):
        return body
    context.room.add("what blocks ask for", DataType.FP64, Storage.THREAD, CELL_BYTES)
    names = primitive.operands
    operands, _ = operands_of(names, inner, consumed, context)
    now = operands[names.index(tensor)]
    ahead = replace(now, offset_bytes=now.offset_bytes + axis.strides[tensor])
    return (Call(kernel=BeginAsking(), operands=(ahead, cell), arguments=region), *asking)


def _asked_below(node: IterationNode, axis: Axis, path: Path, context: Context) -> _Asked | None:
    """The first input below ``node`` that ``axis`` moves, and no axis further inside."""
    for child in node.children:
        if isinstance(child, InvocationNode):
            primitive = context.primitives[child.primitive]
            if primitive.operation is not Operation.CONTRACTION:
                continue
            asked = memory_hints(primitive).prefetched
            for name in primitive.inputs:
                if name in asked and axis.strides.get(name):
                    return _Asked(name, primitive, path)
            continue
        inside = context.axes[child.axis]
        if inside.is_sparse:
            continue
        found = _asked_below(child, axis, path.inside(inside), context)
        if found is not None and not (inside.extent > 1 and inside.strides.get(found.tensor)):
            return found
    return None


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


def _passes(nodes: tuple[KernelNode, ...], cell: Address) -> int:
    """How often the blocks that ask for what ``cell`` says do so in one turn."""
    return sum(
        times * _blocks(call) * -(-_products(call) // call.kernel.usual_steps)
        for call, times in calls_of(nodes)
        if isinstance(call.kernel, GemmBlock) and cell in call.operands
    )


def _blocks(block: Call) -> int:
    """The blocks that one call forms (the last argument of repeated ones)."""
    assert isinstance(block.kernel, GemmBlock)
    return block.arguments[-1] if block.kernel.repeats else 1


def _products(block: Call) -> int:
    """The products of a sum: along k, the batch and the outer one (arguments of `GemmBlock`)."""
    k, _, _, batch, _, _, outer, *_ = block.arguments
    return k * batch * outer


def _asking(nodes: tuple[KernelNode, ...], cell: Address) -> tuple[KernelNode, ...]:
    """Blocks that ask for what the cell says instead of rows of their own."""
    found: list[KernelNode] = []
    for node in nodes:
        match node:
            case Call(kernel=BringLines()):
                pass
            case Call(kernel=GemmBlock() as kernel):
                found.append(_asking_block(node, kernel, cell))
            case Loop() | Guarded():
                found.append(replace(node, body=_asking(node.body, cell)))
            case _:
                found.append(node)
    return tuple(found)


def _asking_block(call: Call, kernel: GemmBlock, cell: Address) -> Call:
    """Only of blocks whose columns are several vectors, in a loop over the sum."""
    is_plain = kernel.in_type in _PLAIN and kernel.in_type is kernel.out_type
    is_looped = kernel.depth is None and kernel.c_access is Access.UNIT
    if kernel.asks or not is_plain or not is_looped or kernel.vectors == 1:
        return call
    words = call.arguments[:-1] if kernel.brings else call.arguments
    asking = replace(kernel, brings=False, asks=True)
    return replace(call, kernel=asking, operands=(*call.operands, cell), arguments=words)
