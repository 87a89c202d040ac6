"""One instruction of a kernel: what registers and spilled words hold after it, and what it breaks.

`teir.soak.code_audit` says what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OPERAND, NODE, FRAME, STACK, NUMBER = "operand", "node", "frame", "stack", "number"
Kinds = frozenset[str]
"""What a value may be, on any path."""

_NUMBER: Kinds = frozenset({NUMBER})
_NOTHING: Kinds = frozenset()
"""A word of the stack that was not written yet; no address may be made of it."""
_WIDE = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", *(f"r{n}" for n in range(8, 16)))
_READS_NOTHING = ("prefetch", "nop", "lea")
"""Instructions with an address that touch no memory a program could see."""
_KEEPS_POINTER = ("and",)
"""A pointer rounded down is one still."""
_ONLY_READS = ("cmp", "test", "bt", "push", "mul", "imul", "div", "idiv", "jmp")
"""Instructions whose first operand may be memory they only read."""
_VECTOR_MOVES = (
    *("vmovq", "movq", "vpbroadcastq", "vextracti128", "vextracti32x4", "vextracti64x4", "pshufd"),
    *("vpshufd", "vmovdqa", "vmovdqu", "movdqa", "movdqu", "vmovdqa64", "vmovdqu64", "vpextrq"),
    *("pextrq", "vextractf128", "vpermq", "vpunpckhqdq", "punpckhqdq", "vmovaps", "movaps"),
)
_WHOLE_VECTORS = (
    *("vmovaps", "vmovups", "vmovapd", "vmovupd", "vmovdqa64", "vmovdqu64", "vmovdqa", "vmovdqu"),
    *("movaps", "movups", "movapd", "movupd", "movdqa", "movdqu"),
)
"""How records on the stack, which hold pointers and numbers, are copied."""
_WORDS_TO_MEMORY = ("vpextrq", "pextrq", "vmovq", "movq")
"""One word of a vector to memory: an address that is spilled."""
_VECTOR_SUMS = ("vpaddq", "paddq")
"""Vectors of addresses, where a machine has no scatter."""


@dataclass(frozen=True, slots=True)
class Place:
    """A stack address: ``origin`` tells the entry's stack pointer from an aligned one."""

    origin: str
    bytes: int


@dataclass(frozen=True, slots=True)
class State:
    """What is known before an instruction."""

    kinds: Mapping[str, Kinds]
    places: Mapping[str, Place]
    spilled: Mapping[Place, Kinds]

    def of(self, register: str) -> Kinds:
        """What a register, or a word of a vector ("vector3.1"), may be."""
        known = self.kinds.get(register)
        return self.kinds.get(register.split(".")[0], _NUMBER) if known is None else known

    def joined(self, other: State) -> State:
        kinds = {name: self.of(name) | other.of(name) for name in {*self.kinds, *other.kinds}}
        places = {name: at for name, at in self.places.items() if other.places.get(name) == at}
        spilled = {
            at: self.spilled.get(at, _NOTHING) | other.spilled.get(at, _NOTHING)
            for at in {*self.spilled, *other.spilled}
        }
        return State(kinds, places, spilled)


def described(one: Any, what: str) -> str:
    return f"{one.address:#x}: {one.mnemonic} {one.op_str} {what}".replace("  ", " ")


