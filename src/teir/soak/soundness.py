"""Figure 6: the checker against the enumeration of every byte a small program touches.

Bounds: the checker's interval equals the enumerated hull where no guard skips work, and contains
it otherwise. Races: the checker refuses exactly the programs in which two iterations of a parallel
node touch one byte and one of them writes it. What the pass over plain programs says and what the
rules say is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from msgspec.structs import replace

from teir.ir.check import Report, prove_by_rules
from teir.ir.check import check as check_program
from teir.ir.nodes import (
    Axis,
    Bytes,
    GuardKind,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Program,
)
from teir.soak.draws import DrawInt, chance, choose, seeded
from teir.soak.programs import draw_program

RACE_CODES = ("TEIR403", "TEIR404")
MOVED_CODES = (*RACE_CODES, "TEIR406")
"""What parallel loops may break in a right program: a first iteration is before none of them."""

Indices = tuple[tuple[str, int], ...]
"""(node, index) pairs from the root down."""


def examine_one(seed: int) -> dict[str, Any]:
    """Whether bounds and races of the program of ``seed`` are what enumeration finds."""
    draw = seeded(seed)
    program = draw_program(draw, 150).program
    if chance(draw, 70):
        program = _all_parallel(draw, program)
    is_another = chance(draw, 50)
    if is_another:
        program = _another_stride(draw, program)
    report = check_program(program)
    if prove_by_rules(program).report != report:
        return {"wrong": [f"one pass and the rules differ on {program.name}"]}
    codes = [finding.code for finding in report.findings]
    if any(code not in MOVED_CODES for code in codes) and not is_another:
        return {"wrong": [f"a right program was refused: {report.findings[0]}"]}
    if any(code not in RACE_CODES for code in codes):
        return {"skipped": True}
    touched = list(_touches(program))
    races = _races(program, touched)
    wrong = [] if codes else _wrong_bounds(program, report, touched)
    if races and not codes:
        wrong.append(f"a race was accepted: {races}")
    return {"wrong": wrong, "race": races, "false_refusal": bool(codes) and not races}


def _touches(program: Program) -> Iterator[tuple[Indices, str, int, bool]]:
    """(iteration, tensor, first byte of an element, is written) for each access."""
    axes, primitives = program.axis_table(), program.primitive_table()

    def enter(node: Node, path: Indices, at: dict[str, int]) -> Iterator[tuple[Any, ...]]:
        for term in node.guard:
            last = axes[term.axis].extent - 1
            if at[term.axis] != (0 if term.kind is GuardKind.FIRST else last):
                return
        if isinstance(node, IterationNode):
            for index in range(axes[node.axis].extent):
                for child in node.children:
                    step = (*path, (node.name, index))
                    yield from enter(child, step, {**at, node.axis: index})
            return
        primitive = primitives[node.primitive]
        consumed = [axes[name] for name in primitive.axes]
        for point in product(*(range(axis.extent) for axis in consumed)):
            here = [(axes[name], index) for name, index in at.items()]
            here += zip(consumed, point, strict=True)
            for tensor in {*primitive.reads, primitive.output}:
                byte = sum(a.offsets[tensor] + a.strides[tensor] * index for a, index in here)
                yield path, tensor, byte, tensor == primitive.output

    for root in program.roots:
        yield from enter(root, (), {})


def _wrong_bounds(
    program: Program, report: Report, touched: list[tuple[Indices, str, int, bool]]
) -> list[str]:
    guarded = any(node.guard for node in program.nodes())
    wrong = []
    for tensor in program.tensors:
        bytes_touched = [byte for _, name, byte, _ in touched if name == tensor.name]
        need = report.needs.get(tensor.name)
        if not bytes_touched or need is None:
            continue
        low, high = min(bytes_touched), max(bytes_touched) + tensor.data_type.width
        inside = need.low <= low and high <= need.high
        if not inside or (not guarded and (need.low, need.high) != (low, high)):
            wrong.append(f"{tensor.name}: touched {low} to {high}, proved {need}")
    return wrong


def _races(program: Program, touched: list[tuple[Indices, str, int, bool]]) -> str:
    """Two iterations of one parallel node that meet in a byte, or the empty text."""
    owners = _scratch_owners(program)
    parallel = {
        node.name
        for node in program.nodes()
        if isinstance(node, IterationNode) and node.policy is Policy.PARALLEL
    }
    seen: dict[tuple[Any, ...], tuple[int, bool, bool]] = {}
    for path, tensor, byte, writes in touched:
        names = [name for name, _ in path]
        for depth, (node, index) in enumerate(path):
            private = tensor in owners and owners[tensor] in names[depth:]
            if node not in parallel or private:
                continue
            key = (path[:depth], node, tensor, byte)
            first, several, written = seen.get(key, (index, False, False))
            several, written = several or first != index, written or writes
            if several and written:
                return f"iterations {first} and {index} of {node} meet in byte {byte} of {tensor}"
            seen[key] = (first, several, written)
    return ""


def _scratch_owners(program: Program) -> dict[str, str]:
    return {
        tensor.name: node.name
        for node in program.nodes()
        if isinstance(node, IterationNode)
        for tensor in node.scratch
    }


def _all_parallel(draw: DrawInt, program: Program) -> Program:
    def changed(node: Node) -> Node:
        if isinstance(node, InvocationNode):
            return node
        policy = Policy.PARALLEL if chance(draw, 60) else node.policy
        return replace(node, policy=policy, children=tuple(map(changed, node.children)))

    return replace(program, roots=tuple(map(changed, program.roots)))


def _another_stride(draw: DrawInt, program: Program) -> Program:
    """A smaller stride on a tensor that is written: tiles move closer, some collide."""
    written = sorted({p.output for p in program.primitives if p.operation is not Operation.ZERO})
    if not program.axes or not written:
        return program
    position = draw(0, len(program.axes) - 1)
    axis, tensor = program.axes[position], choose(draw, written)
    if axis.strides[tensor] == 0:
        return program
    width = program.tensor_table()[tensor].data_type.width
    closer = max(width, axis.strides[tensor] - width * draw(1, 3))
    moved: Axis = replace(axis, strides=Bytes({**axis.strides, tensor: closer}))
    axes = (*program.axes[:position], moved, *program.axes[position + 1 :])
    return replace(program, axes=axes)
