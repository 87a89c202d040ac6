"""Programs of figures 7 and 15 for kernels that the families of single invocations do not reach.

Advice about memory needs a loop around, a start from zero an invocation before, and some kernels a
large matrix, several reductions or runs of elements. One extent follows the remainder here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.soak.copy_programs import GAP, copies, head
from teir.soak.dot_programs import dots_joined, dots_of_blocks, dots_of_columns
from teir.soak.pair_programs import pairs_of_rows, pairs_of_runs
from teir.soak.site_programs import sites_apart, sites_in_a_row, sites_with_outer_sums
from teir.target import ARRAY_START_BYTES

_REAL = (DataType.FP32, DataType.FP64)
_COMPLEX = (DataType.C64, DataType.C128)
_SWEPT = (DataType.FP32, DataType.FP64, DataType.TF32, DataType.C64, DataType.C128)
_MATRIX_BYTES = 1 << 19
"""What a matrix has at least whose rows are swept over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Special:
    """A program for every remainder."""

    title: str
    text: Callable[[int], str]

    def __str__(self) -> str:
        return self.title


def special_programs() -> tuple[Special, ...]:
    """All of them, in a fixed order."""
    return tuple(_all())


def special_program(special: Special, remainder: int) -> Program:
    """The program whose one extent follows ``remainder``, 1 or more."""
    return parse_program(special.text(remainder))


def _all() -> Iterator[Special]:
    for kind in _REAL:
        for is_b_adjacent in (False, True):
            order = "kn" if is_b_adjacent else "nk"
            yield _special(f"advice, B {order}", kind, _advised, is_b_adjacent)
        yield _special("results of the next tile, columns of B read ahead", kind, _asked_results)
        yield _special("rows of the next tile, a part for each block", kind, _asked)
        for is_dense in (False, True):
            columns = "dense" if is_dense else "apart"
            yield _special(f"runs of rows, columns {columns}", kind, _runs, is_dense)
            yield _special(f"blocks past the caches, columns {columns}", kind, _blocks, is_dense)
            yield _special(f"rows taken round, columns {columns}", kind, _taken_round, is_dense)
        yield _special("pairs of runs taken round", kind, _runs_taken_round)
        for shares in (False, True):
            rows = "by row" if shares else "of their own"
            yield _special(f"short rows joined, factors {rows}", kind, dots_joined, shares)
    for kind in _SWEPT:
        yield _special("a vector and a large matrix", kind, _swept_by_one)
        yield _special("a matrix of factors and a matrix of long rows", kind, _swept_by_rows)
    for kind in (*_REAL, *_COMPLEX, DataType.BF16):
        for site, accumulates in product((2, 3), (False, True)):
            start = "from what is there" if accumulates else "from zero"
            title = f"sites of {site} in a row {start}"
            yield _special(title, kind, sites_in_a_row, site, accumulates)
        yield _special("sites with outer sums", kind, sites_with_outer_sums)
        yield _special("sites apart", kind, sites_apart)
    for kind in _COMPLEX:
        for reductions in (1, 3):
            yield _special(f"rows in parts, {reductions} reductions", kind, _parts, reductions)
    for kind in _REAL:
        yield _special("rows copied for all turns", kind, _panels_of_turns)
    for kind in (*_REAL, DataType.BF16, DataType.C128):
        for title, copy in copies():
            yield _special(title, kind, copy)
        yield _special("products of a batch from zero", kind, _batch_from_zero)
        for reductions in (1, 2, 3):
            yield _special(
                f"a batch innermost, {reductions} sums", kind, _batch_innermost, reductions
            )
        for reductions in (2, 3):
            yield _special(f"{reductions} reductions in lanes", kind, dots_of_blocks, reductions)
        yield _special("rows and columns in lanes", kind, dots_of_columns)
    for out in (DataType.FP32, DataType.BF16):
        for order in ("mk kn mn", "km nk mn", "mk kn nm", "km kn nm"):
            for along in "mnk":
                yield Special(
                    title=f"subnormals as zero, {order}, out {out.value}, along {along}",
                    text=partial(_flushing, out=out, order=order, along=along),
                )
    for is_adjacent in (False, True):
        order = "nk" if is_adjacent else "kn"
        text = partial(pairs_of_rows, is_b_adjacent=is_adjacent)
        yield Special(title=f"pairs of steps, B {order}", text=text)
    yield Special(title="pairs of steps, rows in runs", text=pairs_of_runs)
    for out in (DataType.FP32, DataType.BF16):
        for order in ("mk kn mn", "mk nk mn", "km kn mn", "km nk mn"):
            for along in "mnk":
                yield Special(
                    title=f"a product for tiles, {order}, out {out.value}, along {along}",
                    text=partial(_for_tiles, out=out, order=order, along=along, k=45),
                )
            yield Special(
                title=f"a product for tiles, {order}, out {out.value}, long sums",
                text=partial(_for_tiles, out=out, order=order, along="m", k=530),
            )


