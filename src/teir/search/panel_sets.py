"""Rows in place whose panels leave the first cache, because their steps meet in its sets.

Rows that many columns meet come again from the second cache for every few of them, in vectors that
cross lines. A copy of them lies in all sets alike, each vector in a line of its own. Measured on
Golden Cove, one thread, products of 40 to 512 rows and columns and 32 to 256 products per result:
FP64 0.75 to 1.04 of the time, FP32 0.75 to 1.03. Where sets hold their panels copies took up to
1.24 of it, and where all sets are as full FP32 took 0.88 to 1.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.dtypes import DataType
from teir.passes.line_sets import SETS, lines_of_step, lines_per_set
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span
from teir.target import LINE_BYTES, PAGE_BYTES

_FEWEST_READERS = 40
_REPAID = 640
"""Columns that repay a copy: so many in all, and so many times the lines of a set beyond half of
its ways, which make room for one another."""
_PANEL_LINES = 3
_PLAIN = (DataType.FP32, DataType.FP64)


def leaves_first_cache(shape: ProductShape, k: Sequence[Span], machine: Machine) -> bool:
    """True for adjacent rows of plain numbers that many columns meet, in products that are near.

    Steps are whole lines: copies of others cost more.
    """
    kind = shape.a.data_type
    if not machine.multiplies_twice or machine.threads > 1 or shape.m is None or not k:
        return False
    if kind not in _PLAIN or shape.out.data_type is not kind or shape.columns < _FEWEST_READERS:
        return False
    row_bytes = shape.m.extent * kind.width
    if shape.m.stride(shape.a.name) != kind.width or row_bytes < _PANEL_LINES * LINE_BYTES:
        return False
    numbers = shape.rows * (extent_of(k) + shape.columns)
    if numbers * kind.width > machine.l2_bytes // 2:
        return False
    step = max(k, key=lambda axis: axis.extent).stride(shape.a.name)
    if step % LINE_BYTES:
        return False
    ways = machine.l1_bytes // PAGE_BYTES
    return _lines(extent_of(k), step, kind, ways) * shape.columns >= _REPAID


def _lines(depth: int, step_bytes: int, kind: DataType, ways: int) -> float:
    """Lines of a panel beyond half of the ways in its fullest sets; where panels lie apart and all
    sets are as full, all ways for FP64."""
    lines = lines_per_set(depth, step_bytes, _PANEL_LINES)
    run = lines_of_step(_PANEL_LINES, step_bytes)
    if run * LINE_BYTES < step_bytes and run * depth >= lines * SETS:
        lines = min(lines, ways) if kind is DataType.FP64 else 0
    return lines - ways / 2
