"""From a term to something that runs: the schedule, its program, native code or the evaluator."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from teir.arrays.levels import Level
from teir.dtypes import DataType
from teir.errors import TeirError
from teir.ir.nodes import Program
from teir.passes.facts import Facts, facts_of
from teir.passes.part_sizes import part_cache
from teir.passes.walking_programs import with_walking_passes
from teir.pipeline.determinism import Determinism, planned_threads
from teir.pipeline.executable import (
    Executable,
    ReferenceExecutable,
    compile_for,
    compile_program,
)
from teir.pipeline.memory import scratch_bytes
from teir.pipeline.plan import Plan
from teir.pipeline.sparse_records import SparseKey, SparseRecord, sparse_key, sparse_records
from teir.pipeline.sparse_terms import Term
from teir.runtime.runtime import current
from teir.search.sparse.cleared_rows import with_cleared_rows
from teir.search.sparse.cost import FIBRE
from teir.search.sparse.graph import IterationGraph, branches, linear
from teir.search.sparse.predicted import Problem
from teir.search.sparse.ranked import ranked
from teir.search.sparse.row_program import SumTerm, row_program
from teir.search.sparse.statement import first_order
from teir.search.sparse.translate import program_of
from teir.search.sparse.workspace import workspace_graph
from teir.target import host_target

_MOST_COMPILED = 512
_LEAST = 8
"""Schedules with the smallest temporaries that are tried last, where memory is bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A schedule and what runs it; ``refusal`` says why it is not native code.

    ``graph`` is None where rows of a result are formed by all terms of a sum.
    """

    graph: IterationGraph | None
    executable: Executable | ReferenceExecutable
    choices: int
    refusal: str | None
    problem: SparseKey | None = None
    """What tuning remembers it by; None where there is nothing to choose from."""
    record: SparseRecord | None = None
    """The measurements it was chosen by."""
    shares: str | None = None
    """The input whose index arrays are the result's too."""
    ranking: Problem | None = None
    """What the schedules were ranked for; None where there is one only."""
    deterministic: Determinism = Determinism.RUNS
    """Whether the program may depend on the number of threads."""
    scratch_bytes: int = 0
    """What the program allocates besides, on all its threads."""
    most_scratch_bytes: int | None = None
    """What it may allocate; the fastest schedule by prediction that does with it was chosen."""
    plan: Plan | None = None
    """That of the einsum which a term of dense factors is, in place of a loop nest."""


def scheduled(
    term: Term,
    data_type: DataType,
    index_type: DataType,
    threads: int,
    name: str,
    shares: str | None = None,
    deterministic: Determinism = Determinism.RUNS,
    most_scratch_bytes: int | None = None,
) -> Scheduled:
    """The schedule of ``term``, compiled; kept by statement, types, extents and size class.

    ``shares`` names an input whose index arrays are those of a sparse result too. Where none does
    with ``most_scratch_bytes``, it is the one that needs least.
    """
    types = (data_type, index_type)
    problem = sparse_key(term.statement, term.extents, fibre_lengths(term), types, threads)
    record = sparse_records().find(problem)
    sizes = tuple(term.extents.items())
    wish = None if record is None else record.schedule
    key = (term.statement, sizes, problem, name, shares, wish, deterministic, most_scratch_bytes)
    made = current().once("sparse schedules", dict[object, Scheduled])
    known = made.get(key)
    if known is None:
        known = _scheduled(term, problem, record, name, shares, deterministic, most_scratch_bytes)
        while len(made) >= _MOST_COMPILED:
            made.pop(next(iter(made)), None)
        made[key] = known
    return known


def scheduled_rows(
    terms: Sequence[tuple[Term, int | None]],
    data_type: DataType,
    index_type: DataType,
    threads: int,
    name: str,
) -> Scheduled | None:
    """All terms of a sum in one program by rows of the result; None where one does not go by rows.

    A term is given with the number of the operand that it is multiplied by, None for 1.
    """
    sums = tuple(SumTerm(statement=one.statement, scale=scale) for one, scale in terms)
    extents = {index: extent for one, _ in terms for index, extent in one.extents.items()}
    key = (sums, tuple(extents.items()), data_type, index_type, threads, name)
    made = current().once("sparse row programs", dict[object, Scheduled | None])
    if key not in made:
        while len(made) >= _MOST_COMPILED:
            made.pop(next(iter(made)), None)
        program = row_program(sums, extents, data_type=data_type, index_type=index_type, name=name)
        made[key] = None if program is None else _compiled(program, threads)
    return made.get(key)


def _scheduled(
    term: Term,
    problem: SparseKey,
    record: SparseRecord | None,
    name: str,
    shares: str | None,
    deterministic: Determinism,
    most_scratch_bytes: int | None,
) -> Scheduled:
    data_type = DataType(problem.data_type)
    facts = _facts(problem, deterministic)
    graphs = _graphs(term, data_type, facts)
    wanted = None if record is None else record.schedule
    graph = next((one for one in graphs if str(one) == wanted), graphs[0])

    def compiled(one: IterationGraph) -> Scheduled:
        program = _program(term, one, problem, name, shares, deterministic)
        return _compiled(program, problem.threads)

    made = compiled(graph)
    if most_scratch_bytes is not None and made.scratch_bytes > most_scratch_bytes:
        room = term, data_type.width, most_scratch_bytes
        graph, made = _within(room, graphs, compiled)
    return replace(
        made,
        graph=graph,
        choices=len(graphs),
        problem=problem if len(graphs) > 1 else None,
        record=record if str(graph) == wanted else None,
        shares=shares,
        deterministic=deterministic,
        most_scratch_bytes=most_scratch_bytes,
        ranking=_ranking(term, data_type, facts) if len(graphs) > 1 else None,
    )


