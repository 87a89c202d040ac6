"""What machine code of a kernel may do: a data-flow analysis of its disassembly.

Every register and every spilled word is followed from the entry of the function: is it a pointer
of the operand table, the node's record, the frame, the stack, or a plain number? Allowed are loads
through one such pointer (plus numbers) and from the code's own constants, stores through a pointer
of the operand table and to the function's own stack, jumps inside the function, and one way out:
a ``ret`` with the stack as it was found. Everything else is outside the allowed set: calls, system
calls, indirect jumps, stores elsewhere, addresses made of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from teir.soak.code_object import Function
from teir.soak.code_step import FRAME, NODE, OPERAND, STACK, Place, State, Step, described

_ENTRY = {"rdi": NODE, "rsi": FRAME, "rdx": OPERAND, "rcx": OPERAND, "r8": OPERAND}
"""The parameters of a node function, System V calling convention."""
_FORBIDDEN = (
    *("syscall", "sysenter", "sysexit", "sysret", "int", "int1", "int3", "into", "iret", "iretq"),
    *("in", "out", "ins", "outs", "hlt", "cli", "sti", "call", "lcall", "ljmp", "wrmsr", "rdmsr"),
    *("xbegin", "wrfsbase", "wrgsbase", "swapgs", "xrstor", "wrpkru", "ud2"),
)

_VEX = 0xC4
_TILE_FORMS = {
    (0x49, 0b000): 0x18,
    (0x49, 0b011): 0x18,
    (0x4B, 0b011): 0x18,
    (0x4B, 0b010): 0x2E,
    (0x5C, 0b010): 0x00,
}
"""Opcode and prefix of LDTILECFG and TILERELEASE, TILEZERO, TILELOADD, TILESTORED and TDPBF16PS,
and the opcode of VBROADCASTSS, VMASKMOVPS or VPSHUFB in its place (Intel SDM volume 2)."""


def audit(function: Function) -> list[str]:
    """A sentence for each instruction of ``function`` outside the allowed set."""
    instructions = {one.address: one for one in _disassembled(function)}
    wrong = [described(one, "is not allowed") for one in instructions.values() if _forbidden(one)]
    if sum(one.size for one in instructions.values()) != len(function.code):
        wrong.append(f"{function.name}: bytes that are no instructions")
    entry = State(
        {name: frozenset({kind}) for name, kind in _ENTRY.items()} | {"rsp": frozenset({STACK})},
        {"rsp": Place("entry", 0)},
        {},
    )
    before: dict[int, State] = {0: entry}
    waiting = [0]
    found: dict[int, list[str]] = {}
    while waiting:
        at = waiting.pop()
        one = instructions.get(at)
        if one is None:
            wrong.append(f"{function.name}: a jump to {at:#x}, where no instruction starts")
            continue
        walk = Step(one, before[at])
        after = walk.run()
        found[at] = walk.wrong
        for target in walk.targets:
            known = before.get(target)
            joined = after if known is None else known.joined(after)
            if joined != known:
                before[target] = joined
                waiting.append(target)
    return wrong + [text for texts in found.values() for text in texts]


def _disassembled(function: Function) -> Iterator[Any]:
    import capstone

    machine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    machine.detail = True
    return iter(machine.disasm(_known_code(function.code, machine), 0))


def _known_code(code: bytes, machine: Any) -> bytes:
    """``code`` with BF16 instructions written as ones of the same form the disassembler knows.

    VDPBF16PS and VCVTNE2PS2BF16 become VPDPWSSD, VCVTNEPS2BF16 becomes VCVTPD2PS (Intel SDM volume
    2): the same registers and the same bytes of memory, and none of them an address. Instructions
    of tiles become vector loads, stores and shuffles with the same base and index.
    """
    known, at = bytearray(code), 0
    while at < len(known):
        for _, size, _, _ in machine.disasm_lite(bytes(known[at:]), at):
            at += size
        same_form = _same_form(bytes(known[at : at + 5]))
        if same_form is None:
            break
        known[at : at + 5] = same_form
    return bytes(known)


def _same_form(head: bytes) -> bytes | None:
    """The prefix and opcode of an instruction of the same form; None for all others."""
    if len(head) == 5 and head[0] == _VEX:
        return _vector_form(head)
    if len(head) < 5 or head[0] != 0x62 or head[1] & 7 != 2 or head[2] & 0x82 != 2:
        return None
    escape, low, middle, high, opcode = head
    if middle & 1:
        return bytes((escape, low, middle ^ 0b10, high, 0x52)) if opcode == 0x72 else None
    if opcode == 0x52:
        return bytes((escape, low, middle ^ 0b11, high, opcode))
    if opcode == 0x72 and not high & 0x10:
        return bytes((escape, low ^ 0b11, middle ^ 0x83, high, 0x5A))
    return None


def _vector_form(head: bytes) -> bytes | None:
    """What stands for an instruction of tiles; None for all others."""
    escape, low, high, opcode, place = head
    form = _TILE_FORMS.get((opcode, high & 0b111))
    if low & 0x1F != 2 or high & 0x80 or form is None:
        return None
    return bytes((escape, low, high & ~0b111 | 0b001, form, place))


def _forbidden(one: Any) -> bool:
    return one.mnemonic.split()[-1] in _FORBIDDEN or one.mnemonic.startswith("rep")
