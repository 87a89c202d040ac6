"""Products of operands that repeat elements: axes along which some of them, or all, stand still."""

from __future__ import annotations

import numpy as np
import pytest

import teir


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("expression", "shapes"),
    [
        ("bd,ab->ad", (((1000, 1), (1000, 17)), ((2, 1000), (2, 1000)))),
        ("cab,ab->ab", (((40, 1, 1), (40, 100, 2)), ((1, 2), (100, 2)))),
        ("bed,daeb->db", (((1, 40, 1), (3, 40, 1000)), ((1000, 8, 40, 1), (1000, 8, 40, 3)))),
        ("a,cab,c->", (((40,), (40,)), ((1, 40, 1), (100, 40, 40)), ((1,), (100,)))),
    ],
)
def test_repeated_elements_along_free_and_summed_indices(
    expression: str, shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], threads: int
) -> None:
    """Rows that share all inputs; few rows that are one; summed indices that move nothing."""
    drawn = np.random.default_rng(7)
    operands = [np.broadcast_to(drawn.integers(-2, 3, kept) * 1.0, full) for kept, full in shapes]
    np.testing.assert_array_equal(
        teir.einsum(expression, *operands, threads=threads),
        np.einsum(expression, *operands, optimize=True),
    )


@pytest.mark.parametrize("seed", range(12))
def test_drawn_products_of_operands_that_repeat_elements(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    for _ in range(12):
        letters = "abcde"[: drawn.integers(2, 6)]
        extents = {letter: int(drawn.choice([2, 3, 5, 8, 17, 40])) for letter in letters}
        extents[str(drawn.choice(list(letters)))] = int(drawn.choice([2, 17, 300]))
        terms = [_some(drawn, letters, 1, 4) for _ in range(drawn.integers(1, 4))]
        used = "".join(sorted(set("".join(terms))))
        if np.prod([extents[letter] for letter in used]) > 1e6:
            continue
        still = str(drawn.choice(list(used)))
        operands = []
        for term in terms:
            repeats = [letter == still or drawn.random() < 0.2 for letter in term]
            shape = [1 if one else extents[name] for one, name in zip(repeats, term, strict=True)]
            small = drawn.integers(-1, 2, shape) * 1.0
            operands.append(np.broadcast_to(small, [extents[letter] for letter in term]))
        expression = f"{','.join(terms)}->{_some(drawn, used, 0, 3)}"
        np.testing.assert_array_equal(
            teir.einsum(expression, *operands, threads=1),
            np.einsum(expression, *operands, optimize=True),
            err_msg=f"{expression} {extents} {[one.strides for one in operands]}",
        )


def _some(drawn: np.random.Generator, letters: str, least: int, most: int) -> str:
    """Between ``least`` and ``most`` different letters, as far as there are so many."""
    count = drawn.integers(least, min(most, len(letters)) + 1)
    return "".join(drawn.permutation(list(letters))[:count])
