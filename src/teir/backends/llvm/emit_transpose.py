"""Transposing copies: square tiles in registers, edges masked or element by element.

A tile of L rows of L elements is transposed in log2(L) stages of two-vector shuffles: stages
inside 128-bit parts interleave neighbouring rows with ever larger elements, then stages that move
whole 128-bit parts. All patterns are instructions of one cycle on x86 (unpack, shuffle of parts).
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.llvm.emit_text import FunctionText, constants, shift_pointer, splat, vector
from teir.lower.kernels import TransposeCopy
from teir.target import Isa

TRANSPOSE_ARGUMENTS = ("m", "n", "in_n", "out_m")

_PART_BYTES = 16
_LARGEST_TILE = 16


def emit_transpose_body(kernel: TransposeCopy, isa: Isa) -> FunctionText:
    """The body for operands %A (adjacent along m), %B (adjacent along n), `TransposeCopy`."""
    side = _tile_side(kernel)
    text = FunctionText()
    text.label("entry")
    text.effect("br label %row")
    text.label("row")
    text.effect("%m_done = phi i64 [ 0, %entry ], [ %m_next, %row_end ]")
    text.effect("%m_left = sub i64 %m, %m_done")
    text.effect(f"%a_start = mul i64 %m_done, {kernel.element_bytes}")
    text.effect("%a_row = getelementptr i8, ptr %A, i64 %a_start")
    text.effect("%b_start = mul i64 %m_done, %out_m")
    text.effect("%b_row = getelementptr i8, ptr %B, i64 %b_start")
    text.effect("br label %tile")
    text.label("tile")
    text.effect("%n_done = phi i64 [ 0, %row ], [ %n_next, %tile_end ]")
    text.effect("%n_left = sub i64 %n, %n_done")
    text.effect("%a_across = mul i64 %n_done, %in_n")
    text.effect("%a = getelementptr i8, ptr %a_row, i64 %a_across")
    text.effect(f"%b_across = mul i64 %n_done, {kernel.element_bytes}")
    text.effect("%b = getelementptr i8, ptr %b_row, i64 %b_across")
    text.effect(f"%m_full = icmp sge i64 %m_left, {side}")
    text.effect(f"%n_full = icmp sge i64 %n_left, {side}")
    text.effect("%full = and i1 %m_full, %n_full")
    text.effect("br i1 %full, label %whole, label %edge")
    text.label("whole")
    _emit_whole_tile(text, kernel.element_bytes, side)
    text.effect("br label %tile_end")
    text.label("edge")
    if isa.has_masks and kernel.element_bytes < _PART_BYTES:
        _emit_masked_tile(text, kernel.element_bytes, side)
        text.effect("br label %tile_end")
    else:
        _emit_scalar_tile(text, kernel.element_bytes, side)
    text.label("tile_end")
    text.effect(f"%n_next = add i64 %n_done, {side}")
    text.effect("%n_more = icmp slt i64 %n_next, %n")
    text.effect("br i1 %n_more, label %tile, label %row_end")
    text.label("row_end")
    text.effect(f"%m_next = add i64 %m_done, {side}")
    text.effect("%m_more = icmp slt i64 %m_next, %m")
    text.effect("br i1 %m_more, label %row, label %exit")
    text.label("exit")
    text.effect("ret void")
    return text


def _tile_side(kernel: TransposeCopy) -> int:
    """Rows of a tile; a tile narrower than half a 128-bit part is moved by elements."""
    side = min(kernel.lanes, _LARGEST_TILE)
    return side if side * kernel.element_bytes >= _PART_BYTES // 2 else 1


def _element(element_bytes: int) -> str:
    """An LLVM type of that width that vector registers hold."""
    return {2: "i16", 4: "i32", 8: "i64", 16: "<2 x i64>"}[element_bytes]


def _emit_whole_tile(text: FunctionText, element_bytes: int, side: int) -> None:
    kind = _row_kind(element_bytes, side)
    rows = []
    for row in range(side):
        place = _row_place(text, "%a", "%in_n", row)
        rows.append(text.value(f"load {kind}, ptr {place}, align 1"))
    for row, value in enumerate(_transposed(text, rows, element_bytes)):
        place = _row_place(text, "%b", "%out_m", row)
        text.effect(f"store {kind} {value}, ptr {place}, align 1")


def _emit_masked_tile(text: FunctionText, element_bytes: int, side: int) -> None:
    """As the whole tile; rows and lanes beyond the edges have an empty mask."""
    kind = _row_kind(element_bytes, side)
    suffix = f"v{side}{_element(element_bytes)}.p0"
    rows = []
    for row in range(side):
        mask = _edge_mask(text, "%m_left", "%n_left", row, side)
        place = _row_place(text, "%a", "%in_n", row)
        rows.append(
            text.value(
                f"call {kind} @llvm.masked.load.{suffix}(ptr {place}, i32 1, {mask}, "
                f"{kind} zeroinitializer)"
            )
        )
    for row, value in enumerate(_transposed(text, rows, element_bytes)):
        mask = _edge_mask(text, "%n_left", "%m_left", row, side)
        place = _row_place(text, "%b", "%out_m", row)
        text.effect(
            f"call void @llvm.masked.store.{suffix}({kind} {value}, ptr {place}, i32 1, {mask})"
        )


def _edge_mask(text: FunctionText, lanes_left: str, rows_left: str, row: int, side: int) -> str:
    """Lanes below ``lanes_left`` if ``row`` exists, else none (type included)."""
    exists = text.value(f"icmp sgt i64 {rows_left}, {row}")
    lanes = text.value(f"select i1 {exists}, i64 {lanes_left}, i64 0")
    capped = text.value(f"call i64 @llvm.smin.i64(i64 {lanes}, i64 {side})")
    short = text.value(f"trunc i64 {capped} to i32")
    wide = splat(text, "i32", short, side)
    mask = text.value(f"icmp ult {vector('i32', side)} {constants('i32', range(side))}, {wide}")
    return f"{vector('i1', side)} {mask}"


def _emit_scalar_tile(text: FunctionText, element_bytes: int, side: int) -> None:
    """Element by element over what exists of the tile; ends in a branch to %tile_end."""
    element = _element(element_bytes)
    text.effect(f"%m_some = call i64 @llvm.smin.i64(i64 %m_left, i64 {side})")
    text.effect(f"%n_some = call i64 @llvm.smin.i64(i64 %n_left, i64 {side})")
    text.effect("br label %edge_row")
    text.label("edge_row")
    text.effect("%i = phi i64 [ 0, %edge ], [ %i_next, %edge_row_end ]")
    text.effect(f"%a_i = mul i64 %i, {element_bytes}")
    text.effect("%b_i = mul i64 %i, %out_m")
    text.effect("br label %edge_element")
    text.label("edge_element")
    text.effect("%j = phi i64 [ 0, %edge_row ], [ %j_next, %edge_element ]")
    text.effect("%a_j = mul i64 %j, %in_n")
    text.effect("%a_ij = add i64 %a_i, %a_j")
    text.effect("%from = getelementptr i8, ptr %a, i64 %a_ij")
    text.effect(f"%b_j = mul i64 %j, {element_bytes}")
    text.effect("%b_ij = add i64 %b_i, %b_j")
    text.effect("%to = getelementptr i8, ptr %b, i64 %b_ij")
    text.effect(f"%moved = load {element}, ptr %from, align 1")
    text.effect(f"store {element} %moved, ptr %to, align 1")
    text.effect("%j_next = add i64 %j, 1")
    text.effect("%j_more = icmp slt i64 %j_next, %n_some")
    text.effect("br i1 %j_more, label %edge_element, label %edge_row_end")
    text.label("edge_row_end")
    text.effect("%i_next = add i64 %i, 1")
    text.effect("%i_more = icmp slt i64 %i_next, %m_some")
    text.effect("br i1 %i_more, label %edge_row, label %tile_end")


def _row_place(text: FunctionText, start: str, stride: str, row: int) -> str:
    if row == 0:
        return start
    return shift_pointer(text, start, text.value(f"mul i64 {stride}, {row}"))


def _row_kind(element_bytes: int, side: int) -> str:
    if element_bytes == _PART_BYTES:
        return vector("i64", 2 * side)
    return vector(_element(element_bytes), side)


def _transposed(text: FunctionText, rows: list[str], element_bytes: int) -> list[str]:
    """The columns of the square matrix with the given rows."""
    side = len(rows)
    if side == 1:
        return rows
    tile = _Registers(text, side * element_bytes)
    inside = min(side, _PART_BYTES // element_bytes)
    if inside == 1:
        return tile.gathered(rows)
    kind = _row_kind(element_bytes, side)
    groups = [
        tile.interleaved(rows[start : start + inside], kind, element_bytes)
        for start in range(0, side, inside)
    ]
    if len(groups) == 1:
        return tile.recast(groups[0], kind)
    columns: list[str] = [""] * side
    for column in range(inside):
        parts = tile.gathered([group[column] for group in groups])
        for part, value in enumerate(parts):
            columns[part * inside + column] = value
    return tile.recast(columns, kind)


class _Registers:
    """Shuffles of vectors of one width; between stages every vector is one of 64-bit words."""

    __slots__ = ("_bytes", "_text")

    def __init__(self, text: FunctionText, vector_bytes: int) -> None:
        self._text = text
        self._bytes = vector_bytes

    @property
    def words(self) -> str:
        return vector("i64", self._bytes // 8)

    def recast(self, values: Sequence[str], kind: str) -> list[str]:
        if kind == self.words:
            return list(values)
        return [self._text.value(f"bitcast {self.words} {value} to {kind}") for value in values]

    def interleaved(self, rows: Sequence[str], kind: str, element_bytes: int) -> list[str]:
        """Transpose inside each 128-bit part: part p of result c is column c of part p."""
        if len(rows) == 1:
            if kind == self.words:
                return list(rows)
            return [self._text.value(f"bitcast {kind} {rows[0]} to {self.words}")]
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
        wide_bytes = 2 * element_bytes
        if len(low) == 1:
            wide = kind
        else:
            wide = vector(f"i{8 * wide_bytes}", self._bytes // wide_bytes)
            low = [self._text.value(f"bitcast {kind} {value} to {wide}") for value in low]
            high = [self._text.value(f"bitcast {kind} {value} to {wide}") for value in high]
        return self.interleaved(low, wide, wide_bytes) + self.interleaved(high, wide, wide_bytes)

    def gathered(self, vectors: Sequence[str]) -> list[str]:
        """Result p is part p of every vector, for as many vectors as a vector has parts."""
        if len(vectors) == 1:
            return list(vectors)
        parts = 2 * (self._bytes // _PART_BYTES)
        even: list[str] = []
        odd: list[str] = []
        for first, second in zip(vectors[::2], vectors[1::2], strict=True):
            for offset, results in ((0, even), (1, odd)):
                pattern = [2 * part + word for part in range(offset, parts, 2) for word in range(2)]
                results.append(self._shuffle(self.words, first, second, pattern))
        pairs = zip(self.gathered(even), self.gathered(odd), strict=True)
        return [value for pair in pairs for value in pair]

    def _shuffle(self, kind: str, first: str, second: str, pattern: Sequence[int]) -> str:
        lanes = f"<{len(pattern)} x i32> {constants('i32', pattern)}"
        return self._text.value(f"shufflevector {kind} {first}, {kind} {second}, {lanes}")
