"""Files of sparse tensors: Matrix Market, FROSTT .tns, both also gzipped, and .npz.

Every line is looked at; nothing is unpickled; what a compressed file may grow to is bounded.
"""

from __future__ import annotations

import gzip
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, Never

import numpy as np

from teir.arrays.sparse_checks import level_findings
from teir.arrays.sparse_files_text import LONGEST_LINE, read_matrix_market, read_tns
from teir.arrays.sparse_rules import ARCHIVE, FILE, FILE_SIZE, SHAPE
from teir.arrays.sparse_storage import Compressed
from teir.errors import TeirError, refuse

Array = np.ndarray[Any, np.dtype[Any]]
Elements = tuple[Any, Array, tuple[int, ...]]
"""Coordinates per axis, values, shape."""

LEAST_GROWTH_BYTES = 256 << 20
GROWTH = 100
_CHUNK = 1 << 20


def read_file(path: str | Path, shape: tuple[int, ...] | None) -> Elements:
    """The elements of a file, by its ending, of the ``shape`` asked for.

    Raises TeirError with the offending line.
    """
    elements = _read_file(path, shape)
    if shape is not None and elements[-1] != shape:
        refuse(SHAPE, str(path), f"shape {shape}, as asked for", f"shape {elements[-1]}")
    return elements


def _read_file(path: str | Path, shape: tuple[int, ...] | None) -> Elements:
    if not isinstance(path, (str, os.PathLike)):
        refuse(FILE, "path", "the path of a file", type(path).__name__)
    name = str(path)
    file = Path(path)
    try:
        status = file.stat()
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error)
        refuse(FILE, name, "a file that can be read", found)
    if not stat.S_ISREG(status.st_mode):
        refuse(FILE, name, "a regular file", "something else")
    endings = [ending.lower() for ending in file.suffixes[-2:]]
    is_packed = endings[-1:] == [".gz"]
    match endings[-2] if is_packed and len(endings) > 1 else "".join(endings[-1:]):
        case ".mtx":
            return read_matrix_market(name, _chunks(name, file, status.st_size, is_packed))
        case ".tns":
            return read_tns(name, _chunks(name, file, status.st_size, is_packed), shape)
        case ".npz" if not is_packed:
            return _read_npz(name, file, status.st_size)
        case _:
            return refuse(FILE, name, ".mtx, .tns, .mtx.gz, .tns.gz or .npz", repr(file.name))


def _chunks(name: str, file: Path, size: int, is_packed: bool) -> Iterator[bytes]:
    """Whole lines, about a MiB at a time."""
    most = max(LEAST_GROWTH_BYTES, GROWTH * size) if is_packed else size
    rest = b""
    try:
        if is_packed and size >= 4 and _claimed_size(file) > most:
            for _ in _unpacked(name, file, most, is_packed):
                pass
        for chunk in _unpacked(name, file, most, is_packed):
            lines, newline, last = (rest + chunk).rpartition(b"\n")
            if len(last) > LONGEST_LINE:
                refuse(FILE_SIZE, name, f"lines of at most {LONGEST_LINE} bytes", "longer")
            rest = last
            if newline:
                yield lines + newline
    except (OSError, EOFError, zlib.error) as error:
        refuse(FILE, name, "a whole file", str(error))
    if rest:
        yield rest


def _unpacked(name: str, file: Path, most: int, is_packed: bool) -> Iterator[bytes]:
    total = 0
    with gzip.open(file) if is_packed else file.open("rb") as source:
        while chunk := source.read(_CHUNK):
            total += len(chunk)
            if total > most:
                refuse(FILE_SIZE, name, f"at most {most:,} bytes unpacked", "more")
            yield chunk


def _claimed_size(file: Path) -> int:
    """What a gzipped file says it grows to, modulo 2^32: where that is too much, it is unpacked
    once before anything is parsed."""
    with file.open("rb") as source:
        source.seek(-4, os.SEEK_END)
        return int.from_bytes(source.read(4), "little")


def _read_npz(name: str, file: Path, size: int) -> Elements:
    most = max(LEAST_GROWTH_BYTES, GROWTH * size)
    try:
        with zipfile.ZipFile(file) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > most:
            refuse(FILE_SIZE, name, f"at most {most:,} bytes unpacked", f"{unpacked:,}")
        with np.load(file, allow_pickle=False) as arrays:
            found = {key: arrays[key] for key in arrays.files}
    except TeirError:
        raise
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, KeyError) as error:
        refuse(FILE, name, "a whole archive of plain arrays", str(error))
    return _from_arrays(name, found)


