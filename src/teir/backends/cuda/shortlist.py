"""A measured choice, on request: the best few decisions by estimate, run on the GPU.

tuned = tune_on_device(program, {"in0": x, "in1": y, "out": z}, stream)
tuned.program                     # carries the quickest decisions; compile it as any other

Without a GPU nothing is tried: `tune_on_device` refuses at once. `shortlist` and `tune` need none.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from teir.backends.cuda import driver as cuda
from teir.backends.cuda.compiled import CompiledProgram, compile_program, run
from teir.backends.cuda.decision import Decision, with_decision
from teir.backends.cuda.device_arrays import bound_operands
from teir.backends.cuda.kernel import Family
from teir.backends.cuda.plan import problems
from teir.backends.cuda.problem import ContractionProblem
from teir.backends.cuda.product import product_plans
from teir.backends.cuda.rules import DENSE, blame
from teir.backends.cuda.spin import load_spin
from teir.backends.cuda.tile_stores import Stores
from teir.backends.cuda.turn_inputs import turn_inputs
from teir.backends.cuda.warpgroup import plan_tile, warpgroup_plans
from teir.errors import Part
from teir.ir.check import prove
from teir.ir.nodes import Program
from teir.passes.fuse_remainders import fuse_remainders

MOST = 10
"""Decisions that are tried for one contraction."""
WARMING, ROUNDS = 3, 11
_TILES = 4
_PRODUCTS = 2

Measure = Callable[[Sequence[CompiledProgram]], Sequence[float]]
"""Milliseconds of programs that compute the same, taken side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One decision for one primitive, and what it took."""

    primitive: str
    decision: Decision
    milliseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The program with the quickest decisions, and all that was tried, in order."""

    program: Program
    trials: tuple[Trial, ...]


def prepared(program: Program) -> Program:
    """The program whose contractions are decided on: checked, remainders fused, inputs turned.

    Raises TeirError with the findings of the check, TEIR723 for sparse programs.
    """
    prove(program).report.raise_if_wrong()
    for axis in program.axes:
        if axis.is_sparse:
            blame(DENSE, Part.AXIS, axis.name, "a dense axis", "an axis with segments")
    return turn_inputs(fuse_remainders(program))


def shortlist(problem: ContractionProblem) -> tuple[Decision, ...]:
    """What is tried for a contraction: the quickest by estimate first, at most ten.

    Tiles for warpgroup products, each alone and in clusters of two, the first also stored in the
    other way, then tiles for products by registers; few of the latter where there are any of the
    former.
    """
    return tuple(islice(_decisions(problem), MOST))


def _decisions(problem: ContractionProblem) -> Iterator[Decision]:
    plans = list(islice(warpgroup_plans(problem), _TILES))
    for at, plan in enumerate(plans):
        rows, columns, _ = plan.tile
        found = [plan_tile(problem, rows, columns, cluster=cluster) for cluster in (1, 2)]
        if at == 0 and plan.stores is Stores.TILES:
            found.append(plan_tile(problem, rows, columns, stores=Stores.REGISTERS))
        yield from (one.decision for one in found if one is not None)
    for product in islice(product_plans(problem), 1 if plans else _PRODUCTS):
        yield Decision(kernel=Family.PRODUCT, tile=(product.side, product.side))


def tune(program: Program, measure: Measure) -> Tuned:
    """The quickest decision for every contraction, one contraction after the other.

    Raises TeirError as `prepared`, and what compiling raises.
    """
    program = prepared(program)
    trials: list[Trial] = []
    for problem in tuple(problems(program)):
        if not isinstance(problem, ContractionProblem):
            continue
        tried = shortlist(problem)
        if len(tried) < 2:
            continue
        programs = [with_decision(program, problem.primitive, one) for one in tried]
        times = measure([compile_program(one) for one in programs])
        trials += [
            Trial(primitive=problem.primitive, decision=decision, milliseconds=taken)
            for decision, taken in zip(tried, times, strict=True)
        ]
        program = programs[min(range(len(tried)), key=times.__getitem__)]
    return Tuned(program=program, trials=tuple(trials))


def tune_on_device(program: Program, operands: Mapping[str, Any], stream: int = 0) -> Tuned:
    """`tune` on the GPU that holds ``operands``, which the runs overwrite.

    Medians of eleven interleaved rounds by device events, three rounds to warm up. Raises
    TeirError (TEIR721) at once where there is no GPU.
    """
    driver = cuda.find_driver()
    bound = bound_operands(program, operands, stream)
    devices = [cuda.device_of(driver, one.address) for one in bound.values()]

    def measure(programs: Sequence[CompiledProgram]) -> Sequence[float]:
        times: list[list[float]] = [[] for _ in programs]
        with cuda.on_device(driver, min(devices, default=0)):
            ahead = load_spin(driver, stream)
            for at in range(WARMING + ROUNDS):
                for number, one in enumerate(programs):
                    work = partial(run, one, operands, stream)
                    taken = cuda.device_milliseconds(driver, stream, ahead, work)
                    if at >= WARMING:
                        times[number].append(taken)
        return [statistics.median(each) for each in times]

    return tune(program, measure)
