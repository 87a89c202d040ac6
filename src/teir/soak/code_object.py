"""The machine code in an ELF object: bytes of its functions, without loading them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_CODE, _SYMBOLS, _RELOCATIONS = 0x4, 2, 4
_FUNCTION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of an object, and the places in it that the linker fills in."""

    name: str
    code: bytes
    relocated: frozenset[int]
    """Offsets into ``code`` of the words that refer to other sections or functions."""


def object_functions(data: bytes) -> tuple[Function, ...]:
    """Every function of a 64-bit little-endian relocatable ELF object.

    Raises ValueError for anything else.
    """
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF object")
    sections = _sections(data)
    found: list[Function] = []
    for kind, _, start, size, link, _ in sections:
        if kind != _SYMBOLS:
            continue
        names = sections[link][2]
        for at in range(start, start + size, _SYMBOL.size):
            name_at, info, _, place, value, length = _SYMBOL.unpack_from(data, at)
            if info & 15 != _FUNCTION or place >= len(sections):
                continue
            _, flags, code_at, _, _, _ = sections[place]
            if not flags & _CODE:
                continue
            end = data.index(b"\0", names + name_at)
            found.append(
                Function(
                    name=data[names + name_at : end].decode(),
                    code=data[code_at + value : code_at + value + length],
                    relocated=_relocated(data, sections, place, value, length),
                )
            )
    return tuple(found)


_Sections = list[tuple[int, int, int, int, int, int]]
"""(type, flags, place in the file, size, link, info) of each section."""


def _sections(data: bytes) -> _Sections:
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = []
    for number in range(count):
        _, kind, flags, _, place, length, link, info, _, _ = _SECTION.unpack_from(
            data, start + number * size
        )
        sections.append((kind, flags, place, length, link, info))
    return sections


def _relocated(
    data: bytes, sections: _Sections, place: int, value: int, length: int
) -> frozenset[int]:
    offsets = set()
    for kind, _, start, size, _, info in sections:
        if kind == _RELOCATIONS and info == place:
            for at in range(start, start + size, 24):
                (offset,) = struct.unpack_from("<Q", data, at)
                if value <= offset < value + length:
                    offsets.add(offset - value)
    return frozenset(offsets)
