"""Figure 1: native code against the evaluator on random programs and exact integers.

Each program runs on every instruction set of the machine, with one and with two threads, on
operands with canaries around them or against inaccessible pages. Results are compared with
``==``; so are the bytes around them. One of these runs, chosen by the seed, is repeated with the
program as one specialised function: it must leave the very same bytes.

Every fourth program has a shape that a kernel of its own serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from teir.errors import TeirError
from teir.ir.nodes import Program
from teir.soak.draws import seeded
from teir.soak.operands import Image, differences, draw_images, tight_images
from teir.soak.pages import on_guarded_pages
from teir.soak.parts import DrawnProgram
from teir.soak.programs import draw_program
from teir.soak.running import as_operands, compiled, evaluated, host_variants
from teir.soak.shaped_products import draw_shaped
from teir.target import Isa

WORK = 50_000
"""Multiply-adds of a program."""
SHAPED_EVERY = 4


def compare_one(seed: int) -> dict[str, Any]:
    """What is wrong with the program of ``seed``."""
    draw = draw_shaped if seed % SHAPED_EVERY == SHAPED_EVERY - 1 else draw_program
    return compare_runs(draw(seeded(seed), WORK), seed, every_variant())


def every_variant() -> tuple[tuple[Isa, int], ...]:
    """The instruction sets of the machine, with one and with two threads."""
    return tuple(product(host_variants(), (1, 2)))


def compare_runs(
    drawn: DrawnProgram, seed: int, variants: Sequence[tuple[Isa, int]]
) -> dict[str, Any]:
    """The number of native runs and what is wrong: a refusal, or differences from the evaluator.

    ``seed`` draws the operands and chooses on which side they touch an inaccessible page, and which
    of ``variants`` (instruction set, threads) is repeated as one specialised function.
    """
    program = drawn.program
    images = draw_images(program, seed, drawn.largest, drawn.divisors)
    wrong: list[str] = []
    expected = evaluated(program, images, seed)
    at_end = seed % 4 < 2
    for isa, threads in variants:
        where = f"{isa.value}, {threads} thread(s)"
        guarded = threads == 2
        table = _placed(images, program, guarded, at_end)
        try:
            executable = compiled(program, isa, threads)
            executable.run(as_operands(table))
        except TeirError as error:
            return {"wrong": [f"refused: {error}"], "runs": 0}
        theirs = tight_images(expected, program) if guarded else expected
        wrong += [f"{where}: {text}" for text in differences(table, theirs)]
        if (isa, threads) == variants[seed % len(variants)]:
            specialised = _placed(images, program, guarded, at_end)
            executable.specialised().run(as_operands(specialised))
            wrong += [f"{where}, specialised: {name}" for name in _unequal(table, specialised)]
    return {"wrong": wrong, "runs": len(variants) + 1}


def _placed(
    images: Mapping[str, Image], program: Program, guarded: bool, at_end: bool
) -> dict[str, Image]:
    """Copies to run on: with room around them, or against inaccessible pages."""
    if guarded:
        return on_guarded_pages(tight_images(images, program), at_end=at_end)
    return {name: image.copy() for name, image in images.items()}


def _unequal(left: Mapping[str, Image], right: Mapping[str, Image]) -> list[str]:
    """The operands that differ in any bit."""
    return [
        name
        for name, image in left.items()
        if image.content.tobytes() != right[name].content.tobytes()
    ]
