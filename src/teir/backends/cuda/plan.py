"""A program as kernels: for every root, or run of roots, the best kernel that computes it.

Decisions are written into the program's metadata (`teir.backends.cuda.decision`), and a program
that carries them gets what they say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from teir.backends.cuda.decision import Decision, decision_of, with_decision
from teir.backends.cuda.emit_generic import emit_generic
from teir.backends.cuda.emit_map import alignments, emit_map, is_plain_copy
from teir.backends.cuda.emit_map_tiles import emit_map_tiles, map_tiles, map_tiles_alignments
from teir.backends.cuda.emit_product import emit_product
from teir.backends.cuda.emit_turn import emit_turn, is_turned
from teir.backends.cuda.emit_turn_tiles import emit_turn_tiles, pairs_alignment
from teir.backends.cuda.emit_warpgroup import emit_warpgroup, warpgroup_alignments
from teir.backends.cuda.kernel import CudaKernel, CudaProgram, Family
from teir.backends.cuda.maps import MAP_ALIGNMENT
from teir.backends.cuda.problem import ContractionProblem, MapProblem, Problem, recognise
from teir.backends.cuda.product import plan_product, product_plan
from teir.backends.cuda.rules import DECISION, DENSE, blame
from teir.backends.cuda.tile_turn import tile_turn
from teir.backends.cuda.warpgroup import plan_tile, warpgroup_plan
from teir.errors import Part
from teir.ir.nodes import Program
from teir.lower.kernel_program import Storage
from teir.lower.slots import SlotTable, assign_slots

DEVICE_ALIGNMENT = 64
"""What addresses are a multiple of where nothing else is said: GPU allocations, and scratch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A kernel that would do, the decision that names it, and the addresses it needs."""

    kernel: CudaKernel
    decision: Decision
    alignment: Mapping[str, int]


def plan(program: Program, aligned: Mapping[str, int] | None = None) -> CudaProgram:
    """The kernels of a checked program; ``aligned`` says what addresses are a multiple of.

    Raises TeirError (TEIR723 for sparse programs, TEIR728 for decisions nothing can follow).
    """
    for axis in program.axes:
        if axis.is_sparse:
            blame(DENSE, Part.AXIS, axis.name, "a dense axis", "an axis with segments")
    slots = assign_slots(program)
    kernels: list[CudaKernel] = []
    needed = {tensor.name: tensor.data_type.width for tensor in program.tensors}
    decided = program
    at = 0
    while at < len(program.roots):
        name = f"kernel{len(kernels)}"
        problem, count = _longest(program, slots, at)
        found = None if problem is None else _choose(problem, program, name, aligned or {})
        if found is None or problem is None:
            kernels.append(emit_generic(program, program.roots[at], slots, name))
            at += 1
            continue
        kernels.append(found.kernel)
        decided = with_decision(decided, problem.primitive, found.decision)
        for tensor, wide in found.alignment.items():
            if tensor in needed:
                needed[tensor] = max(needed[tensor], wide)
        at += count
    return CudaProgram(
        program=decided,
        kernels=tuple(kernels),
        run_arena_bytes=slots.run_scratch_bytes,
        run_scratch=tuple(
            (slot.tensor, slot.start_bytes) for slot in slots.slots if slot.storage is Storage.RUN
        ),
        alignment=tuple(needed.items()),
    )


def problems(program: Program) -> Iterator[Problem]:
    """The problems that a dense program's roots are recognised as, in order."""
    slots = assign_slots(program)
    at = 0
    while at < len(program.roots):
        problem, count = _longest(program, slots, at)
        if problem is not None:
            yield problem
        at += count


def _longest(program: Program, slots: SlotTable, at: int) -> tuple[Problem | None, int]:
    """The problem that most roots from ``at`` on make together, and how many they are."""
    for count in (3, 2, 1):
        roots = program.roots[at : at + count]
        problem = recognise(roots, program, slots) if len(roots) == count else None
        if problem is not None:
            return problem, count
    return None, 1


def _choose(
    problem: Problem, program: Program, name: str, aligned: Mapping[str, int]
) -> Candidate | None:
    """The decided kernel, or the first in order of preference; None for the generic one."""
    primitive = program.primitive_table()[problem.primitive]
    wanted = decision_of(primitive)
    if wanted is not None and wanted.kernel is Family.GENERIC:
        return None
    found = _first(problem, wanted, name, aligned)
    if found is None and wanted is not None and aligned:
        # The decision is sound and the addresses are not: whatever takes them.
        found = _first(problem, None, name, aligned)
    elif found is None and wanted is not None:
        expected = "a kernel and a tile that compute this primitive"
        blame(DECISION, Part.PRIMITIVE, primitive.name, expected, wanted.text())
    return found


