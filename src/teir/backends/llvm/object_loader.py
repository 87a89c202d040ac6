"""Object code of kernels put into executable memory without a linker, in a tenth of its time.

A kernel's object has code, constants, and a table of the addresses of its functions; its code names
nothing but its own constants, at distances from the instruction. Such an object is copied into
fresh pages as it lies, the distances are filled in, and the pages are made executable: they are
writable or executable, never both. Every other object is left to LLVM's linker.

Layout and relocations: System V application binary interface, chapter 4, and its AMD64 supplement,
section 4.4.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from teir.runtime.runtime import current

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOL = struct.Struct("<IBBHQQ")
_IDENTITY = b"\x7fELF\x02\x01\x01"
"""64 bits, little-endian, version 1."""
_RELOCATABLE, _AMD64 = 1, 62
_CONTENT, _RELOCATIONS, _EMPTY = 1, 4, 8
"""Kinds of sections: bytes of the program, relocations with addends, and those without bytes."""
_WRITABLE, _LOADED = 1, 2
_ADDRESS, _DISTANCE, _CALL = 1, 2, 4
"""Kinds of relocations: R_X86_64_64, R_X86_64_PC32, R_X86_64_PLT32."""
_MOST_ALIGNMENT = 4096


class _Section(NamedTuple):
    """A section header, the fields that matter."""

    kind: int
    flags: int
    begin: int
    size: int
    link: int
    info: int
    alignment: int


class Image(NamedTuple):
    """Code and constants as they lie in memory, and where the functions of the table begin."""

    content: bytearray
    functions: tuple[int, ...]


def image_of(data: bytes, functions: int) -> Image | None:
    """The image of an object with a table of so many functions; None for one LLVM must link."""
    try:
        return _image(data, functions)
    except (struct.error, LookupError, ValueError, OverflowError):
        return None


def _image(data: bytes, functions: int) -> Image | None:
    identity, kind, machine, *_, at, _, _, _, _, size, count, _ = _HEADER.unpack_from(data)
    if not identity.startswith(_IDENTITY) or (kind, machine) != (_RELOCATABLE, _AMD64):
        return None
    if size != _SECTION.size:
        return None
    sections = [_section(data, at + size * number) for number in range(count)]
    content = bytearray()
    places: dict[int, int] = {}
    tables = []
    for number, one in enumerate(sections):
        if not one.flags & _LOADED or not one.size:
            continue
        if one.kind != _CONTENT or one.alignment > _MOST_ALIGNMENT:
            return None
        if one.flags & _WRITABLE:
            tables.append(number)
            continue
        content += bytes(-len(content) % max(1, one.alignment))
        places[number] = len(content)
        content += data[one.begin : one.begin + one.size]
    if len(tables) != 1 or sections[tables[0]].size != 8 * functions:
        return None
    starts: dict[int, int] = {}
    for one in sections:
        if one.kind == _RELOCATIONS and one.info in places:
            _fill_in(data, sections, one, places, content)
        elif one.kind == _RELOCATIONS and one.info == tables[0]:
            starts = _starts(data, sections, one, places)
    if sorted(starts) != list(range(0, 8 * functions, 8)):
        return None
    if not all(0 <= start < len(content) for start in starts.values()):
        return None
    return Image(content, tuple(starts[place] for place in range(0, 8 * functions, 8)))


def _section(data: bytes, at: int) -> _Section:
    _, kind, flags, _, begin, size, link, info, alignment, _ = _SECTION.unpack_from(data, at)
    if kind != _EMPTY and begin + size > len(data):
        raise ValueError("a section that ends behind the object")
    return _Section(kind, flags, begin, size, link, info, alignment)


def _fill_in(
    data: bytes,
    sections: list[_Section],
    relocations: _Section,
    places: dict[int, int],
    content: bytearray,
) -> None:
    """Write the distances of one section. Raises ValueError for what is none."""
    base, end = places[relocations.info], sections[relocations.info].size
    for at, kind, target, addend in _relocations(data, sections, relocations, places):
        if kind not in (_DISTANCE, _CALL) or not 0 <= at <= end - 4:
            raise ValueError("a relocation that is no distance")
        struct.pack_into("<i", content, base + at, target + addend - (base + at))


def _starts(
    data: bytes, sections: list[_Section], relocations: _Section, places: dict[int, int]
) -> dict[int, int]:
    """Byte in the table to place of a function. Raises ValueError for what is no address of one."""
    starts = {}
    for at, kind, target, addend in _relocations(data, sections, relocations, places):
        if kind != _ADDRESS:
            raise ValueError("a relocation that is no address")
        starts[at] = target + addend
    return starts


def _relocations(
    data: bytes, sections: list[_Section], relocations: _Section, places: dict[int, int]
) -> list[tuple[int, int, int, int]]:
    """(place, kind, place of the symbol, addend) each. Raises KeyError for symbols elsewhere."""
    found = []
    symbols = sections[relocations.link].begin
    entries = data[relocations.begin : relocations.begin + relocations.size]
    for at, info, addend in _RELOCATION.iter_unpack(entries):
        symbol = _SYMBOL.unpack_from(data, symbols + _SYMBOL.size * (info >> 32))
        found.append((at, info & 0xFFFFFFFF, places[symbol[3]] + symbol[4], addend))
    return found


def mapped(images: Sequence[Image]) -> tuple[list[tuple[int, ...]], Any]:
    """The addresses of every image's functions in executable memory, and what keeps it.

    Raises OSError.
    """
    starts = []
    size = 0
    for image in images:
        starts.append(size)
        size += -(-len(image.content) // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for start, image in zip(starts, images, strict=True):
        pages[start : start + len(image.content)] = image.content
    view = ctypes.c_char.from_buffer(pages)
    base = ctypes.addressof(view)
    protect = current().once("mprotect", _protect)
    if protect(base, size, mmap.PROT_READ | mmap.PROT_EXEC):
        code = ctypes.get_errno()
        raise OSError(code, "the pages of code could not be made executable")
    functions = [
        tuple([base + start + function for function in image.functions])
        for start, image in zip(starts, images, strict=True)
    ]
    return functions, (view, pages)


def maps_images() -> bool:
    """True where this process may map images: Linux on AMD64."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _protect() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_int
    return function
