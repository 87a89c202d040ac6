"""`Sparse`: an array with any sequence of dense and compressed levels, in any order of the axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Never

import numpy as np

from teir.arrays.levels import Format, Level
from teir.arrays.numpy_fields import MOST_AXES
from teir.arrays.sparse_checks import require_levels
from teir.arrays.sparse_rows import rows_of_blocks
from teir.arrays.sparse_rules import COORDINATES, DENSE, INDEX_TYPE, VALUES
from teir.arrays.sparse_shapes import checked_format, checked_shape
from teir.arrays.sparse_storage import (
    Compressed,
    Stored,
    compress,
    expand,
    sorted_sums,
)
from teir.arrays.sparse_values import array_of, exact_values, refuse_long_numbers
from teir.errors import NoRoomError, at_argument, refuse

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False, weakref_slot=True)
class Sparse:
    """An immutable sparse array; what is not stored is 0.

    ``format.mode_order`` lists the axes from the outermost level inwards. An array with ``blocks``
    is stored as one of twice the rank, the coordinates of a block, then those inside it; its
    format speaks of these axes ("dsdd" is BSR). ``values`` holds one number per stored position,
    ``stored`` the index arrays of every level. All arrays are read-only views; with ``is_frozen``
    nobody else can write them, without it they are the memory of whoever gave them.
    """

    shape: tuple[int, ...]
    format: Format
    stored: Stored
    values: Array
    is_frozen: bool
    blocks: tuple[int, ...] | None = None

    @classmethod
    def from_coo(
        cls,
        coords: Any,
        values: Any,
        shape: Sequence[int],
        levels: str | None = None,
        mode_order: Sequence[int] | None = None,
    ) -> Sparse:
        """From coordinates: sorted, duplicates summed in the order given.

        ``coords`` is one vector per axis, or an array of shape (axes, elements); an array of shape
        (elements, axes) is taken too unless both are the same. ``levels`` such as "dss", by
        default a dense level and compressed ones, all compressed where the first has more than
        2^20 rows and 16 for every value ("s" for a vector). Raises TeirError.
        """
        extents = checked_shape(shape)
        given = exact_values(values)
        fmt = checked_format(levels, mode_order, extents, given.size)
        columns = _columns(coords, given.size, extents)
        return _compressed(columns, given, extents, fmt, None)

    @classmethod
    def from_levels(
        cls,
        shape: Sequence[int],
        levels: str,
        indices: Mapping[int, tuple[Any, Any]],
        values: Any,
        mode_order: Sequence[int] | None = None,
        frozen: bool = False,
    ) -> Sparse:
        """From the arrays themselves: ``indices`` gives (pos, crd) of every compressed level.

        The arrays are shared, or copied with ``frozen``. Raises TeirError with the offending
        position.
        """
        extents = checked_shape(shape)
        fmt = checked_format(levels, mode_order, extents)
        wanted = {n for n, level in enumerate(fmt.levels) if level is Level.COMPRESSED}
        expected = f"a mapping from {sorted(wanted)}, the compressed levels, to (pos, crd)"
        if not isinstance(indices, Mapping) or set(indices) != wanted:
            found = f"keys {list(indices)}" if isinstance(indices, Mapping) else repr(indices)
            refuse(INDEX_TYPE, "indices", expected, found)
        for pair in indices.values():
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                refuse(INDEX_TYPE, "indices", expected, repr(pair))
        stored = tuple(
            Compressed(
                pos=array_of(INDEX_TYPE, f"pos of level {n}", indices[n][0]),
                crd=array_of(INDEX_TYPE, f"crd of level {n}", indices[n][1]),
            )
            if n in wanted
            else None
            for n in range(len(extents))
        )
        made = assembled(extents, fmt, stored, exact_values(values), None, frozen=frozen)
        made.require_valid("indices")
        return made

    @classmethod
    def from_scipy(
        cls,
        array: Any,
        levels: str | None = None,
        mode_order: Sequence[int] | None = None,
        frozen: bool = False,
    ) -> Sparse:
        """From a scipy.sparse array or matrix, or any other sparse array `teir.einsum` takes.

        By default in the format nearest to its own: CSR, CSC and BSR share the memory unless
        ``frozen``. Raises TeirError.
        """
        from teir.arrays.sparse_adapters import adapt

        refuse_long_numbers("array", getattr(array, "dtype", None))
        made = adapt("array", array, checked=True)
        if levels is not None or mode_order is not None:
            made = made.converted(levels, mode_order)
        return made.frozen() if frozen else made

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        levels: str | None = None,
        mode_order: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> Sparse:
        """From a Matrix Market (.mtx), FROSTT (.tns) or .npz file; the first two .gz too.

        ``shape`` is needed where the file does not say it and the largest coordinates do not tell;
        a file that says another one is refused.
        Raises TeirError with the offending line.
        """
        from teir.arrays.sparse_files import read_file

        coords, values, found = read_file(path, None if shape is None else checked_shape(shape))
        return cls.from_coo(coords, values, found, levels, mode_order)

    def __repr__(self) -> str:
        blocks = f", blocks of {self.blocks}" if self.blocks else ""
        return f"<Sparse {self.format} {self.shape}{blocks}: {self.nnz:,} values, {self.dtype}>"

    def __copy__(self) -> Sparse:
        return self.frozen()

    def __deepcopy__(self, memo: object) -> Sparse:
        return self.frozen()

    def __reduce__(self) -> tuple[Any, ...]:
        """Arrays that are copied or unpickled may be written: what is made of them has its own."""
        return _restored, (self.shape, self.format, self.stored, self.values, self.blocks)

    @property
    def ndim(self) -> int:
        """How many axes there are; blocks count for none."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return self.values.dtype

    @property
    def nnz(self) -> int:
        """Stored values, zeros among them included."""
        return int(self.values.size)

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The extents of the axes the format speaks of."""
        if self.blocks is None:
            return self.shape
        outer = (extent // block for extent, block in zip(self.shape, self.blocks, strict=True))
        return (*outer, *self.blocks)

    @property
    def level_extents(self) -> tuple[int, ...]:
        """The extent of every level, outermost first."""
        return tuple(self.stored_shape[mode] for mode in self.format.mode_order)

    @property
    def index_dtype(self) -> np.dtype[Any]:
        """The type of the index arrays, int32 where there are none."""
        return next((level.pos.dtype for level in self.stored if level), np.dtype(np.int32))

    def require_valid(self, name: str) -> None:
        """Look at every index array. Raises TeirError with the offending position."""
        require_levels(name, self.stored, self.level_extents, self.values)

    def frozen(self) -> Sparse:
        """The same array in private memory."""
        if self.is_frozen:
            return self
        made = assembled(
            self.shape, self.format, self.stored, self.values, self.blocks, frozen=True
        )
        made.require_valid("array")
        return made

    def to_coo(self) -> tuple[Array, Array]:
        """Coordinates of shape (axes, stored values) and the values, in storage order."""
        columns = expand(self.stored, self.level_extents)
        modes = [columns[self.format.mode_order.index(mode)] for mode in range(len(columns))]
        if self.blocks is not None:
            outer, inner = modes[: self.ndim], modes[self.ndim :]
            modes = [o * b + i for o, b, i in zip(outer, self.blocks, inner, strict=True)]
        coords = np.array(modes, np.int64).reshape(self.ndim, self.values.size)
        return coords, self.values

    def to_dense(self) -> Array:
        """A NumPy array with every element. Raises TeirError (TEIR678) where there is none."""
        if self.ndim > MOST_AXES:
            refuse(DENSE, "array", f"at most {MOST_AXES} axes", f"{self.ndim} axes")
        try:
            result = np.zeros(self.shape, self.dtype)
        except (ValueError, MemoryError) as error:
            finding = at_argument(DENSE, "array", f"memory for shape {self.shape}", str(error))
            raise NoRoomError((finding,)) from None
        coords, values = self.to_coo()
        result[tuple(coords)] = values if self.ndim else values[0]
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Never:
        """NumPy would take all of it for one object. Raises TypeError."""
        raise TypeError("a teir.Sparse is no NumPy array: pass it to teir.einsum, or to_dense()")

    def to_scipy(self) -> Any:
        """A scipy.sparse array: CSR, CSC and BSR share the values, other formats become COO."""
        from teir.arrays.sparse_adapters import scipy_array

        return scipy_array(self)

    def split_blocks(self) -> Sparse:
        """The same memory with the axes inside blocks as axes of their own, behind the others."""
        from teir.arrays.sparse_blocks import split_blocks

        return split_blocks(self)

    def join_blocks(self) -> Sparse:
        """The reverse: an array of half the rank, whose blocks are the inner half of the axes."""
        from teir.arrays.sparse_blocks import join_blocks

        return join_blocks(self)

    def converted(
        self, levels: str | None = None, mode_order: Sequence[int] | None = None
    ) -> Sparse:
        """The same array in another format, without blocks; itself where it is in that format.

        By default in that of `from_coo`. Raises TeirError.
        """
        fmt = checked_format(levels, mode_order, self.shape, self.nnz)
        if self.blocks is None and fmt == self.format:
            return self
        match self.stored, self.blocks, str(fmt):
            case (None, Compressed() as level, None, None), (height, width), "ds":
                rows, values = rows_of_blocks(level, self.values, (height, width), self.shape)
                return owned(self.shape, fmt, (None, rows), values)
        coords, values = self.to_coo()
        return _compressed(list(coords), values, self.shape, fmt, self.index_dtype)

    def with_values(self, values: Any) -> Sparse:
        """Other values at the same positions."""
        given = exact_values(values)
        if given.shape != self.values.shape:
            refuse(VALUES, "values", f"{self.nnz} values", f"shape {given.shape}")
        return replace(self, values=_private(given))


def _restored(*parts: Any) -> Sparse:
    """What a pickle holds, in memory of its own. Raises TeirError where it is wrong."""
    return assembled(*parts, frozen=False).frozen()


def assembled(
    shape: tuple[int, ...],
    fmt: Format,
    stored: Stored,
    values: Array,
    blocks: tuple[int, ...] | None,
    *,
    frozen: bool,
) -> Sparse:
    """An array of parts nobody has looked at yet; with ``frozen`` of copies."""
    take = _private if frozen else _read_only
    levels = tuple(
        level and Compressed(pos=take(level.pos), crd=take(level.crd)) for level in stored
    )
    return Sparse(
        shape=shape,
        format=fmt,
        stored=levels,
        values=take(values),
        is_frozen=frozen,
        blocks=blocks,
    )


def owned(
    shape: tuple[int, ...],
    fmt: Format,
    stored: Stored,
    values: Array,
    blocks: tuple[int, ...] | None = None,
) -> Sparse:
    """An array of parts made for it and right by construction."""
    for array in (values, *(part for level in stored if level for part in (level.pos, level.crd))):
        array.flags.writeable = False
    return Sparse(
        shape=shape, format=fmt, stored=stored, values=values, is_frozen=True, blocks=blocks
    )


def _compressed(
    columns: list[Array],
    values: Array,
    shape: tuple[int, ...],
    fmt: Format,
    width: np.dtype[Any] | None,
) -> Sparse:
    extents = [shape[mode] for mode in fmt.mode_order]
    ordered = [columns[mode] for mode in fmt.mode_order]
    kept, sums = sorted_sums(ordered, values, extents)
    stored, spread = compress(kept, sums, extents, fmt.levels, width)
    if spread is values or spread.base is not None:
        spread = spread.copy()
    return owned(shape, fmt, stored, spread)


def _columns(coords: Any, count: int, shape: tuple[int, ...]) -> list[Array]:
    """One vector of coordinates per axis, inside the shape."""
    if isinstance(coords, (tuple, list)):
        columns = [
            array_of(COORDINATES, f"coords of axis {axis}", column)
            for axis, column in enumerate(coords)
        ]
    else:
        table = array_of(COORDINATES, "coords", coords)
        is_by_element = table.ndim == 2 and table.shape == (count, len(shape))
        if is_by_element and table.shape != (len(shape), count):
            table = table.T
        columns = list(table) if table.ndim == 2 else []
    if len(columns) != len(shape):
        is_by_element = len(columns) == count and all(one.shape == (len(shape),) for one in columns)
        hint = "pass np.array(coords), of shape (elements, axes)" if is_by_element else None
        expected = f"{len(shape)} vectors of {count}"
        refuse(COORDINATES, "coords", expected, f"{len(columns)} vectors", hint)
    for axis, (column, extent) in enumerate(zip(columns, shape, strict=True)):
        if column.size == count == 0:
            continue
        if column.shape != (count,) or column.dtype.kind not in "iu":
            found = f"dtype {column.dtype}, shape {column.shape}"
            refuse(COORDINATES, f"coords of axis {axis}", f"{count} integers", found)
        wrong = (column < 0) | (column >= extent)
        if wrong.any():
            place = int(np.argmax(wrong))
            expected = f"0 to {extent - 1} at position {place}"
            refuse(COORDINATES, f"coords of axis {axis}", expected, f"{column[place]}")
    return [np.asarray(column, np.int64).reshape(count) for column in columns]


def _private(array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view
