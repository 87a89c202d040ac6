"""Which of three registers holds the pointer of which slot, where a subtree uses so few."""

from __future__ import annotations

from teir.backends.llvm.layout import REGISTER_OPERANDS
from teir.lower.kernel_program import Call, KernelNode


def slot_registers(nodes: tuple[KernelNode, ...], reach: int) -> dict[int, int]:
    """The register of every slot of a subtree: as the subtree's widest kernel wants them."""
    registers: dict[int, int] = {}
    widest = _widest(nodes)
    for position, operand in enumerate(() if widest is None else widest.operands):
        registers.setdefault(operand.slot, position)
    if len(registers) == (reach >> 1).bit_count():
        return registers
    free = [number for number in range(REGISTER_OPERANDS) if number not in registers.values()]
    slot = 0
    while reach >> (slot + 1):
        if reach & (2 << slot) and slot not in registers:
            registers[slot] = free.pop()
        slot += 1
    return registers


def _widest(nodes: tuple[KernelNode, ...]) -> Call | None:
    """The first call with the most operands, None where bodies are empty."""
    best: Call | None = None
    waiting = [*reversed(nodes)]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Call):
            waiting += reversed(node.body)
        elif best is None or len(node.operands) > len(best.operands):
            best = node
    return best