class Step:
    """One instruction applied to one state."""

    def __init__(self, one: Any, before: State) -> None:
        self._one = one
        self._kinds = dict(before.kinds)
        self._places = dict(before.places)
        self._spilled = dict(before.spilled)
        self.wrong: list[str] = []
        self.targets: tuple[int, ...] = (one.address + one.size,)

    def run(self) -> State:
        from capstone import x86

        one = self._one
        name = one.mnemonic.split()[-1]
        self._name = name
        self._memory = [op for op in one.operands if op.type == x86.X86_OP_MEM]
        if not name.startswith(_READS_NOTHING):
            for operand in self._memory:
                self._look_at(operand)
        if name.startswith("ret"):
            if self._places.get("rsp") != Place("entry", 0):
                self._blame("leaves the stack moved")
            self.targets = ()
        elif name.startswith("j"):
            self._jump(one.operands[0], x86.X86_OP_IMM)
        else:
            self._apply(name)
        return State(self._kinds, self._places, self._spilled)

    def _jump(self, operand: Any, immediate: int) -> None:
        if operand.type != immediate:
            self._blame("jumps to an address in a register or in memory")
            self.targets = ()
        elif self._name == "jmp":
            self.targets = (operand.imm,)
        else:
            self.targets = (*self.targets, operand.imm)

    def _look_at(self, operand: Any) -> None:
        base, index = self._register(operand.mem.base), self._register(operand.mem.index)
        if base == "rip":
            if self._is_written(operand):
                self._blame("writes beside the code")
            return
        kinds = self._sum(self._of(base), self._of(index))
        is_written = self._is_written(operand)
        allowed = {OPERAND, STACK} if is_written else {OPERAND, STACK, NODE, FRAME}
        if not kinds or not kinds <= allowed:
            verb = "writes to" if is_written else "reads from"
            self._blame(f"{verb} an address made of {', '.join(sorted(kinds)) or 'nothing'}")
        place = self._place(operand)
        if place is not None and place.origin == "entry" and place.bytes >= 0:
            self._blame("touches the stack of the caller")

    def _is_written(self, operand: Any) -> bool:
        first = self._one.operands[0]
        is_first = first.type == operand.type and operand is self._memory[0]
        return is_first and self._name not in _ONLY_READS

    def _apply(self, name: str) -> None:
        one = self._one
        operands = one.operands
        if name == "push":
            self._move_stack(-8)
            self._spill(self._places.get("rsp"), self._value(operands[0]))
        elif name == "pop":
            self._set(operands[0], self._spilled.get(self._top(), _NUMBER))
            self._move_stack(8)
        elif name in ("add", "sub") and self._written(operands[0]) == "rsp":
            self._move_stack(operands[1].imm if name == "add" else -operands[1].imm)
        elif name == "and" and self._written(operands[0]) == "rsp":
            self._places["rsp"] = Place("aligned", 0)
        elif name in ("mov", "movabs"):
            self._move(operands)
        elif name == "lea":
            self._address(operands)
        elif name in ("add", "sub", *_KEEPS_POINTER) and len(operands) == 2:
            self._arithmetic(name, operands)
        elif name.startswith("cmov"):
            self._set(operands[0], self._value(operands[0]) | self._value(operands[1]))
        elif name == "xchg":
            first, second = self._value(operands[0]), self._value(operands[1])
            self._set(operands[0], second)
            self._set(operands[1], first)
        elif name in ("inc", "dec"):
            return
        elif name in _WHOLE_VECTORS and self._memory and self._place(self._memory[0]):
            self._move_vector(operands)
        elif name in _WORDS_TO_MEMORY and operands[0].type == 3:
            self._spill(self._place(operands[0]), self._vector(operands[1]))
        elif name in _VECTOR_MOVES and operands[0].type == 1:
            self._set(operands[0], self._vector(operands[1]))
        elif name in _VECTOR_SUMS and operands[0].type == 1:
            left, right = operands[-2:]
            self._set(operands[0], self._sum(self._vector(left), self._vector(right)))
        else:
            self._others()

    def _others(self) -> None:
        """Any other instruction leaves numbers in the registers it writes."""
        _, written = self._one.regs_access()
        for register in written:
            wide = self._wide(self._one.reg_name(register))
            if wide is not None:
                self._forget(wide)
                self._kinds[wide] = _NUMBER
        for operand in self._memory:
            if self._is_written(operand):
                self._spill(self._place(operand), _NUMBER)

    def _move_vector(self, operands: Any) -> None:
        """A vector to or from the stack, word by word; masked ones count as numbers."""
        target, source = operands[0], operands[-1]
        place = self._place(self._memory[0])
        assert place is not None
        is_masked = len(operands) != 2
        words = range((source.size if target.type == 3 else target.size) // 8)
        places = [Place(place.origin, place.bytes + 8 * word) for word in words]
        if target.type == 3:
            vector = self._written(source)
            for word, at in zip(words, places, strict=True):
                known = self._kinds.get(f"{vector}.{word}", self._of_wide(vector))
                self._spill(at, _NUMBER if is_masked else known)
            return
        vector = self._written(target)
        assert vector is not None
        self._forget(vector)
        self._kinds[vector] = _NUMBER
        for word, at in zip(words, places, strict=True):
            kinds = self._spilled.get(at, _NOTHING)
            if kinds != _NUMBER and not is_masked:
                self._kinds[f"{vector}.{word}"] = kinds

    def _forget(self, register: str) -> None:
        """A register that is written: where it pointed and what its words were."""
        self._places.pop(register, None)
        if register.startswith("vector"):
            for word in range(8):
                self._kinds.pop(f"{register}.{word}", None)

    def _of_wide(self, register: str | None) -> Kinds:
        return self._kinds.get(register or "", _NUMBER)

    def _vector(self, operand: Any) -> Kinds:
        """The kinds of a vector's words, or of the word that is put into one."""
        if operand.type == 1:
            return self._words(self._one.reg_name(operand.reg))
        place = self._place(operand) if operand.type == 3 else None
        if place is None:
            return _NUMBER
        offsets = range(0, max(operand.size, 8), 8)
        places = (Place(place.origin, place.bytes + offset) for offset in offsets)
        return frozenset().union(*(self._spilled.get(at, _NOTHING) for at in places))

    def _words(self, register: str) -> Kinds:
        """The kinds of a register, those of its words where they are known."""
        wide = self._wide(register)
        words = [self._kinds.get(f"{wide}.{word}") for word in range(8)]
        known = [kinds for kinds in words if kinds is not None]
        return frozenset().union(*known) if known else self._of_wide(wide)

    def _move(self, operands: Any) -> None:
        target, source = operands
        if target.type == 3:
            self._spill(self._place(target), self._value(source) if target.size == 8 else _NUMBER)
            return
        place = self._places.get(self._written(source) or "")
        self._set(target, self._value(source) if target.size == 8 else _NUMBER)
        written = self._written(target)
        if place is not None and written is not None and target.size == 8:
            self._places[written] = place

    def _address(self, operands: Any) -> None:
        target, source = operands
        base, index = self._register(source.mem.base), self._register(source.mem.index)
        place = self._place(source)
        kinds = _NUMBER if base == "rip" else self._sum(self._of(base), self._of(index))
        self._set(target, kinds if target.size == 8 else _NUMBER)
        written = self._written(target)
        if place is not None and written is not None:
            self._places[written] = place

    def _arithmetic(self, name: str, operands: Any) -> None:
        target, source = operands
        left, right = self._value(target), self._value(source)
        if target.size != 8 or (name == "sub" and left == right != _NUMBER):
            result = _NUMBER
        elif name in _KEEPS_POINTER:
            result = left if right == _NUMBER else self._sum(left, right)
        else:
            result = self._sum(left, right)
        self._set(target, result)

    def _sum(self, left: Kinds | None, right: Kinds | None) -> Kinds:
        """The kinds of a sum: a pointer and a number make a pointer, two pointers no address."""
        if left is None or right is None:
            return left or right or _NUMBER
        if not left or not right or left == _NUMBER:
            return right if left else left
        if right == _NUMBER:
            return left
        return left | right | {"two pointers"}

    def _value(self, operand: Any) -> Kinds:
        if operand.type == 1:
            return self._of_wide(self._wide(self._one.reg_name(operand.reg)))
        if operand.type == 2:
            return _NUMBER
        base = self._register(operand.mem.base)
        if operand.size != 8 or base == "rip":
            return _NUMBER
        place = self._place(operand)
        if place is not None:
            return self._spilled.get(place, _NOTHING)
        # The frame holds the operand table; a record holds numbers.
        return frozenset({OPERAND}) if self._of(base) == frozenset({FRAME}) else _NUMBER

    def _of(self, register: str | None) -> Kinds | None:
        if register is None:
            return None
        wide = self._wide(register)
        return self._kinds.get(wide, _NUMBER) if wide is not None else _NUMBER

    def _set(self, operand: Any, kinds: Kinds) -> None:
        written = self._written(operand)
        if written is None:
            if operand.type == 3:
                self._spill(self._place(operand), kinds)
            return
        self._forget(written)
        self._kinds[written] = kinds

    def _written(self, operand: Any) -> str | None:
        return self._wide(self._one.reg_name(operand.reg)) if operand.type == 1 else None

    def _register(self, number: int) -> str | None:
        return self._one.reg_name(number) if number else None

    def _wide(self, name: str) -> str | None:
        """The widest register that holds ``name``; None for masks and flags."""
        if name in _WIDE:
            return name
        if name[1:3] == "mm" and name[0] in "xyz":
            return f"vector{name[3:]}"
        if name[0] == "r" and name[1].isdigit():
            return name.rstrip("dwb")
        core = name.removeprefix("e").removesuffix("l").removesuffix("h").removesuffix("x")
        for wide in _WIDE[:8]:
            if core in (wide[1:], wide[1:-1]) and len(name) <= 3:
                return wide
        return None

    def _place(self, operand: Any) -> Place | None:
        """The stack address of a memory operand without an index."""
        base = self._register(operand.mem.base)
        known = self._places.get(base or "")
        if known is None or operand.mem.index:
            return None
        return Place(known.origin, known.bytes + operand.mem.disp)

    def _top(self) -> Place:
        return self._places.get("rsp", Place("unknown", 0))

    def _move_stack(self, distance: int) -> None:
        top = self._top()
        self._places["rsp"] = Place(top.origin, top.bytes + distance)

    def _spill(self, place: Place | None, kinds: Kinds) -> None:
        if place is not None:
            self._spilled[place] = kinds

    def _blame(self, what: str) -> None:
        self.wrong.append(described(self._one, what))