def _special(title: str, kind: DataType, text: Callable[..., str], *rest: object) -> Special:
    def of(remainder: int) -> str:
        return text(remainder, kind, *rest)

    return Special(title=f"{title}, {kind.value}", text=of)


def _small(remainder: int) -> tuple[int, int]:
    """Two extents that change with the remainder."""
    return 1 + remainder * 5 % 14, 1 + remainder * 3 % 11


def _advised(remainder: int, kind: DataType, is_b_adjacent: bool) -> str:
    """Rows in quarters of a vector, written past the caches, the next tile asked for."""
    w, m, (n, k) = kind.width, 4 * remainder, _small(remainder)
    b_n, b_k = (w, (n + GAP) * w) if is_b_adjacent else ((k + GAP) * w, w)
    a_p, b_p, c_p = (m + GAP) * k * w, (n + GAP) * (k + GAP) * w, (m + GAP) * n * w
    return f"""{head(in0=kind, in1=kind, out=kind)}axis p = 3: in0 {a_p}, in1 {b_p}, out {c_p}
axis m = {m}: in0 {w}, out {w}
axis n = {n}: in1 {b_n}, out {(m + GAP) * w}
axis k = {k}: in0 {(m + GAP) * w}, in1 {b_k}
primitive zero = Zero(out; M=[m], N=[n])
primitive gemm = Contraction {kind.value} (in0, in1 -> out; M=[m], N=[n], K=[k]) \
with {{"prefetch": ["in0", "in1", "out"], "stream": true}}
sequential loop over p
  do_zero: zero
  do_gemm: gemm
"""


def _asked_results(remainder: int, kind: DataType) -> str:
    """Whole vectors of results that a cache holds far away; columns of B end anywhere in a line."""
    w, m, n = kind.width, 64 // kind.width * (1 + remainder % 3), 1 + remainder * 3 % 11
    k = 1 + remainder % 37
    b_p, c_p = n * (k + GAP) * w, n * (m + GAP) * w
    return f"""{head(in0=kind, in1=kind, out=kind)}axis p = 3: in1 {b_p}, out {c_p}
axis m = {m}: in0 {w}, out {w}
axis n = {n}: in1 {(k + GAP) * w}, out {(m + GAP) * w}
axis k = {k}: in0 {m * w}, in1 {w}
primitive gemm = Contraction {kind.value} (in0, in1 -> out; M=[m], N=[n], K=[k]) \
with {{"prefetch": ["out"]}}
sequential loop over p
  do_gemm: gemm
"""


def _asked(remainder: int, kind: DataType) -> str:
    """Rows of a far A at many pairs of reductions, some for every block of many columns."""
    w, m, n, t, u = kind.width, remainder, 30 + remainder % 7, 3, 5 + remainder % 9
    a_t, a_u = (3 * m + GAP) * u * w, (3 * m + GAP) * w
    return f"""{head(in0=kind, in1=kind, out=kind)}axis p = 3: in0 {m * w}, out {m * w}
axis m = {m}: in0 {w}, out {w}
axis n = {n}: in1 {t * u * w}, out {(3 * m + GAP) * w}
axis u = {u}: in0 {a_u}, in1 {t * w}
axis t = {t}: in0 {a_t}, in1 {w}
primitive zero = Zero(out; M=[m], N=[n])
primitive gemm = Contraction {kind.value} (in0, in1 -> out; M=[m], N=[n], K=[u, t]) \
with {{"prefetch": ["in0"]}}
sequential loop over p
  do_zero: zero
  do_gemm: gemm
"""


