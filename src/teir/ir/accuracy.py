"""When a floating-point result is correct.

|result - exact| <= (4 (K + 2) u + I u_out) (|c0| + sum |a||b|), element by element: K terms were
added by I invocations, u is the unit roundoff of the accumulator, u_out that of the stored type
where it is narrower (else 0); c0 is the value the output had before. Each TF32 product may be off
by 2**-9 of itself more, because its factors were rounded to 10 mantissa bits. Where numbers become
subnormal the relative bound is joined by half a smallest subnormal per rounding.

A result passes when its ratio (error over bound) is below 1; above 0.5 is worth a look.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from teir.dtypes import DataType

Numbers = np.ndarray[Any, np.dtype[Any]]

PASS = 1.0
"""A ratio below this is a correct result."""
TF32_PRODUCT = 2.0**-9
"""What rounding the factors of a TF32 product may change, relative to the product."""


def stored_roundoff(data_type: DataType) -> float:
    """Relative error of storing an accumulator: 0 where the stored type is as wide."""
    if data_type.accumulator.unit_roundoff < data_type.unit_roundoff:
        return data_type.unit_roundoff
    return 0.0


def half_subnormal(data_type: DataType) -> float:
    """Largest absolute error of a rounding in the subnormal range of the stored type."""
    match data_type:
        case DataType.FP64 | DataType.C128:
            return 2.0**-1074
        case DataType.FP32 | DataType.TF32 | DataType.C64:
            return 2.0**-150
        case DataType.BF16:
            return 2.0**-134
        case DataType.FP16:
            return 2.0**-25
        case DataType.I32 | DataType.I64:
            return 0.0


def error_bound(
    magnitude: Numbers | float,
    *,
    terms: Numbers | int,
    invocations: Numbers | int,
    input_type: DataType,
    output_type: DataType,
) -> Numbers:
    """The largest permitted error of elements with ``magnitude`` = |c0| + sum |a||b|.

    ``terms`` is K, ``invocations`` is I. ``magnitude``, ``terms`` and ``invocations`` may be
    arrays of one shape.
    """
    roundings = 4.0 * (np.asarray(terms) + 2.0) * output_type.accumulator.unit_roundoff
    stores = np.asarray(invocations) * stored_roundoff(output_type)
    factors = TF32_PRODUCT if input_type is DataType.TF32 else 0.0
    absolute = (np.asarray(terms) + np.asarray(invocations)) * half_subnormal(output_type)
    bound: Numbers = (roundings + stores + factors) * np.asarray(magnitude) + absolute
    return bound


def error_ratio(result: Numbers, exact: Numbers, bound: Numbers) -> float:
    """The largest error over bound of any element; infinite where a result is wrong outright.

    ``result``, ``exact`` and ``bound`` have one shape; ``exact`` should have more precision than
    ``result``. Where ``exact`` is NaN or infinite, ``result`` must be the same.
    """
    wide = np.clongdouble if np.iscomplexobj(exact) else np.longdouble
    found, expected = np.asarray(result).astype(wide), np.asarray(exact).astype(wide)
    with np.errstate(all="ignore"):
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        ratio = np.abs(found - expected) / np.asarray(bound, np.longdouble)
    ratio = np.where(same, 0.0, np.where(np.isfinite(expected) & ~np.isnan(ratio), ratio, np.inf))
    return float(np.max(ratio, initial=0.0))
