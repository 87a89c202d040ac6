"""Statements from the text of an einsum."""

from __future__ import annotations

from teir.arrays.levels import dense_format, parse_format
from teir.expr.index_notation import Access
from teir.search.sparse.statement import Statement


def statement(text: str, levels: str | None = None) -> Statement:
    """Dense tensors, the first one with these levels."""
    terms, output = text.split("->")
    inputs = tuple(
        Access(tensor=f"B{number}", indices=tuple(term))
        for number, term in enumerate(terms.split(","))
    )
    made = Access(tensor="A", indices=tuple(output))
    formats = [dense_format(len(access.indices)) for access in (made, *inputs)]
    if levels is not None:
        formats[1] = parse_format(levels)
    return Statement(output=made, inputs=inputs, formats=tuple(formats))
