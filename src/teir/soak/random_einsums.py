"""Figure 3: random einsum strings on random arrays, in shares of the error bound.

Up to three operands of up to eight axes, diagonals and sums over single operands included, on
arrays that are transposed, strided, reversed or broadcast, some along indices that move none
of them. The reference is NumPy's einsum in a
wider type (float64, or the long double for results in double precision), the bound that of
`teir.ir.accuracy` with K the products summed, and one addition and one rounding to the stored type
for each step of the plan: an intermediate is stored in the type of the computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import teir
from teir.dtypes import DataType
from teir.ir.accuracy import PASS, error_bound, error_ratio
from teir.soak.draws import DrawInt, chance, choose, seeded, shuffled

Array = np.ndarray[Any, np.dtype[Any]]

WORK = 40_000
"""Products of one einsum at most, all indices together."""

_TYPES = (
    DataType.FP32,
    DataType.FP64,
    DataType.FP32,
    DataType.FP64,
    DataType.BF16,
    DataType.FP16,
    DataType.C64,
    DataType.C128,
    DataType.TF32,
)
_LETTERS = "abcdefghijkl"
_MOST_AXES = 8
EDGES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Bounds of the bins of the histogram."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnEinsum:
    """A string, the extent of each index, and the type computed in."""

    terms: tuple[str, ...]
    output: str
    extents: dict[str, int]
    data_type: DataType

    @property
    def text(self) -> str:
        return f"{','.join(self.terms)}->{self.output}"


def judge_one(seed: int) -> dict[str, Any]:
    """The largest error over bound of the einsum of ``seed``."""
    draw = seeded(seed)
    drawn = draw_einsum(draw)
    operands = _operands(draw, drawn, seed)
    dtype = DataType.TF32 if drawn.data_type is DataType.TF32 else None
    threads = 1 + seed % 2
    plan = teir.plan(drawn.text, *operands, dtype=dtype, threads=threads)
    ratio = _ratio(drawn, operands, np.asarray(plan(*operands)), max(1, len(plan.steps)))
    kinds = ",".join(f"{operand.shape}/{operand.strides}" for operand in operands)
    found = f"{drawn.text} in {drawn.data_type.value} of {kinds}: {ratio:.3g} of the bound"
    return {"ratio": ratio, "wrong": [] if ratio < PASS else [found]}


def draw_einsum(draw: DrawInt) -> DrawnEinsum:
    """One to three operands whose indices have at most `WORK` points."""
    data_type = choose(draw, _TYPES)
    count = choose(draw, (2, 2, 2, 1, 3))
    if data_type is DataType.TF32:
        # The bound rounds the factors of one product.
        count = min(count, 2)
    letters = _LETTERS[: draw(1, 8 if count < 3 else 6)]
    room, extents = WORK, {}
    for letter in shuffled(draw, letters):
        most = 1000 if chance(draw, 4) else 40 if chance(draw, 30) else 7
        extents[letter] = draw(1, max(1, min(most, room)))
        room //= extents[letter]
    terms = tuple(_term(draw, letters) for _ in range(count))
    used = sorted(set("".join(terms)))
    output = "".join(shuffled(draw, [letter for letter in used if chance(draw, 60)]))
    return DrawnEinsum(terms=terms, output=output, extents=extents, data_type=data_type)


def histogram(ratios: Sequence[float]) -> str:
    """The ratios as a Markdown table: how many fall into each bin."""
    counts, _ = np.histogram(np.asarray(ratios), EDGES)
    rows = ["| error over bound | einsums |", "|---|---|"]
    for low, high, count in zip(EDGES[:-1], EDGES[1:], counts, strict=True):
        rows.append(f"| {low:g} to {high:g} | {int(count):,} |")
    return "\n".join(rows) + "\n"


def _term(draw: DrawInt, letters: str) -> str:
    chosen = [letter for letter in letters if chance(draw, 65)]
    if chosen and chance(draw, 6):
        chosen.append(choose(draw, chosen))
    return "".join(shuffled(draw, chosen)[:_MOST_AXES])


def _operands(draw: DrawInt, drawn: DrawnEinsum, seed: int) -> list[Array]:
    numbers = np.random.default_rng(seed)
    is_still = chance(draw, 12)
    still = {letter for letter in drawn.extents if is_still and chance(draw, 40)}
    return [_laid_out(draw, numbers, drawn, term, still) for term in drawn.terms]


def _laid_out(
    draw: DrawInt, numbers: np.random.Generator, drawn: DrawnEinsum, term: str, still: set[str]
) -> Array:
    """Numbers between -1 and 1: transposed, every second of some axis, backwards, broadcast.

    Also along the indices of ``still``.
    """
    shape, data_type = [drawn.extents[letter] for letter in term], drawn.data_type
    order = list(shuffled(draw, range(len(shape))))
    steps = [draw(1, 2) if chance(draw, 15) else 1 for _ in shape]
    is_flat = [chance(draw, 4) or letter in still for letter in term]
    room = [1 if is_flat[at] else shape[at] * steps[at] for at in order]
    values = numbers.uniform(-1, 1, room)
    if data_type.is_complex:
        values = values + 1j * numbers.uniform(-1, 1, room)
    array = values.astype(data_type.numpy_dtype())
    array = array.transpose(np.argsort(order)) if shape else array
    cuts = tuple(
        slice(None) if flat else slice(None, None, -step if chance(draw, 8) else step)
        for step, flat in zip(steps, is_flat, strict=True)
    )
    return np.broadcast_to(array[cuts], shape)


def _ratio(drawn: DrawnEinsum, operands: Sequence[Array], result: Array, steps: int) -> float:
    wide: Any = np.float64
    if drawn.data_type.is_complex:
        wide = np.clongdouble if drawn.data_type is DataType.C128 else np.complex128
    elif drawn.data_type is DataType.FP64:
        wide = np.longdouble
    widened = [operand.astype(wide) for operand in operands]
    exact = np.einsum(drawn.text, *widened)
    magnitude = np.einsum(drawn.text, *(np.abs(operand) for operand in widened))
    summed = set("".join(drawn.terms)) - set(drawn.output)
    terms = prod(drawn.extents[letter] for letter in summed) + 3 * (steps - 1)
    bound = error_bound(
        magnitude.astype(np.float64),
        terms=terms,
        invocations=steps,
        input_type=drawn.data_type,
        output_type=drawn.data_type,
    )
    return error_ratio(result, exact, bound)
