"""Why a plan is as it is: the expected time, the measured one, and the decisions of every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum

from msgspec.structs import fields

from teir.dtypes import DataType
from teir.errors import TeirError
from teir.ir.nodes import Program
from teir.ir.subnormals import flushes_subnormals
from teir.lower.work import program_work
from teir.pipeline.machine_speeds import (
    KnownSpeeds,
    known_speeds,
    machine_of,
    measured_speeds,
)
from teir.pipeline.plan import Plan
from teir.pipeline.timing import draw_operands, seconds_per_call
from teir.search.choice import Choice
from teir.search.machine import Speeds
from teir.search.model import Prediction, predict
from teir.search.tree import TreeProgram
from teir.search.tuning import Choices, default_choices, one_away

_SHOWN = 4
"""Alternatives shown."""


def explain_time(plan: Plan, measure: bool) -> list[str]:
    """`program_time` of a plan; with ``measure`` it is run on drawn operands."""
    executable = plan.executable
    assert executable is not None
    if not measure:
        return program_time(executable.program, plan.threads, None)
    operands = draw_operands(plan.problem)
    return program_time(
        executable.program, plan.threads, lambda: executable.run_addresses(operands.addresses)
    )


def program_time(program: Program, threads: int, call: Callable[[], object] | None) -> list[str]:
    """Bytes moved, the time the model expects, and the time of ``call``, where it is given."""
    known = known_speeds() if call is None else measured_speeds()
    work = program_work(program)
    expected = predict(program, machine_of(threads), known.speeds)
    lines = [
        "time:",
        f"  work: {work.flops:,} floating-point operations; {work.bytes_moved:,} bytes moved at "
        f"least, {expected.memory_bytes:,.0f} expected from and to memory",
        f"  predicted: {_share(program, expected.seconds, known, threads)}; speeds {known.source}",
        f"    {_parts(expected)}",
    ]
    if call is not None:
        lines.append(f"  measured: {_share(program, seconds_per_call(call), known, threads)}")
    return lines


def _parts(expected: Prediction) -> str:
    parts = (
        ("arithmetic", expected.arithmetic_seconds),
        ("caches", expected.cache_seconds),
        ("memory", expected.memory_seconds),
        ("kernel calls", expected.call_seconds),
    )
    texts = ", ".join(f"{name} {in_time(seconds)}" for name, seconds in parts)
    return f"{texts}, mostly at the same time; bound by {expected.bound_by}"


def _share(program: Program, seconds: float, known: KnownSpeeds, threads: int) -> str:
    """A time with the share of the peak that bounds it."""
    work = program_work(program)
    if work.bytes_moved == 0 or seconds == 0:
        return in_time(seconds)
    if work.flops == 0:
        peak = known.speeds.memory_bytes_per_second
        share = work.bytes_moved / seconds / peak
        return f"{in_time(seconds)}, {100 * share:.0f} % of {peak / 1e9:.0f} GB/s"
    peak = threads * _peak(program, known.speeds)
    rate = work.flops / seconds
    return (
        f"{in_time(seconds)}, {rate / 1e9:.1f} GFLOP/s, "
        f"{100 * rate / peak:.0f} % of the peak of {peak / 1e9:.0f}"
    )


def _peak(program: Program, speeds: Speeds) -> float:
    """Operations per second of what forms most products of the program."""
    by_tiles = speeds.tile_flops_per_second
    if by_tiles is not None and any(map(flushes_subnormals, program.primitives)):
        return by_tiles
    return speeds.flops_per_second(_output_type(program))


def _output_type(program: Program) -> DataType:
    written = {primitive.output for primitive in program.primitives}
    types = [tensor.data_type for tensor in program.tensors if tensor.name in written]
    return types[-1] if types else DataType.FP32


def explain_choice(plan: Plan) -> list[str]:
    """Where the decisions come from, what they are, and what the model gives the others."""
    chosen, decidable = plan.chosen, plan.decidable
    assert chosen is not None
    assert decidable is not None
    record, note = chosen.found.record, chosen.found.note
    lines = ["decisions:"]
    if record is not None:
        lines.append(
            f"  tuned on {record.date}: the best of {record.measured} programs, "
            f"{in_time(record.seconds)} against {in_time(record.default_seconds)} of the default"
            + ("" if record.complete else "; the measuring was interrupted")
        )
    elif note is not None:
        lines.append(f"  the default ones; a tuning record is not used: {note}")
    else:
        lines.append("  the default ones; nothing has been measured (tune=True, or teir tune)")
    given = record.choices if record is not None else ()
    lines += [f"  {line}" for line in _step_lines(chosen.tree, given)]
    lines += [f"  {line}" for line in _others(plan)]
    return lines


def _step_lines(tree: TreeProgram, given: Choices) -> Iterator[str]:
    for number, default in enumerate(default_choices(tree)):
        choice = given[number] if number < len(given) else default
        yield f"product {number + 1}: {describe(choice)}"
        if choice != default:
            yield f"  in place of {differences(default, choice)}"


def _others(plan: Plan) -> Iterator[str]:
    """The expected time of the programs one decision away."""
    chosen, decidable = plan.chosen, plan.decidable
    assert chosen is not None
    assert decidable is not None
    tree, machine, speeds = chosen.tree, decidable.machine, known_speeds().speeds
    record = chosen.found.record
    given = default_choices(tree) if record is None else record.choices
    found: dict[str, float] = {}
    for tried in one_away(given, tree.matrix_steps):
        try:
            program = decidable.make(tried, tree).program
        except TeirError:  # it needs more memory than is allowed
            continue
        if program != tree.program:
            changed = next(pair for pair in zip(tried, given, strict=True) if pair[0] != pair[1])
            text = differences(*changed)
            found[text] = predict(program, machine, speeds).seconds
    ranked = sorted(found.items(), key=lambda one: one[1])
    for text, seconds in ranked[:_SHOWN]:
        yield f"instead, {text}: {in_time(seconds)} predicted"


def describe(choice: Choice) -> str:
    """Every decision by name."""
    return ", ".join(f"{field.name} {_word(getattr(choice, field.name))}" for field in _FIELDS)


def differences(choice: Choice, other: Choice) -> str:
    """The decisions of ``choice`` that ``other`` does not share."""
    return ", ".join(
        f"{field.name} {_word(getattr(choice, field.name))}"
        for field in _FIELDS
        if getattr(choice, field.name) != getattr(other, field.name)
    )


_FIELDS = fields(Choice)


def _word(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def in_time(seconds: float) -> str:
    """Three digits with the unit that suits them."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1.0:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
