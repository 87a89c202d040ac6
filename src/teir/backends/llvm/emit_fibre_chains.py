"""The sum over one fibre in chains, by vectors of positions.

    while more are left than a vector has { chains += values[p : p + n] * x[crd[p : p + n]] }
    the last ones, under a mask
    halves added to halves

The last vector is there whatever the length: rows of up to so many elements take no branch. Where
gathers are quick, one reads what the coordinates name; elsewhere each lane is read by itself, those
behind the end from the last element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from teir.backends.llvm.emit_fibres import load_index
from teir.backends.llvm.emit_halving import emit_halving
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_when
from teir.backends.llvm.emit_products import Arithmetic, add_all
from teir.backends.llvm.emit_text import FunctionText, constants, shift_pointer, splat, vector
from teir.dtypes import DataType
from teir.lower.walked_kernels import Follows, WalkedSum
from teir.target import Isa


@dataclass(frozen=True, slots=True)
class FibreChains:
    """One fibre of a `WalkedSum` with chains while its sum is written.

    ``crd`` holds its coordinates, ``pointers`` the inputs as far as its positions and coordinates
    move them, ``factors`` the other inputs, which are one number for all of it, in all lanes.
    """

    text: FunctionText
    kernel: WalkedSum
    isa: Isa
    crd: str
    pointers: Mapping[int, str]
    factors: Mapping[int, str]

    @property
    def lanes(self) -> int:
        assert self.kernel.chains is not None
        return self.kernel.chains

    @property
    def kind(self) -> Arithmetic:
        return Arithmetic(self.isa, self.kernel.in_type, self.lanes)

    def total(self, label: str, begin: str, length: str) -> str:
        """The sum of the fibre's products, a vector of one."""
        text, kind = self.text, self.kind.kind
        before_last = text.value(f"sub i64 {length}, 1")
        carried = [Carried("i64", begin), Carried(kind, "zeroinitializer")]
        left, (position, sums) = emit_loop(
            text, f"chains{label}", before_last, self.lanes, carried, self._whole
        )
        if self.isa.gathers_quickly:
            sums = self._rest(position, text.value(f"add i64 {left}, 1"), sums)
        else:
            some = text.value(f"icmp sgt i64 {length}, 0")
            rest = partial(self._last_lanes, position, left, sums)
            (sums,) = emit_when(text, f"rest{label}", some, [Carried(kind, sums)], rest)
        (pack,) = emit_halving(text, self.kind, [[sums]], 1)
        return pack.value

    def of_rows(self, position: str) -> str:
        """The sums of as many fibres of one element as there are chains, from ``position`` on."""
        return self._whole([position, "zeroinitializer"])[1]

    def _whole(self, now: Values) -> Values:
        """As many products as there are chains."""
        text, (position, sums) = self.text, now
        coordinates = None
        if any(one.follows is Follows.COORDINATE for one in self.kernel.inputs):
            index = f"i{8 * self.kernel.crd_type.width}"
            place = self._index_place(position)
            kind = vector(index, self.lanes)
            coordinates = text.value(f"load {kind}, ptr {place}, align 1")
        every = constants("i1", [1] * self.lanes)
        numbers = []
        for number, one in enumerate(self.kernel.inputs):
            if number in self.factors:
                numbers.append(self.factors[number])
            elif one.follows is Follows.POSITION and self.kernel.adjacent[number]:
                place = self._element_place(number, position)
                numbers.append(text.value(f"load {self.kind.kind}, ptr {place}, align 1"))
            elif self.isa.gathers_quickly:
                indices = self._indices(one.follows, position, coordinates)
                numbers.append(self._gathered(number, indices, every))
            else:
                places = [text.value(f"add i64 {position}, {lane}") for lane in range(self.lanes)]
                numbers.append(self._one_by_one(number, one.follows, places))
        following = add_all(text, self.kind, numbers, sums)
        return [text.value(f"add i64 {position}, {self.lanes}"), following]

    def _rest(self, position: str, left: str, sums: str) -> str:
        """The products of the last positions, none to as many as there are chains."""
        text, lanes = self.text, self.lanes
        many = splat(text, "i64", left, lanes)
        numbered = constants("i64", range(lanes))
        mask = text.value(f"icmp slt {vector('i64', lanes)} {numbered}, {many}")
        coordinates = None
        if any(one.follows is Follows.COORDINATE for one in self.kernel.inputs):
            index = f"i{8 * self.kernel.crd_type.width}"
            coordinates = self._masked_load(index, self._index_place(position), mask)
        numbers = []
        for number, one in enumerate(self.kernel.inputs):
            if number in self.factors:
                numbers.append(self.factors[number])
            elif one.follows is Follows.POSITION and self.kernel.adjacent[number]:
                place = self._element_place(number, position)
                numbers.append(self._masked_load(self.kind.element, place, mask))
            else:
                indices = self._indices(one.follows, position, coordinates)
                numbers.append(self._gathered(number, indices, mask))
        return self._where(mask, add_all(text, self.kind, numbers, sums), sums)

    def _last_lanes(self, position: str, left: str, sums: str) -> Values:
        """As `_rest`, of at least one; ``left`` is how many there are behind the first."""
        text, lanes = self.text, self.lanes
        places = []
        for lane in range(lanes):
            inside = text.value(f"call i64 @llvm.smin.i64(i64 {left}, i64 {lane})")
            places.append(text.value(f"add i64 {position}, {inside}"))
        many = splat(text, "i64", left, lanes)
        numbered = constants("i64", range(lanes))
        mask = text.value(f"icmp sle {vector('i64', lanes)} {numbered}, {many}")
        numbers = [
            self.factors[number]
            if number in self.factors
            else self._one_by_one(number, one.follows, places)
            for number, one in enumerate(self.kernel.inputs)
        ]
        return [self._where(mask, add_all(text, self.kind, numbers, sums), sums)]

    def _where(self, mask: str, made: str, sums: str) -> str:
        kind, bits = self.kind.kind, vector("i1", self.lanes)
        return self.text.value(f"select {bits} {mask}, {kind} {made}, {kind} {sums}")

    def _masked_load(self, element: str, place: str, mask: str) -> str:
        kind, suffix = vector(element, self.lanes), _suffix(element, self.lanes)
        return self.text.value(
            f"call {kind} @llvm.masked.load.{suffix}.p0(ptr {place}, i32 1, "
            f"<{self.lanes} x i1> {mask}, {kind} zeroinitializer)"
        )

    def _indices(self, follows: Follows, position: str, coordinates: str | None) -> tuple[str, str]:
        """Type and name of what the lanes of an input are numbered by."""
        if follows is Follows.COORDINATE:
            assert coordinates is not None
            return f"i{8 * self.kernel.crd_type.width}", coordinates
        kind = vector("i64", self.lanes)
        first = splat(self.text, "i64", position, self.lanes)
        numbered = constants("i64", range(self.lanes))
        return "i64", self.text.value(f"add {kind} {first}, {numbered}")

    def _gathered(self, number: int, index: tuple[str, str], mask: str) -> str:
        text, lanes, element = self.text, self.lanes, self.kind.element
        pointers, pointer = vector("ptr", lanes), self.pointers[number]
        integer, name = index
        if self.kernel.adjacent[number]:
            places = f"getelementptr {element}, ptr {pointer}, {vector(integer, lanes)} {name}"
        else:
            kind = vector("i64", lanes)
            if integer != "i64":
                name = text.value(f"sext {vector(integer, lanes)} {name} to {kind}")
            step = splat(text, "i64", f"%step{number}", lanes)
            far = text.value(f"mul {kind} {name}, {step}")
            places = f"getelementptr i8, ptr {pointer}, {kind} {far}"
        where, kind = text.value(places), self.kind.kind
        return text.value(
            f"call {kind} @llvm.masked.gather.{_suffix(element, lanes)}.v{lanes}p0("
            f"{pointers} {where}, i32 1, <{lanes} x i1> {mask}, {kind} zeroinitializer)"
        )

    def _one_by_one(self, number: int, follows: Follows, places: list[str]) -> str:
        """The elements of an input at some positions, each read by itself."""
        text, element, made = self.text, self.kind.element, "poison"
        for lane, place in enumerate(places):
            index = place
            if follows is Follows.COORDINATE:
                index = load_index(text, self.kernel.crd_type, self._index_place(place))
            here = self._element_place(number, index)
            loaded = text.value(f"load {element}, ptr {here}, align 1")
            kind = self.kind.kind
            made = text.value(f"insertelement {kind} {made}, {element} {loaded}, i64 {lane}")
        return made

    def _element_place(self, number: int, index: str) -> str:
        """The element of an input at a position or a coordinate."""
        text, pointer = self.text, self.pointers[number]
        if self.kernel.adjacent[number]:
            return text.value(f"getelementptr {self.kind.element}, ptr {pointer}, i64 {index}")
        return shift_pointer(text, pointer, text.value(f"mul i64 {index}, %step{number}"))

    def _index_place(self, position: str) -> str:
        index = "i64" if self.kernel.crd_type is DataType.I64 else "i32"
        return self.text.value(f"getelementptr {index}, ptr {self.crd}, i64 {position}")


def _suffix(element: str, lanes: int) -> str:
    return f"v{lanes}" + {"float": "f32", "double": "f64"}.get(element, element)
