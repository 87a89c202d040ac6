"""The contractions and permutations that the benchmarks measure, in five classes.

a: the three configurations of section 5.3 of the backend's specification.
b: ``trus,pqtu->pqrs`` in 14 sizes, the operands stored in six orders of axes.
c: the 48 contractions of the TCCG benchmark (``tccg.json``).
d: the 57 permutations of the TTC and HPTT benchmark (``permutation_cases.py``).
e: odd, prime, tiny and batched shapes (``odd_cases.py``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from teir.cli.peers.case import Case

CONFIGURATIONS = ("backend-1-gemm", "backend-2-brgemm", "backend-3-zero-brgemm-relu")


def configurations() -> Iterator[Case]:
    """Class a: M = N = 1024 in blocks of 32, K = 256 in eight blocks of 32."""
    for name in CONFIGURATIONS:
        yield Case(
            name=name,
            family="configurations",
            einsum="acfd,bcef->abed",
            shapes=((32, 8, 32, 32), (32, 8, 32, 32)),
            program=name,
            clears_negatives="relu" in name,
        )


SIZES = 14
_SIZE_SEED = 53
_LEAST_FLOPS, _MOST_FLOPS = 1.2e7, 2e9
_MOST_ELEMENTS = 2**24
ORDERS = (
    ("trus", "pqtu"),
    ("turs", "pqut"),
    ("rstu", "pqtu"),
    ("trus", "tupq"),
    ("rstu", "tuqp"),
    ("srut", "qptu"),
)
"""Class b: the axes of both inputs as they lie in memory; the first is as specified."""


def sizes() -> tuple[dict[str, int], ...]:
    """The extents of class b: 5.3's own, then seeded ones from 4 to 128.

    The n-th of them has about the n-th of geometrically spaced numbers of operations from 1.2e7
    to 2e9; no tensor has more than 2^24 elements. Extents are drawn log-uniformly, every second
    size in multiples of four, so half are odd or prime.
    """
    draw = np.random.default_rng(_SIZE_SEED)
    found = [{"p": 32, "q": 32, "r": 32, "s": 32, "t": 8, "u": 32}]
    for flops in np.geomspace(_LEAST_FLOPS, _MOST_FLOPS, SIZES - 1):
        while True:
            drawn = np.exp(draw.uniform(np.log(4), np.log(128), 6)).round().astype(int)
            if len(found) % 2:
                drawn = (drawn + 3) // 4 * 4
            p, q, r, s, t, u = (int(extent) for extent in drawn)
            tensors = (t * r * u * s, p * q * t * u, p * q * r * s)
            close = 0.8 < 2 * p * q * r * s * t * u / flops <= 1.0
            if close and max(tensors) <= _MOST_ELEMENTS and max(drawn) <= 128:
                break
        found.append({"p": p, "q": q, "r": r, "s": s, "t": t, "u": u})
    return tuple(found)


def specified_contraction() -> Iterator[Case]:
    """Class b."""
    for number, extents in enumerate(sizes()):
        for first, second in ORDERS:
            label = "x".join(str(extents[index]) for index in "pqrstu")
            yield Case(
                name=f"{number:02} {label} {first},{second}",
                family=f"{first},{second}",
                einsum=f"{first},{second}->pqrs",
                shapes=tuple(tuple(extents[index] for index in term) for term in (first, second)),
            )


def tccg() -> Iterator[Case]:
    """Class c."""
    text = (Path(__file__).parent / "tccg.json").read_text(encoding="utf-8")
    for one in json.loads(text)["contractions"]:
        extents = one["sizes_bench"]
        einsum = one["einsum_rowmajor"]
        yield Case(
            name=one["name"],
            family=one["class_"],
            einsum=einsum,
            shapes=tuple(
                tuple(extents[index] for index in term)
                for term in einsum.partition("->")[0].split(",")
            ),
        )


def permutations() -> Iterator[Case]:
    """Class d."""
    from permutation_cases import PERMUTATION_CASES

    for one in PERMUTATION_CASES:
        indices = "abcdefgh"[: len(one.extents)]
        output = "".join(indices[axis] for axis in one.permutation)
        yield Case(
            name=one.name,
            family=f"{len(one.extents)} axes",
            einsum=f"{indices}->{output}",
            shapes=(tuple(one.extents),),
            is_copy=True,
        )


def odd() -> Iterator[Case]:
    """Class e."""
    from odd_cases import ODD_CASES, Layout

    for one in ODD_CASES:
        turned = [
            one.layout is Layout.COLUMNS or (one.layout is Layout.FIRST_TURNED and place == 0)
            for place in range(len(one.shapes))
        ]
        orders = tuple(
            tuple(reversed(range(len(shape)))) if is_turned else tuple(range(len(shape)))
            for shape, is_turned in zip(one.shapes, turned, strict=True)
        )
        yield Case(
            name=one.name,
            family=one.kind.value,
            einsum=one.einsum,
            shapes=one.shapes,
            orders=orders,
        )


CLASSES: dict[str, Callable[[], Iterator[Case]]] = {
    "a": configurations,
    "b": specified_contraction,
    "c": tccg,
    "d": permutations,
    "e": odd,
}
