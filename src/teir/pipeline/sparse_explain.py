"""What a sparse plan does, for people."""

from __future__ import annotations

from teir.ir.printing import print_program
from teir.pipeline.executable import Executable
from teir.pipeline.explain_choice import in_time
from teir.pipeline.sparse_plan import Outline, SparsePlan


def explain_sparse(plan: SparsePlan, measure: bool) -> str:
    """Operands, conversions with their times, the schedule and the program of every product."""
    del measure
    problem = plan.problem
    assignment = problem.assignment
    lines = [f"sparse product {assignment.text or assignment}"]
    named = zip(assignment.inputs, problem.operands, strict=True)
    lines += [f"  {name}: {text}" for name, text in named]
    dtype = problem.result_type.numpy_dtype()
    out = f"{dtype} of shape {plan.shape}, levels {problem.output_format}"
    lines.append(f"  {assignment.output.tensor}: {out}")
    if problem.output_format.is_sparse:
        lines.append("  pattern: assembled from the patterns of the operands before every run")
    notes = dict.fromkeys(note for outline in plan.outlines for note in outline.notes)
    lines += [f"  converted: {note.text}, {1e3 * note.seconds:.3f} ms" for note in notes]
    for number, outline in enumerate(plan.outlines, start=1):
        lines += _lines(number, outline)
    return "\n".join(lines)


def _lines(number: int, outline: Outline) -> list[str]:
    lines = [f"product {number}: {outline.text}"]
    chosen = outline.scheduled
    if chosen is None:
        return [*lines, "  computed by: nothing to add, a factor is empty"]
    if chosen.graph is None:
        lines.append("  schedule: row by row of the result")
    else:
        lines.append(f"  schedule: {chosen.graph}")
        lines.append(f"  chosen among: {chosen.choices} on the frontier")
    if chosen.record is not None:
        record = chosen.record
        lines.append(
            f"  tuned on {record.date}: the best of {record.measured} schedules, "
            f"{in_time(record.seconds)} against {in_time(record.default_seconds)} of the default"
        )
    if isinstance(chosen.executable, Executable):
        threads = chosen.executable.threads
        isa = chosen.executable.isa.value
        lines.append(f"  computed by: native code ({isa}), {threads} thread(s)")
    else:
        lines.append(f"  computed by: the evaluator, slowly: {chosen.refusal}")
    lines.append("  program:")
    text = print_program(chosen.executable.program).text
    return [*lines, *(f"    {line}" for line in text.splitlines())]
