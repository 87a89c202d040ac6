"""Programs of figures 7 and 15 for small matrices along sites.

See `teir.soak.special_programs`.
"""

from __future__ import annotations

from teir.dtypes import DataType
from teir.passes.sites import PAIR_TYPE
from teir.soak.copy_programs import GAP, head


def sites_in_a_row(remainder: int, kind: DataType, site: int, accumulates: bool) -> str:
    """Sites of so many elements that follow one another, in rows with gaps between."""
    w, n, blocks = kind.width, remainder + 80, 3
    row = n * site * w
    zero = "" if accumulates else "do_zero: zero\n"
    clearing = "" if accumulates else "primitive zero = Zero(c; M=[r, s], N=[n])\n"
    return f"""{head(a=kind, b=kind, c=kind)}axis r = {blocks}: a {row + w}, c {row + GAP * w}
axis s = {n}: a {site * w}, c {site * w}
axis n = {site}: b {w}, c {w}
axis k = {site}: a {w}, b {(site + 1) * w}
{clearing}primitive sites = {_product(kind, "M=[r, s], N=[n], K=[k]")}
{zero}do_sites: sites
"""


def sites_with_outer_sums(remainder: int, kind: DataType) -> str:
    """Sites of two columns and two rows, half of the matrix in other vectors."""
    w, n = kind.width, remainder + 40
    half = 4 * n * w
    return f"""{head(a=kind, b=kind, c=kind)}axis s = {n}: a {4 * w}, c {4 * w}
axis y = 2: b {8 * w}, c {half}
axis x = 2: a {half}, b {2 * w}
axis n = 2: b {4 * w}, c {2 * w}
axis m = 2: a {w}, c {w}
axis k = 2: a {2 * w}, b {w}
primitive zero = Zero(c; M=[s, m], N=[y, n])
primitive sites = {_product(kind, "M=[s, m], N=[y, n], K=[x, k]")}
do_zero: zero
do_sites: sites
"""


def sites_apart(remainder: int, kind: DataType) -> str:
    """Sites with gaps between them, a vector each."""
    w, n, m = kind.width, remainder + 9, 32 // kind.width
    site = (2 * m + GAP) * w
    return f"""{head(a=kind, b=kind, c=kind)}axis s = {n}: a {site}, c {site}
axis n = 2: b {2 * w}, c {m * w}
axis m = {m}: a {w}, c {w}
axis k = 2: a {m * w}, b {w}
primitive zero = Zero(c; M=[s, m], N=[n])
primitive sites = {_product(kind, "M=[s, m], N=[n], K=[k]")}
do_zero: zero
do_sites: sites
"""


def _product(kind: DataType, axes: str) -> str:
    """The product as the kernels of sites form it."""
    hints = ' with {"subnormals": "zero"}' if kind is PAIR_TYPE else ""
    return f"Contraction {kind.value} (a, b -> c; {axes}){hints}"
