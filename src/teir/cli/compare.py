"""``teir compare "ab,bc->ac" --sizes a=4,b=5,c=6``: an expression beside other libraries."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from string import ascii_letters
from typing import TYPE_CHECKING, Annotated, Any

import typer

from teir.cli.console import complain, say, say_json, say_table
from teir.cli.expression import (
    DtypeOption,
    SizesOption,
    data_type_named,
    operand_shapes,
    require_memory,
    stated_einsum,
)
from teir.cli.options import JsonFlag, OneThreadOption
from teir.cli.rules import COMPARABLE, ExitCode
from teir.cli.timing import in_time_unit
from teir.dtypes import DataType
from teir.errors import refuse
from teir.expr.check import bind_shapes

if TYPE_CHECKING:
    from teir.cli.peers.case import Case
    from teir.cli.peers.rounds import Rounds


def compare(
    expression: Annotated[str, typer.Argument(help='For example "ab,bc->ac".')],
    sizes: SizesOption = [],  # noqa: B006  (typer copies it)
    dtype: DtypeOption = "FP32",
    threads: OneThreadOption = 1,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=1000, help="Interleaved rounds of measuring.")
    ] = 5,
    as_json: JsonFlag = False,
) -> None:
    """Time an expression here and in every other library that is installed.

    NumPy, opt_einsum, PyTorch, TBLIS and etops, each in the fastest of the forms in which its
    users would write it, all interleaved, on results that were compared. Shares are of the
    least time that the machine's peaks allow. Exits 1 where this package's result is wrong.
    """
    from teir.cli.peers.choosing import OURS, Settings, measure_contenders
    from teir.cli.peers.libraries import installed_peers
    from teir.cli.peers.operands import NATURAL_OFFSET, draw
    from teir.pipeline.einsum import plan

    data_type = data_type_named(dtype)
    case = stated_case(expression, sizes)
    require_memory((*case.shapes, case.output_shape), data_type)
    operands = draw(case, data_type, NATURAL_OFFSET)
    made = plan(case.name, *operands.inputs, threads=threads, dtype=data_type)
    settings = Settings(
        data_type=data_type,
        rounds=rounds,
        threads=threads,
        offset_bytes=NATURAL_OFFSET,
        peers=installed_peers(),
    )
    ours = partial(made, *operands.inputs, out=operands.out)
    with _threads_of_libraries(threads):
        found, forms = measure_contenders(case, settings, operands, ours, "plan")
    if as_json:
        say_json(as_record(case, data_type, threads, found, forms))
    else:
        _say(case, data_type, threads, found, forms)
    if OURS not in found.seconds:
        complain("the result differs from NumPy's")
        raise typer.Exit(ExitCode.FINDINGS)


def stated_case(expression: str, sizes: Sequence[str]) -> Case:
    """The expression with its extents, its output written out; of a tree the einsum of its leaves,
    by letters, and the tree as the name. Raises TeirError (TEIR815).
    """
    from teir.cli.peers.case import Case

    subscripts = stated_einsum(expression)
    shapes = operand_shapes(subscripts, sizes)
    einsum = bind_shapes(subscripts, shapes).einsum
    terms = (*einsum.inputs, einsum.output)
    if any(len(set(term)) < len(term) for term in terms):
        refuse(COMPARABLE, "expression", "every index once in an operand", "a diagonal")
    if subscripts.nesting is not None:
        terms = _in_letters(terms)
    foreign = [index for term in terms for index in term if index not in ascii_letters]
    if foreign:
        refuse(COMPARABLE, "expression", "letters a to z and A to Z", repr(foreign[0]))
    texts = ["".join(term) for term in terms]
    text = f"{','.join(texts[:-1])}->{texts[-1]}"
    return Case(
        name=text if subscripts.nesting is None else "".join(subscripts.text.split()),
        family="",
        einsum=text,
        shapes=tuple(shapes),
        is_copy=len(einsum.inputs) == 1 and len(einsum.inputs[0]) == len(einsum.output),
    )


def _in_letters(terms: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """The terms of a tree as other libraries take them: a letter for every index."""
    indices = dict.fromkeys(index for term in terms for index in term)
    if len(indices) > len(ascii_letters):
        most = f"at most {len(ascii_letters)} indices, as other libraries have them"
        refuse(COMPARABLE, "expression", most, f"{len(indices)} indices")
    letters = dict(zip(indices, ascii_letters, strict=False))
    return tuple(tuple(letters[index] for index in term) for term in terms)


def _threads_of_libraries(threads: int) -> AbstractContextManager[Any]:
    """Limits the BLAS and OpenMP pools that are loaded, where threadpoolctl is installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        return nullcontext()
    limits: AbstractContextManager[Any] = threadpool_limits(threads)
    return limits


def as_record(
    case: Case, data_type: DataType, threads: int, rounds: Rounds, forms: dict[str, str]
) -> Any:
    """What ``--json`` prints; a contender that has no time has a reason in place of its form."""
    return {
        "expression": case.name,
        "shapes": [list(shape) for shape in case.shapes],
        "dtype": data_type.value,
        "threads": threads,
        "flops_peak_per_second": statistics.median(rounds.flops_peaks),
        "copy_bytes_per_second": statistics.median(rounds.copy_peaks),
        "contenders": [
            {
                "name": name,
                "form": form,
                "seconds": rounds.median_seconds(name) if name in rounds.seconds else None,
                "share": rounds.share(case, data_type, name) if name in rounds.seconds else None,
            }
            for name, form in forms.items()
        ],
    }


def _say(
    case: Case, data_type: DataType, threads: int, rounds: Rounds, forms: dict[str, str]
) -> None:
    shapes = ", ".join("×".join(map(str, shape)) or "scalar" for shape in case.shapes)
    flops_peak, copy_peak = map(statistics.median, (rounds.flops_peaks, rounds.copy_peaks))
    say(f"{case.name}, {data_type.value}: {shapes}")
    say(
        f"{threads} {'thread' if threads == 1 else 'threads'}; peak {flops_peak / 1e9:.1f} "
        f"GFLOP/s, numpy.copyto {copy_peak / 1e9:.1f} GB/s; medians of "
        f"{len(rounds.flops_peaks)} interleaved rounds"
    )
    timed = sorted(rounds.seconds, key=rounds.median_seconds)
    say_table(
        ("library", "form", "time", "speed", "share"),
        [
            (
                name,
                forms[name],
                in_time_unit(rounds.median_seconds(name)),
                _speed(case, data_type, rounds.median_seconds(name)),
                f"{100 * rounds.share(case, data_type, name):.0f} %",
            )
            for name in timed
        ],
    )
    for name, form in forms.items():
        if name not in rounds.seconds:
            say(f"{name}: {form}")


def _speed(case: Case, data_type: DataType, seconds: float) -> str:
    flops = case.flops(data_type)
    if flops:
        return f"{flops / seconds / 1e9:.1f} GFLOP/s"
    return f"{case.size_bytes(data_type) / seconds / 1e9:.1f} GB/s"
