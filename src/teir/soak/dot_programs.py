"""Programs of figures 7 and 15 for kernels whose lanes run along the sum.

See `teir.soak.special_programs`.
"""

from __future__ import annotations

from teir.dtypes import DataType
from teir.soak.copy_programs import GAP, head


def dots_of_blocks(remainder: int, kind: DataType, reductions: int) -> str:
    """Dots over blocks that lie apart, their results too."""
    w, k, t, s, m = kind.width, remainder, 3, 2 if reductions == 3 else 1, 4
    row, kinds = t * (k + GAP), head(in0=kind, in1=kind, out=kind)
    outer = f"axis s = {s}: in0 {(row + 1) * w}, in1 {(row + 2) * w}\n" if s > 1 else ""
    names = "s, t, k" if s > 1 else "t, k"
    return f"""{kinds}axis m = {m}: in0 {(row + 5) * s * w}, out {2 * w}
{outer}axis t = {t}: in0 {(k + GAP) * w}, in1 {(k + GAP) * w}
axis k = {k}: in0 {w}, in1 {w}
primitive dots = Contraction {kind.value} (in0, in1 -> out; M=[m], N=[], K=[{names}]) \
with {{"lanes": 16}}
do_dots: dots
"""


def dots_of_columns(remainder: int, kind: DataType) -> str:
    """Dots of some rows with some columns."""
    w, k, m, n = kind.width, remainder + 16, 6, 5
    return f"""{head(in0=kind, in1=kind, out=kind)}axis m = {m}: in0 {(k + GAP) * w}, out {w}
axis n = {n}: in1 {(k + GAP) * w}, out {(m + GAP) * w}
axis k = {k}: in0 {w}, in1 {w}
primitive dots = Contraction {kind.value} (in0, in1 -> out; M=[m], N=[n], K=[k]) \
with {{"lanes": 16}}
do_dots: dots
"""


def dots_joined(remainder: int, kind: DataType, shares: bool) -> str:
    """Short rows without gaps, some chains left over; factors by row, or an element each."""
    w, m, in1 = kind.width, 1 + remainder % 5, "" if shares else f", in1 {kind.width}"
    k_step = w if shares else m * w
    return f"""{head(in0=kind, in1=kind, out=kind)}axis m = {m}: in0 {w}{in1}, out {w}
axis k = {remainder}: in0 {m * w}, in1 {k_step}
primitive dots = Contraction {kind.value} (in0, in1 -> out; M=[{"m" if shares else ""}], N=[], \
K=[k]{"" if shares else ", C=[m]"}) with {{"lanes": 16}}
do_dots: dots
"""
