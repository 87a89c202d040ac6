"""A program as kernels: for every root, or run of roots, the best kernel that computes it."""

from __future__ import annotations

from teir.backends.cuda.emit_generic import emit_generic
from teir.backends.cuda.emit_map import alignments, emit_map, is_plain_copy
from teir.backends.cuda.emit_turn import emit_turn, is_turned
from teir.backends.cuda.emit_turn_tiles import emit_turn_tiles, pairs_alignment, tile_turn
from teir.backends.cuda.emit_warpgroup import emit_warpgroup, warpgroup_alignments
from teir.backends.cuda.kernel import CudaKernel, CudaProgram
from teir.backends.cuda.maps import MAP_ALIGNMENT
from teir.backends.cuda.problem import ContractionProblem, MapProblem, Problem, recognise
from teir.backends.cuda.rules import DENSE, blame
from teir.backends.cuda.warpgroup import warpgroup_plan
from teir.errors import Part
from teir.ir.nodes import Program
from teir.lower.slots import SlotTable, assign_slots


def plan(program: Program) -> CudaProgram:
    """The kernels of a checked program. Raises TeirError (TEIR723 for sparse programs)."""
    for axis in program.axes:
        if axis.is_sparse:
            blame(DENSE, Part.AXIS, axis.name, "a dense axis", "an axis with segments")
    slots = assign_slots(program)
    kernels: list[CudaKernel] = []
    alignment = {tensor.name: tensor.data_type.width for tensor in program.tensors}
    at = 0
    while at < len(program.roots):
        name = f"kernel{len(kernels)}"
        problem, count = _longest(program, slots, at)
        match problem:
            case MapProblem():
                kernel, needed = _map_kernel(problem, name)
            case ContractionProblem() if (found := warpgroup_plan(problem)) is not None:
                kernel, needed = emit_warpgroup(found, name), warpgroup_alignments(found)
            case _:
                kernel, needed = emit_generic(program, program.roots[at], slots, name), {}
                count = 1
        kernels.append(kernel)
        alignment |= {one: max(alignment[one], wide) for one, wide in needed.items()}
        at += count
    return CudaProgram(
        program=program,
        kernels=tuple(kernels),
        run_arena_bytes=slots.run_scratch_bytes,
        alignment=tuple(alignment.items()),
    )


def _longest(program: Program, slots: SlotTable, at: int) -> tuple[Problem | None, int]:
    """The problem that most roots from ``at`` on make together, and how many they are."""
    for count in (3, 2, 1):
        roots = program.roots[at : at + count]
        problem = recognise(roots, program, slots) if len(roots) == count else None
        if problem is not None:
            return problem, count
    return None, 1


def _map_kernel(problem: MapProblem, name: str) -> tuple[CudaKernel, dict[str, int]]:
    if is_plain_copy(problem) and is_turned(problem):
        source, target = problem.operands
        turn = tile_turn(problem)
        if turn is None:
            return emit_turn(problem, name), {}
        needed = {source.tensor: MAP_ALIGNMENT, target.tensor: pairs_alignment(problem)}
        return emit_turn_tiles(problem, turn, name), needed
    return emit_map(problem, name), alignments(problem)
