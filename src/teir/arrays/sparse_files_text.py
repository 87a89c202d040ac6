"""The lines of Matrix Market and FROSTT files as coordinates and values.

A chunk of lines is read at once by NumPy; where that fails, or numbers are wrong, the lines are
looked at one by one for the first offending one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Never

import msgspec
import numpy as np

from teir.arrays.sparse_rules import ENTRY, FILE_SIZE, HEADER
from teir.errors import refuse

Array = np.ndarray[Any, np.dtype[Any]]
Elements = tuple[Any, Array, tuple[int, ...]]

_FIELDS = {"real": 1, "double": 1, "integer": 1, "unsigned-integer": 1, "complex": 2, "pattern": 0}
"""Numbers of an entry. SciPy reads and writes the two that the format does not name."""
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
LONGEST_LINE = 4096
_COMMAS = bytes.maketrans(b" \t\n\v\f\r", b",,,,,,")
_LARGEST = 2**53
"""Coordinates are read as float64; all integers below are exact."""


def read_matrix_market(name: str, chunks: Iterable[bytes]) -> Elements:
    """Coordinates, values and shape of a Matrix Market file. Raises TeirError."""
    lines = _Lines(name, chunks, b"%")
    header = lines.first().lower().split()
    words = [word.decode("ascii", "replace") for word in header]
    kinds = words[2:3] in (["coordinate"], ["array"])
    if words[:2] != ["%%matrixmarket", "matrix"] or len(words) != 5 or not kinds:
        expected = "%%MatrixMarket matrix coordinate|array FIELD SYMMETRY"
        refuse(HEADER, f"{name}, line 1", expected, repr(" ".join(words))[:100])
    kind, field, symmetry = words[2:]
    if field not in _FIELDS or symmetry not in _SYMMETRIES or (kind, field) == ("array", "pattern"):
        refuse(HEADER, f"{name}, line 1", "a known field and symmetry", f"{field} {symmetry}")
    sizes = lines.sizes(3 if kind == "coordinate" else 2)
    shape = (sizes[0], sizes[1])
    if symmetry != "general" and shape[0] != shape[1]:
        refuse(HEADER, name, f"a square matrix, as it is {symmetry}", f"shape {shape}")
    if kind == "array":
        coords, values = _dense_entries(lines, shape, symmetry, _FIELDS[field])
    else:
        width = 2 + _FIELDS[field]
        table = lines.table(width, sizes[2])
        coords = lines.coordinates(table[:, :2], shape)
        values = _numbers(table[:, 2:])
    lines.require_symmetry(coords, values, symmetry)
    return _mirrored(coords, symmetry), *_tail(coords, values, symmetry, shape)


def _tail(
    coords: Array, values: Array, symmetry: str, shape: tuple[int, int]
) -> tuple[Array, tuple[int, int]]:
    off = coords[0] != coords[1]
    match symmetry:
        case "symmetric":
            return np.concatenate([values, values[off]]), shape
        case "skew-symmetric":
            return np.concatenate([values, -values[off]]), shape
        case "hermitian":
            return np.concatenate([values, np.conj(values[off])]), shape
        case _:
            return values, shape


def _mirrored(coords: Array, symmetry: str) -> Array:
    if symmetry == "general":
        return coords
    off = coords[0] != coords[1]
    return np.concatenate([coords, coords[::-1, off]], axis=1)


def _dense_entries(
    lines: _Lines, shape: tuple[int, int], symmetry: str, width: int
) -> tuple[Array, Array]:
    """Column by column; of symmetric matrices the lower triangle."""
    rows, columns = shape
    is_skew = symmetry == "skew-symmetric"
    triangle = rows * (rows - 1 if is_skew else rows + 1) // 2
    table = lines.table(width, rows * columns if symmetry == "general" else triangle)
    if symmetry == "general":
        column, row = np.divmod(np.arange(rows * columns), max(1, rows))
    else:
        column, row = np.nonzero(np.tri(rows, k=-1 if is_skew else 0, dtype=bool).T)
    return np.array([row, column], np.int64), _numbers(table)


def _numbers(table: Array) -> Array:
    match table.shape[1]:
        case 0:
            return np.ones(table.shape[0])
        case 1:
            return np.ascontiguousarray(table[:, 0])
        case _:
            pairs: Array = table[:, 0] + 1j * table[:, 1]
            return pairs


def read_tns(name: str, chunks: Iterable[bytes], shape: tuple[int, ...] | None) -> Elements:
    """Coordinates, values and shape of a FROSTT file. Raises TeirError.

    Without ``shape`` the largest coordinates are the extents. Some files begin with a line of the
    rank and one of the extents: taken where neither has the width of the entries.
    """
    lines = _Lines(name, chunks, b"#")
    table, found = lines.entries()
    extents = shape or found
    if extents is not None and table.shape[0] and len(extents) != table.shape[1] - 1:
        expected = f"{len(extents)} coordinates and a value"
        refuse(ENTRY, f"{name}, line {lines.number_of(0)}", expected, f"{table.shape[1]} words")
    if extents is None:
        if not table.shape[0]:
            refuse(ENTRY, name, "at least one entry, or a shape", "none")
        largest = table[:, :-1].max(axis=0) if table.shape[0] else ()
        lines.require_coordinates(table[:, :-1], None)
        extents = tuple(int(extent) for extent in largest)
    if not table.shape[0]:
        return tuple(np.zeros(0, np.int64) for _ in extents), np.zeros(0), extents
    return lines.coordinates(table[:, :-1], extents), table[:, -1].copy(), extents


class _Lines:
    """The lines of one file: where they are, which are comments, what numbers they hold."""

    def __init__(self, name: str, chunks: Iterable[bytes], comment: bytes) -> None:
        self._name = name
        self._chunks = self._numbered(chunks)
        self._comment = comment
        self._numbers: list[Array] = []

    def _numbered(self, chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Chunks whose lines end with a line feed, and how many lines came before each."""
        number = 0
        for chunk in chunks:
            text = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in chunk else chunk
            text = text if text.endswith(b"\n") else text + b"\n"
            lengths = np.diff(_line_starts(np.frombuffer(text, np.uint8)), append=len(text)) - 1
            if (lengths > LONGEST_LINE).any():
                place = int(np.argmax(lengths > LONGEST_LINE))
                where = f"{self._name}, line {number + place + 1}"
                refuse(FILE_SIZE, where, f"at most {LONGEST_LINE} bytes", f"{lengths[place]}")
            yield number, text
            number += lengths.size

    def _ahead(self, keep_comments: bool = False) -> tuple[int, bytes] | None:
        """The next line that says something; it is taken."""
        for number, text in self._chunks:
            place = 0
            for count, line in enumerate(text.splitlines(keepends=True), start=1):
                place += len(line)
                if line.strip() and (keep_comments or not line.startswith(self._comment)):
                    if place < len(text):
                        self._chunks = chain([(number + count, text[place:])], self._chunks)
                    return number + count, line.rstrip(b"\n")
        return None

    def first(self) -> bytes:
        """The header."""
        found = self._ahead(keep_comments=True)
        if found is None:
            refuse(HEADER, self._name, "a header", "an empty file")
        return found[1]

    def sizes(self, count: int) -> list[int]:
        found = self._ahead()
        words = found[1].split() if found else []
        if found is None or len(words) != count or not all(map(_is_size, words)):
            where = self._name if found is None else f"{self._name}, line {found[0]}"
            expected = f"{count} integers: the sizes"
            refuse(HEADER, where, expected, _shown(found[1]) if found else "the end")
        return [int(word) for word in words]

    def table(self, width: int, count: int) -> Array:
        """``count`` rows of ``width`` numbers, and nothing after them."""
        parts, rows = [np.zeros((0, width))], 0
        for number, text in self._chunks:
            part = self._rows(number, text, width)
            rows += part.shape[0]
            parts.append(part)
            if rows > count:
                where = f"{self._name}, line {self.number_of(count)}"
                refuse(ENTRY, where, f"the end after {count} entries", "another entry")
        if rows < count:
            refuse(ENTRY, self._name, f"{count} entries", f"{rows}")
        return np.concatenate(parts)

    def entries(self) -> tuple[Array, tuple[int, ...] | None]:
        """All entries of a file that does not say how many; the extents where its head does."""
        opening = [found for found in (self._ahead(), self._ahead(), self._ahead()) if found]
        extents = None
        if len(opening) > 1:
            head, second = opening[0][1].split(), opening[1][1].split()
            is_head = len(head) == 1 and _is_size(head[0]) and int(head[0]) == len(second)
            if is_head and all(map(_is_size, second)):
                extents, opening = tuple(int(word) for word in second), opening[2:]
        width = len(opening[0][1].split()) if opening else 2
        if width < 2:
            where = f"{self._name}, line {opening[0][0]}"
            refuse(ENTRY, where, "coordinates and a value", _shown(opening[0][1]))
        begun = [(number - 1, line + b"\n") for number, line in opening]
        parts = [self._rows(number, text, width) for number, text in chain(begun, self._chunks)]
        return np.concatenate([np.zeros((0, width)), *parts]), extents

    def _rows(self, number: int, text: bytes, width: int) -> Array:
        """The numbers of a chunk after ``number`` lines, a row per line that says something."""
        codes = np.frombuffer(text, np.uint8)
        starts = _line_starts(codes)
        words = _words(codes, starts, width)
        is_comment = codes[starts] == self._comment[0]
        kept = np.flatnonzero((words > 0) & ~is_comment)
        self._numbers.append(number + 1 + kept)
        if is_comment.any():
            lines = text.split(b"\n")
            text = b"\n".join(lines[line] for line in kept)
        table = _parsed(text) if (words[kept] == width).all() else None
        if table is None or table.size != kept.size * width or not np.isfinite(table).all():
            lines = [line for line in text.split(b"\n") if line.strip()]
            self._refuse_line(list(zip((number + 1 + kept).tolist(), lines, strict=True)), width)
        return table.reshape(kept.size, width)

    def _refuse_line(self, kept: list[tuple[int, bytes]], width: int) -> Never:
        for number, line in kept:
            words = line.split()
            if len(words) != width or not all(map(_is_finite, words)):
                expected = f"{width} finite numbers"
                refuse(ENTRY, f"{self._name}, line {number}", expected, _shown(line))
        raise AssertionError("some line was wrong")

    def number_of(self, entry: int) -> int:
        """The line of an entry."""
        return int(np.concatenate(self._numbers)[entry])

    def require_coordinates(self, table: Array, shape: tuple[int, ...] | None) -> None:
        """Every coordinate is an integer from 1 on, inside the shape."""
        most = np.array(shape if shape is not None else [_LARGEST] * table.shape[1], np.float64)
        wrong = (table != np.floor(table)) | (table < 1) | (table > np.minimum(most, _LARGEST))
        if not wrong.any():
            return
        entry, axis = (int(place) for place in np.argwhere(wrong)[0])
        where = f"{self._name}, line {self.number_of(entry)}"
        upper = "on" if shape is None else f"to {shape[axis]}"
        found = f"{table[entry, axis]:.17g}"
        hint = "coordinates of files count from 1" if table[entry, axis] == 0 else None
        refuse(ENTRY, where, f"a coordinate from 1 {upper} for axis {axis}", found, hint)

    def require_symmetry(self, coords: Array, values: Array, symmetry: str) -> None:
        """Entries of one triangle, and a diagonal that is its own mirror image."""
        if symmetry == "general":
            return
        row, column = coords
        above = row < column
        if above.any() and (row > column).any():
            entry = int(np.argmax(above))
            found = f"{row[entry] + 1} {column[entry] + 1} above it"
            self._refuse_entry(entry, f"entries on one side of the diagonal of a {symmetry}", found)
        match symmetry:
            case "skew-symmetric":
                wrong, kind = values != 0, "0"
            case "hermitian":
                wrong, kind = values.imag != 0, "a real number"
            case _:
                return
        wrong &= row == column
        if wrong.any():
            entry = int(np.argmax(wrong))
            self._refuse_entry(entry, f"{kind} on the diagonal of a {symmetry}", f"{values[entry]}")

    def _refuse_entry(self, entry: int, expected: str, found: str) -> Never:
        refuse(ENTRY, f"{self._name}, line {self.number_of(entry)}", f"{expected} matrix", found)

    def coordinates(self, table: Array, shape: tuple[int, ...]) -> Array:
        """Coordinates from 0 on, one row per axis."""
        self.require_coordinates(table, shape)
        return table.T.astype(np.int64) - 1


