"""``teir tune FILE|EXPRESSION``: measure the most promising programs, remember the fastest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teir.cli.console import Json, complain, say, say_json, say_table
from teir.cli.expression import (
    DtypeOption,
    SizesOption,
    data_type_named,
    is_expression,
    operand_shapes,
    require_expression,
    require_memory,
    require_no_sizes,
    stated_einsum,
)
from teir.cli.keeping import CACHE_IS_OFF, said_of_keeping, said_of_unwritten
from teir.cli.operands import parse_pairs
from teir.cli.options import FormatOption, JsonFlag, TensorFileOption, ThreadsOption
from teir.cli.rules import OUTPUT_FILE, TUNED
from teir.cli.timing import in_time_unit
from teir.errors import refuse
from teir.expr.index_notation_parsing import is_index_notation
from teir.ir.check import check as check_program
from teir.ir.load import load, read_file, save

if TYPE_CHECKING:
    from teir.pipeline.program_tuning import MeasuredVariant
    from teir.search.tuning import Measured


def tune(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|EXPRESSION", help="A program file or an einsum.", show_default=False
        ),
    ] = None,
    sizes: SizesOption = [],  # noqa: B006  (typer copies it)
    dtype: DtypeOption = "FP32",
    threads: ThreadsOption = None,
    formats: FormatOption = [],  # noqa: B006
    files: TensorFileOption = [],  # noqa: B006
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Write the fastest program of FILE.", show_default=False),
    ] = None,
    exported: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE", help="Write every record as JSON.", show_default=False
        ),
    ] = None,
    imported: Annotated[
        Path | None,
        typer.Option(
            "--import", metavar="FILE", help="Merge exported records.", show_default=False
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure the most promising programs and remember the decisions of the fastest.

    Later calls of the same contraction on this machine use them; results keep their bits. Of a
    program FILE the passes make variants; the fastest is written where --output says. Of index
    notation, and of an einsum with --format or --operand, whose tensors are called in0, in1, ...
    and out, schedules are measured, which sum in different orders. Ctrl-C keeps what was measured.
    """
    if what is None and exported is None and imported is None:
        refuse(TUNED, "FILE|EXPRESSION", "something to tune, --export or --import", "nothing")
    said: dict[str, Json] = {}
    if imported is not None:
        said["imported"] = _import(imported, as_json)
    is_sparse = what is not None and (is_index_notation(what) or formats or files)
    if what is not None and is_sparse:
        given = {"--format": bool(formats), "--operand": bool(files)}
        require_expression(what, sizes, given)
        if output is not None:
            refuse(
                TUNED, "--output", "a program file, whose fastest form it takes", "an expression"
            )
        said |= _tune_sparse(what, sizes, formats, files, dtype, threads, as_json)
    elif what is not None and is_expression(what, sizes):
        if output is not None:
            refuse(TUNED, "--output", "a program file, whose fastest form it takes", "an einsum")
        said |= _tune_expression(what, sizes, dtype, threads, as_json)
    elif what is not None:
        require_no_sizes(what, sizes)
        require_expression(what, sizes, {"--dtype": dtype != "FP32"})
        said |= _tune_file(Path(what), threads, output, as_json)
    if exported is not None:
        said["exported"] = _export(exported, as_json)
    if as_json:
        say_json(said)


def _tune_sparse(
    what: str,
    sizes: Sequence[str],
    formats: Sequence[str],
    files: Sequence[str],
    dtype: str,
    threads: int | None,
    as_json: bool,
) -> dict[str, Json]:
    from teir.cli.sparse_job import sparse_case
    from teir.cli.sparse_tune import tune_case

    data_type = data_type_named(dtype)
    case = sparse_case(
        what, formats=formats, sizes=sizes, files=parse_pairs(files), data_type=data_type
    )
    return tune_case(case, data_type, threads, as_json)


