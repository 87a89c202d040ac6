"""Operands of a program from files or drawn, and results to files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from teir.arrays.numpy_fields import MOST_AXES
from teir.arrays.operand import Operand
from teir.cli.rules import ARRAY_FILE, EVERY_OPERAND, MEMORY, OPERAND_OPTION, OUTPUT_FILE
from teir.dtypes import DataType
from teir.errors import refuse
from teir.ir.check import Need, Report
from teir.ir.nodes import Program

Array = np.ndarray[Any, np.dtype[Any]]

_ARCHIVE = b"PK"
"""How an archive of arrays (.npz) begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """One array per tensor and the byte in it where the tensor's base address lies."""

    arrays: Mapping[str, Array]
    bases: Mapping[str, int]

    def operands(self) -> dict[str, Operand]:
        return {
            name: Operand(array, self.bases.get(name, 0)) for name, array in self.arrays.items()
        }

    def copy(self) -> Arrays:
        """The same bytes in the same places: a program walks memory, whatever the axes' order."""
        arrays = {name: array.copy(order="K") for name, array in self.arrays.items()}
        return Arrays(arrays=arrays, bases=self.bases)


def gather_arrays(
    report: Report, files: Mapping[str, Path], draw: bool, seed: int, zero_outputs: bool = True
) -> Arrays:
    """An array for every tensor of a checked program.

    From ``files`` where they name it; else drawn uniformly from [-1, 1), index arrays excepted.
    Tensors the program writes start as zeros. Raises TeirError (TEIR802 to TEIR804, TEIR809).
    """
    program = report.program
    _refuse_unknown(program, files)
    written = {primitive.output for primitive in program.primitives} if zero_outputs else set()
    generator = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    bases: dict[str, int] = {}
    for tensor in program.tensors:
        need = report.needs.get(tensor.name, Need(0, 0))
        if tensor.name in files:
            arrays[tensor.name] = read_array(files[tensor.name], tensor.data_type)
            continue
        bases[tensor.name] = need.before_bytes
        size_bytes = need.before_bytes + need.after_bytes
        count = -(-size_bytes // tensor.data_type.width)
        if tensor.name in written:
            arrays[tensor.name] = _allocate(tensor.name, count, tensor.data_type)
        elif not draw or tensor.data_type.is_index:
            _refuse_missing(tensor.name, tensor.data_type)
        else:
            arrays[tensor.name] = _allocate(tensor.name, count, tensor.data_type)
            arrays[tensor.name][:] = draw_numbers(generator, count, tensor.data_type)
    shaped = {
        name: array.reshape(dense_shape(program, name, array.size))
        for name, array in arrays.items()
        if name in bases and bases[name] == 0
    }
    return Arrays(arrays=arrays | shaped, bases=bases)


def draw_numbers(generator: np.random.Generator, count: int, data_type: DataType) -> Array:
    """``count`` numbers of ``data_type``, real and imaginary part uniform in [-1, 1)."""
    numbers: Array = generator.uniform(-1.0, 1.0, count)
    if data_type.is_complex:
        numbers = numbers + 1j * generator.uniform(-1.0, 1.0, count)
    return numbers.astype(data_type.numpy_dtype())


def dense_shape(program: Program, tensor: str, elements: int) -> tuple[int, ...]:
    """The row-major shape the axes give ``tensor``, else one dimension of ``elements``.

    Axes of one index are left out where there are more than arrays can have.
    """
    width = program.tensor_table()[tensor].data_type.width
    table = program.axis_table()
    used = [node.axis for path, _ in program.invocations() for node in path]
    used += [name for primitive in program.primitives for name in primitive.axes]
    axes = {name: table[name] for name in used if table[name].strides[tensor] != 0}
    ordered = sorted(axes.values(), key=lambda axis: (-axis.strides[tensor], -axis.extent))
    step = width
    for axis in reversed(ordered):
        if axis.strides[tensor] != step:
            return (elements,)
        step *= axis.extent
    shape = tuple(axis.extent for axis in ordered)
    if len(shape) > MOST_AXES:
        shape = tuple(extent for extent in shape if extent > 1)
    return shape if step == elements * width and shape else (elements,)


def parse_pairs(pairs: Sequence[str]) -> dict[str, Path]:
    """``NAME=FILE`` options as a mapping. Raises TeirError (TEIR802)."""
    files: dict[str, Path] = {}
    for pair in pairs:
        name, separator, path = pair.partition("=")
        if not name or not separator or not path:
            refuse(OPERAND_OPTION, "--operand", "NAME=FILE.npy", repr(pair))
        if name in files:
            refuse(OPERAND_OPTION, "--operand", f"{name} once", f"{name} twice")
        files[name] = Path(path)
    return files


def read_array(path: Path, data_type: DataType) -> Array:
    """The array of a .npy file; two-byte void elements are read as BF16 where that is meant.

    Raises TeirError (TEIR803).
    """
    try:
        with path.open("rb") as file:
            begin = file.read(len(np.lib.format.MAGIC_PREFIX))
            file.seek(0)
            is_known = begin == np.lib.format.MAGIC_PREFIX or begin.startswith(_ARCHIVE)
            array = np.load(file, allow_pickle=False) if is_known else None
    except (OSError, ValueError, EOFError, MemoryError, BadZipFile) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        refuse(ARRAY_FILE, str(path), "a .npy file", reason.splitlines()[0])
    if array is None:
        refuse(ARRAY_FILE, str(path), "a .npy file", f"a file that begins with {begin!r}")
    if not isinstance(array, np.ndarray):
        refuse(ARRAY_FILE, str(path), "a .npy file with one array", "an archive of several")
    if data_type is DataType.BF16 and array.dtype == np.dtype("V2"):
        return array.view(data_type.numpy_dtype())
    return array


def write_array(path: Path, array: Array) -> None:
    """Save ``array`` as .npy. Raises TeirError (TEIR807)."""
    try:
        with path.open("wb") as file:
            np.save(file, array, allow_pickle=False)
    except OSError as error:
        refuse(OUTPUT_FILE, str(path), "a file that can be written", error.strerror or str(error))


def _allocate(name: str, count: int, data_type: DataType) -> Array:
    try:
        return np.zeros(count, data_type.numpy_dtype())
    except (MemoryError, ValueError):
        size = f"{count} elements of {data_type.value}"
        refuse(MEMORY, name, "an array that fits in memory", size)


def _refuse_unknown(program: Program, files: Mapping[str, Path]) -> None:
    names = [tensor.name for tensor in program.tensors]
    for name in files:
        if name not in names:
            refuse(OPERAND_OPTION, "--operand", "one of " + ", ".join(names), repr(name))


def _refuse_missing(name: str, data_type: DataType) -> None:
    option = f"--operand {name}=FILE.npy"
    expected = option if data_type.is_index else f"{option}, or --random"
    refuse(EVERY_OPERAND, name, expected, "neither")
