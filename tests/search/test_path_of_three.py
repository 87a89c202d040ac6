"""Paths of three operands: those of opt_einsum, without importing it."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from opt_einsum import paths

from teir.search.path_of_three import path_of_three

_CALL = """
import sys
import numpy as np
import teir
a, b, c = (np.ones(shape, np.float32) for shape in ((3, 4), (4, 5), (5, 6)))
assert np.array_equal(teir.einsum("ij,jk,kl->il", a, b, c), np.full((3, 6), 20, np.float32))
assert "opt_einsum" not in sys.modules
"""


@pytest.mark.parametrize("seed", range(40))
def test_paths_are_those_of_opt_einsum(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(50):
        letters = "abcdef"[: draw.randint(1, 6)]
        extents = {letter: draw.choice((1, 2, 2, 3, 8, 100)) for letter in letters}
        inputs = [draw.sample(letters, draw.randint(0, len(letters))) for _ in range(3)]
        held = sorted(set().union(*inputs))
        output = draw.sample(held, draw.randint(0, len(held)))
        wanted = paths.auto([frozenset(term) for term in inputs], frozenset(output), extents)
        assert path_of_three(inputs, output, extents) == tuple(wanted)


@pytest.mark.parametrize(
    ("inputs", "output", "wanted"),
    [
        (("ij", "jk", "kl"), "il", ((0, 1), (0, 1))),
        (("jk", "ij", "kl"), "il", ((0, 1), (0, 1))),
        (("jz", "ki", "ij"), "zk", ((1, 2), (0, 1))),
    ],
)
def test_the_pair_of_fewest_operations_meets_first(inputs, output, wanted) -> None:
    extents = {"i": 2, "j": 3, "k": 4, "l": 50, "z": 500}
    assert path_of_three(inputs, output, extents) == wanted


def test_the_first_call_does_not_import_opt_einsum() -> None:
    subprocess.run([sys.executable, "-c", _CALL], check=True)
