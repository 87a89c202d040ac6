"""What a sparse plan does, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

import numpy as np

from teir.ir.printing import print_program
from teir.pipeline.executable import Executable
from teir.pipeline.explain_choice import in_time
from teir.pipeline.plan import Plan
from teir.pipeline.progress import patient_bar
from teir.pipeline.sparse_blocked import with_blocks_apart
from teir.pipeline.sparse_frontier import (
    Frontier,
    frontier_of,
    frontier_table,
    is_worth_measuring,
    why,
)
from teir.pipeline.sparse_plan import Outline, SparsePlan
from teir.pipeline.sparse_problem import hold_all
from teir.pipeline.sparse_run import PatternSource
from teir.pipeline.sparse_schedule import Scheduled
from teir.pipeline.sparse_stages import stages_of
from teir.pipeline.sparse_tuning import measured_schedules


def explain_sparse(plan: SparsePlan, measure: bool) -> str:
    """Operands, conversions with their times, the schedule and the program of every product."""
    problem = plan.problem
    assignment = problem.assignment
    lines = [f"sparse product {assignment.text or assignment}"]
    if plan.stated is not None:
        lines.append(f"  of {plan.stated.text or plan.stated}, whose result has blocks")
    named = zip(assignment.inputs, problem.operands, strict=True)
    lines += [f"  {name}: {text}" for name, text in named]
    dtype = problem.result_type.numpy_dtype()
    out = f"{dtype} of shape {problem.shape}, levels {problem.output_format}"
    lines.append(f"  {assignment.output.tensor}: {out}")
    if problem.memory_limit is not None:
        lines.append(f"  memory limit: {problem.memory_limit:,} bytes")
    if plan.pattern is not None and problem.output_format.is_sparse:
        lines.append(f"  pattern: {_pattern(plan.pattern)}")
    notes = dict.fromkeys(note for outline in plan.outlines for note in outline.notes)
    lines += [f"  converted: {note.text}, {1e3 * note.seconds:.3f} ms" for note in notes]
    frontiers = [_frontier(outline.scheduled) for outline in plan.outlines]
    measured = _measured(plan, frontiers) if measure else [{} for _ in frontiers]
    if measure and any(one.is_drawn for one in plan.given):
        lines.append("  measured on drawn positions: the operands planned with are gone")
    for number, outline in enumerate(plan.outlines, start=1):
        lines += _lines(number, outline, frontiers[number - 1], measured[number - 1])
    return "\n".join(lines)


def _pattern(source: PatternSource) -> str:
    match source:
        case PatternSource.KEPT:
            return (
                "that of the sparse operand, whose index arrays are copied (shared where it is "
                "frozen) and whose values are scaled as they lie; the program is not run"
            )
        case PatternSource.SHARED:
            return (
                "that of the sparse operand, whose index arrays the program walks for both; the "
                "result has copies (the same where it is frozen)"
            )
        case PatternSource.AT_ONCE:
            return (
                "computed with the numbers, row by row in one pass; the program computes the "
                "numbers where operands make longer rows"
            )
        case PatternSource.VECTORS:
            return (
                "computed with the numbers: all levels of every operand are one, and these are "
                "merged two at a time; the program is not run"
            )
        case PatternSource.ASSEMBLED:
            return "assembled from the patterns of the operands before every run"
        case _:
            assert_never(source)


def _frontier(chosen: Scheduled | None) -> Frontier:
    if chosen is None or chosen.ranking is None:
        return Frontier(rows=(), count=0)
    return frontier_of(chosen.ranking, str(chosen.graph))


def _measured(plan: SparsePlan, frontiers: Sequence[Frontier]) -> list[Mapping[str, float]]:
    """Seconds by schedule, for every product."""
    generator = np.random.default_rng(0)
    operands = [one.operand(generator) for one in plan.given]
    held = hold_all(plan.stated or plan.problem.assignment, operands)
    if plan.stated is not None:
        _, held = with_blocks_apart(plan.stated, held)
    stages = stages_of(plan.problem, held)
    every = [(stage, step) for stage in stages for step in stage.steps]
    found: list[Mapping[str, float]] = []
    with patient_bar("schedules measured") as tell:
        for (stage, step), frontier in zip(every, frontiers, strict=True):
            rows = frontier.rows
            wanted = [row.schedule for row in rows if is_worth_measuring(row, rows)]
            found.append(measured_schedules(stage.problem, stage.steps, step, wanted, tell))
    return found


def _lines(
    number: int, outline: Outline, frontier: Frontier, measured: Mapping[str, float]
) -> list[str]:
    lines = [f"product {number}: {outline.text}"]
    chosen = outline.scheduled
    if chosen is None:
        return [*lines, "  computed by: nothing to add, a factor is empty"]
    if outline.is_ring:
        lines.append(
            "  rows: one matrix row by row as a dense row, a dot product with it for every element "
            "of another; the program where that is not finite, or rows are of very unequal lengths"
        )
    if chosen.plan is not None:
        lines += _einsum_lines(chosen.plan)
    elif chosen.graph is None:
        lines.append("  schedule: row by row of the result")
    else:
        lines.append(f"  schedule: {chosen.graph}")
        lines += _frontier_lines(str(chosen.graph), frontier, measured)
    if chosen.record is not None:
        record = chosen.record
        lines.append(
            f"  tuned on {record.date}: the best of {record.measured} schedules, "
            f"{in_time(record.seconds)} against {in_time(record.default_seconds)} of the default"
        )
    if isinstance(chosen.executable, Executable):
        threads = chosen.executable.threads
        isa = chosen.executable.isa.value
        scratch = f"{chosen.scratch_bytes:,} bytes of scratch"
        lines.append(f"  computed by: native code ({isa}), {threads} thread(s), {scratch}")
    else:
        lines.append(f"  computed by: the evaluator, slowly: {chosen.refusal}")
    if measured and not frontier.rows:
        lines.append(f"  measured: {in_time(next(iter(measured.values())))}")
    lines.append("  program:")
    text = print_program(chosen.executable.program).text
    return [*lines, *(f"    {line}" for line in text.splitlines())]


def _einsum_lines(plan: Plan) -> list[str]:
    """The einsum that a product of dense factors is, and the products it forms."""
    steps = [
        f"    {place}. {step.text}  ({step.products:,} products)"
        for place, step in enumerate(plan.steps, start=1)
    ]
    return [f"  all factors are dense: planned as the einsum {plan.problem.subscripts}", *steps]


def _frontier_lines(chosen: str, frontier: Frontier, measured: Mapping[str, float]) -> list[str]:
    rows = frontier.rows
    if not rows:
        return ["  chosen among: no other schedule"]
    told = sum(row.alike for row in rows)
    count = f", {told} of them told" if frontier.count > told else ""
    return [
        f"  why: {why(rows, chosen)}",
        f"  frontier: {frontier.count} schedules{count}; alike: as many with these costs",
        *(f"    {line}" for line in frontier_table(rows, chosen, measured)),
    ]