def _line_starts(codes: Array) -> Array:
    """Where the lines of a text begin that ends with a line feed."""
    return np.concatenate([[0], np.flatnonzero(codes[:-1] == ord("\n")) + 1])


def _words(codes: Array, starts: Array, width: int) -> Array:
    """How many words every line has; ``width`` is expected, and seen sooner than counted."""
    is_space = (codes == ord(" ")) | (codes - np.uint8(ord("\t")) <= ord("\r") - ord("\t"))
    begins = ~is_space
    begins[1:] &= is_space[:-1]
    places = np.flatnonzero(begins)
    if width and places.size == width * starts.size:
        lines = places.reshape(-1, width)
        if (lines[:, 0] >= starts).all() and (lines[:-1, -1] < starts[1:]).all():
            return np.full(starts.size, width)
    counted: Array = np.add.reduceat(begins, starts, dtype=np.int64)
    return counted


def _parsed(text: bytes) -> Array | None:
    """Numbers between white space; None where something is none.

    Read as JSON where one character stands between two, twice as fast.
    """
    listed = b"[" + text.rstrip().translate(_COMMAS) + b"]"
    try:
        return np.array(msgspec.json.decode(listed, type=list[float]), np.float64)
    except msgspec.DecodeError:
        pass
    with warnings.catch_warnings():
        # NumPy before 2.3 only warns of what follows the last number it understood.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, np.float64, sep=" ")
        except (ValueError, DeprecationWarning):
            return None


def _is_size(word: bytes) -> bool:
    return word.isdigit() and len(word) < 19


def _shown(line: bytes) -> str:
    return repr(line[:100].decode("ascii", "replace"))


def _is_finite(word: bytes) -> bool:
    """Python reads 1_0 as 10; the formats do not."""
    if b"_" in word:
        return False
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False
