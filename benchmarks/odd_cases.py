"""Odd, prime, tiny and batched contractions: what a matrix library is not made for.

Extents 1, 4, 7, 13, 31 and 1009; batches of small products with the batch outermost and innermost;
element-wise products; dots; outer products; products of a matrix and a vector. Every case is an
einsum and one shape per operand; the types are the caller's choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Layout(Enum):
    """The memory order of the operands."""

    ROWS = "rows"
    """Every operand C-contiguous."""
    COLUMNS = "columns"
    """Every input in Fortran order, the result C-contiguous."""
    FIRST_TURNED = "first turned"
    """The first input in Fortran order."""


class Kind(Enum):
    """What a case is about."""

    MATRIX_VECTOR = "matrix-vector"
    DOT = "dot"
    OUTER = "outer product"
    HADAMARD = "Hadamard"
    BATCH_OUTERMOST = "batch outermost"
    BATCH_INNERMOST = "batch innermost"
    ODD = "odd and prime extents"
    TINY = "tiny"


@dataclass(frozen=True, slots=True, kw_only=True)
class OddCase:
    """One contraction: ``shapes`` has one entry per input, in the order of ``einsum``."""

    name: str
    kind: Kind
    einsum: str
    shapes: tuple[tuple[int, ...], ...]
    layout: Layout = Layout.ROWS

    @property
    def extents(self) -> dict[str, int]:
        """Indices to extents, in order of appearance."""
        terms = self.einsum.partition("->")[0].split(",")
        pairs = zip(terms, self.shapes, strict=True)
        return {index: n for term, shape in pairs for index, n in zip(term, shape, strict=True)}

    @property
    def products(self) -> int:
        """Multiply-adds (or products) of a real type."""
        total = 1
        for extent in self.extents.values():
            total *= extent
        return total

    @property
    def elements(self) -> int:
        """Elements of all inputs and of the result."""
        extents = self.extents
        total = 0
        for term in self.einsum.replace("->", ",").split(","):
            count = 1
            for index in term:
                count *= extents[index]
            total += count
        return total


BATCHES = {4: 32_768, 7: 10_007, 8: 8192, 13: 4096, 16: 2048, 31: 521, 32: 512}
"""How many products of which extent: 6 to 8 MB in FP32."""


def _case(kind: Kind, einsum: str, *extents: int, layout: Layout = Layout.ROWS) -> OddCase:
    """``extents`` belong to the indices in alphabetical order."""
    inputs = einsum.partition("->")[0].split(",")
    size = dict(zip(sorted(set("".join(inputs))), extents, strict=True))
    shapes = tuple(tuple(size[index] for index in term) for term in inputs)
    turned = "" if layout is Layout.ROWS else f" {layout.value}"
    name = f"{einsum} {'x'.join(map(str, extents))}{turned}"
    return OddCase(name=name, kind=kind, einsum=einsum, shapes=shapes, layout=layout)


def _matrix_vector() -> Iterator[OddCase]:
    for m, k in ((7, 31), (31, 1009), (256, 256), (1009, 31), (1009, 1009), (1024, 1024)):
        yield _case(Kind.MATRIX_VECTOR, "ik,k->i", m, k)
    for m, k in ((31, 13), (256, 256), (1009, 1009), (1009, 31)):
        yield _case(Kind.MATRIX_VECTOR, "ki,k->i", m, k)
    yield _case(Kind.MATRIX_VECTOR, "k,ki->i", 31, 1009)
    yield _case(Kind.MATRIX_VECTOR, "bik,bk->bi", 64, 31, 127)
    yield _case(Kind.MATRIX_VECTOR, "bki,bk->bi", 64, 31, 127)


def _dots() -> Iterator[OddCase]:
    for k in (7, 31, 1009, 8191, 1_000_003):
        yield _case(Kind.DOT, "k,k->", k)
    yield _case(Kind.DOT, "ik,ik->", 1009, 1009)
    yield _case(Kind.DOT, "bk,bk->b", 1009, 31)
    yield _case(Kind.DOT, "bk,bk->b", 1009, 1009)
    yield _case(Kind.DOT, "bk,bk->b", 4096, 64)
    yield _case(Kind.DOT, "kb,kb->b", 1009, 31)
    yield _case(Kind.DOT, "bhk,bhk->bh", 31, 13, 127)
    yield _case(Kind.DOT, "ik,ki->", 509, 509)


def _outer() -> Iterator[OddCase]:
    for m, n in ((7, 13), (31, 31), (13, 1009), (1009, 13), (1009, 1009)):
        yield _case(Kind.OUTER, "i,j->ij", m, n)
    yield _case(Kind.OUTER, "bi,bj->bij", 1009, 13, 13)
    yield _case(Kind.OUTER, "bi,bj->bij", 256, 31, 64)
    yield _case(Kind.OUTER, "i,jk->ijk", 31, 13, 31)
    yield _case(Kind.OUTER, "ij,k->ikj", 31, 64, 13)


def _hadamard() -> Iterator[OddCase]:
    for m, n in ((13, 31), (257, 257), (1009, 1009)):
        yield _case(Kind.HADAMARD, "ij,ij->ij", m, n)
    yield _case(Kind.HADAMARD, "ij,j->ij", 1009, 1009)
    yield _case(Kind.HADAMARD, "ij,i->ij", 1009, 1009)
    yield _case(Kind.HADAMARD, "ij,ji->ij", 509, 509)
    yield _case(Kind.HADAMARD, "ijk,jk->ijk", 64, 31, 127)
    yield _case(Kind.HADAMARD, "ijk,ik->ijk", 64, 31, 127)
    yield _case(Kind.HADAMARD, "ijk,ij->ijk", 256, 64, 7)
    yield _case(Kind.HADAMARD, "ij,ij,ij->ij", 257, 257)


def _batches() -> Iterator[OddCase]:
    for n, batch in BATCHES.items():
        yield _case(Kind.BATCH_OUTERMOST, "bik,bkj->bij", batch, n, n, n)
    for n in (4, 8, 13, 16):
        yield _case(Kind.BATCH_OUTERMOST, "bik,bkj->bij", 100, n, n, n)
    yield _case(Kind.BATCH_OUTERMOST, "bik,bjk->bij", 8192, 8, 8, 8)
    yield _case(Kind.BATCH_OUTERMOST, "bki,bkj->bij", 2048, 16, 16, 16)
    yield _case(Kind.BATCH_OUTERMOST, "bik,kj->bij", 4096, 7, 13, 31)
    yield _case(Kind.BATCH_OUTERMOST, "bik,bkj->bij", 4096, 4, 13, 7)
    yield _case(Kind.BATCH_OUTERMOST, "bcik,bckj->bcij", 64, 31, 8, 8, 8)
    for n in (4, 7, 8, 13):
        yield _case(Kind.BATCH_INNERMOST, "ikb,kjb->ijb", BATCHES[n], n, n, n)
    for n in (4, 8, 13):
        yield _case(Kind.BATCH_INNERMOST, "ikb,kjb->ijb", 127, n, n, n)
    yield _case(Kind.BATCH_INNERMOST, "bik,bkj->bij", 8192, 8, 8, 8, layout=Layout.COLUMNS)
    yield _case(Kind.BATCH_INNERMOST, "ikb,kb->ib", 4096, 13, 13)
    yield _case(Kind.BATCH_INNERMOST, "ikb,kjb->ijb", 1009, 4, 13, 7)


def _odd() -> Iterator[OddCase]:
    shapes = (
        (13, 13, 13), (31, 31, 31), (127, 127, 127), (1009, 7, 13), (7, 1009, 13), (13, 7, 1009),
        (4, 4, 1009), (1009, 4, 1009), (1, 1009, 1009), (509, 31, 509), (1009, 1009, 31),
    )  # fmt: skip
    for m, n, k in shapes:
        yield _case(Kind.ODD, "ik,kj->ij", m, n, k)
    yield _case(Kind.ODD, "ik,kj->ij", 127, 127, 127, layout=Layout.FIRST_TURNED)
    yield _case(Kind.ODD, "ik,jk->ij", 31, 31, 1009)
    yield _case(Kind.ODD, "ki,kj->ij", 13, 31, 1009)
    yield _case(Kind.ODD, "abk,kc->acb", 13, 31, 7, 31)
    yield _case(Kind.ODD, "abk,ckd->adbc", 7, 13, 4, 31, 13)


def _tiny() -> Iterator[OddCase]:
    yield _case(Kind.TINY, "ik,kj->ij", 1, 1, 1)
    yield _case(Kind.TINY, "ik,kj->ij", 2, 3, 4)
    yield _case(Kind.TINY, "ik,kj->ij", 4, 4, 4)
    yield _case(Kind.TINY, "ik,kj->ij", 7, 7, 7)
    yield _case(Kind.TINY, "ik,k->i", 4, 4)
    yield _case(Kind.TINY, "k,k->", 4)
    yield _case(Kind.TINY, "abk,kcd->abcd", 2, 3, 4, 2, 5)
    yield _case(Kind.TINY, "i,i->i", 13)


ODD_CASES: tuple[OddCase, ...] = (
    *_matrix_vector(),
    *_dots(),
    *_outer(),
    *_hadamard(),
    *_batches(),
    *_odd(),
    *_tiny(),
)
