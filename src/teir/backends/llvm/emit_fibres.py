"""Fibres as kernels read them: bounds, coordinates, equal ones, rows that begin inside a line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from teir.backends.llvm.emit_lanes import Lanes
from teir.backends.llvm.emit_loops import (
    Carried,
    Values,
    emit_loop,
    emit_strides,
    emit_when,
)
from teir.backends.llvm.emit_text import FunctionText, constants, shift_pointer, splat, vector
from teir.dtypes import DataType
from teir.lower.walked_kernels import WalkedDots, WalkedRows, WalkedSampledSum, WalkedSum
from teir.target import LINE_BYTES

_LEAST_MEAN = 16
"""Stored elements of a row, on average over a call, from which rows are compared."""
_LOOKED_AT = 64
"""Rows of a call among which there is an equal pair, or none is looked for among the others."""


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


def emit_first_row(text: FunctionText, rows: WalkedRows, bounds: Sequence[str]) -> tuple[str, str]:
    """The first row of a call, and how many there are."""
    return ("0", "%rows") if rows.bounds is None else emit_fibre(text, rows.bounds, bounds[0])


def emit_rows(
    text: FunctionText,
    rows: WalkedRows,
    pos: tuple[DataType, str],
    begin_left: tuple[str, str],
    form: Callable[[int, str, str], str],
) -> None:
    """All rows of a call. ``form(most, row, left)`` forms up to ``most`` and says how many."""
    left = emit_groups(text, rows, pos, begin_left, partial(form, rows.together))
    emit_row_by_row(text, "each_row", (begin_left[0], left), partial(form, 1))


def emit_groups(
    text: FunctionText,
    rows: WalkedRows,
    pos: tuple[DataType, str],
    begin_left: tuple[str, str],
    form: Callable[[str, str], str],
    compared: tuple[WalkedSum, str] | None = None,
) -> str:
    """All rows in groups, or none: how many are left for one by one.

    Rows are compared where their fibres are long enough to pay for it: with fewer elements to a
    row than ``_LEAST_MEAN`` every row is formed by itself; given ``compared``, the kernel and its
    coordinates, so are those of a call whose first ``_LOOKED_AT`` fibres all differ from the one
    before. ``form(row, left)`` forms some.
    """
    begin, left = begin_left
    if rows.together < 2:
        return left
    ends = [emit_start(text, *pos, row) for row in (begin, text.value(f"add i64 {begin}, {left}"))]
    stored = text.value(f"sub i64 {ends[1]}, {ends[0]}")
    least = text.value(f"mul i64 {left}, {_LEAST_MEAN}")
    is_chosen = text.value(f"icmp sge i64 {stored}, {least}")
    if compared is not None:
        look = partial(_has_equals, text, *compared, pos[1], (begin, left), ends)
        (is_chosen,) = emit_when(text, "likely", is_chosen, [Carried("i1", "false")], look)
    grouped = text.value(f"select i1 {is_chosen}, i64 {left}, i64 0")
    emit_row_by_row(text, "each_group", (begin, grouped), form)
    return text.value(f"sub i64 {left}, {grouped}")


def _has_equals(
    text: FunctionText,
    kernel: WalkedSum,
    coordinates: str,
    bounds: str,
    begin_left: tuple[str, str],
    ends: Sequence[str],
) -> Values:
    """Whether one of the first fibres holds the coordinates of the one before.

    All are compared only where lengths, first and last coordinates are equal. The first equal one
    ends the search, for coordinates may have to come from far. There is an element between
    ``ends``; of an empty fibre any coordinates between them are read.
    """
    (begin, left), pos_type, crd_type = begin_left, kernel.pos_type, kernel.crd_type
    start = shift_pointer(text, bounds, text.value(f"mul i64 {begin}, {pos_type.width}"))
    last = text.value(f"sub i64 {ends[1]}, 1")

    def coordinate(position: str) -> str:
        byte = text.value(f"mul i64 {position}, {crd_type.width}")
        return load_index(text, crd_type, shift_pointer(text, coordinates, byte))

    def look(left_now: str, now: Values) -> tuple[str, Values]:
        here, *before, _ = now
        first, length = emit_fibre(text, pos_type, here)
        end = text.value(f"add i64 {first}, {length}")
        end = text.value(f"sub i64 {end}, 1")
        first = text.value(f"call i64 @llvm.smin.i64(i64 {first}, i64 {last})")
        end = text.value(f"call i64 @llvm.smax.i64(i64 {end}, i64 {ends[0]})")
        these = [length, coordinate(first), coordinate(end)]
        pairs = zip(these, before, strict=True)
        apart = [text.value(f"xor i64 {one}, {other}") for one, other in pairs]
        some = text.value(f"or i64 {apart[0]}, {apart[1]}")
        some = text.value(f"or i64 {some}, {apart[2]}")
        is_likely = text.value(f"icmp eq i64 {some}, 0")

        def compare() -> Values:
            there = shift_pointer(text, here, -pos_type.width)
            fibre = emit_fibre(text, pos_type, there)
            return _is_equal(text, kernel, (there, coordinates), fibre, 1, "_first")

        (is_equal,) = emit_when(text, "likely_row", is_likely, [Carried("i1", "false")], compare)
        taken = text.value(f"select i1 {is_equal}, i64 {left_now}, i64 1")
        return taken, [shift_pointer(text, here, pos_type.width), *these, is_equal]

    few = text.value(f"call i64 @llvm.smin.i64(i64 {left}, i64 {_LOOKED_AT})")
    carried = [Carried("ptr", start), *[Carried("i64", "-1")] * 3, Carried("i1", "false")]
    return emit_strides(text, "likely_rows", few, carried, look)[-1:]


def emit_row_by_row(
    text: FunctionText, label: str, begin_left: tuple[str, str], form: Callable[[str, str], str]
) -> None:
    """Rows in their order: ``form(row, left)`` forms some and says how many."""

    def body(left: str, now: Values) -> tuple[str, Values]:
        taken = form(now[0], left)
        return taken, [text.value(f"add i64 {now[0]}, {taken}")]

    emit_strides(text, label, begin_left[1], [Carried("i64", begin_left[0])], body)


def emit_together(
    text: FunctionText,
    kernel: WalkedSum | WalkedDots | WalkedSampledSum,
    arrays: Sequence[str],
    left: str,
    most: int,
    form: Callable[[int], Callable[[], Values]],
) -> str:
    """As many rows at once as hold the same coordinates, up to ``most``: how many they were.

    ``form(count)`` says what forms so many.
    """
    taken = _equal_fibres(text, kernel, arrays, left, most)
    for count in range(most, 0, -1):
        chosen = text.value(f"icmp eq i64 {taken}, {count}")
        emit_when(text, f"together{count}", chosen, (), form(count))
    return taken


def _equal_fibres(
    text: FunctionText,
    kernel: WalkedSum | WalkedDots | WalkedSampledSum,
    arrays: Sequence[str],
    left: str,
    most: int,
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
    kernel: WalkedSum | WalkedDots | WalkedSampledSum,
    arrays: tuple[str, str],
    fibre: tuple[str, str],
    row: int,
    label: str = "",
) -> Values:
    """Whether the fibre of the row ``row`` rows on holds the coordinates of the one before.

    ``label`` tells comparisons of the same row apart.

    Fibres whose lengths or last coordinates differ are told apart without a branch: on short
    fibres it would go either way. Empty fibres are not equal, for there is nothing to share.
    """
    (pos, crd), (begin, length), width = arrays, fibre, kernel.crd_type.width
    there = shift_pointer(text, pos, row * kernel.pos_type.width)
    its_begin, its_length = emit_fibre(text, kernel.pos_type, there)
    its_end = text.value(f"add i64 {its_begin}, {its_length}")
    lasts = [_last_coordinate(text, kernel, arrays, end) for end in (its_begin, its_end)]
    is_empty = text.value(f"icmp eq i64 {length}, 0")
    differs = text.value(f"zext i1 {is_empty} to i64")
    for one, other in ((length, its_length), lasts):
        both = text.value(f"xor i64 {one}, {other}")
        differs = text.value(f"or i64 {differs}, {both}")
    asked = text.value(f"icmp eq i64 {differs}, 0")
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
        left, (at, bits) = emit_loop(text, f"compare{label}{row}", length, lanes, start, many)
        suffix = f"v{lanes}{element}"
        folded = text.value(f"call {element} @llvm.vector.reduce.or.{suffix}({kind} {bits})")
        start = [Carried("ptr", at), Carried(element, folded)]
        _, (_, rest) = emit_loop(text, f"compare_rest{label}{row}", left, 1, start, single)
        return [text.value(f"icmp eq {element} {rest}, 0")]

    return emit_when(text, f"as_long{label}{row}", asked, [Carried("i1", "false")], differ)


def _last_coordinate(
    text: FunctionText,
    kernel: WalkedSum | WalkedDots | WalkedSampledSum,
    arrays: tuple[str, str],
    end: str,
) -> str:
    """The coordinate before position ``end``; any number where there is none."""
    pos, crd = arrays
    byte = text.value(f"mul i64 {end}, {kernel.crd_type.width}")
    last = shift_pointer(text, shift_pointer(text, crd, byte), -kernel.crd_type.width)
    is_none = text.value(f"icmp eq i64 {end}, 0")
    return load_index(
        text, kernel.crd_type, text.value(f"select i1 {is_none}, ptr {pos}, ptr {last}")
    )


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


def emit_by_place(
    text: FunctionText,
    inside: str,
    in_vectors: Callable[[], None],
    in_lines: Callable[[], None],
    label: str = "",
) -> None:
    """``in_vectors`` where rows begin with a cache line, else ``in_lines``.

    ``inside``: the bytes from a row's line to the row. Vectors of rows that begin with a line lie
    in one line each, and there is one less than lines of other rows. ``label`` tells this choice
    from others in the function.
    """

    def form(body: Callable[[], None]) -> Values:
        body()
        return []

    is_whole = text.value(f"icmp eq i64 {inside}, 0")
    emit_when(text, f"whole{label}", is_whole, (), partial(form, in_vectors))
    is_inside = text.value(f"icmp ne i64 {inside}, 0")
    emit_when(text, f"inside{label}", is_inside, (), partial(form, in_lines))
