"""Factors of a product that are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from teir.arrays.sparse import Sparse


def signed_number(number: Any, is_negative: bool, dtype: np.dtype[Any]) -> float:
    """A number, or an array or a tensor without an axis, rounded to a type; its negative if asked.

    Positions without a value count as 0.
    """
    if isinstance(number, Sparse):
        number = number.to_dense()
    scale = float(np.asarray(number).astype(dtype))
    return -scale if is_negative else scale
