"""Figure 5: mutants are refused, or run inside their operands with the evaluator's result.

Half of the mutants are programs changed in memory, half are texts changed on disk. An accepted one
runs on operands of just the bytes the unchanged program needs, between inaccessible pages.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from teir.errors import TeirError
from teir.ir.check import check as check_program
from teir.ir.load import loads
from teir.ir.nodes import InvocationNode, IterationNode, Program
from teir.ir.printing import print_program
from teir.pipeline.executable import NO_POSITION_SCRATCH
from teir.soak.draws import seeded
from teir.soak.mutants import draw_mutant, draw_text_mutant
from teir.soak.operands import Image, draw_images, tight_images
from teir.soak.pages import on_guarded_pages
from teir.soak.programs import draw_program
from teir.soak.running import as_operands, compiled, evaluated, host_variants

WORK = 1_500
"""Multiply-adds of the program before the change."""
POINTS = 200_000
"""An accepted mutant with more iterations or multiply-adds than this is not run."""


def try_one(seed: int) -> dict[str, Any]:
    """What became of the mutant of ``seed``: refused by rule, accepted, and what was wrong."""
    draw = seeded(seed)
    drawn = draw_program(draw, WORK)
    images = tight_images(draw_images(drawn.program, seed, drawn.largest), drawn.program)
    try:
        if seed % 2:
            mutant = loads(draw_text_mutant(draw, print_program(drawn.program).text))
        else:
            mutant = draw_mutant(draw, drawn.program)
        return _run(mutant, images, seed)
    except TeirError as error:
        return {"refused": error.findings[0].code}


def _run(mutant: Program, images: dict[str, Image], seed: int) -> dict[str, Any]:
    check_program(mutant).raise_if_wrong()
    if _points(mutant) > POINTS:
        return {"accepted": True, "ran": False}
    known = {tensor.name: tensor.data_type for tensor in mutant.tensors}
    ours = {
        name: Image(data_type=known[name], content=image.content, base=image.base)
        for name, image in on_guarded_pages(images, at_end=seed % 4 < 2).items()
        if name in known and image.content.size % known[name].width == 0
    }
    before = {name: image.copy() for name, image in ours.items()}
    isa = host_variants()[seed % len(host_variants())]
    try:
        compiled(mutant, isa, 1 + seed // 2 % 2).run(as_operands(ours))
    except TeirError as error:
        if error.findings[0].rule == NO_POSITION_SCRATCH:
            return {"accepted": True, "ran": False}
        raise
    except MemoryError:
        return {"accepted": True, "ran": False}
    expected = [evaluated(mutant, before, order) for order in (0, 1)]
    wrong = [f"two orders: {text}" for text in _apart(expected[0], expected[1])]
    wrong += [f"native code: {text}" for text in _apart(ours, expected[0])]
    return {"accepted": True, "ran": True, "wrong": wrong}


def _apart(left: dict[str, Image], right: dict[str, Image]) -> list[str]:
    """Operands that differ by more than rounding may explain."""
    wrong = []
    for name, image in left.items():
        ours, theirs = image.elements(), right[name].elements()
        with np.errstate(all="ignore"):
            finite = np.abs(theirs[np.isfinite(theirs)], dtype=np.float64)
            close = np.abs(ours - theirs) <= 2.0**-5 * np.max(finite, initial=0.0)
        same = close | (ours == theirs) | ~np.isfinite(theirs)
        if not same.all():
            at = int(np.flatnonzero(~same)[0])
            wrong.append(f"{name}: {ours[at]} and {theirs[at]} at {at}")
    return wrong


def _points(program: Program) -> int:
    """An upper bound of the iterations and multiply-adds of a checked program."""
    axes, primitives = program.axis_table(), program.primitive_table()
    total = 0
    stack = [(1, node) for node in program.roots]
    while stack and total <= POINTS:
        points, node = stack.pop()
        match node:
            case IterationNode():
                points *= axes[node.axis].extent
                stack.extend((points, child) for child in node.children)
            case InvocationNode():
                points *= prod(axes[name].extent for name in primitives[node.primitive].axes)
        total += points
    return total
