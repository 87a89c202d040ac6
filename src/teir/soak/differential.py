"""Figure 1: native code against the evaluator on random programs and exact integers.

Each program runs on every instruction set of the machine, with one and with two threads, on
operands with canaries around them or against inaccessible pages. Results are compared with
``==``; so are the bytes around them.
"""

from __future__ import annotations

from typing import Any

from teir.errors import TeirError
from teir.soak.draws import seeded
from teir.soak.operands import differences, draw_images, tight_images
from teir.soak.pages import on_guarded_pages
from teir.soak.parts import DrawnProgram
from teir.soak.programs import draw_program
from teir.soak.running import as_operands, compiled, evaluated, host_variants


def compare_one(seed: int) -> dict[str, Any]:
    """What is wrong with the program of ``seed``."""
    return compare_runs(draw_program(seeded(seed)), seed)


def compare_runs(drawn: DrawnProgram, seed: int) -> dict[str, Any]:
    """The number of native runs and what is wrong: a refusal, or differences from the evaluator.

    ``seed`` draws the operands and chooses on which side they touch an inaccessible page.
    """
    program = drawn.program
    images = draw_images(program, seed, drawn.largest, drawn.divisors)
    wrong: list[str] = []
    expected = evaluated(program, images, seed)
    at_end = seed % 4 < 2
    for isa in host_variants():
        for threads in (1, 2):
            where = f"{isa.value}, {threads} thread(s)"
            ours = {name: image.copy() for name, image in images.items()}
            guarded = threads == 2
            if guarded:
                ours = on_guarded_pages(tight_images(ours, program), at_end=at_end)
            try:
                compiled(program, isa, threads).run(as_operands(ours))
            except TeirError as error:
                return {"wrong": [f"refused: {error}"], "runs": 0}
            theirs = tight_images(expected, program) if guarded else expected
            wrong += [f"{where}: {text}" for text in differences(ours, theirs)]
    return {"wrong": wrong, "runs": 2 * len(host_variants())}
