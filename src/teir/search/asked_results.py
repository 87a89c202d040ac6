"""Whether a product asks for the lines of its results before it writes them."""

from __future__ import annotations

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.search.choice import Choice
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of

_PRODUCTS_OF_A_LINE = 64
_PRODUCTS_OF_A_NEAR_LINE = 24
"""Products per result in whose time a line is written to memory, and where outputs are not far."""


def asking_for_results(choice: Choice, shape: ProductShape, machine: Machine) -> Choice:
    """Results asked for ahead where the third cache, which holds them, is far.

    Only of whole vectors of plain numbers: other blocks lose more by asking than they win.
    """
    kind = shape.out.data_type
    is_plain = kind in (DataType.FP32, DataType.FP64) and shape.a.data_type is kind
    is_whole = choice.panel % machine.lanes(kind.width) == 0
    is_asked = machine.has_far_third_cache and is_plain and is_whole
    return replace(choice, prefetches_out=True) if is_asked else choice


def waits_for_lines(shape: ProductShape, is_far: bool, machine: Machine) -> bool:
    """True for results written past the caches that wait for their lines unless they are asked for.

    Measured on Golden Cove, one thread, nobody asking: sums of 64 to 96 products took 0.91 to 0.99
    of the time, those of 24 to 48 0.77 to 1.02 where results are not far and 0.9 to 1.5 where they
    are, shorter ones 0.88 to 2.0. Short rows, whose ends meet inside lines, took 1.0 to 1.08.
    """
    if not machine.has_far_third_cache or shape.m_outer:
        return True
    return extent_of(shape.k) < (_PRODUCTS_OF_A_LINE if is_far else _PRODUCTS_OF_A_NEAR_LINE)
