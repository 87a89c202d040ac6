"""Random programs of the shapes that kernels of their own serve, and advice with them.

Axes drawn at random seldom meet: a batch adjacent on all operands, small products in a row, dots
in several chains, tall panels that are asked for ahead, products for tile registers, sweeps over a
matrix, copies past the caches or along many short axes. Here they do; loops around and tiles inside
are drawn as for any other program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.lanes import LANES
from teir.ir.memory_hints import MemoryHints
from teir.ir.nodes import Axis, Bytes, Operation
from teir.ir.subnormals import SUBNORMALS, ZERO
from teir.soak.draws import DrawInt, chance, choose, shuffled, subset
from teir.soak.nests import Placement, Sheet, Statement, write_nest
from teir.soak.parts import (
    FLOATS,
    DrawnProgram,
    exact_integers,
    finished,
    largest_input,
    sum_type,
)

_WIDE = (DataType.FP64, DataType.C128, DataType.C64, DataType.FP32)
_SWEPT_BYTES = 1 << 19
_LONG_BYTES = 8192
_STREAMED_BYTES = 96 << 10
_LONG_COLUMN_BYTES = 1024
_LONG_ROW_BYTES = 2048
_OUT = frozenset({"out"})
_LARGE_WORK = 40_000
"""Multiply-adds from which on a program may hold a large matrix."""


def draw_shaped(draw: DrawInt, work: int) -> DrawnProgram:
    """A program of at most about ``work`` multiply-adds, or elements; a sweep has some more."""
    kinds = (
        *(_batch_innermost, _small_products, _dots, _joined),
        *(_panels, _far_panels, _pairs, _turned),
    )
    large = (_swept_matrix, _swept_rows, _streamed, _for_tiles, _short_sides)
    which = draw(0, len(kinds) + (len(large) if work >= _LARGE_WORK else 0) - 1)
    return kinds[which](draw, work) if which < len(kinds) else large[which - len(kinds)](draw)


def _batch_innermost(draw: DrawInt, work: int) -> DrawnProgram:
    """Lanes along the batch; up to four reductions."""
    sums = "kluv"[: choose(draw, (1, 2, 3, 4))]
    extents = _extents(draw, work, {"c": 40, "m": 9, "n": 9, **dict.fromkeys(sums, 5)})
    orders = ("c" + _mixed(draw, "m" + sums), "c" + _mixed(draw, "n" + sums), _mixed(draw, "mn"))
    return _product(draw, extents, (*orders[:2], "c" + orders[2]), choose(draw, FLOATS))


def _small_products(draw: DrawInt, work: int) -> DrawnProgram:
    extents = _extents(draw, work, {"c": 40, "m": 33, "n": 8, "k": 11})
    orders = ("mkc", _mixed(draw, "nk") + "c", "mnc")
    return _product(draw, extents, orders, choose(draw, FLOATS), ())


def _dots(draw: DrawInt, work: int) -> DrawnProgram:
    """Sums in lanes along an axis that is mostly adjacent."""
    sums = "klu"[: choose(draw, (1, 2, 3))]
    extents = _extents(draw, work, {"k": 200, "m": 13, "n": 5, **dict.fromkeys(sums[1:], 3)})
    rows = "" if chance(draw, 10) else "m"
    orders = (sums + rows, sums + choose(draw, ("n", "m", "")), _mixed(draw, "mn"))
    if "n" not in orders[1]:
        del extents["n"]
        orders = (*orders[:2], "m")
    lanes = ((LANES, str(choose(draw, (16, 8, 32, 4, 2, 64)))),)
    return _product(draw, extents, orders, choose(draw, FLOATS), lanes)


def _joined(draw: DrawInt, work: int) -> DrawnProgram:
    """Many short rows, mostly without gaps, in chains."""
    extents = _extents(draw, work, {"m": 9, "k": 300})
    orders = ("mk", choose(draw, ("k", "mk")), "m")
    lanes = ((LANES, str(choose(draw, (8, 16, 32, 2)))),)
    kind = choose(draw, (DataType.FP32, DataType.FP64, DataType.FP32, DataType.C64))
    return _product(draw, extents, orders, kind, lanes)


def _panels(draw: DrawInt, work: int) -> DrawnProgram:
    extents = _extents(draw, work, {"m": 20, "n": 30, "k": 40, "p": 3})
    extents["m"] *= 4
    orders = ("mkp", _mixed(draw, "nk"), "mnp")
    return _product(draw, extents, orders, choose(draw, (DataType.FP32, DataType.FP64)))


def _far_panels(draw: DrawInt, work: int) -> DrawnProgram:
    """Rows of a far A, with as many reductions as can be, asked for by several blocks."""
    extents = _extents(draw, work, {"m": 64, "n": 40, "k": 5, "l": 9, "p": 4})
    orders = (choose(draw, ("mplk", "mlpk", "mlkp")), _mixed(draw, "nkl"), "mpn")
    return _product(draw, extents, orders, choose(draw, (*_WIDE, DataType.BF16)))


def _pairs(draw: DrawInt, work: int) -> DrawnProgram:
    """Short BF16 sums, rows in pairs of vectors and in short runs that follow one another in A."""
    extents = _extents(draw, work // 8, {"m": 36, "q": 8, "n": 13, "k": 9})
    extents["m"] = choose(draw, (8, 12, 24, 32, 4 * extents["m"]))
    extents["q"] = choose(draw, (1, 4, extents["q"]))
    statement = ((SUBNORMALS, ZERO), *MemoryHints(streams=False, prefetched=_OUT).metadata())
    metadata = statement if chance(draw, 40) else statement[:1]
    orders = ("mqk", _mixed(draw, "nk"), "mnq")
    return _product(draw, extents, orders, DataType.BF16, tuple(sorted(metadata)))


def _turned(draw: DrawInt, work: int) -> DrawnProgram:
    """Rows and columns change places, in groups too and as short runs."""
    if chance(draw, 40):
        return _turned_runs(draw, work)
    extents = _extents(draw, work, {"m": 70, "g": 4, "r": 20})
    return _copy(draw, extents, choose(draw, ("grm", "rgm")), choose(draw, ("mgr", "gmr", "mrg")))


def _turned_runs(draw: DrawInt, work: int) -> DrawnProgram:
    """Rows of the output are short runs that lie apart on the input."""
    extents = _extents(draw, work, {"m": 40, "n": 9, "r": 20, "o": 4})
    return _copy(draw, extents, choose(draw, ("mrno", "mnor")), "nrmo")


def _swept_matrix(draw: DrawInt) -> DrawnProgram:
    """A vector times a matrix too large for the first caches."""
    data_type = choose(draw, _WIDE)
    rows = 1024 // data_type.width + draw(0, 200)
    extents = {"m": rows, "k": -(-_SWEPT_BYTES // (rows * data_type.width)) + draw(0, 9)}
    return _product(draw, extents, ("mk", "k", "m"), data_type)


def _swept_rows(draw: DrawInt) -> DrawnProgram:
    data_type = choose(draw, _WIDE)
    extents = {"m": _LONG_BYTES // data_type.width + draw(0, 99), "k": draw(6, 17)}
    return _product(draw, extents, ("mk", "mk", "m"), data_type)


def _streamed(draw: DrawInt) -> DrawnProgram:
    """A copy of elements or of runs, written past the caches."""
    data_type = choose(draw, FLOATS)
    run, columns = choose(draw, (1, 2, 5, 16, 33, 140)), draw(16, 40)
    rows = -(-_STREAMED_BYTES // (run * columns * data_type.width)) + draw(0, 5)
    extents = {"e": run, "c": columns, "r": rows}
    orders = ("ecr", "erc") if run > 1 else ("cr", "rc")
    if run == 1:
        del extents["e"]
        if chance(draw, 40):
            extents = _long_sides(draw, data_type)
    return _copy(draw, extents, *orders, data_type, streams=True)


def _long_sides(draw: DrawInt, data_type: DataType) -> dict[str, int]:
    """Columns and rows that may be read side by side."""
    width = data_type.width
    return {
        "c": _LONG_COLUMN_BYTES // width + draw(0, 20),
        "r": _LONG_ROW_BYTES // width + draw(0, 70),
    }


def _short_sides(draw: DrawInt) -> DrawnProgram:
    """Many axes of a few elements change places."""
    names = "abcdefgh"[: draw(7, 8)]
    extents = {name: draw(2, 4) for name in names}
    return _copy(draw, extents, names, _mixed(draw, names))


def _for_tiles(draw: DrawInt) -> DrawnProgram:
    """Products of BF16 as einsum forms them, large enough for tile registers."""
    extents = {"m": draw(33, 64), "n": draw(8, 40), "k": draw(33, 50)}
    orders = ("mk", _mixed(draw, "nk"), "mn")
    return _product(draw, extents, orders, DataType.BF16, ((SUBNORMALS, ZERO),))


def _product(
    draw: DrawInt,
    extents: Mapping[str, int],
    orders: Sequence[str],
    data_type: DataType,
    metadata: tuple[tuple[str, str], ...] | None = None,
) -> DrawnProgram:
    """A contraction of two inputs; without ``metadata`` advice is drawn."""
    types = {"in0": data_type, "in1": data_type, "out": sum_type(draw, data_type)}
    axes = _axes(draw, extents, dict(zip(types, orders, strict=True)), types)
    terms = 1
    for name in set(extents) - set(orders[2]):
        terms *= extents[name]
    room = min(exact_integers(kind) if kind is types["out"] else 2**20 for kind in types.values())
    statement = Statement(
        operation=Operation.CONTRACTION,
        inputs=("in0", "in1"),
        output="out",
        axes=axes,
        zero=choose(draw, tuple(Placement)),
        complete=chance(draw, 70),
        metadata=_advice(draw, data_type) if metadata is None else metadata,
    )
    sheet = Sheet()
    roots = write_nest(draw, sheet, statement)
    return finished(sheet, types, (), roots, largest_input(2, terms, data_type, room))


def _copy(
    draw: DrawInt,
    extents: Mapping[str, int],
    source: str,
    out: str,
    data_type: DataType | None = None,
    *,
    streams: bool = False,
) -> DrawnProgram:
    kind = choose(draw, FLOATS) if data_type is None else data_type
    types = {"in0": kind, "out": kind}
    hints = MemoryHints(streams=streams or chance(draw, 30), prefetched=frozenset())
    if chance(draw, 30):
        hints = replace(hints, prefetched=frozenset({"in0"}))
    statement = Statement(
        operation=Operation.COPY,
        inputs=("in0",),
        output="out",
        axes=_axes(draw, extents, {"in0": source, "out": out}, types),
        metadata=hints.metadata(),
    )
    sheet = Sheet()
    return finished(sheet, types, (), write_nest(draw, sheet, statement), 7)


def _advice(draw: DrawInt, data_type: DataType) -> tuple[tuple[str, str], ...]:
    hints = MemoryHints(
        streams=chance(draw, 40), prefetched=frozenset(subset(draw, ("in0", "in1", "out"), 50))
    )
    flushes = data_type is DataType.BF16 and chance(draw, 40)
    return tuple(sorted((*hints.metadata(), *(((SUBNORMALS, ZERO),) if flushes else ()))))


def _extents(draw: DrawInt, work: int, most: Mapping[str, int]) -> dict[str, int]:
    """At most so many of each axis, in all at most ``work``."""
    extents = {}
    for name, largest in most.items():
        extents[name] = draw(1, max(1, min(largest, work)))
        work //= extents[name]
    return extents


def _mixed(draw: DrawInt, names: str) -> str:
    return "".join(shuffled(draw, names))


def _axes(
    draw: DrawInt,
    extents: Mapping[str, int],
    orders: Mapping[str, str],
    types: Mapping[str, DataType],
) -> tuple[Axis, ...]:
    """Every tensor in its order of axes, the first adjacent, now and then with gaps."""
    strides: dict[str, dict[str, int]] = {name: dict.fromkeys(types, 0) for name in extents}
    for tensor, order in orders.items():
        reach = 1
        for name in order:
            strides[name][tensor] = reach * types[tensor].width
            reach = reach * extents[name] + (draw(1, 5) if chance(draw, 20) else 0)
    return tuple(
        Axis(name=name, extent=extent, strides=Bytes(strides[name]))
        for name, extent in extents.items()
    )
