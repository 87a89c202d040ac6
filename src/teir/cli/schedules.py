"""``teir schedules "A[i,l] = B[i,j] * C[j,k] * D[k,l]" --format B:ds``: what can be run, and what
should be."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from math import log10
from typing import Annotated

import typer

from teir.arrays.levels import Format, parse_format
from teir.cli.console import Json, say, say_json, say_table
from teir.cli.options import JsonFlag
from teir.cli.rules import OUTPUT_FILE, SCHEDULE_OPTION
from teir.errors import refuse
from teir.expr.index_notation_parsing import parse_index_notation
from teir.pipeline.progress import patient_bar
from teir.search.sparse.candidate import Candidate
from teir.search.sparse.cost import print_memory, print_time, value
from teir.search.sparse.schedules import Request, RuleSet, Schedules, find_schedules
from teir.search.sparse.statement import Statement, statement_of
from teir.target import host_target

_SHOWN = 40
"""Schedules of the frontier in the table, or classes where they are more; --json has all."""


def schedules(
    expression: Annotated[
        str,
        typer.Argument(help='One product in index notation: "A[i,l] = B[i,j] * C[j,k] * D[k,l]".'),
    ],
    formats: Annotated[
        list[str],
        typer.Option(
            "--format",
            metavar="NAME:LEVELS[:ORDER]",
            help="How a tensor is stored: B:ds, A:dsd:0,2,1. Dense where not given.",
            show_default=False,
        ),
    ] = [],  # noqa: B006  (typer copies it)
    sizes: Annotated[
        list[str],
        typer.Option(
            "--sizes",
            metavar="i=9,jpos=2.5",
            help="Extents, and the mean fibre length jpos of every compressed index j.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    constraints: Annotated[
        list[str],
        typer.Option(
            "--constraint",
            metavar="EXPR",
            help='What holds for all sizes: "8 <= k <= 256"; may be repeated.',
            show_default=False,
        ),
    ] = [],  # noqa: B006
    cache_bytes: Annotated[
        int | None,
        typer.Option(
            "--llc",
            min=1,
            metavar="BYTES",
            help="Last-level cache; temporaries may take half. This machine's by default.",
            show_default=False,
        ),
    ] = None,
    skip_stage: Annotated[
        int | None,
        typer.Option(
            "--skip-stage",
            min=2,
            max=2,
            help="Leave out stage 2, the depth poset (--rule paper).",
            show_default=False,
        ),
    ] = None,
    rule: Annotated[RuleSet, typer.Option("--rule", help="Which schedules are dropped.")] = (
        RuleSet.SOUND
    ),
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw time and memory of the frontier; needs --sizes.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Count the schedules of a sparse product, prune them, and choose one where sizes are given."""
    statement = statement_of(parse_index_notation(expression), parse_formats(formats))
    if plot is not None and not sizes:
        refuse(SCHEDULE_OPTION, "--plot", "--sizes beside it", "none")
    request = Request(
        rule=rule,
        constraints=tuple(constraints),
        sizes=parse_symbols(sizes) if sizes else None,
        cache_bytes=cache_bytes or host_target(os.environ).caches.l3_bytes,
        skip_depth_poset=skip_stage == 2,
    )
    with patient_bar("schedules") as advance:
        found = find_schedules(statement, request, advance)
    if plot is not None:
        assert request.sizes is not None
        _draw(found, request, plot)
    if as_json:
        say_json(_as_json(found))
    else:
        _say(found)


def parse_formats(texts: Sequence[str]) -> dict[str, Format]:
    """``B:ds`` options as a mapping. Raises TeirError (TEIR660, TEIR818)."""
    formats: dict[str, Format] = {}
    for text in texts:
        name, colon, rest = text.partition(":")
        if not colon:
            refuse(SCHEDULE_OPTION, "--format", "NAME:LEVELS", repr(text))
        if name.strip() in formats:
            refuse(SCHEDULE_OPTION, "--format", f"one format of {name.strip()}", "two")
        formats[name.strip()] = parse_format(rest, f"--format {name}")
    return formats


