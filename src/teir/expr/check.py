"""`Subscripts` and operand shapes to an `Einsum` and its extents, or every finding at once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from teir.errors import Finding, TeirError
from teir.expr.nodes import Einsum, Subscripts, Term
from teir.expr.rules import (
    DIAGONAL,
    EXTENTS,
    OPERAND_COUNT,
    OUTPUT_ELLIPSIS,
    OUTPUT_REPEATS,
    OUTPUT_UNKNOWN,
    RANK,
    at_character,
)

_HIDDEN = "..."
_ARROW = "→"


class BoundEinsum(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An einsum with the extent of every index."""

    einsum: Einsum
    extents: dict[str, int]

    @property
    def output_shape(self) -> tuple[int, ...]:
        return tuple(map(self.extents.__getitem__, self.einsum.output))


def bind_shapes(subscripts: Subscripts, shapes: Sequence[tuple[int, ...]]) -> BoundEinsum:
    """The einsum of operands with these shapes.

    Raises TeirError with every finding: number of operands, ranks, extents, the output.
    """
    plain = _plainly_bound(subscripts, shapes)
    if plain is not None:
        return plain
    if len(shapes) != len(subscripts.inputs):
        raise TeirError((_count_finding(subscripts, len(shapes)),))
    findings = [
        finding
        for number, (term, shape) in enumerate(zip(subscripts.inputs, shapes, strict=True))
        for finding in _rank_findings(subscripts, number, term, shape)
    ]
    if findings:
        raise TeirError(tuple(findings))
    inputs = tuple(
        _expand(term, len(shape)) for term, shape in zip(subscripts.inputs, shapes, strict=True)
    )
    hidden = max((_hidden(term) for term in inputs), default=0)
    output = _output(subscripts, inputs, hidden, findings)
    extents = _extents(subscripts, inputs, shapes, findings)
    if findings:
        raise TeirError(tuple(findings))
    return BoundEinsum(einsum=Einsum(inputs=inputs, output=output), extents=extents)


def _plainly_bound(subscripts: Subscripts, shapes: Sequence[tuple[int, ...]]) -> BoundEinsum | None:
    """As `bind_shapes` where nothing is left out, hidden, repeated in the output or broadcast."""
    output = subscripts.output
    if output is None or output.ellipsis is not None or len(shapes) != len(subscripts.inputs):
        return None
    extents: dict[str, int] = {}
    inputs = []
    for term, shape in zip(subscripts.inputs, shapes, strict=True):
        symbols = term.symbols
        if term.ellipsis is not None or len(symbols) != len(shape):
            return None
        inputs.append(symbols)
        extents.update(zip(symbols, shape, strict=True))
    extent_of = extents.__getitem__
    for symbols, shape in zip(inputs, shapes, strict=True):
        if tuple(map(extent_of, symbols)) != shape:
            return None
    kept = set(output.symbols)
    if len(kept) != len(output.symbols) or not kept <= extents.keys():
        return None
    return BoundEinsum(einsum=Einsum(inputs=tuple(inputs), output=output.symbols), extents=extents)


def _count_finding(subscripts: Subscripts, operands: int) -> Finding:
    terms = len(subscripts.inputs)
    return at_character(
        OPERAND_COUNT,
        subscripts.text,
        0,
        f"{terms} operand{'s' if terms != 1 else ''}, one for every term",
        f"{operands}",
    )


def _rank_findings(
    subscripts: Subscripts, number: int, term: Term, shape: tuple[int, ...]
) -> list[Finding]:
    symbols, rank = len(term.symbols), len(shape)
    if symbols == rank or (symbols < rank and term.ellipsis is not None):
        return []
    may_hide = symbols < rank and subscripts.nesting is None
    hint = "add an ellipsis '...' for the other axes" if may_hide else None
    if _ARROW in term.symbols:
        hint = f"an arrow is written '->'; {_ARROW!r} is a subscript as every character is"
    found = f"{symbols} in the term {str(term)!r}"
    plural = "" if rank == 1 else "s"
    expected = f"{rank} subscript{plural} for operand {number} of shape {shape}"
    if term.ellipsis is not None:
        expected = f"at most {expected}"
    return [at_character(RANK, subscripts.text, term.start, expected, found, hint)]


