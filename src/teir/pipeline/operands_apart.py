"""The operands of a call in other memory than the array it writes (docs/safety.md G10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from teir.arrays.adapters import Kind, view_array
from teir.arrays.sparse import Sparse
from teir.arrays.sparse_adapters import is_sparse
from teir.pipeline.overlap import Overlap, Span, checked_overlap, meet, span_of
from teir.pipeline.sparse_factors import flat_arrays
from teir.pipeline.sparse_operands import hold


def read_apart(operands: Sequence[Any], out: Any, overlap: Any) -> tuple[Any, ...]:
    """The operands of a call that writes ``out``; with "copy" no memory of ``out`` among them.

    Bounds alone decide: a copy too many changes no result. Raises TeirError for another
    ``overlap``, and for what is no array.
    """
    if checked_overlap(overlap) is Overlap.REFUSE or out is None:
        return tuple(operands)
    written = span_of(view_array("out", out))
    return tuple(
        _apart(f"operand {place}", operand, written) for place, operand in enumerate(operands)
    )


def _apart(name: str, operand: Any, written: Span) -> Any:
    """The operand, or what it holds in other memory; the lists of the sublist form are as given."""
    if isinstance(operand, (str, bytes, list, tuple)):
        return operand
    if is_sparse(operand):
        array = hold(name, operand).array
        assert isinstance(array, Sparse)
        parts = [span_of(view_array(name, part)) for part in flat_arrays(array)]
        return array.frozen() if any(meet(written, part) for part in parts) else operand
    view = view_array(name, operand)
    if view.kind is Kind.NUMBER or not meet(written, span_of(view)):
        return operand
    return operand.clone() if view.array is None else view.array.copy(order="K")
