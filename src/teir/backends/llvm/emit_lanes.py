"""Vectors in memory: adjacent, a stride apart or broadcast; whole or with a run-time lane count.

A `Lanes` value says where the lanes of one vector lie relative to a pointer; `load` and `store`
read it. Nothing outside the existing lanes is ever touched: instruction sets with masks use them,
elsewhere a lane that does not exist is directed to lane 0, which always exists (stores run from
the last lane to lane 0, so lane 0's own value is the one that stays). Every access works at any
alignment.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_numbers import number_bytes, numbers_per_element, stored_number
from teir.backends.llvm.emit_text import (
    FunctionText,
    constants,
    repeated,
    shift_pointer,
    shuffle,
    splat,
    vector,
)
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.target import Isa


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of one vector: ``count`` elements of ``data_type``.

    Exactly one form holds: ``broadcast``; adjacent (neither offsets are set), with ``mask`` over
    numbers or None for all; ``gather``, a vector of byte offsets with ``mask`` over elements; or
    ``scalars``, one byte offset (value or constant) per lane.
    """

    data_type: DataType
    count: int
    broadcast: bool = False
    mask: str | None = None
    gather: str | None = None
    scalars: tuple[str | int, ...] | None = None

    @property
    def numbers(self) -> int:
        """Numbers in one vector, two per complex element."""
        return self.count * numbers_per_element(self.data_type)

    @property
    def element(self) -> str:
        return stored_number(self.data_type)

    @property
    def kind(self) -> str:
        return vector(self.element, self.numbers)


def lanes_in_memory(
    text: FunctionText,
    isa: Isa,
    data_type: DataType,
    count: int,
    access: Access,
    stride_bytes: str,
    existing: str | None,
) -> Lanes:
    """Emit what addressing one vector needs; ``existing`` is a lane count of at least 1, or None.

    ``stride_bytes`` is a value name, read only for STRIDED.
    """
    if access is Access.BROADCAST:
        return Lanes(data_type, count, broadcast=True)
    if access is Access.UNIT and (existing is None or count == 1):
        return Lanes(data_type, count)
    if access is Access.UNIT and _has_masked_moves(isa, data_type):
        numbers = numbers_per_element(data_type)
        index = _index_of_mask(isa, data_type, count * numbers)
        return Lanes(data_type, count, mask=_mask(text, count, numbers, existing, index))
    if _has_gather(isa, data_type) and count > 1:
        offsets = _offset_vector(text, count, stride_bytes)
        index = _index_of_mask(isa, data_type, count)
        return Lanes(data_type, count, gather=offsets, mask=_mask(text, count, 1, existing, index))
    unit = str(data_type.width)
    stride = unit if access is Access.UNIT else stride_bytes
    return Lanes(data_type, count, scalars=_scalar_offsets(text, count, stride, existing))


def load(text: FunctionText, lanes: Lanes, pointer: str) -> str:
    """The stored numbers of the vector at ``pointer``; lanes that do not exist hold anything."""
    if lanes.broadcast:
        return _load_broadcast(text, lanes, pointer)
    if lanes.gather is not None:
        return _load_gather(text, lanes, pointer, lanes.gather)
    if lanes.scalars is not None:
        return _load_scalars(text, lanes, pointer, lanes.scalars)
    if lanes.mask is None:
        return text.value(f"load {lanes.kind}, ptr {pointer}, align 1")
    suffix = f"v{lanes.numbers}{_suffix(lanes.element)}"
    return text.value(
        f"call {lanes.kind} @llvm.masked.load.{suffix}.p0(ptr {pointer}, i32 1, "
        f"<{lanes.numbers} x i1> {lanes.mask}, {lanes.kind} zeroinitializer)"
    )


def store(text: FunctionText, lanes: Lanes, pointer: str, value: str) -> None:
    """Store the vector of stored numbers ``value``; a broadcast stores lane 0 only."""
    if lanes.broadcast:
        _store_scalars(text, lanes, pointer, (0,), value)
    elif lanes.gather is not None:
        _store_scatter(text, lanes, pointer, lanes.gather, value)
    elif lanes.scalars is not None:
        _store_scalars(text, lanes, pointer, lanes.scalars, value)
    elif lanes.mask is None:
        text.effect(f"store {lanes.kind} {value}, ptr {pointer}, align 1")
    else:
        suffix = f"v{lanes.numbers}{_suffix(lanes.element)}"
        text.effect(
            f"call void @llvm.masked.store.{suffix}.p0({lanes.kind} {value}, ptr {pointer}, "
            f"i32 1, <{lanes.numbers} x i1> {lanes.mask})"
        )


def load_number(text: FunctionText, data_type: DataType, pointer: str, part: int) -> str:
    """One stored number as a vector of one: part 0 real, part 1 imaginary."""
    address = shift_pointer(text, pointer, part * number_bytes(data_type))
    return text.value(f"load {vector(stored_number(data_type), 1)}, ptr {address}, align 1")


def _suffix(element: str) -> str:
    return {"float": "f32", "double": "f64"}.get(element, element)


def _has_masked_moves(isa: Isa, data_type: DataType) -> bool:
    return isa.has_masks or (isa is Isa.AVX2 and data_type.width >= 4)


def _has_gather(isa: Isa, data_type: DataType) -> bool:
    return isa.has_masks and data_type.width in (4, 8)


