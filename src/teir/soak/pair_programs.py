"""Programs of figures 7 and 15 for short BF16 sums that are formed two steps at a time.

See `teir.soak.special_programs`.
"""

from __future__ import annotations

from teir.dtypes import DataType
from teir.soak.copy_programs import GAP, head

_RUN_ROWS = (24, 8, 16, 12, 4)
_KINDS = (DataType.BF16,) * 3
_HINTS = '"prefetch": ["out"], "subnormals": "zero"'


def pairs_of_rows(remainder: int, is_b_adjacent: bool) -> str:
    """Rows in pairs of vectors and some left over, two sums, results asked for ahead."""
    m, n, k = 32 + 3 * remainder, 1 + remainder * 5 % 14, 1 + remainder * 3 % 11
    b_n, b_k = ((2 * k + GAP) * 2, 2) if is_b_adjacent else (2, (n + GAP) * 2)
    b_t, b_p = (k * 2 + 2, n * b_n + 4 * k) if is_b_adjacent else (k * b_k, 2 * k * b_k)
    in0, in1, out = _KINDS
    return f"""{head(in0=in0, in1=in1, out=out)}axis p = 3: in1 {b_p}, out {n * (m + GAP) * 2}
axis m = {m}: in0 2, out 2
axis n = {n}: in1 {b_n}, out {(m + GAP) * 2}
axis t = 2: in0 {(k + 1) * (m + GAP) * 2}, in1 {b_t}
axis k = {k}: in0 {(m + GAP) * 2}, in1 {b_k}
primitive zero = Zero(out; M=[m], N=[n])
primitive gemm = Contraction BF16 (in0, in1 -> out; M=[m], N=[n], K=[t, k]) with {{{_HINTS}}}
sequential loop over p
  do_zero: zero
  do_gemm: gemm
"""


def pairs_of_runs(remainder: int) -> str:
    """Short rows of the output that are adjacent in A, and columns that follow one another."""
    m, n, k, runs = _RUN_ROWS[remainder % 5], 1 + remainder % 13, 1 + remainder, 16
    in0, in1, out = _KINDS
    return f"""{head(in0=in0, in1=in1, out=out)}axis m = {m}: in0 2, out 2
axis q = {runs}: in0 {m * 2}, out {(n * m + remainder % 3) * 2}
axis n = {n}: in1 {(k + GAP) * 2}, out {m * 2}
axis k = {k}: in0 {(m * runs + GAP) * 2}, in1 2
primitive zero = Zero(out; M=[m, q], N=[n])
primitive gemm = Contraction BF16 (in0, in1 -> out; M=[m, q], N=[n], K=[k]) \
with {{"subnormals": "zero"}}
do_zero: zero
do_gemm: gemm
"""
