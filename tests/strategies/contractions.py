"""Random contractions by construction: terms, extents, strided operands, a path."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.search.tree import Contraction, Factor, Path

EXTENTS = (1, 2, 3, 5, 7, 8, 13, 16, 17, 33)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A contraction, the memory of its operands, and what NumPy says the result is."""

    contraction: Contraction
    path: Path
    memory: dict[str, np.ndarray]
    expected: np.ndarray
    magnitude: np.ndarray
    out: np.ndarray
    text: str


def draw(seed: int, data_type: DataType, operands: int, size: int = 60_000) -> Drawn:
    """A contraction of small integers: every partial sum is exact in FP32 and wider."""
    rng = random.Random(seed)
    terms, extents = _loose_terms(rng, operands)
    if operands == 2 and rng.random() < 0.7:
        terms, extents = _matrix_terms(rng)
    while np.prod(list(extents.values())) > size:
        extents[rng.choice(sorted(extents))] = rng.choice((1, 2, 3, 5))
    used = sorted(set("".join(terms)))
    output = "".join(rng.sample(used, rng.randint(0, len(used))))
    if len(terms) == 2 and rng.random() < 0.7:
        once = [letter for letter in used if (letter in terms[0]) != (letter in terms[1])]
        shared = [letter for letter in used if letter not in once and extents[letter] <= 4]
        once += shared[:1]
        output = "".join(rng.sample(once, len(once)))
    return _drawn(rng, data_type, terms, output, extents)


def draw_terms(
    seed: int, data_type: DataType, terms: list[str], output: str, extents: dict[str, int]
) -> Drawn:
    """A contraction of given terms, its operands in random layouts."""
    return _drawn(random.Random(seed), data_type, terms, output, extents)


def _drawn(
    rng: random.Random,
    data_type: DataType,
    terms: list[str],
    output: str,
    extents: dict[str, int],
) -> Drawn:
    operands = len(terms)
    memory: dict[str, np.ndarray] = {}
    factors = []
    arrays = []
    for place, term in enumerate(terms):
        factor, array = _operand(rng, f"in{place}", term, extents, data_type, memory)
        array[...] = np.array([rng.randint(-2, 2) for _ in range(array.size)], array.dtype).reshape(
            array.shape
        )
        factors.append(factor)
        arrays.append(array)
    out_factor, out = _operand(rng, "out", output, extents, data_type, memory)
    text = f"{','.join(terms)}->{output}"
    wide = [array.astype(np.complex128) for array in arrays]
    kept = {letter: extent for letter, extent in extents.items() if extent > 1}
    return Drawn(
        Contraction(text, tuple(factors), out_factor, kept),
        _path(rng, operands),
        memory,
        np.asarray(np.einsum(text, *wide, optimize=operands > 2)),
        np.asarray(np.einsum(text, *map(np.abs, wide), optimize=operands > 2)),
        out,
        text,
    )


def _loose_terms(rng: random.Random, operands: int) -> tuple[list[str], dict[str, int]]:
    letters = "abcdefgh"[: rng.randint(1, 3 + operands)]
    extents = {letter: rng.choice(EXTENTS) for letter in letters}
    terms = []
    for _ in range(operands):
        count = rng.randint(0, min(4, len(letters)))
        terms.append("".join(rng.sample(letters, count)))
    return terms, extents


def _matrix_terms(rng: random.Random) -> tuple[list[str], dict[str, int]]:
    """Two operands with batch, row, column and reduction indices, one to three of each."""
    letters = iter("abcdefghijkl")
    batch, rows, columns, summed = (
        [next(letters) for _ in range(rng.choice(counts))]
        for counts in ((0, 0, 1), (1, 1, 2), (1, 1, 2), (1, 1, 2, 3))
    )
    extents = {letter: rng.choice((1, 2, 3, 4)) for letter in batch}
    extents.update({letter: rng.choice(EXTENTS) for letter in (*rows, *columns, *summed)})
    if rng.random() < 0.3:
        extents[rng.choice(summed)] = rng.choice((100, 385, 401, 769))
    one, two = [*batch, *rows, *summed], [*batch, *columns, *summed]
    rng.shuffle(one)
    rng.shuffle(two)
    return ["".join(one), "".join(two)], extents


def _operand(
    rng: random.Random,
    name: str,
    term: str,
    extents: dict[str, int],
    data_type: DataType,
    memory: dict[str, np.ndarray],
) -> tuple[Factor, np.ndarray]:
    """A tensor whose axes lie in random order, sometimes with gaps."""
    width = data_type.width
    stride = width
    strides: dict[str, int] = {}
    for letter in rng.sample(term, len(term)):
        strides[letter] = stride
        stride *= extents[letter]
        if rng.random() < 0.3:
            stride += width * rng.randint(1, 3)
    memory[name] = np.zeros(stride, np.uint8)
    array = np.lib.stride_tricks.as_strided(
        memory[name].view(data_type.numpy_dtype()),
        [extents[letter] for letter in term],
        [strides[letter] for letter in term],
    )
    kept = {letter: strides[letter] for letter in term if extents[letter] > 1}
    return Factor(Tensor(name=name, data_type=data_type), kept), array


def _path(rng: random.Random, operands: int) -> Path:
    if operands == 1:
        return ((0,),)
    path = []
    left = operands
    while left > 1:
        path.append(tuple(rng.sample(range(left), 2)))
        left -= 1
    return tuple(path)