def _runs(remainder: int, kind: DataType, is_dense: bool) -> str:
    """Short rows of the output that are adjacent in a packed A; too many products for a batch."""
    w, m, n, k, runs = kind.width, remainder, 9 + remainder % 5, 60 + remainder % 3, 16
    c_n = m * w if is_dense else (m + GAP) * w
    return f"""{head(in0=kind, in1=kind, out=kind)}axis m = {m}: in0 {w}, out {w}
axis q = {runs}: in0 {m * w}, out {n * c_n + GAP * w}
axis n = {n}: in1 {w}, out {c_n}
axis k = {k}: in0 {(m * runs + GAP) * w}, in1 {(n + GAP) * w}
primitive gemm = Contraction {kind.value} (in0, in1 -> out; M=[m, q], N=[n], K=[k])
do_gemm: gemm
"""


def _blocks(remainder: int, kind: DataType, is_dense: bool) -> str:
    """Blocks of few columns, one after the other; rows in halves of a vector, two of them in A."""
    w, m, n, k = kind.width, 32 // kind.width * (1 + remainder % 19), 2, 9
    runs = 2 if remainder % 2 == 0 else 1
    c_n = m * w if is_dense else (m + GAP) * w
    return f"""{head(in0=kind, in1=kind, out=kind)}axis p = 3: in1 {n * k * w}, out {n * c_n}
axis m = {m}: in0 {w}, out {w}
axis q = {runs}: in0 {m * w}, out {3 * n * c_n + remainder % 2 * 64}
axis n = {n}: in1 {w}, out {c_n}
axis k = {k}: in0 {m * runs * w}, in1 {n * w}
primitive zero = Zero(out; M=[m, q], N=[n])
primitive gemm = Contraction {kind.value} (in0, in1 -> out; M=[m, q], N=[n], K=[k]) \
with {{"prefetch": ["out"], "stream": true}}
sequential loop over p
  do_zero: zero
  do_gemm: gemm
"""


def _taken_round(remainder: int, kind: DataType, is_dense: bool) -> str:
    """Packed rows that lie once more behind themselves, taken round; C begins inside a line."""
    w, (n, k), line = kind.width, _small(remainder), 64
    lanes, m = line // w, line // w * (1 + remainder % 3)
    few = lanes - ARRAY_START_BYTES // w
    c_n = m * w if is_dense else m * w + line
    return f"""{head(in0=kind, in1=kind, out=kind)}scratch packed: {kind.value}
axis e = 2: in0 {w}, packed {2 * m * k * w}, out {n * c_n} + {ARRAY_START_BYTES}
axis m = {m}: in0 {2 * k * w}, packed {w}, out {w}
axis late = {m - few}: in0 {2 * k * w} + {2 * k * w * few}, packed {w} + {m * w}
axis few = {few}: in0 {2 * k * w}, packed {w} + {(2 * m - few) * w}
axis k = {k}: in0 {2 * w}, packed {2 * m * w}, in1 {w}
axis n = {n}: in1 {(k + GAP) * w}, out {c_n}
primitive all_rows = Copy(in0 -> packed; M=[e, m], N=[k])
primitive late_rows = Copy(in0 -> packed; M=[e, late], N=[k])
primitive few_rows = Copy(in0 -> packed; M=[e, few], N=[k])
primitive zero = Zero(out; M=[m], N=[n])
primitive gemm = Contraction {kind.value} (packed, in1 -> out; M=[m], N=[n], K=[k]) \
with {{"stream": true}}
pack: all_rows
pack_late: late_rows
pack_few: few_rows
sequential loop over e
  do_zero: zero
  do_gemm: gemm
"""


