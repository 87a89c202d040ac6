"""What must hold between the parts of index notation, and between it and its operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from teir.errors import Finding, TeirError
from teir.expr.index_notation import Access, Assignment, Product
from teir.expr.index_notation_rules import (
    OPERANDS,
    OUTPUT_INDEX,
    OUTPUT_TWICE,
    SAME_EXTENT,
    SAME_RANK,
    at_column,
)

_HINT = "give the result a name of its own, or add into it with +="


def structure_findings(assignment: Assignment) -> list[Finding]:
    """Everything wrong with the indices, operands not considered."""
    return [
        *_output_findings(assignment),
        *_product_findings(assignment),
        *_rank_findings(assignment),
    ]


def _text(assignment: Assignment) -> str:
    return assignment.text or str(assignment)


def _output_findings(assignment: Assignment) -> Iterator[Finding]:
    output, text = assignment.output, _text(assignment)
    for place, index in enumerate(output.indices):
        if index in output.indices[:place]:
            column, found = output.column_of(place), f"{index!r} again"
            yield at_column(OUTPUT_TWICE, text, column, "each index once", found)
    again = assignment.inputs.get(output.tensor)
    if again is not None:
        found = f"{output.tensor!r} on the right"
        yield at_column(OUTPUT_TWICE, text, again.column, "other tensors", found, _HINT)


def _product_findings(assignment: Assignment) -> Iterator[Finding]:
    for place, index in enumerate(assignment.output.indices):
        for product in assignment.products:
            if index not in product.indices:
                yield at_column(
                    OUTPUT_INDEX,
                    _text(assignment),
                    assignment.output.column_of(place),
                    f"an index of the product {product}",
                    f"{index!r}",
                )


def _factors(assignment: Assignment) -> Iterator[Access]:
    for product in assignment.products:
        yield from product.factors


def _rank_findings(assignment: Assignment) -> Iterator[Finding]:
    first = assignment.inputs
    for factor in _factors(assignment):
        rank = len(first[factor.tensor].indices)
        if len(factor.indices) != rank:
            expected, found = f"{rank} indices, as before", str(len(factor.indices))
            yield at_column(SAME_RANK, _text(assignment), factor.column, expected, found)


def index_extents(assignment: Assignment, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The extent of every index, output's first, for operands of these shapes.

    Raises TeirError with every finding: missing operands, ranks, extents.
    """
    findings: list[Finding] = []
    extents: dict[str, int] = {}
    text = _text(assignment)
    for factor in _factors(assignment):
        shape = shapes.get(factor.tensor)
        if shape is None or len(shape) != len(factor.indices):
            expected = f"an operand {factor.tensor} with {len(factor.indices)} axes"
            found = "none" if shape is None else f"shape {shape}"
            findings.append(at_column(OPERANDS, text, factor.column, expected, found))
            continue
        for place, (index, extent) in enumerate(zip(factor.indices, shape, strict=True)):
            known = extents.setdefault(index, extent)
            if known != extent:
                expected = f"extent {known} for {index!r}"
                found = f"{extent} in {factor.tensor}"
                column = factor.column_of(place)
                findings.append(at_column(SAME_EXTENT, text, column, expected, found))
    if findings:
        raise TeirError(tuple(findings))
    return {index: extents[index] for index in assignment.indices}


def sole_product(assignment: Assignment) -> Product | None:
    """The product of an assignment that has one and no minus sign, whatever number it has."""
    if len(assignment.products) != 1 or assignment.products[0].is_negative:
        return None
    return assignment.products[0]
