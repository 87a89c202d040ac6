"""A product with sparse operands on the command line: operands from files, or drawn to sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from teir.arrays.levels import Format, Level
from teir.arrays.sparse import Sparse
from teir.cli.expression import require_memory
from teir.cli.operands import read_array
from teir.cli.rules import EINSUM, OPERAND_OPTION, SCHEDULE_OPTION, SIZES
from teir.cli.schedules import parse_formats, parse_symbols
from teir.dtypes import DataType
from teir.errors import refuse
from teir.expr.index_notation import Access, Assignment, Product
from teir.expr.index_notation_parsing import is_index_notation, parse_index_notation
from teir.expr.parsing import parse_expression
from teir.search.sparse.cost import FIBRE


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseCase:
    """Index notation with its operands; ``out_levels`` where a sparse result is asked for."""

    text: str
    operands: tuple[Any, ...]
    out_levels: str | None


def explain_sparse(
    text: str,
    *,
    formats: Sequence[str],
    sizes: Sequence[str],
    files: Mapping[str, Path],
    data_type: DataType,
    threads: int | None,
    measure: bool,
) -> str:
    """What a plan of index notation says of itself. Raises TeirError."""
    from teir.pipeline.einsum import plan

    case = sparse_case(text, formats=formats, sizes=sizes, files=files, data_type=data_type)
    made: Any = plan(
        case.text, *case.operands, dtype=data_type, threads=threads, out_levels=case.out_levels
    )
    return str(made.explain(measure))


def notation_of(text: str) -> str:
    """Index notation as it is; an einsum as index notation of out, in0, in1, ...

    Raises TeirError (TEIR817) for trees and ellipses.
    """
    if is_index_notation(text):
        return text
    parsed = parse_expression(text)
    terms = [*parsed.inputs, *([] if parsed.output is None else [parsed.output])]
    if parsed.nesting is not None or any(term.ellipsis is not None for term in terms):
        refuse(EINSUM, "expression", "an einsum without brackets and ellipses", repr(text))
    counts = Counter(symbol for term in parsed.inputs for symbol in term.symbols)
    alone = sorted(symbol for symbol, count in counts.items() if count == 1)
    wanted = tuple(alone) if parsed.output is None else parsed.output.symbols
    factors = tuple(
        Access(tensor=f"in{number}", indices=term.symbols)
        for number, term in enumerate(parsed.inputs)
    )
    output = Access(tensor="out", indices=wanted)
    return str(Assignment(output=output, products=(Product(factors=factors),)))


def sparse_case(
    text: str,
    *,
    formats: Sequence[str],
    sizes: Sequence[str],
    files: Mapping[str, Path],
    data_type: DataType,
) -> SparseCase:
    """The operands of index notation; what no file gives is drawn, dense ones are shapes.

    A format of the output asks for a sparse result. Raises TeirError.
    """
    text = notation_of(text)
    assignment = parse_index_notation(text)
    asked = parse_formats(formats)
    _require_known(assignment, asked, files)
    given = {name: _read(path, asked.get(name), data_type) for name, path in files.items()}
    symbols = _symbols(assignment, given, sizes)
    operands = tuple(
        given[name] if name in given else _drawn(access, asked.get(name), symbols, data_type)
        for name, access in assignment.inputs.items()
    )
    output = asked.get(assignment.output.tensor)
    levels = None if output is None else str(output)
    return SparseCase(text=text, operands=operands, out_levels=levels)


def _require_known(
    assignment: Assignment, formats: Mapping[str, Format], files: Mapping[str, Path]
) -> None:
    inputs, output = tuple(assignment.inputs), assignment.output.tensor
    for name in files:
        if name not in inputs:
            refuse(OPERAND_OPTION, "--operand", f"one of {', '.join(inputs)}", repr(name))
    for name in formats:
        if name not in (*inputs, output):
            expected = f"one of {', '.join((output, *inputs))}"
            refuse(SCHEDULE_OPTION, f"--format {name}", expected, repr(name))


def _read(path: Path, fmt: Format | None, data_type: DataType) -> Any:
    if path.suffix == ".npy":
        return read_array(path, data_type)
    read = Sparse.from_file(path) if fmt is None else Sparse.from_file(path, str(fmt))
    return read.with_values(read.values.astype(data_type.numpy_dtype()))


def _symbols(
    assignment: Assignment, given: Mapping[str, Any], sizes: Sequence[str]
) -> dict[str, float]:
    """Extents and fibre lengths; extents of files need not be said again, and agree."""
    symbols = parse_symbols(sizes) if sizes else {}
    known = {f"{index}{FIBRE}" for index in assignment.indices} | set(assignment.indices)
    for name, number in symbols.items():
        if name not in known:
            expected = f"extents of {', '.join(assignment.indices)}, or lengths such as jpos"
            refuse(SIZES, "--sizes", expected, repr(name))
        if not 0 < number < inf or (name in assignment.indices and number != int(number)):
            kind = "integer" if name in assignment.indices else "number"
            refuse(SIZES, "--sizes", f"a positive {kind} for {name}", f"{number:g}")
    for name, array in given.items():
        access = assignment.inputs[name]
        if len(array.shape) != len(access.indices):
            expected = f"a tensor of {len(access.indices)} axes for {access}"
            refuse(OPERAND_OPTION, f"--operand {name}", expected, f"shape {array.shape}")
        for index, extent in zip(access.indices, array.shape, strict=True):
            if symbols.setdefault(index, float(extent)) != extent:
                expected = f"extent {symbols[index]:g} of {index} in {access}"
                refuse(OPERAND_OPTION, f"--operand {name}", expected, f"shape {array.shape}")
    missing = [index for index in assignment.indices if index not in symbols]
    if missing:
        hint = "--sizes " + ",".join(f"{index}=…" for index in missing)
        found = f"none for {', '.join(missing)}"
        refuse(SIZES, "--sizes", "an extent for every index", found, hint)
    return symbols


def _drawn(
    access: Access, fmt: Format | None, symbols: Mapping[str, float], data_type: DataType
) -> Any:
    """A shape for a dense operand; levels with the mean fibre lengths asked for."""
    from teir.pipeline.sparse_drawn import StandIn

    shape = tuple(int(symbols[index]) for index in access.indices)
    if fmt is None or not fmt.is_sparse:
        require_memory([shape], data_type)
        return shape
    if len(fmt.levels) != len(shape):
        expected = f"{len(shape)} levels for {access}"
        refuse(SCHEDULE_OPTION, f"--format {access.tensor}", expected, str(fmt))
    counts: list[int] = []
    positions = 1.0
    for mode, level in zip(fmt.mode_order, fmt.levels, strict=True):
        index = access.indices[mode]
        if level is Level.DENSE:
            positions *= shape[mode]
            continue
        length = symbols.get(f"{index}{FIBRE}")
        if length is None:
            hint = f"--sizes {index}{FIBRE}=…"
            expected = f"the mean fibre length of {index}, which {access.tensor} compresses"
            refuse(SIZES, "--sizes", expected, "none", hint)
        if length > shape[mode]:
            refuse(SIZES, "--sizes", f"at most {shape[mode]} for {index}{FIBRE}", f"{length:g}")
        positions *= length
        counts.append(round(positions))
    require_memory([(round(positions), 2)], data_type)
    stand_in = StandIn(shape=shape, dtype=data_type.numpy_dtype(), format=fmt, counts=tuple(counts))
    return stand_in.operand(np.random.default_rng(0))
