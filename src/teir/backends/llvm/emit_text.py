"""The text of one LLVM function while it is written.

Text is written directly: LLVM parses it anyway, and a kernel is a few hundred lines that repeat a
few patterns. Values are numbered in the order they are made, so equal kernels have equal texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from teir.target import LINE_BYTES, Isa


class FunctionText:
    """Instructions of one function body in order; names are made here and nowhere else.

    ``block`` is the basic block that instructions are appended to.
    """

    __slots__ = ("_lines", "_next", "block")

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._next = 0
        self.block = ""

    def value(self, instruction: str) -> str:
        """Append an instruction that yields a value; returns the value's name."""
        name = self.fresh()
        self._lines.append(f"  {name} = {instruction}")
        return name

    def fresh(self) -> str:
        """A value name not used so far, for a value that is defined later."""
        self._next += 1
        return f"%v{self._next}"

    def effect(self, instruction: str) -> None:
        """Append an instruction without a value: a store, a branch, a return."""
        self._lines.append(f"  {instruction}")

    def define(self, name: str, instruction: str) -> None:
        """Append the instruction that yields ``name``, a name made before by `fresh`."""
        self._lines.append(f"  {name} = {instruction}")

    def label(self, name: str) -> None:
        """Start the basic block ``name``."""
        self._lines.append(f"{name}:")
        self.block = name

    def write(self, lines: str) -> None:
        """Append instructions that name their values; one that ends in a colon starts a block."""
        for line in lines.strip().splitlines():
            if line.endswith(":"):
                self.label(line[:-1])
            else:
                self.effect(line)

    def text(self) -> str:
        return "\n".join(self._lines)


def vector(element: str, count: int) -> str:
    """The type of ``count`` elements, ``<16 x float>``."""
    return f"<{count} x {element}>"


def repeated(element: str, count: int, literal: str | int) -> str:
    """A constant vector with all elements equal (its type not included)."""
    return "<" + ", ".join([f"{element} {literal}"] * count) + ">"


def constants(element: str, literals: Sequence[int]) -> str:
    """A constant vector (its type not included)."""
    return "<" + ", ".join([f"{element} {literal}" for literal in literals]) + ">"


def shift_pointer(text: FunctionText, pointer: str, offset_bytes: str | int) -> str:
    """``pointer`` plus a number of bytes (a value name or a constant)."""
    if offset_bytes == 0:
        return pointer
    return text.value(f"getelementptr i8, ptr {pointer}, i64 {offset_bytes}")


def multiple(text: FunctionText, stride: str, count: int) -> str | int:
    """``count`` times the stride."""
    if count < 2:
        return stride if count else 0
    return text.value(f"mul i64 {stride}, {count}")


def multiples(text: FunctionText, stride: str, count: int) -> tuple[str | int, ...]:
    """0, stride, 2 stride, ..."""
    return tuple(multiple(text, stride, number) for number in range(count))


class Cache(Enum):
    """Where a line that is asked for shall lie (the locality of `llvm.prefetch`)."""

    FIRST = 3
    SECOND = 2


def cache_of_next(isa: Isa) -> Cache:
    """Where lines are asked for that a later block or tile reads."""
    return Cache.FIRST if isa.forgets_requests else Cache.SECOND


def prefetch(text: FunctionText, address: str, cache: Cache) -> None:
    """Ask for the line at ``address``, which is read soon; wherever it lies, nothing faults."""
    text.effect(f"call void @llvm.prefetch.p0(ptr {address}, i32 0, i32 {cache.value}, i32 1)")


def prefetch_to_write(text: FunctionText, address: str) -> None:
    """Into the second cache, to be written: the store need not ask other cores for the line."""
    text.effect(f"call void @llvm.prefetch.p0(ptr {address}, i32 1, i32 2, i32 1)")


def ask_to_store(text: FunctionText, isa: Isa, place: str, lines: int) -> None:
    """Where stores wait for one another, ask for the line so many after ``place``, written soon."""
    if isa.waits_to_store:
        prefetch_to_write(text, shift_pointer(text, place, lines * LINE_BYTES))


def splat(text: FunctionText, element: str, scalar: str, count: int) -> str:
    """All ``count`` elements equal to ``scalar``."""
    kind = vector(element, count)
    first = text.value(f"insertelement {kind} poison, {element} {scalar}, i64 0")
    if count == 1:
        return first
    return text.value(
        f"shufflevector {kind} {first}, {kind} poison, <{count} x i32> zeroinitializer"
    )


def shuffle(
    text: FunctionText, element: str, count: int, left: str, right: str, lanes: Sequence[int]
) -> str:
    """Elements picked from ``left`` (0 to count - 1) and ``right`` (count to 2 count - 1)."""
    if list(lanes) == list(range(count)):
        return left
    kind, picked = vector(element, count), f"<{len(lanes)} x i32> {constants('i32', lanes)}"
    return text.value(f"shufflevector {kind} {left}, {kind} {right}, {picked}")
