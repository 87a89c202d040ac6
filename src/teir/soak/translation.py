"""Figure 2: every pass and the lowering keep the meaning of random programs.

Translation validation: the evaluator runs the program before and after. Each pass is applied to
the drawn program and in its place in the whole sequence, on machines so small that small programs
need every cache and thread of them; what comes out of the sequence is lowered, and the kernel
program is evaluated too. Integers inside the exact range are compared with ``==``; every eighth
program runs on numbers between -1 and 1 as well, judged by the error bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from teir.dtypes import DataType
from teir.ir.accuracy import PASS
from teir.ir.check import check as check_program
from teir.ir.exact import worst_ratio
from teir.ir.nodes import Program
from teir.lower.evaluate import evaluate_kernels
from teir.lower.lower import lower
from teir.passes.facts import Facts
from teir.passes.fuse_remainders import fuse_remainders
from teir.passes.optimise import Pass, pass_list
from teir.passes.split_axes import split_axes
from teir.soak.draws import seeded
from teir.soak.loop_nests import draw_loop_nest
from teir.soak.operands import Image, differences, draw_images, fractions_instead
from teir.soak.parts import DrawnProgram
from teir.soak.programs import draw_program
from teir.soak.running import evaluated
from teir.soak.shaped_products import draw_shaped
from teir.target import Isa

LOWERING = "lowering"
FUSED = "fuse remainders"
"""Of targets whose tiles overhang, so in no sequence: what splitting left is fused again."""

WORK = 1_200
"""Multiply-adds of a program."""
FRACTIONS_EVERY = 8
LOOPS_EVERY = 3
"""Every third program is a product written as loops around single elements."""
SHAPED_EVERY = 7
"""And every seventh of the others has a shape that a kernel of its own serves."""

_TINY = Facts(
    vector_bytes=16,
    l1_bytes=64,
    l2_bytes=128,
    l3_bytes=256,
    threads=2,
    threaded_work=16,
    reduction_block=8,
    far_bytes=16,
    packed_elements=2,
    packed_readers=2,
)
_SMALL = replace(_TINY, l2_bytes=1024, l3_bytes=1 << 16, threads=4, reduction_block=3)
MACHINES = (
    _TINY,
    _SMALL,
    replace(_SMALL, max_kernel_size=4, min_kernel_size=2),
    replace(_TINY, threads=1),
)

Images = Mapping[str, Image]


def translations(facts: Facts) -> dict[str, Pass]:
    """Every pass by name; splitting by itself too where the sequence would leave it out."""
    named = dict(pass_list(facts))
    if facts.max_kernel_size is None:
        named["split axes"] = partial(split_axes, max_kernel_size=5)
    named[FUSED] = fuse_remainders
    return named


def translate_one(seed: int) -> dict[str, Any]:
    """What is wrong with the passes on the program of ``seed``; ``named`` counts what changed."""
    drawn = _drawn(seed)
    trial = _Trial(drawn, seed)
    facts = MACHINES[seed % len(MACHINES)]
    for name, apply in translations(facts).items():
        trial.compare(name, apply, drawn.program)
    trial.compare(FUSED, fuse_remainders, split_axes(drawn.program, max_kernel_size=5))
    last = drawn.program
    for name, apply in pass_list(facts):
        last = trial.compare(f"{name}, in sequence", apply, last)
    trial.lower(drawn.program, seed)
    trial.lower(last, seed + 1)
    if seed % FRACTIONS_EVERY == 0 and not drawn.divisors:
        trial.bound(last)
    return {"wrong": trial.wrong[:3], "runs": trial.runs, "named": dict(trial.changed)}


def _drawn(seed: int) -> DrawnProgram:
    if seed % LOOPS_EVERY == 0:
        return draw_loop_nest(seeded(seed), WORK)
    draw = draw_shaped if seed % SHAPED_EVERY == 0 else draw_program
    return draw(seeded(seed), WORK)


class _Trial:
    """The evaluations of one drawn program; equal programs are evaluated once."""

    def __init__(self, drawn: DrawnProgram, seed: int) -> None:
        self._drawn = drawn
        self._seed = seed
        self._images = draw_images(drawn.program, seed, drawn.largest, drawn.divisors)
        self._expected = evaluated(drawn.program, self._images, 1)
        self._known = [drawn.program]
        self.wrong: list[str] = []
        self.changed: Counter[str] = Counter()
        self.runs = 0

    def compare(self, name: str, apply: Callable[[Program], Program], program: Program) -> Program:
        after = apply(program)
        self.runs += 1
        if after is program:
            return program
        self.changed[name.removesuffix(", in sequence")] += 1
        if any(after == known for known in self._known):
            return after
        self._known.append(after)
        report = check_program(after)
        if not report.ok:
            self.wrong.append(f"{name}: {report.findings[0]}")
            return after
        found = evaluated(after, self._images, 2)
        self.wrong += [f"{name}: {text}" for text in differences(found, self._expected)]
        return after

    def lower(self, program: Program, seed: int) -> None:
        """Lowered for one of the instruction sets, whether this machine has it or not."""
        isa = tuple(Isa)[seed % len(Isa)]
        kernels = lower(program, isa)
        after = {name: image.copy() for name, image in self._images.items()}
        evaluate_kernels(
            kernels,
            {name: image.content for name, image in after.items()},
            {name: image.base for name, image in after.items()},
        )
        self.runs += 1
        self.changed[LOWERING] += 1
        where = f"{LOWERING} for {isa.value}"
        self.wrong += [f"{where}: {text}" for text in differences(after, self._expected)]

    def bound(self, program: Program) -> None:
        """The last program on fractions, against the exact result of the drawn one."""
        if not all(_is_judged(tensor.data_type) for tensor in self._drawn.program.tensors):
            return
        images = fractions_instead(self._images, self._seed)
        after = evaluated(program, images, 3)
        bases = {name: image.base for name, image in images.items()}
        ratio = worst_ratio(self._drawn.program, _bytes(images), _bytes(after), bases=bases)
        self.runs += 1
        if not ratio < PASS:
            self.wrong.append(f"all passes, fractions: {ratio:.3g} of the error bound")


def _is_judged(data_type: DataType) -> bool:
    """Types whose sums are not rounded on the way."""
    return data_type.accumulator is data_type


def _bytes(images: Images) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    return {name: image.content for name, image in images.items()}


def pass_names() -> Iterator[str]:
    """What every campaign must have changed something with."""
    yield from dict(pass_list(_TINY))
    yield FUSED
    yield LOWERING