def _runs_taken_round(remainder: int, kind: DataType) -> str:
    """Two packed runs of one and a half lines that lie once more behind themselves, taken round."""
    w, (_, k), line, early = kind.width, _small(remainder), 64, ARRAY_START_BYTES
    n, m, late = 2 * (1 + remainder % 6), 3 * line // (2 * w), (line - early) // w
    row, few, between = 2 * k * w, early // w, late - early // w
    run, packed = 3 * line // 2, 3 * k * line
    c_run = n * run + remainder % 2 * line
    return f"""{head(in0=kind, in1=kind, out=kind)}scratch packed: {kind.value}
axis e = 2: in0 {w}, packed {2 * packed}, out {2 * c_run} + {early}
axis r = 2: in0 {m * row}, packed {run}, out {c_run}
axis m = {m}: in0 {row}, packed {w}, out {w}
axis ends = 2: in0 {m * row}, packed {line}
axis late = {late}: in0 {row} + {late * row}, packed {w} + {packed}
axis few = {few}: in0 {row}, packed {w} + {packed + line - early}
axis halves = 2: in0 {m * row}, packed {line // 2}
axis between = {between}: in0 {row} + {few * row}, packed {w} + {packed + 2 * line}
axis k = {k}: in0 {2 * w}, packed {3 * line}, in1 {w}
axis n = {n}: in1 {(k + GAP) * w}, out {run}
primitive all_rows = Copy(in0 -> packed; M=[e, r, m], N=[k])
primitive late_rows = Copy(in0 -> packed; M=[e, ends, late], N=[k])
primitive few_rows = Copy(in0 -> packed; M=[e, ends, few], N=[k])
primitive other_rows = Copy(in0 -> packed; M=[e, halves, between], N=[k])
primitive zero = Zero(out; M=[r, m], N=[n])
primitive gemm = Contraction {kind.value} (packed, in1 -> out; M=[r, m], N=[n], K=[k]) \
with {{"stream": true}}
pack: all_rows
pack_late: late_rows
pack_few: few_rows
pack_others: other_rows
sequential loop over e
  do_zero: zero
  do_gemm: gemm
"""