def _expand(term: Term, rank: int) -> tuple[str, ...]:
    if term.ellipsis is None:
        return term.symbols
    hidden = rank - len(term.symbols)
    names = tuple(f"{_HIDDEN}{place}" for place in range(hidden - 1, -1, -1))
    return term.symbols[: term.ellipsis] + names + term.symbols[term.ellipsis :]


def _hidden(indices: tuple[str, ...]) -> int:
    return sum(index.startswith(_HIDDEN) for index in indices)


def _output(
    subscripts: Subscripts, inputs: tuple[tuple[str, ...], ...], hidden: int, out: list[Finding]
) -> tuple[str, ...]:
    names = tuple(f"{_HIDDEN}{place}" for place in range(hidden - 1, -1, -1))
    if subscripts.output is None:
        return names + _implicit_output(inputs)
    term = subscripts.output
    known = {symbol for indices in inputs for symbol in indices}
    for place, (symbol, column) in enumerate(zip(term.symbols, term.columns, strict=True)):
        if symbol in term.symbols[:place]:
            out.append(
                at_character(
                    OUTPUT_REPEATS, subscripts.text, column, "each once", f"{symbol!r} again"
                )
            )
        elif symbol not in known:
            out.append(
                at_character(
                    OUTPUT_UNKNOWN,
                    subscripts.text,
                    column,
                    "a subscript of an input",
                    f"{symbol!r}",
                )
            )
    if term.ellipsis is None:
        if hidden:
            out.append(
                at_character(
                    OUTPUT_ELLIPSIS,
                    subscripts.text,
                    term.start,
                    f"'...' for {hidden} {'axis' if hidden == 1 else 'axes'}",
                    f"{str(term)!r}",
                    "to sum over these axes, name them",
                )
            )
        return term.symbols
    return term.symbols[: term.ellipsis] + names + term.symbols[term.ellipsis :]


def _implicit_output(inputs: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Symbols that appear exactly once, in code point order (after the ellipsis axes)."""
    count: dict[str, int] = {}
    for indices in inputs:
        for index in indices:
            count[index] = count.get(index, 0) + 1
    once = (index for index, times in count.items() if times == 1)
    return tuple(sorted(index for index in once if not index.startswith(_HIDDEN)))


def _extents(
    subscripts: Subscripts,
    inputs: tuple[tuple[str, ...], ...],
    shapes: Sequence[tuple[int, ...]],
    findings: list[Finding],
) -> dict[str, int]:
    extents: dict[str, int] = {}
    first: dict[str, int] = {}
    for number, (indices, shape) in enumerate(zip(inputs, shapes, strict=True)):
        inside: dict[str, int] = {}
        for index, extent in zip(indices, shape, strict=True):
            if inside.setdefault(index, extent) != extent:
                findings.append(_extent_finding(subscripts, number, index, inside[index], extent))
                continue
            known = extents.get(index, 1)
            if known == 1:
                extents[index] = extent
                first[index] = number
            elif extent not in (1, known):
                findings.append(
                    _extent_finding(subscripts, number, index, known, extent, first[index])
                )
    return extents


def _extent_finding(
    subscripts: Subscripts,
    number: int,
    index: str,
    expected: int,
    found: int,
    other: int | None = None,
) -> Finding:
    term = subscripts.inputs[number]
    position = term.start
    if index in term.symbols:
        last = len(term.symbols) - 1 - term.symbols[::-1].index(index)
        position = term.columns[last]
    name = "an axis of the ellipsis" if index.startswith(_HIDDEN) else repr(index)
    where = "on its first axis" if other is None else f"in operand {other}"
    return at_character(
        DIAGONAL if other is None else EXTENTS,
        subscripts.text,
        position,
        f"extent {expected} for {name}, as {where}",
        f"{found} in operand {number}",
    )
