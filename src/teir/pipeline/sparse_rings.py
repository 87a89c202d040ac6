"""Dense sums over three sparse matrices that meet in a ring: triangles of graphs, weighted.

    out = P[i,j] * Q[j,k] * M[i,k]      out[i] = P[i,j] * Q[j,k] * M[i,k]

As one loop nest every element of P intersects a row of Q with a row of M. With the row of M as a
dense one it takes an addition per element of the row of Q (`teir.backends.llvm.masked_rows`). What
that adds as zeros would show beside an infinity or a NaN: such results are computed by the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from teir.arrays.levels import Level
from teir.arrays.sparse import Sparse
from teir.backends.llvm.fibre_sums import NUMBERS
from teir.backends.llvm.fibre_unions import fibre_unions
from teir.backends.llvm.masked_rows import Matrix, masked_rows
from teir.dtypes import DataType
from teir.pipeline.executable import default_isa
from teir.pipeline.row_patterns import in_threads, last_level, shares
from teir.pipeline.sparse_operands import Array
from teir.pipeline.sparse_terms import Term

_ROWS = (Level.DENSE, Level.COMPRESSED)
_MOST_COLUMNS = 1 << 22
"""Columns of a dense row that a thread holds."""
_SHORTER = 16
"""How many times shorter than the rows of Q those of M are, from which on intersections gallop."""
_PAIRS = 1 << 24
"""Pairs of a share at most."""
_SHARED = 1 << 16
"""Pairs from which on threads share the rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ring:
    """P, Q and M: bounds, coordinates, values; ``columns`` is the extent of k."""

    p: Matrix
    q: Matrix
    m: Matrix
    columns: int
    data_type: DataType
    is_total: bool
    """True for one number, the sum of all rows."""

    def sums(self, threads: int) -> Array | None:
        """The result; None where the program has to compute it."""
        isa, width = default_isa(), self.p[0].dtype.itemsize
        numbers = self.data_type.numpy_dtype()
        pairs = fibre_unions(isa, width).pairs(self.p[0], self.p[1], self.q[0])
        if not self._is_worth(int(pairs[-1])):
            return None
        run = masked_rows(isa, width, self.data_type)
        found = np.zeros(pairs.size - 1, numbers)

        def part(task: tuple[range, int]) -> None:
            run(task[0], self.p, self.q, self.m, np.zeros(self.columns, numbers), found)

        workers = threads if int(pairs[-1]) >= _SHARED else 1
        in_threads(shares(pairs, workers, _PAIRS, _SHARED), workers, part)
        total = found.sum(keepdims=True) if self.is_total else found
        return total if np.isfinite(found).all() and np.isfinite(total).all() else None

    def _is_worth(self, pairs: int) -> bool:
        """False where intersections would skip most of the pairs."""
        theirs = np.diff(self.q[0])[self.p[1]]
        own = np.repeat(np.diff(self.m[0]), np.diff(self.p[0]))
        return pairs <= _SHORTER * int(np.minimum(theirs, own).sum(dtype=np.int64))


def ring_of(term: Term, data_type: DataType) -> Ring | None:
    """The product as such a ring; None where it is none."""
    output = term.statement.output.indices
    if len(term.factors) != 3 or len(output) > 1 or data_type not in NUMBERS:
        return None
    rows: dict[tuple[str, str], Sparse] = {}
    for factor in term.factors:
        stored = factor.stored
        if stored is None or stored.blocks is not None or stored.format.levels != _ROWS:
            return None
        outer, inner = (factor.access.indices[mode] for mode in stored.format.mode_order)
        rows[outer, inner] = stored
    for (i, j), (_, k) in permutations(rows, 2):
        q = rows.get((j, k))
        if q is None or not {(i, j), (i, k)} <= set(rows) or output not in ((), (i,)):
            continue
        matrices = _of_one_type((rows[i, j], q, rows[i, k]), data_type)
        columns = term.extents[k]
        if matrices is None or columns > _MOST_COLUMNS:
            return None
        p, second, m = matrices
        is_total = not output
        return Ring(p=p, q=second, m=m, columns=columns, data_type=data_type, is_total=is_total)
    return None


def _of_one_type(arrays: tuple[Sparse, ...], data_type: DataType) -> list[Matrix] | None:
    """Their parts with index arrays of one width; None where values are of other types."""
    if any(one.dtype != data_type.numpy_dtype() for one in arrays):
        return None
    levels = [last_level(one) for one in arrays]
    width = np.result_type(*(level.pos.dtype for level in levels))
    return [
        (
            level.pos.astype(width, copy=False),
            level.crd.astype(width, copy=False),
            np.ascontiguousarray(one.values),
        )
        for level, one in zip(levels, arrays, strict=True)
    ]