def _within(
    room: tuple[Term, int, int],
    graphs: Sequence[IterationGraph],
    compiled: Callable[[IterationGraph], Scheduled],
) -> tuple[IterationGraph, Scheduled]:
    """The first schedule whose scratch fits; where none does the one that needs least."""
    term, width, most_bytes = room

    def temporaries(graph: IterationGraph) -> int:
        found = (branch.temporary.indices for branch in branches(graph.root))
        return width * sum(prod(term.extents[index] for index in one) for one in found if one)

    needs = {graph: temporaries(graph) for graph in graphs}
    tried: list[tuple[IterationGraph, Scheduled]] = []
    least = sorted(graphs, key=lambda graph: needs[graph])[:_LEAST]
    for graph in [*(one for one in graphs if needs[one] <= most_bytes), *least]:
        made = compiled(graph)
        if made.scratch_bytes <= most_bytes:
            return graph, made
        tried.append((graph, made))
    return min(tried, key=lambda pair: pair[1].scratch_bytes)


def alternatives(
    term: Term, chosen: Scheduled, problem: SparseKey, wanted: Container[str] | None = None
) -> Iterator[tuple[IterationGraph, Executable]]:
    """The other schedules as native code, the fastest by prediction first; those ``wanted``."""
    facts = _facts(problem, chosen.deterministic)
    for graph in _graphs(term, DataType(problem.data_type), facts):
        if graph == chosen.graph or (wanted is not None and str(graph) not in wanted):
            continue
        name = chosen.executable.program.name
        program = _program(term, graph, problem, name, chosen.shares, chosen.deterministic)
        other = _compiled(program, problem.threads)
        is_large = other.scratch_bytes > (chosen.most_scratch_bytes or other.scratch_bytes)
        if isinstance(other.executable, Executable) and not is_large:
            yield graph, other.executable


def _program(
    term: Term,
    graph: IterationGraph,
    problem: SparseKey,
    name: str,
    shares: str | None,
    deterministic: Determinism,
) -> Program:
    program = program_of(
        graph,
        term.extents,
        data_type=DataType(problem.data_type),
        index_type=DataType(problem.index_type),
        name=name,
        shares=shares,
    )
    if term.has_workspace:
        return with_cleared_rows(program)
    return with_walking_passes(program, _stored(term), _facts(problem, deterministic))


def _facts(problem: SparseKey, deterministic: Determinism) -> Facts:
    """The machine and the threads that programs are made for."""
    threads = planned_threads(deterministic, problem.threads)
    return facts_of(host_target(os.environ), threads=threads)


def _stored(term: Term) -> dict[str, int]:
    """The coordinates stored at every compressed level, by the name of their array."""
    return {
        f"{factor.access.tensor}.crd{place}": level.crd.size
        for factor in term.factors
        if factor.stored is not None
        for place, level in enumerate(factor.stored.stored)
        if level is not None
    }


def _compiled(program: Program, threads: int) -> Scheduled:
    """Native code, or the evaluator and why."""
    try:
        native = compile_program(program, threads=threads)
    except TeirError as error:
        evaluator = compile_for(program, backend="reference", threads=threads)
        why = error.findings[0].rule.sentence
        return Scheduled(graph=None, executable=evaluator, choices=1, refusal=why)
    scratch = scratch_bytes(native.kernel_program, native.threads)
    return Scheduled(graph=None, executable=native, choices=1, refusal=None, scratch_bytes=scratch)


def _graphs(term: Term, data_type: DataType, facts: Facts) -> tuple[IterationGraph, ...]:
    """What there is to choose from, the fastest by prediction first."""
    statement = term.statement
    if term.has_workspace:
        graph = workspace_graph(statement)
        assert graph is not None
        return (graph,)
    if len(statement.inputs) == 1 or not statement.indices:
        order = first_order(statement)
        assert order is not None
        return (linear(statement, order),)
    return tuple(one.candidate.graph for one in ranked(_ranking(term, data_type, facts)))


def _ranking(term: Term, data_type: DataType, facts: Facts) -> Problem:
    """The sizes, fibre lengths and caches that schedules are ranked for."""
    has_parts = data_type in (DataType.FP32, DataType.FP64)
    known = {index: float(extent) for index, extent in term.extents.items()}
    known |= {f"{index}{FIBRE}": length for index, length in fibre_lengths(term).items()}
    return Problem(
        statement=term.statement,
        symbols=known,
        element_bytes=data_type.width,
        cache_bytes=facts.l3_bytes,
        parts=part_cache(facts) if has_parts else None,
    )


def fibre_lengths(term: Term) -> dict[str, float]:
    """The mean number of stored coordinates per fibre of every compressed index.

    Where several factors compress an index, the shortest counts; what only the output compresses
    counts with its extent.
    """
    lengths: dict[str, float] = {}
    for factor in term.factors:
        array = factor.stored
        if array is None:
            continue
        fibres = 1
        for mode, extent, level in zip(
            array.format.mode_order, array.level_extents, array.stored, strict=True
        ):
            if level is None:
                fibres *= extent
                continue
            index = factor.access.indices[mode]
            mean = max(level.crd.size, 1) / max(fibres, 1)
            lengths[index] = min(mean, lengths.get(index, mean))
            fibres = level.crd.size
    output = term.statement.formats[0]
    for mode, kind in zip(output.mode_order, output.levels, strict=True):
        index = term.statement.output.indices[mode]
        if kind is Level.COMPRESSED:
            lengths.setdefault(index, float(term.extents[index]))
    return lengths


def index_type_of(dtypes: list[np.dtype[np.generic]]) -> DataType:
    """I64 where any index array is int64."""
    return DataType.I64 if np.dtype(np.int64) in dtypes else DataType.I32
