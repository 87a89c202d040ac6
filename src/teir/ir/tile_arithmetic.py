"""What the primitives compute: arithmetic on whole tiles, one rounding at a time.

A tile arrives as an array of its storage type. Sums and element-wise results are formed in the
accumulator type of the tensor (`DataType.accumulator`: FP32 for TF32, BF16 and FP16) and rounded
once when the result is stored. All roundings are to nearest, ties to even.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from teir.dtypes import DataType
from teir.ir.nodes import Operation

Tile = np.ndarray[Any, np.dtype[Any]]

_TERM_ELEMENTS = 1 << 16
"""Elements of the products that are formed together."""


def convert(tile: Tile, target: DataType) -> Tile:
    """``tile`` rounded once to the storage of ``target``.

    A real tile becomes complex with zero imaginary parts; a complex tile stays complex.
    """
    if np.iscomplexobj(tile) and not target.is_complex:
        raise ValueError(f"a complex tile has no value of type {target.value}")
    dtype = target.numpy_dtype()
    if tile.dtype == dtype:
        return tile.copy()
    if target is DataType.BF16 and tile.dtype == np.float64:
        tile = _round_to_odd_float32(tile)
    with np.errstate(over="ignore", invalid="ignore"):
        return tile.astype(dtype)


def contract(
    inputs: tuple[Tile, ...],
    start: Tile,
    data_type: DataType,
    lanes: int | None = None,
    flushes: bool = False,
) -> Tile:
    """``start`` plus the sum over the trailing dimensions of the inputs' product.

    All inputs have one shape: that of ``start`` (in its accumulator type), then the dimensions
    that are summed. ``data_type`` is the inputs' type. Terms are added in increasing index order;
    each product is formed left to right. With ``lanes`` they are added in so many chains
    (`teir.ir.lanes`), else in one that begins with ``start``. With ``flushes`` subnormal numbers
    count as zero (`teir.ir.subnormals`).
    """
    factors = tuple(_factor(tile, data_type, start.dtype, len(inputs)) for tile in inputs)
    if flushes:
        start, factors = _flushed(start), tuple(map(_flushed, factors))
    terms = _terms(factors, start.ndim)
    with np.errstate(all="ignore"):
        if lanes is None:
            return _added(start.copy(), terms, flushes)
        return start + _folded(_chains(start, list(terms), inputs[0].shape[-1], lanes, flushes))


def _added(total: Tile, terms: Iterable[Tile], flushes: bool) -> Tile:
    """``total``, which is changed, and the terms one after the other."""
    for term in terms:
        np.add(total, term, out=total)
        if flushes:
            total[...] = _flushed(total)
    return total


def _chains(start: Tile, rows: Sequence[Tile], last: int, lanes: int, flushes: bool) -> Tile:
    """The sum of every chain, from zero: the terms that are ``lanes`` apart along ``last``.

    The chains come first, so that each addition serves all of them.
    """
    chains = np.zeros((lanes, *start.shape), start.dtype)
    for begin in range(0, len(rows), max(1, last)):
        for first in range(begin, begin + last, lanes):
            beside = np.array(rows[first : min(first + lanes, begin + last)])
            _added(chains[: len(beside)], (beside,), flushes)
    return chains


def _folded(chains: Tile) -> Tile:
    """The sum of the chains: each of the first half takes one of the second, until one is left."""
    while len(chains) > 1:
        half = len(chains) // 2
        chains = chains[:half] + chains[half:]
    folded: Tile = chains[0]
    return folded


def _terms(factors: tuple[Tile, ...], free: int) -> Iterator[Tile]:
    """The products at every point of the dimensions behind the first ``free``, some at a time."""
    shape = factors[0].shape
    if len(shape) == free:
        yield reduce(np.multiply, factors)
        return
    points = prod(shape[free:])
    order = (*range(free, len(shape)), *range(free))
    rows = [tile.transpose(order).reshape(points, *shape[:free]) for tile in factors]
    at_once = max(1, _TERM_ELEMENTS // max(1, prod(shape[:free])))
    for begin in range(0, points, at_once):
        yield from reduce(np.multiply, (tile[begin : begin + at_once] for tile in rows))


def combine(operation: Operation, inputs: tuple[Tile, ...]) -> Tile:
    """The element-wise ``operation`` on tiles of the accumulator type.

    NaN goes through ReLU, Min and Max unchanged.
    """
    with np.errstate(all="ignore"):
        match operation, inputs:
            case Operation.COPY, (tile,):
                return tile
            case Operation.RELU, (tile,):
                return np.maximum(_real(tile), np.zeros((), tile.dtype))
            case Operation.ADD, (left, right):
                return np.add(left, right)
            case Operation.SUB, (left, right):
                return np.subtract(left, right)
            case Operation.MUL, (left, right):
                return np.multiply(left, right)
            case Operation.DIV, (left, right):
                return np.divide(left, right)
            case Operation.MIN, (left, right):
                return np.minimum(_real(left), _real(right))
            case Operation.MAX, (left, right):
                return np.maximum(_real(left), _real(right))
            case _:
                raise ValueError(f"{operation.value} does not take {len(inputs)} inputs")


def round_to_tf32(tile: Tile) -> Tile:
    """A float32 tile rounded to 10 mantissa bits, ties to even; NaN and infinity stay."""
    bits = np.ascontiguousarray(tile, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(13)) & np.uint32(1)
    rounded = (bits + np.uint32(0xFFF) + odd) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(tile), rounded.view(np.float32), tile)


def _factor(tile: Tile, data_type: DataType, accumulator: np.dtype[Any], inputs: int) -> Tile:
    if data_type is DataType.TF32 and inputs > 1:
        return round_to_tf32(tile)
    return tile.astype(accumulator, copy=False)


def _flushed(tile: Tile) -> Tile:
    """``tile`` with zeros in place of subnormal numbers."""
    return np.where(np.abs(tile) < np.finfo(tile.dtype).tiny, np.zeros((), tile.dtype), tile)


def _real(tile: Tile) -> Tile:
    if np.iscomplexobj(tile):
        raise ValueError("complex numbers have no order")
    return tile


def _round_to_odd_float32(tile: Tile) -> Tile:
    """float64 to float32 such that a second rounding to fewer bits equals one rounding."""
    with np.errstate(over="ignore"):
        nearest = tile.astype(np.float32)
    away = np.abs(nearest.astype(np.float64)) > np.abs(tile)
    bits = nearest.view(np.uint32) - away.astype(np.uint32)
    inexact = np.isfinite(tile) & (bits.view(np.float32).astype(np.float64) != tile)
    odd: Tile = (bits | inexact.astype(np.uint32)).view(np.float32)
    return odd
