"""Fibres as kernels read them: bounds, coordinates, equal ones, rows that begin inside a line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from teir.backends.llvm.emit_lanes import Lanes
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_when
from teir.backends.llvm.emit_text import FunctionText, constants, shift_pointer, splat, vector
from teir.dtypes import DataType
from teir.lower.kernels import WalkedDots, WalkedRows, WalkedSum

LINE_BYTES = 64


def emit_fibre(text: FunctionText, pos_type: DataType, pos: str) -> tuple[str, str]:
    """The first position of a fibre, and how many there are."""
    begin = load_index(text, pos_type, pos)
    end = load_index(text, pos_type, shift_pointer(text, pos, pos_type.width))
    return begin, text.value(f"sub i64 {end}, {begin}")


def emit_end_of_rows(text: FunctionText, rows: WalkedRows | None, arrays: Sequence[str]) -> str:
    """The number of the row after the last of a call."""
    if rows is None:
        return "1"
    if rows.bounds is None:
        return "%rows"
    return load_index(text, rows.bounds, shift_pointer(text, arrays[0], rows.bounds.width))


def emit_start(text: FunctionText, pos_type: DataType, pos: str, fibre: str) -> str:
    """The first position of a fibre, the one after the last fibre included."""
    byte = text.value(f"mul i64 {fibre}, {pos_type.width}")
    return load_index(text, pos_type, shift_pointer(text, pos, byte))


def load_index(text: FunctionText, index_type: DataType, pointer: str) -> str:
    """The index at ``pointer`` as i64."""
    if index_type is DataType.I64:
        return text.value(f"load i64, ptr {pointer}, align 1")
    short = text.value(f"load i32, ptr {pointer}, align 1")
    return text.value(f"sext i32 {short} to i64")


def emit_equal_fibres(
    text: FunctionText, kernel: WalkedSum | WalkedDots, arrays: Sequence[str], left: str, most: int
) -> str:
    """How many rows from this one on have fibres with the same coordinates, up to ``most``.

    The bounds of a row's fibre lie right before those of the next.
    """
    pos, crd = arrays
    begin, length = emit_fibre(text, kernel.pos_type, pos)
    taken, same = "1", "true"
    for row in range(1, most):
        beyond = text.value(f"icmp sgt i64 {left}, {row}")
        asked = text.value(f"and i1 {same}, {beyond}")
        compare = partial(_is_equal, text, kernel, (pos, crd), (begin, length), row)
        (same,) = emit_when(text, f"equal{row}", asked, [Carried("i1", "false")], compare)
        more = text.value(f"zext i1 {same} to i64")
        taken = text.value(f"add i64 {taken}, {more}")
    return taken


def _is_equal(
    text: FunctionText,
    kernel: WalkedSum | WalkedDots,
    arrays: tuple[str, str],
    fibre: tuple[str, str],
    row: int,
) -> Values:
    """Whether the fibre of the row ``row`` rows on holds the coordinates of the one before."""
    (pos, crd), (begin, length), width = arrays, fibre, kernel.crd_type.width
    there = shift_pointer(text, pos, row * kernel.pos_type.width)
    its_length = emit_fibre(text, kernel.pos_type, there)[1]
    is_as_long = text.value(f"icmp eq i64 {length}, {its_length}")
    bytes_ = text.value(f"mul i64 {length}, {width}")
    byte = text.value(f"mul i64 {begin}, {width}")
    first = shift_pointer(text, crd, byte)
    for _ in range(row - 1):
        first = shift_pointer(text, first, bytes_)

    def differ() -> Values:
        """Coordinates compared vector by vector, then one by one."""
        lanes = LINE_BYTES // width
        kind, element = vector(f"i{8 * width}", lanes), f"i{8 * width}"

        def many(now: Values) -> Values:
            at, bits = now
            one, other = _both(text, at, bytes_, kind)
            differs = text.value(f"xor {kind} {one}, {other}")
            all_bits = text.value(f"or {kind} {bits}, {differs}")
            return [shift_pointer(text, at, lanes * width), all_bits]

        def single(now: Values) -> Values:
            at, bits = now
            one, other = _both(text, at, bytes_, element)
            differs = text.value(f"xor {element} {one}, {other}")
            return [
                shift_pointer(text, at, width),
                text.value(f"or {element} {bits}, {differs}"),
            ]

        start = [Carried("ptr", first), Carried(kind, "zeroinitializer")]
        left, (at, bits) = emit_loop(text, f"compare{row}", length, lanes, start, many)
        suffix = f"v{lanes}{element}"
        folded = text.value(f"call {element} @llvm.vector.reduce.or.{suffix}({kind} {bits})")
        start = [Carried("ptr", at), Carried(element, folded)]
        _, (_, rest) = emit_loop(text, f"compare_rest{row}", left, 1, start, single)
        return [text.value(f"icmp eq {element} {rest}, 0")]

    return emit_when(text, f"as_long{row}", is_as_long, [Carried("i1", "false")], differ)


def _both(text: FunctionText, at: str, distance: str, kind: str) -> tuple[str, str]:
    one = text.value(f"load {kind}, ptr {at}, align 1")
    there = shift_pointer(text, at, distance)
    return one, text.value(f"load {kind}, ptr {there}, align 1")


def line_lanes(
    text: FunctionText, data_type: DataType, lanes: int, vectors: int, row: str
) -> tuple[str, list[Lanes]]:
    """The bytes from the row's line to the row, and the vectors that hold it from there on."""
    address = text.value(f"ptrtoint ptr {row} to i64")
    inside = text.value(f"and i64 {address}, {LINE_BYTES - 1}")
    before = text.value(f"udiv i64 {inside}, {data_type.width}")
    wide, numbered = splat(text, "i64", before, lanes), constants("i64", range(lanes))
    many = vector("i64", lanes)
    first = text.value(f"icmp uge {many} {numbered}, {wide}")
    last = text.value(f"icmp ult {many} {numbered}, {wide}")
    whole = Lanes(data_type, lanes)
    ends = (Lanes(data_type, lanes, mask=first), Lanes(data_type, lanes, mask=last))
    return inside, [ends[0], *[whole] * (vectors - 1), ends[1]]
