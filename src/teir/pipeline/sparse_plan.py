"""Sparse products and index notation: from text and arrays to a result.

    text, arrays -> problem, held operands -> a term per product -> schedule -> program -> run

Calls with operands seen before skip all of it but the run (`teir.pipeline.sparse_calls`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from teir.expr.index_notation import Assignment, Number, Product, signed
from teir.ir.nodes import Program
from teir.pipeline.determinism import Determinism
from teir.pipeline.operands_apart import read_apart
from teir.pipeline.process_bound import ProcessBound
from teir.pipeline.sparse_blocked import KnownBlocks, asks_for_blocks, with_blocks_apart
from teir.pipeline.sparse_calls import SparseCalls, call_of
from teir.pipeline.sparse_drawn import StandIn, stand_in
from teir.pipeline.sparse_operands import Conversion
from teir.pipeline.sparse_problem import SparseProblem, hold_all, require_planned, sparse_problem
from teir.pipeline.sparse_results import KnownResult
from teir.pipeline.sparse_rings import ring_of
from teir.pipeline.sparse_room import Room
from teir.pipeline.sparse_run import PatternSource, Step, pattern_source, run_steps
from teir.pipeline.sparse_schedule import Scheduled
from teir.pipeline.sparse_stages import Stage, stages_of
from teir.pipeline.sparse_terms import Term
from teir.pipeline.tensor_views import in_tensors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparsePlan(ProcessBound):
    """A sparse product, or a sum of them, for operands of given shapes, types and formats.

    Call it: ``plan(b, c)`` or ``plan(b, c, out=a)``. Immutable; may be called from any thread.
    Which positions the operands store may differ from call to call.
    """

    problem: SparseProblem
    outlines: tuple[Outline, ...]
    """The products as planned; operands in other orders of memory are scheduled when they come."""
    pattern: PatternSource | None = None
    """Where the result of operands like those planned with has its index arrays from."""
    stated: Assignment | None = None
    """What was asked for, where a result with blocks is computed with indices in two."""
    given: tuple[StandIn, ...] = field(default=(), repr=False, compare=False)
    """The operands planned with, as far as they live."""
    calls: SparseCalls = field(default_factory=SparseCalls, repr=False, compare=False)

    def __repr__(self) -> str:
        """A line; `explain` has the rest."""
        problem = self.problem
        operands = ", ".join(problem.operands)
        return (
            f"<SparsePlan {str(problem.assignment)!r}: {operands} -> {problem.result_type.value} "
            f"{self.shape}, {problem.threads} thread(s)>"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result."""
        shape = self.problem.shape
        if self.stated is None:
            return shape
        rank = len(shape) // 2
        return tuple(n * b for n, b in zip(shape[:rank], shape[rank:], strict=True))

    @property
    def is_at_once(self) -> bool:
        """True where operands like those planned with take one pass for pattern and numbers."""
        return self.pattern is PatternSource.AT_ONCE

    @property
    def programs(self) -> tuple[Program, ...]:
        """One program per product that a program computes."""
        chosen = (outline.scheduled for outline in self.outlines)
        return tuple(one.executable.program for one in chosen if one is not None)

    @property
    def program(self) -> Program:
        """The program of a single product. Raises ValueError where there are none or several."""
        (program,) = self.programs
        return program

    def __call__(self, *operands: Any, out: Any = None, overlap: str = "refuse") -> Any:
        """The result: a new array, ``out``, or with compressed levels a new `teir.Sparse`.

        With ``overlap="copy"`` operands that share bytes with ``out`` are copied first. Raises
        TeirError before anything is written: operands other than planned for (TEIR688), index
        arrays that are none (TEIR672 to TEIR674), a wrong ``out`` (TEIR686).
        """
        if overlap != "refuse":
            operands = read_apart(operands, out, overlap)
        return in_tensors(operands, out, self._computed)

    def _computed(self, operands: Sequence[Any], out: Any) -> Any:
        result = self.calls.run(None, operands, out)
        if result is not NotImplemented:
            return result
        limit = self.problem.memory_limit
        room = None if limit is None else Room(limit, out is not None)
        held = hold_all(self.stated or self.problem.assignment, operands, room)
        if self.stated is not None:
            _, held = with_blocks_apart(self.stated, held)
        require_planned(self.problem, held)
        *_, stage = stages_of(self.problem, held, room)
        result = run_steps(stage.problem, held, stage.steps, out)
        if stage.problem is self.problem and limit is None:
            call = call_of(self.problem, operands, held, stage.steps)
            if self.stated is not None:
                call = KnownBlocks(call) if isinstance(call, KnownResult) else None
            self.calls.keep(None, operands, call)
        return result if self.stated is None else result.join_blocks()

    def explain(self, measure: bool = False) -> str:
        """What runs, and why, in words: operands, conversions, schedules, programs.

        Of every product that was scheduled, the frontier as a table and why the winner won. With
        ``measure`` the schedules shown are run: on the operands planned with while they live, else
        on drawn ones with as many stored coordinates. A second or a few; a bar shows how far.
        """
        from teir.pipeline.sparse_explain import explain_sparse

        return explain_sparse(self, measure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What is known of products without their operands; no schedule where nothing is added."""

    text: str
    notes: tuple[Conversion, ...]
    scheduled: Scheduled | None
    is_ring: bool = False
    """True where rows of one matrix are spread out instead (`teir.pipeline.sparse_rings`)."""


def plan_sparse(
    assignment: Assignment,
    operands: Sequence[Any],
    *,
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
    deterministic: Determinism,
    memory_limit: int | None = None,
) -> SparsePlan:
    """The plan for operands like these. Raises TeirError."""
    room = None if memory_limit is None else Room(memory_limit)
    held = hold_all(assignment, operands, room)
    given = tuple(map(stand_in, held.values()))
    stated = assignment if asks_for_blocks(assignment, out_levels) else None
    if stated is not None:
        assignment, held = with_blocks_apart(stated, held)
    problem = sparse_problem(
        assignment,
        held,
        out_levels=out_levels,
        dtype=dtype,
        threads=threads,
        deterministic=deterministic,
        memory_limit=memory_limit,
    )
    *temporaries, last = stages_of(problem, held, room)
    outlines = [_temporary(stage) for stage in temporaries]
    outlines += [_outline(last.problem, step) for step in last.steps]
    live = [step for step in last.steps if step.scheduled is not None]
    return SparsePlan(
        problem=problem,
        outlines=tuple(outlines),
        pattern=pattern_source(last.problem, live) if problem.has_sparse_result else None,
        stated=stated,
        given=given,
    )


def _temporary(stage: Stage) -> Outline:
    """A product of two matrices that the next one reads."""
    (step,) = stage.steps
    outline = _outline(stage.problem, step)
    return replace(outline, text=f"{stage.problem.assignment}, a sparse temporary")


def _outline(problem: SparseProblem, step: Step) -> Outline:
    return Outline(
        text=" ".join(_words(*pair) for pair in step.terms),
        notes=tuple(note for term, _ in step.terms for note in term.notes),
        scheduled=step.scheduled,
        is_ring=not problem.has_sparse_result
        and problem.memory_limit is None
        and ring_of(step.terms[0][0], problem.computed_type) is not None,
    )


def _words(term: Term, coefficient: Number) -> str:
    """A term of a sum with its sign."""
    is_negative, number = signed(coefficient)
    product = Product(factors=tuple(one.access for one in term.factors), number=number)
    return f"{'-' if is_negative else '+'} {product}"
