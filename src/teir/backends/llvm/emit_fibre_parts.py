"""Parts of fibres, listed: what of every fibre has coordinates below the next limit.

    for every row, for every fibre of it:
        begin = where its part before ended, end = begin
        16 coordinates at a time: end += how many are below the limit, until one is not
        bounds, number or coordinate of the fibre, where the next part would be listed
        one part more, unless this one is empty

A part is written before it is known to be empty, so that no branch asks; there is a place for it,
for there is one for every fibre.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.llvm.emit_fibres import load_index
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_strides
from teir.backends.llvm.emit_text import FunctionText, constants, shift_pointer, splat, vector
from teir.dtypes import DataType
from teir.lower.walked_kernels import FibreParts

FIBRE_PARTS_OPERANDS = 9
FIBRE_PARTS_ARGUMENTS = ("rows", "size", "first", "keeps")
_AT_ONCE = 16
"""Coordinates that are compared with the limit together."""


def emit_fibre_parts_body(kernel: FibreParts, operands: Sequence[str]) -> FunctionText:
    """The body of the function for ``operands`` and the arguments of `FibreParts`."""
    text = FunctionText()
    text.label("entry")
    body = _Body(text, kernel, operands)
    text.effect(f"store i64 {body.limit}, ptr {operands[4]}, align 1")
    body.store(6, kernel.types[0], "0", "0")
    carried = [Carried("i64", "0"), Carried("i64", "0")]
    emit_loop(text, "each_row", "%rows", 1, carried, body.add_row)
    text.effect("ret void")
    return text


class _Body:
    """The body while it is written."""

    def __init__(self, text: FunctionText, kernel: FibreParts, operands: Sequence[str]) -> None:
        self._text, self._kernel, self._operands = text, kernel, operands
        self._is_first = text.value("icmp ne i64 %first, 0")
        before = text.value(f"load i64, ptr {operands[4]}, align 1")
        known = text.value(f"select i1 {self._is_first}, i64 0, i64 {before}")
        self.limit = text.value(f"add i64 {known}, %size")
        kept = text.value("icmp ne i64 %keeps, 0")
        self._keeps = text.value(f"and i1 {self._is_first}, {kept}")
        self._begin = load_index(text, kernel.types[0], operands[0])

    def add_row(self, now: Values) -> Values:
        """The parts of a row: ``now`` is its number, and that of its first part."""
        text, (row, part), pos_type = self._text, now, self._kernel.types[0]
        following = text.value(f"add i64 {row}, 1")
        fibre, end = (self._load(0, pos_type, number) for number in (row, following))
        left = text.value(f"sub i64 {end}, {fibre}")
        carried = [Carried("i64", fibre), Carried("i64", part)]
        _, (_, part) = emit_loop(text, "each_fibre", left, 1, carried, self._add_fibre)
        self.store(6, pos_type, following, part)
        return [following, part]

    def _add_fibre(self, now: Values) -> Values:
        text, (fibre, part) = self._text, now
        _, crd1_type, pos2_type, _ = self._kernel.types
        following = text.value(f"add i64 {fibre}, 1")
        stored, last = (self._load(2, pos2_type, number) for number in (fibre, following))
        cursor = text.value(f"sub i64 {fibre}, {self._begin}")
        left_off = self._load(5, pos2_type, cursor)
        begin = text.value(f"select i1 {self._is_first}, i64 {stored}, i64 {left_off}")
        end = self._end(begin, last)
        twice = text.value(f"shl i64 {part}, 1")
        name = fibre if self._kernel.is_numbered else self._load(1, crd1_type, fibre)
        self.store(5, pos2_type, cursor, end)
        self.store(8, pos2_type, twice, begin)
        self.store(8, pos2_type, text.value(f"or i64 {twice}, 1"), end)
        self.store(7, crd1_type, part, name)
        has_some = text.value(f"icmp sgt i64 {end}, {begin}")
        is_listed = text.value(f"or i1 {has_some}, {self._keeps}")
        more = text.value(f"zext i1 {is_listed} to i64")
        return [following, text.value(f"add i64 {part}, {more}")]

    def _end(self, begin: str, last: str) -> str:
        """The first position from ``begin`` on, but for ``last``, with a coordinate too large."""
        text, crd_type = self._text, self._kernel.types[3]
        element, lanes = f"i{8 * crd_type.width}", _AT_ONCE
        kind, bits = vector(element, lanes), vector("i1", lanes)
        limit = self.limit
        if element != "i64":
            most = text.value(f"call i64 @llvm.smin.i64(i64 {limit}, i64 {2**31 - 1})")
            limit = text.value(f"trunc i64 {most} to {element}")
        wide, numbered = splat(text, element, limit, lanes), constants("i64", range(lanes))
        many = vector("i64", lanes)

        def count(left: str, now: Values) -> tuple[str, Values]:
            place = self._place(3, crd_type, now[0])
            there = text.value(f"icmp slt {many} {numbered}, {splat(text, 'i64', left, lanes)}")
            loaded = text.value(
                f"call {kind} @llvm.masked.load.v{lanes}{element}.p0(ptr {place}, i32 1, "
                f"{bits} {there}, {kind} zeroinitializer)"
            )
            below = text.value(f"icmp slt {kind} {loaded}, {wide}")
            both = text.value(f"and {bits} {below}, {there}")
            mask = text.value(f"bitcast {bits} {both} to i{lanes}")
            found = text.value(f"call i{lanes} @llvm.ctpop.i{lanes}(i{lanes} {mask})")
            taken = text.value(f"zext i{lanes} {found} to i64")
            is_whole = text.value(f"icmp eq i64 {taken}, {lanes}")
            step = text.value(f"select i1 {is_whole}, i64 {lanes}, i64 {left}")
            return step, [text.value(f"add i64 {now[0]}, {taken}")]

        some = text.value(f"sub i64 {last}, {begin}")
        return emit_strides(text, "each_vector", some, [Carried("i64", begin)], count)[0]

    def _place(self, operand: int, data_type: DataType, number: str) -> str:
        byte = self._text.value(f"mul i64 {number}, {data_type.width}")
        return shift_pointer(self._text, self._operands[operand], byte)

    def _load(self, operand: int, data_type: DataType, number: str) -> str:
        return load_index(self._text, data_type, self._place(operand, data_type, number))

    def store(self, operand: int, data_type: DataType, number: str, value: str) -> None:
        text, element = self._text, f"i{8 * data_type.width}"
        place = self._place(operand, data_type, number)
        if element != "i64":
            value = text.value(f"trunc i64 {value} to {element}")
        text.effect(f"store {element} {value}, ptr {place}, align 1")
