"""A program file or an einsum on the command line, made ready to explain and to run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from teir.cli.operands import draw_numbers, gather_arrays
from teir.cli.rules import DATA_TYPE_NAME, EINSUM, MEMORY, OF_EXPRESSION, SIZES
from teir.dtypes import DataType
from teir.errors import refuse
from teir.expr.check import bind_shapes
from teir.expr.index_notation_parsing import is_index_notation
from teir.expr.nodes import Subscripts
from teir.expr.parsing import parse_expression
from teir.ir.check import check as check_program
from teir.ir.load import load
from teir.ir.nodes import Program
from teir.ir.printing import print_program
from teir.lower.explanation import explain_lowering
from teir.thread_limits import usable_threads

if TYPE_CHECKING:
    from teir.pipeline.executable import Executable

SizesOption = Annotated[
    list[str],
    typer.Option(
        "--sizes",
        metavar="a=4,b=5",
        help="The extent of every index of an expression; may be repeated.",
        show_default=False,
    ),
]
DtypeOption = Annotated[
    str, typer.Option("--dtype", help="Element type: FP64, FP32, TF32, BF16, FP16, C64, C128.")
]


@dataclass(frozen=True, slots=True)
class Job:
    """A program, how many threads it may use, its explanation, and a way to make it runnable.

    ``explain`` is told whether to measure.

    ``ready`` draws operands from a seed and returns a call that runs the program once on them.
    """

    program: Program
    threads: int
    explain: Callable[[bool], str]
    ready: Callable[[int], Callable[[], object]]


def load_or_plan(what: str, sizes: Sequence[str], dtype: str, threads: int | None) -> Job:
    """A job from a file if there is one of that name, else from an expression with sizes."""
    if is_expression(what, sizes):
        return _expression_job(what, sizes, data_type_named(dtype), threads)
    require_no_sizes(what, sizes)
    return _file_job(Path(what), threads)


def is_expression(what: str, sizes: Sequence[str]) -> bool:
    """Whether a command's first word is meant as an expression; what names a file is a file."""
    looks_like_one = bool(sizes) or "->" in what or "," in what or is_index_notation(what)
    return looks_like_one and not Path(what).exists()


def require_no_sizes(file: str, sizes: Sequence[str]) -> None:
    """Refuse extents given beside a program file, which has its own. Raises TeirError (TEIR805)."""
    if sizes:
        found = f"the file {file}" if file else "no expression"
        refuse(SIZES, "--sizes", "an expression, whose extents it gives", found)


def require_expression(what: str, sizes: Sequence[str], options: Mapping[str, bool]) -> None:
    """Refuse options beside a program file, which says such things itself.

    ``options``: by name, whether each is given. Raises TeirError (TEIR819), of the first.
    """
    given = next((option for option, is_given in options.items() if is_given), None)
    if given is not None and not is_expression(what, sizes) and Path(what).is_file():
        expected = "an expression, of whose tensors it tells"
        refuse(OF_EXPRESSION, given, expected, f"the file {what}")


def _file_job(file: Path, threads: int | None) -> Job:
    program = load(file)
    report = check_program(program)
    report.raise_if_wrong()
    from teir.pipeline.executable import compile_for

    executable = compile_for(program, threads=threads)

    def ready(seed: int) -> Callable[[], object]:
        from teir.cli.measuring import bound_call

        return bound_call(executable, gather_arrays(report, {}, draw=True, seed=seed).operands())

    def explain(measure: bool) -> str:
        return _explain_executable(executable, ready(0) if measure else None)

    return Job(program, executable.threads, explain, ready)


def _explain_executable(executable: Executable, call: Callable[[], object] | None) -> str:
    from teir.pipeline.explain_choice import program_time

    threads = executable.threads
    return "\n".join(
        (
            print_program(executable.program).text,
            f"runs as {executable.isa.value} code on {threads} "
            f"{'thread' if threads == 1 else 'threads'}",
            *program_time(executable.program, threads, call),
            explain_lowering(executable.program, executable.kernel_program),
        )
    )


def stated_einsum(text: str) -> Subscripts:
    """An einsum or a tree. Raises TeirError, of index notation with one finding (TEIR817)."""
    if is_index_notation(text):
        hint = "teir explain shows and, with --measure, times index notation"
        refuse(EINSUM, "expression", "an einsum such as ij,jk->ik", "index notation", hint)
    return parse_expression(text)