def _swept_by_one(remainder: int, kind: DataType) -> str:
    w = kind.width
    m = 1024 // w + remainder
    k = -(-_MATRIX_BYTES // (m * w))
    return f"""{head(in0=kind, in1=kind, out=kind)}axis m = {m}: in0 {w}, out {w}
axis k = {k}: in0 {(m + GAP) * w}, in1 {w}
primitive sweep = Contraction {kind.value} (in0, in1 -> out; M=[m], N=[], K=[k])
do_sweep: sweep
"""


def _swept_by_rows(remainder: int, kind: DataType) -> str:
    w = kind.width
    m, k = 8192 // w + remainder, 6 + remainder % 5
    return f"""{head(in0=kind, in1=kind, out=kind)}axis m = {m}: in0 {w}, in1 {w}, out {w}
axis k = {k}: in0 {(m + GAP) * w}, in1 {(m + 2 * GAP) * w}
primitive sweep = Contraction {kind.value} (in0, in1 -> out; M=[m], N=[], K=[k])
do_sweep: sweep
"""


def _batch_from_zero(remainder: int, kind: DataType) -> str:
    w, m, n, k, c = kind.width, remainder, 3, 1 + remainder % 4, 9
    a_c, b_c, c_c = (m + GAP) * k * w, k * n * w + w, (m + GAP) * n * w
    return f"""{head(in0=kind, in1=kind, out=kind)}axis c = {c}: in0 {a_c}, in1 {b_c}, out {c_c}
axis m = {m}: in0 {w}, out {w}
axis n = {n}: in1 {k * w}, out {(m + GAP) * w}
axis k = {k}: in0 {(m + GAP) * w}, in1 {w}
primitive zero = Zero(out; M=[m, c], N=[n])
primitive gemm = Contraction {kind.value} (in0, in1 -> out; C=[c], M=[m], N=[n], K=[k])
do_zero: zero
do_gemm: gemm
"""


def _batch_innermost(remainder: int, kind: DataType, reductions: int) -> str:
    """Lanes along a batch as long as the remainder, over blocks of rows and columns."""
    w, c, (m, n) = kind.width, remainder, _small(remainder)
    sums = ("s", "t", "k")[-reductions:]
    axes, reach = [], (c + GAP) * w
    for name in reversed(sums):
        axes.append(f"axis {name} = {2 + remainder % 2}: in0 {reach}, in1 {reach + w}")
        reach *= 4
    lines = "\n".join(reversed(axes))
    return f"""{head(in0=kind, in1=kind, out=kind)}axis c = {c}: in0 {w}, in1 {w}, out {w}
axis m = {m}: in0 {reach}, out {n * (c + GAP) * w}
axis n = {n}: in1 {reach}, out {(c + GAP) * w}
{lines}
primitive gemm = Contraction {kind.value} (in0, in1 -> out; C=[c], M=[m], N=[n], \
K=[{", ".join(sums)}])
do_gemm: gemm
"""


def _flushing(remainder: int, out: DataType, order: str, along: str) -> str:
    n, k = _small(remainder)
    extents = {"m": n + 1, "n": n, "k": k} | {along: remainder}
    return _flushing_product(extents, out, order)


def _parts(remainder: int, kind: DataType, reductions: int) -> str:
    """Rows of vectors in pairs and of one left over, columns enough to copy the rows for."""
    w, m, n = kind.width, 1 + remainder, 18 + remainder % 7
    extents = (2, 3, 1 + remainder % 9)[3 - reductions :]
    axes, a, b = "", (m + GAP) * w, w
    for number, extent in reversed(list(enumerate(extents))):
        axes = f"axis k{number} = {extent}: in0 {a}, in1 {b}\n{axes}"
        a, b = (a * extent + GAP * w), (b * extent + GAP * w)
    depth = ", ".join(f"k{number}" for number in range(reductions))
    return f"""{head(in0=kind, in1=kind, out=kind)}{axes}axis m = {m}: in0 {w}, out {w}
axis n = {n}: in1 {b}, out {(m + GAP) * w}
primitive gemm = Contraction {kind.value} (in0, in1 -> out; M=[m], N=[n], K=[{depth}])
do_gemm: gemm
"""


def _panels_of_turns(remainder: int, kind: DataType) -> str:
    """Rows that take much of the first cache where they lie, and columns of several turns."""
    w, m, n, k, turns = kind.width, 26 + remainder, 18, 140, 5
    row, column = (m + GAP) * w, (k + GAP) * w
    return f"""{head(in0=kind, in1=kind, out=kind)}axis t = {turns}: in1 {n * column}, out {n * row}
axis k = {k}: in0 {row}, in1 {w}
axis m = {m}: in0 {w}, out {w}
axis n = {n}: in1 {column}, out {row}
primitive gemm = Contraction {kind.value} (in0, in1 -> out; M=[m], N=[n], K=[k])
sequential turns over t
  do_gemm: gemm
"""


def _for_tiles(remainder: int, out: DataType, order: str, along: str, k: int) -> str:
    """As many results and sums as fill some tiles, but for the axis that follows the remainder."""
    return _flushing_product({"m": 41, "n": 37, "k": k} | {along: remainder}, out, order)


def _flushing_product(extents: dict[str, int], out: DataType, order: str) -> str:
    widths = {"in0": 2, "in1": 2, "out": out.width}
    strides: dict[str, list[str]] = {name: [] for name in "mnk"}
    for tensor, names in zip(widths, order.split(), strict=True):
        reach = 1
        for name in names:
            strides[name].append(f"{tensor} {reach * widths[tensor]}")
            reach = reach * extents[name] + GAP
    axes = "\n".join(f"axis {name} = {extents[name]}: {', '.join(strides[name])}" for name in "mnk")
    return f"""{head(in0=DataType.BF16, in1=DataType.BF16, out=out)}{axes}
primitive gemm = Contraction BF16 (in0, in1 -> out; M=[m], N=[n], K=[k]) \
with {{"subnormals": "zero"}}
do_gemm: gemm
"""
