"""Rows in place, a panel at a time, whose register blocks ask for the panel after it.

    all rows of a run                       a panel of rows
    for every run: C[run, :] += A[run] B    for every run, for every panel of the run:
                                              C[panel, :] += A[panel] B, asks for the next panel

For processors on which only the first cache's requests come for sure: what is asked for there goes
on to the second, a line at a pass through the register blocks, so all columns and two panels must
fit that beside each other. Measured on Zen 5, class b in FP64 and FP32: 0.77 to 0.95 of the time of
12 products of 168, the others as before. Columns that fill the second cache took up to 1.5 times
as long, last panels of few rows 1.07 to 1.2 times, runs shorter than a panel 1.1 to 1.4 times.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.search.choice import Choice
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span
from teir.target import LINE_BYTES

_LINES = 3
"""Lines of a panel."""
_MANY_PANELS = 5
"""Panels of a run beside which a last one of few rows does not show, and from which on sums may be
cut, which brings the results again."""
_LEAST_SIZES = 2
"""Second caches that rows fill before they are worth asking for."""
_FEWEST_COLUMNS = 8
_COLUMNS_PART = 5 / 8
"""Of the second cache, that all columns may take."""
_MOST_SUMS = 3
_PLAIN = (DataType.FP32, DataType.FP64)


def are_asked_in_passing(
    shape: ProductShape, k: Sequence[Span], else_packed: bool, machine: Machine
) -> bool:
    """True for long adjacent rows that memory brings, met by columns that stay.

    ``else_packed``: they would be copied otherwise, which costs more than what does not fit well.
    """
    if not machine.forgets_requests or shape.m is None or shape.n is None:
        return False
    kind = shape.a.data_type
    if kind not in _PLAIN or shape.m.stride(shape.a.name) != kind.width:
        return False
    if shape.n_outer or not 1 <= len(shape.k) <= _MOST_SUMS or shape.columns <= _FEWEST_COLUMNS:
        return False
    whole, rest = divmod(shape.m.extent, _panel(shape))
    has_short_end, is_cut = 0 < 2 * rest < _panel(shape), extent_of(k) < extent_of(shape.k)
    if whole == 0 or (whole == 1 and rest == 0):
        return False
    if (has_short_end or is_cut) and whole < _MANY_PANELS and not else_packed:
        return False
    size = shape.rows * extent_of(shape.k) * kind.width
    columns = shape.columns * extent_of(k) * kind.width
    return size >= _LEAST_SIZES * machine.l2_bytes and columns <= _COLUMNS_PART * machine.l2_bytes


def _panel(shape: ProductShape) -> int:
    return _LINES * LINE_BYTES // shape.a.data_type.width


def asking_in_passing(choice: Choice, shape: ProductShape) -> Choice:
    """``choice``, which reads rows in place and asks for them, a panel at a time."""
    return replace(choice, panel=_panel(shape), row_block=_panel(shape), column_block=shape.columns)