def _from_arrays(name: str, found: dict[str, Array]) -> Elements:
    if "shape" not in found or "data" not in found:
        _refuse_archive(name, found)
    shape, data = _shape_of(name, found["shape"]), found["data"]
    if not np.all(found.get("fill_value", np.array(0)) == 0):
        refuse(ARCHIVE, name, "a fill value of 0", f"{found['fill_value']}")
    if "coords" in found:
        return found["coords"], data, shape
    if "row" in found and "col" in found:
        return (found["row"], found["col"]), data, shape
    if "compressed_axes" in found and "indptr" in found and "indices" in found:
        return _of_gcxs(name, found, data, shape)
    if "offsets" in found and len(shape) == 2:
        return _of_diagonals(name, found["offsets"], data, shape)
    if "indptr" not in found or "indices" not in found or len(shape) != 2:
        _refuse_archive(name, found)
    form = found.get("format", np.array("csr")).item()
    kind = form.decode("ascii", "replace") if isinstance(form, bytes) else str(form)
    if kind not in ("csr", "csc", "bsr"):
        refuse(ARCHIVE, name, "format csr, csc, bsr, coo or dia", repr(kind))
    if kind == "bsr":
        return _of_blocks(name, found["indptr"], found["indices"], data, shape)
    return _expanded(name, kind, found["indptr"], found["indices"], data, shape)


def _of_gcxs(name: str, found: dict[str, Array], data: Array, shape: tuple[int, ...]) -> Elements:
    """As the package `sparse` writes: some axes as rows, the others as columns of one matrix."""
    axes = found["compressed_axes"].reshape(-1).tolist()
    if not 0 < len(set(axes)) == len(axes) < len(shape) or not set(axes) <= set(range(len(shape))):
        refuse(ARCHIVE, name, f"different axes of {shape}, not all", f"compressed_axes {axes}")
    others = [axis for axis in range(len(shape)) if axis not in axes]
    sides = [tuple(shape[axis] for axis in side) for side in (axes, others)]
    matrix = prod(sides[0]), prod(sides[1])
    if max(matrix) >= 2**62:
        refuse(ARCHIVE, name, "fewer than 2^62 rows and columns", f"{matrix}")
    places, _, _ = _expanded(name, "csr", found["indptr"], found["indices"], data, matrix)
    coords = dict[int, Array]()
    for side, extents, place in zip((axes, others), sides, places, strict=True):
        parts = np.unravel_index(place, extents) if place.size else [place] * len(side)
        coords.update(zip(side, parts, strict=True))
    return tuple(coords[axis] for axis in range(len(shape))), data, shape


def _of_blocks(name: str, pos: Array, crd: Array, data: Array, shape: tuple[int, ...]) -> Elements:
    """Of block compressed rows: ``data`` holds a dense block per stored position."""
    blocks = data.shape[1:]
    is_divided = len(blocks) == 2 and all(
        block and extent % block == 0 for extent, block in zip(shape, blocks, strict=True)
    )
    if not is_divided or data.shape[0] != crd.size:
        expected = f"{crd.size} blocks that divide the shape {shape}"
        refuse(ARCHIVE, name, expected, f"data of shape {data.shape}")
    outer = tuple(extent // block for extent, block in zip(shape, blocks, strict=True))
    (row, column), _, _ = _expanded(name, "csr", pos, crd, data, outer)
    inner = np.indices(blocks).reshape(2, 1, -1)
    coords = [
        (np.asarray(begin, np.int64)[:, None] * block + inside).reshape(-1)
        for begin, block, inside in zip((row, column), blocks, inner, strict=True)
    ]
    return tuple(coords), data.reshape(-1), shape


def _of_diagonals(name: str, offsets: Array, data: Array, shape: tuple[int, ...]) -> Elements:
    """Of diagonals: ``data[d, column]`` lies in row ``column - offsets[d]``; zeros are left out."""
    is_right = data.ndim == 2 and offsets.shape == data.shape[:1] and offsets.dtype.kind in "iu"
    if not is_right:
        expected = "a whole number per row of data"
        refuse(ARCHIVE, name, expected, f"{offsets.dtype} {offsets.shape}, data {data.shape}")
    diagonal, column = np.nonzero(data[:, : shape[1]])
    row = column - offsets.astype(np.int64)[diagonal]
    is_inside = (row >= 0) & (row < shape[0])
    places = diagonal[is_inside], column[is_inside]
    return (row[is_inside], places[1]), data[places], shape


def _expanded(
    name: str, kind: str, pos: Array, crd: Array, data: Array, shape: tuple[int, ...]
) -> Elements:
    rows, columns = shape if kind == "csr" else shape[::-1]
    level = Compressed(pos=pos, crd=crd)
    findings = level_findings(name, 1, level, rows, columns, in_order=False)
    if findings:
        raise TeirError(tuple(findings))
    row = np.repeat(np.arange(rows), np.diff(pos))
    return ((row, crd) if kind == "csr" else (crd, row)), data, shape


def _shape_of(name: str, given: Array) -> tuple[int, ...]:
    if given.ndim != 1 or given.dtype.kind not in "iu" or (given < 0).any():
        refuse(ARCHIVE, name, "a shape of integers from 0 on", f"{given!r}")
    return tuple(int(extent) for extent in given)


def _refuse_archive(name: str, found: dict[str, Array]) -> Never:
    expected = "shape, data and coords, row and col, indptr and indices, or offsets"
    refuse(ARCHIVE, name, expected, ", ".join(sorted(found)) or "no arrays")