def parse_symbols(texts: Sequence[str]) -> dict[str, float]:
    """``i=9,jpos=2.5`` options as a mapping. Raises TeirError (TEIR818)."""
    sizes: dict[str, float] = {}
    for entry in ",".join(texts).split(","):
        name, equals, number = entry.partition("=")
        if name.strip() in sizes:
            refuse(SCHEDULE_OPTION, "--sizes", f"one value of {name.strip()}", "two")
        try:
            sizes[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            refuse(SCHEDULE_OPTION, "--sizes", "NAME=NUMBER", repr(entry))
    return sizes


def _as_json(found: Schedules) -> Json:
    return {
        "generated": found.generated,
        "stage1": found.stage1,
        "stage2": found.stage2,
        "stage3": found.stage3,
        "classes": found.classes,
        "frontier": [_candidate_json(candidate) for candidate in found.frontier],
        "chosen": None if found.chosen is None else _candidate_json(found.chosen),
    }


def _candidate_json(candidate: Candidate) -> Json:
    return {
        "schedule": candidate.graph.tree,
        "time": print_time(candidate.graph.statement, candidate.cost.time),
        "memory": print_memory(candidate.cost.memory),
        "loops": str(candidate.graph),
    }


def _say(found: Schedules) -> None:
    _say_counts(found)
    say()
    rows = [
        (
            candidate.graph.tree,
            print_time(found.statement, candidate.cost.time),
            print_memory(candidate.cost.memory),
        )
        for candidate in found.frontier
    ]
    if len(rows) <= _SHOWN:
        say_table(("schedule", "time", "memory"), rows)
    else:
        _say_classes(rows)
    if found.chosen is not None:
        say()
        say(f"chosen: {found.chosen.graph}")


def _say_classes(rows: list[tuple[str, str, str]]) -> None:
    """One schedule of every class, and how many have its costs."""
    alike = Counter((time, memory) for _, time, memory in rows)
    firsts = {(time, memory): tree for tree, time, memory in reversed(rows)}
    shown = [(firsts[costs], *costs, str(count)) for costs, count in list(alike.items())[:_SHOWN]]
    say_table(("schedule", "time", "memory", "alike"), shown)
    if len(alike) > _SHOWN:
        say(f"and {len(alike) - _SHOWN} more classes")


def _say_counts(found: Schedules) -> None:
    words = "class" if found.classes == 1 else "classes"
    say(_statement_text(found.statement))
    say(f"generated                        {found.generated:,}")
    say(f"stage 1, rank at most 2          {found.stage1:,}")
    say(f"stage 2, depths                  {found.stage2:,}")
    say(f"stage 3, all admitted sizes      {found.stage3:,} in {found.classes:,} {words}")


def _statement_text(statement: Statement) -> str:
    product = " * ".join(map(str, statement.inputs))
    stored = [
        f"{access.tensor}:{fmt}"
        for access, fmt in zip(statement.accesses, statement.formats, strict=True)
        if fmt.is_sparse
    ]
    return f"{statement.output} = {product}" + (f", {', '.join(stored)}" if stored else "")


def _draw(found: Schedules, request: Request, file: str) -> None:
    """Bytes of temporaries across, iterations upwards, the chosen schedule marked."""
    assert request.sizes is not None
    try:
        from matplotlib.figure import Figure
    except ImportError:
        refuse(SCHEDULE_OPTION, "--plot", "matplotlib installed", "none", "the extra 'plot' has it")
    sizes = request.sizes
    points = [
        (
            value(candidate.cost.memory, sizes) * request.element_bytes,
            value(candidate.cost.time, sizes),
        )
        for candidate in found.frontier
    ]
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    axes.scatter([x for x, _ in points], [y for _, y in points], s=18, label="frontier")
    if found.chosen is not None:
        x, y = points[found.frontier.index(found.chosen)]
        axes.scatter([x], [y], s=90, facecolors="none", edgecolors="C3", label="chosen")
    axes.axvline(request.memory_bytes, color="0.6", linewidth=1, label="half the cache")
    largest = max([*(x for x, _ in points), request.memory_bytes])
    axes.set_xscale("symlog", linthresh=64)
    axes.set_xlim(-16, 4 * largest)
    axes.set_xticks([0, *(10.0**power for power in range(2, 2 + int(log10(4 * largest)), 2))])
    axes.set_yscale("log")
    axes.set_xlabel("temporaries, bytes")
    axes.set_ylabel("iterations")
    axes.set_title(_statement_text(found.statement), fontsize=9)
    axes.legend()
    try:
        figure.savefig(file)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        refuse(OUTPUT_FILE, file, "a file that can be written, .png, .svg or .pdf", reason)
