"""Where the text of a specialised program stands: pointers, indices, and the way to leave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.lower.kernel_program import KernelNode, Step


@dataclass(frozen=True, slots=True)
class Scope:
    """What is known at a point of a function: every slot's pointer, every index cell's value."""

    pointers: dict[int, str]
    indices: dict[int, str]


class BodyWriter(Protocol):
    """Who writes the nodes below a loop."""

    def slots(self, nodes: Iterable[KernelNode]) -> frozenset[int]:
        """The slots that calls below ``nodes`` use."""

    def body(
        self, text: FunctionText, nodes: tuple[KernelNode, ...], scope: Scope, cancel: str
    ) -> None:
        """Write ``nodes`` in the order they run."""


def labels(text: FunctionText, count: int) -> list[str]:
    return [text.fresh().replace("%v", "b") for _ in range(count)]


def branch_if_cancelled(text: FunctionText, cancel: str, stop: str, go_on: str) -> None:
    flag = text.value(f"load atomic i64, ptr {cancel} monotonic, align 8")
    stopped = text.value(f"icmp ne i64 {flag}, 0")
    text.effect(f"br i1 {stopped}, label %{stop}, label %{go_on}")
    text.label(go_on)


def step_pointers(
    text: FunctionText,
    pointers: dict[int, str],
    steps: tuple[Step, ...],
    times: str,
    used: frozenset[int],
) -> None:
    for step in steps:
        if step.slot in used:
            distance = text.value(f"mul i64 {times}, {step.stride_bytes}")
            pointers[step.slot] = shift_pointer(text, pointers[step.slot], distance)