def _tune_expression(
    text: str, sizes: Sequence[str], dtype: str, threads: int | None, as_json: bool
) -> dict[str, Json]:
    from teir.pipeline.choosing import tunable_of
    from teir.pipeline.einsum import plan
    from teir.pipeline.tuning import is_kept, progress_bar, tune

    shapes, data_type = operand_shapes(stated_einsum(text), sizes), data_type_named(dtype)
    require_memory(shapes, data_type)
    made = plan(text, *shapes, dtype=data_type, threads=threads)
    if made.decidable is None:
        refuse(TUNED, "EXPRESSION", "a result computed by native code", "one that is not")
    measured: list[Measured] = []
    try:
        with progress_bar(f"tuning {text}") as tell:

            def told(one: Measured) -> None:
                measured.append(one)
                tell(one)

            record = tune(tunable_of(made.decidable), told)
    except KeyboardInterrupt:
        complain(f"interrupted: the best of {len(measured)} programs is kept")
        raise
    rows = _decided(measured)
    if not as_json:
        _say_measured(rows)
        gain = record.default_seconds / record.seconds
        said = (
            f"{gain:.2f} times as fast as the default" if gain > 1 else "the default is the fastest"
        )
        kept = said_of_keeping(is_kept(record))
        say(f"{text}: {in_time_unit(record.seconds)}, {said}; {kept}")
    return {
        "expression": text,
        "seconds": record.seconds,
        "default_seconds": record.default_seconds,
        "measured": [
            {
                "seconds": one.seconds,
                "predicted_seconds": one.candidate.predicted,
                "decisions": decided,
            }
            for one, decided in rows
        ],
    }


def _decided(measured: list[Measured]) -> list[tuple[Measured, str]]:
    """What was measured, as it was, and in what it differs from the default."""
    from teir.pipeline.explain_choice import differences

    default = measured[0].candidate.choices
    return [
        (
            one,
            "; ".join(
                differences(choice, usual)
                for choice, usual in zip(one.candidate.choices, default, strict=True)
                if choice != usual
            )
            or "default",
        )
        for one in measured
    ]


def _say_measured(decided: list[tuple[Measured, str]]) -> None:
    rows = [
        (in_time_unit(one.seconds), in_time_unit(one.candidate.predicted), text)
        for one, text in sorted(decided, key=lambda row: row[0].seconds)
    ]
    say_table(("measured", "predicted", "decisions"), rows)


def _tune_file(
    file: Path, threads: int | None, output: Path | None, as_json: bool
) -> dict[str, Json]:
    from teir.pipeline.executable import thread_count
    from teir.pipeline.program_tuning import measured_variants

    program = load(file)
    check_program(program).raise_if_wrong()
    measured: list[MeasuredVariant] = []
    try:
        for one in measured_variants(program, thread_count(threads)):
            measured.append(one)
    except KeyboardInterrupt:
        # What was measured before an interruption is shown and written too.
        if measured:
            shown = _shown_variants(measured, output, as_json)
            if as_json:
                say_json(shown)
        raise
    return _shown_variants(measured, output, as_json)


def _shown_variants(
    measured: list[MeasuredVariant], output: Path | None, as_json: bool
) -> dict[str, Json]:
    ranked = sorted(measured, key=lambda one: one.seconds)
    if output is not None:
        save(ranked[0].variant.program, output)
    if not as_json:
        _say_variants(ranked)
    rows: list[Json] = [
        {
            "variant": one.variant.text,
            "seconds": one.seconds,
            "predicted_seconds": one.variant.predicted,
        }
        for one in ranked
    ]
    return {"measured": rows}


def _say_variants(ranked: list[MeasuredVariant]) -> None:
    say_table(
        ("measured", "predicted", "program"),
        [
            (in_time_unit(one.seconds), in_time_unit(one.variant.predicted), one.variant.text)
            for one in ranked
        ],
    )


def _import(file: Path, as_json: bool) -> Json:
    from teir.pipeline.machine_speeds import tuning_records
    from teir.pipeline.sparse_records import sparse_records
    from teir.pipeline.tuning_export import read_export

    found = read_export(read_file(str(file)), str(file))
    merged = tuning_records().merge(found.dense) + sparse_records().merge(found.sparse)
    if not as_json:
        say(f"{file}: {_counted(found.count)} read, {merged.kept} kept")
    folder = tuning_records().folder
    if folder.directory is None:
        complain(CACHE_IS_OFF)
    elif merged.unwritten:
        complain(said_of_unwritten(_counted(merged.unwritten), folder.refusal()))
    return {"file": str(file), "records": found.count, "kept": merged.kept}


def _export(file: Path, as_json: bool) -> Json:
    from teir.pipeline.machine_speeds import tuning_records
    from teir.pipeline.sparse_records import sparse_records
    from teir.pipeline.tuning_export import Exported, write_export

    records = Exported(tuple(tuning_records().all()), tuple(sparse_records().all()))
    try:
        file.write_bytes(write_export(records))
    except OSError as error:
        refuse(OUTPUT_FILE, str(file), "a file that can be written", error.strerror or str(error))
    if not as_json:
        say(f"{file}: {_counted(records.count)} written")
    return {"file": str(file), "records": records.count}


def _counted(records: int) -> str:
    return f"{records} record" if records == 1 else f"{records} records"
