"""Random sums of products in index notation, in random formats, with what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.arrays.sparse import Sparse
from teir.expr.index_notation import Access, Assignment, Product

Array = np.ndarray[Any, np.dtype[Any]]

_INDICES = "ijklmn"
_EXTENTS = (0, 1, 2, 3, 4, 5, 7)
_SHARES = (0.03, 0.17, 0.2, 0.2, 0.2, 0.1, 0.1)
_DENSITIES = (0.0, 0.2, 0.5, 1.0)
_MOST_INDICES = 5
_NUMBERS = (1, 1, 1, 2, 0.5, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotationCase:
    """An assignment, its operands in order, the exact result, perhaps the levels asked for."""

    assignment: Assignment
    operands: tuple[Any, ...]
    expected: Array
    out_levels: str | None


def notation_case(number: int) -> NotationCase:
    """A case of one to three terms of one to three factors with a number.

    Scalars, empty extents and diagonals are among them.
    """
    random = np.random.default_rng(number)
    extents = dict(zip(_INDICES, random.choice(_EXTENTS, 6, p=_SHARES).tolist(), strict=True))
    output = tuple(random.permutation(list(_INDICES))[: random.integers(0, 4)].tolist())
    names = iter("BCDEFGHPQRSU")
    products, operands = [], []
    expected = np.zeros([extents[index] for index in output])
    for _ in range(random.integers(1, 4)):
        factors, dense = [], []
        for indices in _factors(random, output):
            array = _integers(random, [extents[index] for index in indices])
            factors.append(Access(tensor=next(names), indices=indices))
            dense.append(array)
            operands.append(_stored(random, array))
        is_negative = bool(random.random() < 0.3)
        scale = float(random.choice(_NUMBERS))
        product = Product(factors=tuple(factors), is_negative=is_negative, number=scale)
        products.append(product)
        coefficient = -scale if is_negative else scale
        expected += coefficient * _dense_product(product, dense, output)
    assignment = Assignment(
        output=Access(tensor="A", indices=output), products=tuple(products), text=""
    )
    return NotationCase(
        assignment=assignment,
        operands=tuple(operands),
        expected=expected,
        out_levels=_levels(random, len(output)) if output and random.random() < 0.5 else None,
    )


def _factors(random: np.random.Generator, output: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Indices of every factor; together they have all of the output's."""
    count = random.integers(1, 4)
    found = [
        tuple(
            random.choice(
                list(_INDICES),
                random.integers(0, 4 if count > 1 else _MOST_INDICES),
                replace=bool(random.random() < 0.15),
            ).tolist()
        )
        for _ in range(count)
    ]
    missing = tuple(i for i in output if not any(i in indices for indices in found))
    if len(found[-1]) + len(missing) > _MOST_INDICES:
        return [*found, missing]
    return [*found[:-1], (*found[-1], *missing)]


def _integers(random: np.random.Generator, shape: list[int]) -> Array:
    stored = random.random(shape) < random.choice(_DENSITIES)
    kind = np.float32 if random.random() < 0.3 else np.float64
    return np.asarray(random.integers(-2, 3, shape) * stored, kind)


def _stored(random: np.random.Generator, array: Array) -> Any:
    """Dense in either order of memory, or levels in any order."""
    if array.ndim == 0 or random.random() < 0.3:
        return array if array.ndim == 0 or random.random() < 0.5 else np.asfortranarray(array)
    coords = np.nonzero(array)
    return Sparse.from_coo(coords, array[coords], array.shape, _levels(random, array.ndim))


def _levels(random: np.random.Generator, rank: int) -> str:
    letters = "".join(random.choice(["d", "s"], rank))
    return f"{letters}:{','.join(map(str, random.permutation(rank)))}"


def _dense_product(product: Product, dense: list[Array], output: tuple[str, ...]) -> Array:
    arguments: list[Any] = []
    for factor, array in zip(product.factors, dense, strict=True):
        arguments += [array.astype(float), [_INDICES.index(index) for index in factor.indices]]
    return np.asarray(np.einsum(*arguments, [_INDICES.index(index) for index in output]))