def _expression_job(
    text: str, sizes: Sequence[str], data_type: DataType, threads: int | None
) -> Job:
    shapes = operand_shapes(stated_einsum(text), sizes)
    from teir.pipeline.einsum import plan

    count = usable_threads(os.environ) if threads is None else threads
    made = plan(text, *shapes, dtype=data_type, threads=count)

    def ready(seed: int) -> Callable[[], object]:
        arrays = draw_operands(shapes, data_type, seed)
        out = np.asarray(made(*arrays))
        return lambda: made(*arrays, out=out)

    return Job(made.program, count, made.explain, ready)


def data_type_named(name: str) -> DataType:
    """The floating-point type of that name, ours or NumPy's, in any case.

    Raises TeirError (TEIR806).
    """
    known = {one.value: one for one in DataType if not one.is_index}
    names = known | {
        one.numpy_dtype().name.upper(): one for one in known.values() if one is not DataType.TF32
    }
    if name.upper() not in names:
        refuse(DATA_TYPE_NAME, "--dtype", " or ".join(known), repr(name))
    return names[name.upper()]


def parse_sizes(sizes: Sequence[str]) -> dict[str, int]:
    """``a=4,b=5`` options as a mapping. Raises TeirError (TEIR805)."""
    extents: dict[str, int] = {}
    for entry in (entry for option in sizes for entry in option.split(",") if entry.strip()):
        found = re.fullmatch(r"\s*(\w+)\s*=\s*([0-9]{1,18})\s*", entry)
        if found is None or int(found.group(2)) == 0:
            refuse(SIZES, "--sizes", "INDEX=EXTENT with a positive extent", repr(entry))
        if found.group(1) in extents:
            refuse(SIZES, "--sizes", f"index {found.group(1)} once", "it twice")
        extents[found.group(1)] = int(found.group(2))
    return extents


def numbered_sizes(used: Iterable[str], sizes: Sequence[str]) -> dict[str, int]:
    """``--sizes 100,72,128``: the extents of the indices 0, 1, 2 ... of a tree; {} for others."""
    entries = [entry.strip() for option in sizes for entry in option.split(",")]
    are_numbers = all(re.fullmatch("[0-9]{1,18}", entry) and int(entry) for entry in entries)
    if not entries or not are_numbers or not all(index.isdecimal() for index in used):
        return {}
    return {str(place): int(entry) for place, entry in enumerate(entries)}


def operand_shapes(subscripts: Subscripts, sizes: Sequence[str]) -> list[tuple[int, ...]]:
    """The shape of every operand.

    Raises TeirError (TEIR805; what `bind_shapes` says of an expression wrong with any extents).
    """
    used = dict.fromkeys(index for term in subscripts.inputs for index in term.symbols)
    extents = numbered_sizes(used, sizes) or parse_sizes(sizes)
    if any(term.ellipsis is not None for term in subscripts.inputs):
        refuse(SIZES, "expression", "an index for every axis", "an ellipsis, whose rank is open")
    # What is wrong with every extent is the expression's fault, not that of the sizes.
    bind_shapes(subscripts, [(1,) * len(term.symbols) for term in subscripts.inputs])
    missing = [index for index in used if index not in extents]
    if missing:
        hint = "--sizes " + ",".join(f"{index}=…" for index in missing)
        refuse(
            SIZES, "--sizes", "an extent for every index", f"none for {', '.join(missing)}", hint
        )
    extra = [index for index in extents if index not in used]
    if extra:
        refuse(SIZES, "--sizes", f"indices of the expression ({', '.join(used)})", ", ".join(extra))
    return [tuple(extents[index] for index in term.symbols) for term in subscripts.inputs]


def draw_operands(
    shapes: Sequence[tuple[int, ...]], data_type: DataType, seed: int
) -> list[np.ndarray[Any, np.dtype[Any]]]:
    """Arrays of the given shapes, uniform in [-1, 1). Raises TeirError (TEIR809)."""
    require_memory(shapes, data_type)
    generator = np.random.default_rng(seed)
    return [
        draw_numbers(generator, int(np.prod(shape, dtype=object)), data_type).reshape(shape)
        for shape in shapes
    ]


def require_memory(shapes: Sequence[tuple[int, ...]], data_type: DataType) -> None:
    """Refuse operands that are larger than the machine's memory. Raises TeirError (TEIR809)."""
    wanted = sum(int(np.prod(shape, dtype=object)) for shape in shapes) * data_type.width
    if hasattr(os, "sysconf"):
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if wanted > there:
            refuse(MEMORY, "--sizes", f"at most {there:,} bytes", f"{wanted:,} bytes")
