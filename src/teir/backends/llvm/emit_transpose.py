"""Transposing copies: square tiles in registers, edges by a tile that overlaps its neighbour.

A tile of L rows of L elements is transposed in log2(L) stages of two-vector shuffles: stages
inside 128-bit parts interleave neighbouring rows with ever larger elements, then stages that move
whole 128-bit parts. All patterns are instructions of one cycle on x86 (unpack, shuffle of parts).

A tile asks for the line of each of its rows that a later tile of the row reads: rows are far apart,
and more of them than the processor follows by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.llvm.emit_chunks import elements_in_front
from teir.backends.llvm.emit_shuffles import Shuffles
from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    ask_to_store,
    cache_of_next,
    constants,
    prefetch,
    shift_pointer,
    vector,
)
from teir.lower.copy_kernels import TransposeCopy
from teir.target import LINE_BYTES, Isa

_ARGUMENTS = ("m", "n", "in_n", "out_m")

_PART_BYTES = 16
_LARGEST_TILE = 16
_TILES_AHEAD = 6
"""Tiles in whose time a line arrives from the third cache."""
_STORED_LINES_AHEAD = 2
"""From what is stored to what is asked for to be stored soon; one line and three gained less."""
_PIECE_PARTS = 2
"""128-bit parts one load brings; a load places them for free where a shuffle would cost."""


def transpose_arguments(kernel: TransposeCopy) -> tuple[str, ...]:
    return (*_ARGUMENTS, "out_row") if kernel.grouped > 1 else _ARGUMENTS


def emit_transpose_body(kernel: TransposeCopy, isa: Isa) -> FunctionText:
    """The body for operands %A (adjacent along m), %B (adjacent along n), `TransposeCopy`."""
    side = _tile_side(kernel)
    text = FunctionText()
    text.label("entry")
    text.effect(f"%m_last = sub i64 %m, {side}")
    text.effect(f"%n_last = sub i64 %n, {side}")
    if side > 1:
        _emit_distance(text, kernel, side)
    text.effect("%shorter = call i64 @llvm.smin.i64(i64 %m_last, i64 %n_last)")
    text.effect("%narrow = icmp slt i64 %shorter, 0")
    if kernel.aligns:
        _emit_first_step(text, kernel.element_bytes, side)
    text.effect("br i1 %narrow, label %element_row, label %row")
    _emit_tile_loops(text, kernel, side, isa)
    if _asks_apart(kernel, side):
        _emit_asking(text, side, cache_of_next(isa))
    _emit_element_loops(text, kernel)
    text.label("exit")
    text.effect("ret void")
    return text


def _emit_tile_loops(text: FunctionText, kernel: TransposeCopy, side: int, isa: Isa) -> None:
    """Blocks %row and %tile; a last tile that would stick out is moved back over its neighbour."""
    element_bytes = kernel.element_bytes
    text.label("row")
    text.effect("%i = phi i64 [ 0, %entry ], [ %i_next, %row_end ]")
    text.effect("%i_tile = call i64 @llvm.smin.i64(i64 %i, i64 %m_last)")
    text.effect(f"%a_start = mul i64 %i_tile, {_along_bytes(kernel)}")
    text.effect("%a_row = getelementptr i8, ptr %A, i64 %a_start")
    _emit_row_offset(text, kernel, "%b_start", "%i_tile")
    text.effect("%b_row = getelementptr i8, ptr %B, i64 %b_start")
    asks_apart = _asks_apart(kernel, side)
    if asks_apart:
        text.effect(f"%in_line = and i64 %a_start, {LINE_BYTES - 1}")
        text.effect("%is_line = icmp eq i64 %in_line, 0")
    text.effect("br label %tile")
    text.label("tile")
    end = "move" if asks_apart else "tile"
    text.effect(f"%j = phi i64 [ 0, %row ], [ %j_next, %{end} ]")
    text.effect("%j_tile = call i64 @llvm.smin.i64(i64 %j, i64 %n_last)")
    text.effect("%a_across = mul i64 %j_tile, %in_n")
    text.effect("%a = getelementptr i8, ptr %a_row, i64 %a_across")
    text.effect(f"%b_across = mul i64 %j_tile, {element_bytes}")
    text.effect("%b = getelementptr i8, ptr %b_row, i64 %b_across")
    if asks_apart:
        text.effect("br i1 %is_line, label %ask, label %move")
        text.label("move")
    _emit_tile(text, kernel, side, isa)
    step = f"{side}"
    if kernel.aligns:
        is_first = text.value("icmp eq i64 %j, 0")
        step = text.value(f"select i1 {is_first}, i64 %first_step, i64 {side}")
    text.effect(f"%j_next = add i64 %j, {step}")
    text.effect("%j_more = icmp slt i64 %j_next, %n")
    text.effect("br i1 %j_more, label %tile, label %row_end")
    text.label("row_end")
    text.effect(f"%i_next = add i64 %i, {side}")
    text.effect("%i_more = icmp slt i64 %i_next, %m")
    text.effect("br i1 %i_more, label %row, label %exit")


def _emit_first_step(text: FunctionText, element_bytes: int, side: int) -> None:
    """%first_step: elements of a row of the output in front of its first whole line, or a tile."""
    head = elements_in_front(text, "%B", element_bytes, side, side)
    is_cut = text.value(f"icmp ne i64 {head}, 0")
    text.effect(f"%first_step = select i1 {is_cut}, i64 {head}, i64 {side}")


def _tile_side(kernel: TransposeCopy) -> int:
    """Rows of a tile; a tile narrower than half a 128-bit part is moved by elements."""
    side = min(kernel.lanes, _LARGEST_TILE)
    return side if side * kernel.element_bytes >= _PART_BYTES // 2 else 1


def _element(element_bytes: int) -> str:
    """The LLVM type of the integers an element is moved as; 16 bytes are two of them."""
    return {2: "i16", 4: "i32", 8: "i64", 16: "i64"}[element_bytes]


def _emit_tile(text: FunctionText, kernel: TransposeCopy, side: int, isa: Isa) -> None:
    """Loads put the 128-bit parts in place, in pieces of ``_piece_parts`` parts, then shuffles."""
    tile = SquareTile(text, kernel.element_bytes, side, kernel.step)
    places = [_row_place(text, "%a", "%in_n", row) for row in range(side)]
    if side > 1 and not _asks_apart(kernel, side):
        _ask(text, places, cache_of_next(isa), _lines_of_a_row(kernel, side))
    columns = tile.transposed([tile.loaded_parts(group) for group in tile.across(places)])
    for row, value in enumerate(columns):
        group, inside = divmod(row, kernel.grouped)
        place = _row_place(text, "%b", "%out_m", group)
        place = _row_place(text, place, "%out_row", inside)
        text.effect(f"store {tile.kind} {value}, ptr {place}, align 1")
        ask_to_store(text, isa, place, _STORED_LINES_AHEAD)


def _along_bytes(kernel: TransposeCopy) -> int:
    """From one element of a row of the input to the next."""
    return kernel.step * kernel.element_bytes


def _asks_apart(kernel: TransposeCopy, side: int) -> bool:
    """True where several tiles share a line of a row, which is asked for once."""
    return side > 1 and side * _along_bytes(kernel) < LINE_BYTES


def _lines_of_a_row(kernel: TransposeCopy, side: int) -> int:
    """Lines that a row of a tile is read from."""
    return max(1, side * _along_bytes(kernel) // LINE_BYTES)


def _emit_distance(text: FunctionText, kernel: TransposeCopy, side: int) -> None:
    """%ahead: the last byte of the lines that are asked for, some tiles after the present one."""
    text.effect(f"%n_over = add i64 %n, {side - 1}")
    text.effect(f"%tiles = sdiv i64 %n_over, {side}")
    text.effect(f"%tiles_ahead = add i64 %tiles, {_TILES_AHEAD - 1}")
    text.effect("%lines_ahead = sdiv i64 %tiles_ahead, %tiles")
    row_bytes = max(side * _along_bytes(kernel), LINE_BYTES)
    text.effect(
        f"%bytes_ahead = mul i64 %lines_ahead, {_lines_of_a_row(kernel, side) * LINE_BYTES}"
    )
    text.effect(f"%ahead = add i64 %bytes_ahead, {row_bytes - 1}")


def _emit_asking(text: FunctionText, side: int, cache: Cache) -> None:
    """Block %ask, before the first of the tiles that share a line."""
    text.label("ask")
    _ask(text, [_row_place(text, "%a", "%in_n", row) for row in range(side)], cache, 1)
    text.effect("br label %move")


def _ask(text: FunctionText, places: Sequence[str], cache: Cache, lines: int) -> None:
    for place in places:
        address = shift_pointer(text, place, "%ahead")
        for line in range(lines):
            prefetch(text, shift_pointer(text, address, -line * LINE_BYTES), cache)


def _emit_row_offset(text: FunctionText, kernel: TransposeCopy, name: str, row: str) -> None:
    """``name``: where a row of the output lies, in bytes."""
    if kernel.grouped == 1:
        text.effect(f"{name} = mul i64 {row}, %out_m")
        return
    group = text.value(f"lshr i64 {row}, {kernel.grouped.bit_length() - 1}")
    inside = text.value(f"and i64 {row}, {kernel.grouped - 1}")
    whole, rest = text.value(f"mul i64 {group}, %out_m"), text.value(f"mul i64 {inside}, %out_row")
    text.effect(f"{name} = add i64 {whole}, {rest}")


def _emit_element_loops(text: FunctionText, kernel: TransposeCopy) -> None:
    """Blocks %element_row and %element: one element at a time, for less than a tile."""
    element_bytes = kernel.element_bytes
    element = vector("i64", 2) if element_bytes == _PART_BYTES else _element(element_bytes)
    text.label("element_row")
    text.effect("%r = phi i64 [ 0, %entry ], [ %r_next, %element_row_end ]")
    text.effect(f"%a_r = mul i64 %r, {_along_bytes(kernel)}")
    _emit_row_offset(text, kernel, "%b_r", "%r")
    text.effect("br label %element")
    text.label("element")
    text.effect("%s = phi i64 [ 0, %element_row ], [ %s_next, %element ]")
    text.effect("%a_s = mul i64 %s, %in_n")
    text.effect("%a_rs = add i64 %a_r, %a_s")
    text.effect("%from = getelementptr i8, ptr %A, i64 %a_rs")
    text.effect(f"%b_s = mul i64 %s, {element_bytes}")
    text.effect("%b_rs = add i64 %b_r, %b_s")
    text.effect("%to = getelementptr i8, ptr %B, i64 %b_rs")
    text.effect(f"%moved = load {element}, ptr %from, align 1")
    text.effect(f"store {element} %moved, ptr %to, align 1")
    text.effect("%s_next = add i64 %s, 1")
    text.effect("%s_more = icmp slt i64 %s_next, %n")
    text.effect("br i1 %s_more, label %element, label %element_row_end")
    text.label("element_row_end")
    text.effect("%r_next = add i64 %r, 1")
    text.effect("%r_more = icmp slt i64 %r_next, %m")
    text.effect("br i1 %r_more, label %element_row, label %exit")


def _row_place(text: FunctionText, start: str, stride: str, row: int) -> str:
    if row == 0:
        return start
    return shift_pointer(text, start, text.value(f"mul i64 {stride}, {row}"))


class SquareTile:
    """The vectors of one square tile: ``side`` rows of ``side`` elements.

    A row is ``parts`` parts of 128 bits, each of ``inside`` elements (fewer bits for tiny tiles).
    ``step``: elements from one that is loaded to the next; rows come whole where they lie apart.
    """

    __slots__ = ("_bytes", "_element_bytes", "_step", "_text", "inside", "kind", "parts", "words")

    def __init__(self, text: FunctionText, element_bytes: int, side: int, step: int = 1) -> None:
        self._text = text
        self._element_bytes = element_bytes
        self._step = step
        self._bytes = side * element_bytes
        self.inside = min(side, max(1, _PART_BYTES // element_bytes))
        self.parts = side // self.inside
        numbers = 2 * side if element_bytes == _PART_BYTES else side
        self.kind = vector(_element(element_bytes), numbers)
        self.words = self.kind if self._bytes < 8 else vector("i64", self._bytes // 8)

    def across(self, rows: Sequence[str]) -> list[list[str]]:
        """For every row of a part, that row and the ones a multiple of ``inside`` below it."""
        return [list(rows[row :: self.inside]) for row in range(self.inside)]

    def loaded_parts(self, places: Sequence[str]) -> list[str]:
        """Result p is part p of the row at every place, as words; one place per part."""
        if self._step > 1:
            return self.gathered([self._picked_row(place) for place in places])
        if self.parts == 1:
            return [self._text.value(f"load {self.words}, ptr {places[0]}, align 1")]
        found: list[str] = []
        for part in range(0, self.parts, self.pieces):
            found += self.loaded_piece(places, part)
        return found

    @property
    def pieces(self) -> int:
        """Parts that one load brings."""
        return min(_PIECE_PARTS, self.parts)

    def loaded_piece(self, places: Sequence[str], part: int) -> list[str]:
        """Parts ``part`` to ``part + pieces - 1`` of the rows at every place; one place a part."""
        words = 2 * self.pieces
        loaded = [self._load_words(place, part, words) for place in places]
        while len(loaded) > self.pieces:
            loaded = self._joined(loaded, words)
            words *= 2
        return self.gathered(loaded)

    def gathered(self, vectors: Sequence[str]) -> list[str]:
        """Sort parts: result p is every part with number p modulo len(vectors), in order."""
        if len(vectors) == 1:
            return list(vectors)
        parts = 2 * self.parts
        even: list[str] = []
        odd: list[str] = []
        for first, second in zip(vectors[::2], vectors[1::2], strict=True):
            for offset, results in ((0, even), (1, odd)):
                pattern = [2 * part + word for part in range(offset, parts, 2) for word in range(2)]
                results.append(self._shuffle(self.words, first, second, pattern))
        pairs = zip(self.gathered(even), self.gathered(odd), strict=True)
        return [value for pair in pairs for value in pair]

    def transposed(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Columns in order, of all parts or some; ``rows[i][p]`` has row i's part p."""
        columns: list[str] = []
        for part in range(len(rows[0])):
            across = [self._cast(row[part], self.words, self.kind) for row in rows]
            columns += self._interleaved(across, self.kind, self._element_bytes)
        return columns

    def _interleaved(self, rows: Sequence[str], kind: str, element_bytes: int) -> list[str]:
        """Transpose inside each 128-bit part."""
        if len(rows) == 1:
            return [self._cast(rows[0], kind, self.kind)]
        low: list[str] = []
        high: list[str] = []
        count = self._bytes // element_bytes
        per_part = min(count, _PART_BYTES // element_bytes)
        for first, second in zip(rows[::2], rows[1::2], strict=True):
            for half, results in ((0, low), (per_part // 2, high)):
                pattern = [
                    part + half + pair // 2 + (count if pair % 2 else 0)
                    for part in range(0, count, per_part)
                    for pair in range(per_part)
                ]
                results.append(self._shuffle(kind, first, second, pattern))
        if len(low) == 1:
            return [self._cast(value, kind, self.kind) for value in (*low, *high)]
        wide = vector(f"i{16 * element_bytes}", count // 2)
        low = [self._cast(value, kind, wide) for value in low]
        high = [self._cast(value, kind, wide) for value in high]
        return [
            *self._interleaved(low, wide, 2 * element_bytes),
            *self._interleaved(high, wide, 2 * element_bytes),
        ]

    def _picked_row(self, place: str) -> str:
        shuffles = Shuffles(self._text, self._element_bytes, self._bytes // self._element_bytes)
        return self._cast(shuffles.every(place, self._step), shuffles.kind, self.words)

    def _load_words(self, place: str, part: int, words: int) -> str:
        address = shift_pointer(self._text, place, part * _PART_BYTES)
        return self._text.value(f"load {vector('i64', words)}, ptr {address}, align 1")

    def _joined(self, pieces: Sequence[str], words: int) -> list[str]:
        """Neighbouring vectors of ``words`` words put end to end, in pairs."""
        return [
            self._shuffle(vector("i64", words), first, second, range(2 * words))
            for first, second in zip(pieces[::2], pieces[1::2], strict=True)
        ]

    def _cast(self, value: str, kind: str, wanted: str) -> str:
        if kind == wanted:
            return value
        return self._text.value(f"bitcast {kind} {value} to {wanted}")

    def _shuffle(self, kind: str, first: str, second: str, pattern: Sequence[int]) -> str:
        lanes = f"<{len(pattern)} x i32> {constants('i32', pattern)}"
        return self._text.value(f"shufflevector {kind} {first}, {kind} {second}, {lanes}")