def _first(
    problem: Problem, wanted: Decision | None, name: str, aligned: Mapping[str, int]
) -> Candidate | None:
    """The first kernel, in order of preference, that does what is wanted at these addresses."""
    for family in _preferred(problem):
        if wanted is not None and wanted.kernel is not family:
            continue
        for found in _candidates(problem, family, wanted, name):
            pairs = found.alignment.items()
            if all(aligned.get(tensor, DEVICE_ALIGNMENT) >= wide for tensor, wide in pairs):
                return found
    return None


def _preferred(problem: Problem) -> tuple[Family, ...]:
    match problem:
        case MapProblem():
            return (Family.TURN_TILES, Family.TURN, Family.MAP, Family.MAP_TILES)
        case ContractionProblem():
            return (Family.WARPGROUP, Family.PRODUCT)
        case _:
            assert_never(problem)


def _candidates(
    problem: Problem, family: Family, wanted: Decision | None, name: str
) -> Iterator[Candidate]:
    """The kernels of a family that do what is wanted, those that ask most of addresses first."""
    match problem, family:
        case MapProblem(), Family.TURN_TILES | Family.TURN:
            yield from _turn_candidates(problem, family, name)
        case MapProblem(), Family.MAP:
            decision = Decision(kernel=Family.MAP)
            kernel = emit_map(problem, name)
            yield Candidate(kernel=kernel, decision=decision, alignment=alignments(problem))
        case MapProblem(), Family.MAP_TILES:
            yield from _map_tiles_candidates(problem, name)
        case ContractionProblem(), Family.WARPGROUP:
            yield from _warpgroup_candidates(problem, wanted, name)
        case ContractionProblem(), Family.PRODUCT:
            yield from _product_candidates(problem, wanted, name)


def _map_tiles_candidates(problem: MapProblem, name: str) -> Iterator[Candidate]:
    tiles = map_tiles(problem)
    if tiles is None:
        return
    yield Candidate(
        kernel=emit_map_tiles(problem, tiles, name),
        decision=Decision(kernel=Family.MAP_TILES, tile=(tiles.rows, tiles.columns)),
        alignment=map_tiles_alignments(problem),
    )


def _product_candidates(
    problem: ContractionProblem, wanted: Decision | None, name: str
) -> Iterator[Candidate]:
    if wanted is not None and wanted.tile:
        product = plan_product(problem, wanted.tile[0])
    else:
        product = product_plan(problem)
    if product is None:
        return
    decision = Decision(kernel=Family.PRODUCT, tile=(product.side, product.side))
    yield Candidate(kernel=emit_product(product, name), decision=decision, alignment={})


def _turn_candidates(problem: MapProblem, family: Family, name: str) -> Iterator[Candidate]:
    if not is_plain_copy(problem) or not is_turned(problem):
        return
    if family is Family.TURN:
        decision = Decision(kernel=Family.TURN)
        yield Candidate(kernel=emit_turn(problem, name), decision=decision, alignment={})
        return
    turn = tile_turn(problem)
    if turn is None:
        return
    source, target = problem.operands
    yield Candidate(
        kernel=emit_turn_tiles(problem, turn, name),
        decision=Decision(kernel=Family.TURN_TILES),
        alignment={source.tensor: MAP_ALIGNMENT, target.tensor: pairs_alignment(problem)},
    )


def _warpgroup_candidates(
    problem: ContractionProblem, wanted: Decision | None, name: str
) -> Iterator[Candidate]:
    """The tile, and the same one stored by registers, which any address of out allows."""
    if wanted is not None and len(wanted.tile) >= 2:
        rows, columns = wanted.tile[:2]
        found = plan_tile(problem, rows, columns, wanted.stages, wanted.cluster, wanted.stores)
    else:
        found = warpgroup_plan(problem)
    if found is None:
        return
    for stored in dict.fromkeys((found, replace(found, store=None))):
        if wanted is not None and wanted.stores not in (None, stored.stores):
            continue
        yield Candidate(
            kernel=emit_warpgroup(stored, name),
            decision=stored.decision,
            alignment=warpgroup_alignments(stored),
        )
