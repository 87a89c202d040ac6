"""Steps and calls of blocks of rows, some bytes further on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from teir.lower.kernel_program import (
    Address,
    BlockLoop,
    Call,
    KernelNode,
    RowRunLoop,
    RunLoop,
    Step,
)


def times(step: Step, count: int) -> Step:
    return Step(slot=step.slot, stride_bytes=count * step.stride_bytes)


def shifted(node: KernelNode, moved: Mapping[int, int]) -> KernelNode:
    """Runs or calls of rows, so many bytes further on."""
    match node:
        case RowRunLoop():
            return replace(
                node,
                pos=_moved(node.pos, moved),
                body=_all_shifted(node.body, moved),
                single=_all_shifted(node.single, moved),
            )
        case RunLoop():
            return replace(
                node,
                pos=_moved(node.pos, moved),
                body=_all_shifted(node.body, moved),
                first=_all_shifted(node.first, moved),
            )
        case BlockLoop():
            # Rows move nothing but where its fibres begin.
            return replace(node, pos=_moved(node.pos, moved))
        case Call():
            operands = tuple(_moved(one, moved) for one in node.operands)
            return Call(kernel=node.kernel, operands=operands, arguments=node.arguments)
        case _:
            raise AssertionError("rows are runs and calls")


def _all_shifted(nodes: Sequence[KernelNode], moved: Mapping[int, int]) -> tuple[KernelNode, ...]:
    return tuple(shifted(one, moved) for one in nodes)


def _moved(address: Address, moved: Mapping[int, int]) -> Address:
    shift = moved.get(address.slot, 0)
    return Address(slot=address.slot, offset_bytes=address.offset_bytes + shift)