def _index_of_mask(isa: Isa, data_type: DataType, total: int) -> str:
    """The words that count ``total`` lanes: those of one vector.

    Masks of AVX2 are words as wide as the numbers they stand for: bits from wider ones are first
    packed. Blocks of 33 rows, columns and sums took 0.88 of the time (Zen 3, FP32).
    """
    if isa is Isa.AVX2:
        return f"i{8 * number_bytes(data_type)}"
    return "i64" if total <= 8 else "i32" if total <= 16 else "i16"


def lanes_below(text: FunctionText, isa: Isa, lanes: Lanes, count: str) -> str:
    """One bit per lane of a vector of plain numbers, true for the first ``count``."""
    index = _index_of_mask(isa, lanes.data_type, lanes.count)
    return _mask(text, lanes.count, 1, count, index)


def _mask(text: FunctionText, count: int, numbers: int, existing: str | None, index: str) -> str:
    """One bit per number, true where the element exists; lanes are counted in words ``index``."""
    total = count * numbers
    if existing is None:
        return repeated("i1", total, "true")
    limit = existing
    if index != "i64":
        limit = text.value(f"trunc i64 {existing} to {index}")
    wide = splat(text, index, limit, total)
    numbered = constants(index, [lane // numbers for lane in range(total)])
    return text.value(f"icmp ult {vector(index, total)} {numbered}, {wide}")


def _offset_vector(text: FunctionText, count: int, stride_bytes: str) -> str:
    strides = splat(text, "i64", stride_bytes, count)
    return text.value(f"mul {vector('i64', count)} {strides}, {constants('i64', range(count))}")


def _scalar_offsets(
    text: FunctionText, count: int, stride_bytes: str, existing: str | None
) -> tuple[str | int, ...]:
    offsets: list[str | int] = [0]
    for lane in range(1, count):
        offset = text.value(f"mul i64 {stride_bytes}, {lane}")
        if existing is not None:
            exists = text.value(f"icmp ugt i64 {existing}, {lane}")
            offset = text.value(f"select i1 {exists}, i64 {offset}, i64 0")
        offsets.append(offset)
    return tuple(offsets)


def _load_broadcast(text: FunctionText, lanes: Lanes, pointer: str) -> str:
    parts = numbers_per_element(lanes.data_type)
    value = "poison"
    for part in range(parts):
        address = shift_pointer(text, pointer, part * number_bytes(lanes.data_type))
        number = text.value(f"load {lanes.element}, ptr {address}, align 1")
        value = text.value(
            f"insertelement {lanes.kind} {value}, {lanes.element} {number}, i64 {part}"
        )
    pattern = [number % parts for number in range(lanes.numbers)]
    return shuffle(text, lanes.element, lanes.numbers, value, "poison", pattern)


def _element_words(lanes: Lanes) -> tuple[str, str]:
    """The vector type with one integer per element, and its intrinsic suffix."""
    word = f"i{8 * lanes.data_type.width}"
    return vector(word, lanes.count), f"v{lanes.count}{word}.v{lanes.count}p0"


def _addresses(text: FunctionText, lanes: Lanes, pointer: str, offsets: str) -> str:
    indices = f"{vector('i64', lanes.count)} {offsets}"
    pointers = text.value(f"getelementptr i8, ptr {pointer}, {indices}")
    return f"{vector('ptr', lanes.count)} {pointers}"


def _load_gather(text: FunctionText, lanes: Lanes, pointer: str, offsets: str) -> str:
    kind, suffix = _element_words(lanes)
    addresses = _addresses(text, lanes, pointer, offsets)
    words = text.value(
        f"call {kind} @llvm.masked.gather.{suffix}({addresses}, i32 1, "
        f"{vector('i1', lanes.count)} {lanes.mask}, {kind} zeroinitializer)"
    )
    return text.value(f"bitcast {kind} {words} to {lanes.kind}")


def _store_scatter(
    text: FunctionText, lanes: Lanes, pointer: str, offsets: str, value: str
) -> None:
    kind, suffix = _element_words(lanes)
    addresses = _addresses(text, lanes, pointer, offsets)
    words = text.value(f"bitcast {lanes.kind} {value} to {kind}")
    text.effect(
        f"call void @llvm.masked.scatter.{suffix}({kind} {words}, {addresses}, i32 1, "
        f"{vector('i1', lanes.count)} {lanes.mask})"
    )


def _load_scalars(
    text: FunctionText, lanes: Lanes, pointer: str, offsets: tuple[str | int, ...]
) -> str:
    parts = numbers_per_element(lanes.data_type)
    value = "poison"
    for lane, offset in enumerate(offsets):
        address = shift_pointer(text, pointer, offset)
        for part in range(parts):
            place = shift_pointer(text, address, part * number_bytes(lanes.data_type))
            number = text.value(f"load {lanes.element}, ptr {place}, align 1")
            value = text.value(
                f"insertelement {lanes.kind} {value}, {lanes.element} {number}, "
                f"i64 {lane * parts + part}"
            )
    return value


def _store_scalars(
    text: FunctionText, lanes: Lanes, pointer: str, offsets: tuple[str | int, ...], value: str
) -> None:
    parts = numbers_per_element(lanes.data_type)
    for lane in reversed(range(len(offsets))):
        address = shift_pointer(text, pointer, offsets[lane])
        for part in range(parts):
            place = shift_pointer(text, address, part * number_bytes(lanes.data_type))
            number = text.value(f"extractelement {lanes.kind} {value}, i64 {lane * parts + part}")
            text.effect(f"store {lanes.element} {number}, ptr {place}, align 1")
