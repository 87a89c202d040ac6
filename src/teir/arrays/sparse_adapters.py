"""Sparse arrays of other libraries as `Sparse`, and back to scipy.

CSR, CSC, BSR and two-dimensional GCXS share their memory where their rows are sorted and their
types are computed with; everything else is converted: COO and unsorted rows are sorted and their
duplicates summed, DIA becomes CSR, lists and dictionaries go by their coordinates.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from teir.arrays.integers import as_integer
from teir.arrays.levels import parse_format, usual_levels
from teir.arrays.numpy_fields import MOST_AXES
from teir.arrays.sparse import Array, Sparse, assembled, owned
from teir.arrays.sparse_binsparse import from_binsparse
from teir.arrays.sparse_checks import level_findings
from teir.arrays.sparse_rows import ordered_fibres, rows_of_diagonals
from teir.arrays.sparse_rules import INDEX_TYPE, KNOWN_KIND, SHAPE
from teir.arrays.sparse_shapes import checked_shape
from teir.arrays.sparse_storage import Compressed, expand
from teir.arrays.sparse_values import as_values
from teir.arrays.torch_plain import derivative, is_tensor, not_plain
from teir.dtypes import data_type_of
from teir.errors import TeirError, refuse

_CSR, _CSC, _BSR = parse_format("ds"), parse_format("ds:1,0"), parse_format("dsdd")


def is_sparse(value: Any) -> bool:
    """True for what `adapt` takes."""
    if isinstance(value, Sparse):
        return True
    kind = type(value)
    if kind is np.ndarray:
        return False
    if is_tensor(value):
        return str(value.layout) != "torch.strided"
    return library_of(value) in ("scipy", "sparse") or hasattr(kind, "__binsparse__")


def shape_of(name: str, value: Any) -> tuple[int, ...]:
    """The shape of what `adapt` takes; `__binsparse__` need not come with one. Raises TeirError."""
    shape = getattr(value, "shape", None)
    return adapt(name, value, checked=False).shape if shape is None else tuple(shape)


def require_shape(name: str, value: Any) -> None:
    """Raises TeirError (TEIR676) where an array of another library has lost its shape."""
    shape = getattr(value, "shape", ())
    is_shape = isinstance(shape, tuple) and all(as_integer(one) is not None for one in shape)
    if not is_shape and library_of(value):
        refuse(KNOWN_KIND, name, "a sparse array with its usual parts", f"shape {shape!r}")


def adapt(name: str, value: Any, *, checked: bool) -> Sparse:
    """``value`` as levels.

    With ``checked`` index arrays have been looked at and put in order; without it they may be
    anything where they are the caller's own memory (`require_valid`). Raises TeirError.
    """
    if isinstance(value, Sparse):
        return value
    require_shape(name, value)
    try:
        made = _adapted(name, value)
    except TeirError:
        raise
    except (AttributeError, KeyError, TypeError, IndexError, ValueError, OverflowError) as error:
        refuse(KNOWN_KIND, name, "a sparse array with its usual parts", f"{error}")
    if not checked or made.is_frozen:
        return made
    return _in_order(name, made)


def library_of(value: Any) -> str:
    """The package that sparse arrays come from, "" for other values."""
    module = type(value).__module__.split(".")
    if module[0] == "scipy":
        return "scipy" if "sparse" in module and hasattr(value, "format") else ""
    is_array = module[0] == "sparse" and hasattr(value, "fill_value")
    return "sparse" if is_array and hasattr(value, "todense") else ""


def _adapted(name: str, value: Any) -> Sparse:
    match library_of(value):
        case "scipy":
            return _from_scipy(name, value)
        case "sparse":
            return _from_pydata(name, value)
    if is_tensor(value):
        return _from_torch(name, value)
    if hasattr(value, "__binsparse__"):
        return from_binsparse(name, value)
    return refuse(KNOWN_KIND, name, "a sparse array", f"a value of type {type(value).__name__}")


def _from_scipy(name: str, value: Any) -> Sparse:
    match value.format:
        case "csr" if len(value.shape) == 2:
            return _rows(name, value.shape, value.indptr, value.indices, value.data, False)
        case "csc":
            return _rows(name, value.shape, value.indptr, value.indices, value.data, True)
        case "bsr":
            return _blocks(name, value.shape, value.indptr, value.indices, value.data)
        case "dia":
            return _diagonals(name, value)
        case "coo":
            coords = getattr(value, "coords", None) or (value.row, value.col)
            return Sparse.from_coo(tuple(coords), value.data, value.shape)
        case "csr":
            columns = (np.asarray(value.indices),)
            return Sparse.from_coo(columns, value.data, value.shape)
        case _:
            listed = value.tocoo()
            coords = getattr(listed, "coords", None) or (listed.row, listed.col)
            return Sparse.from_coo(tuple(coords), listed.data, listed.shape)


def _rows(name: str, shape: Any, pos: Any, crd: Any, data: Any, by_column: bool) -> Sparse:
    pos, crd = _index_pair(name, pos, crd)
    fmt = _CSC if by_column else _CSR
    stored = (None, Compressed(pos=pos, crd=crd))
    values = as_values(data, f"values of {name}")
    return assembled(checked_shape(shape), fmt, stored, values, None, frozen=False)


def _index_pair(name: str, pos: Any, crd: Any) -> tuple[Array, Array]:
    """Both in one type; int64 where they differ, and for integers of other widths."""
    pos, crd = np.asarray(pos), np.asarray(crd)
    for array in (pos, crd):
        if array.dtype.kind not in "iu":
            refuse(INDEX_TYPE, f"indices of {name}", "int32 or int64", f"dtype {array.dtype.str}")
    is_kept = pos.dtype == crd.dtype and pos.dtype in (np.int32, np.int64)
    dtype = pos.dtype if is_kept else np.dtype(np.int64)
    return np.ascontiguousarray(pos, dtype), np.ascontiguousarray(crd, dtype)


def _blocks(name: str, given: Any, indptr: Any, indices: Any, values: Any) -> Sparse:
    shape = checked_shape(given)
    data = np.asarray(values)
    blocks = tuple(data.shape[1:])
    if not len(shape) == len(blocks) == 2 or any(
        block < 1 or extent % block for extent, block in zip(shape, blocks, strict=True)
    ):
        refuse(SHAPE, name, f"blocks that divide {shape}", f"blocks of shape {blocks}")
    pos, crd = _index_pair(name, indptr, indices)
    stored = (None, Compressed(pos=pos, crd=crd), None, None)
    flat = as_values(data.reshape(-1), f"values of {name}")
    return assembled(shape, _BSR, stored, flat, blocks, frozen=False)


def _diagonals(name: str, value: Any) -> Sparse:
    """As scipy does, zeros on a diagonal count as not stored."""
    shape = checked_shape(value.shape)
    data, offsets = np.asarray(value.data), np.asarray(value.offsets, np.int64)
    if data.ndim != 2 or offsets.shape != data.shape[:1]:
        found = f"data of shape {data.shape}, offsets of shape {offsets.shape}"
        refuse(KNOWN_KIND, name, "an offset for every row of data", found)
    rows = rows_of_diagonals(offsets, data, shape) if len(shape) == 2 else None
    if rows is not None:
        return owned(shape, _CSR, (None, rows[0]), as_values(rows[1], f"values of {name}"))
    column = np.arange(data.shape[1], dtype=np.int64)
    row = column - offsets[:, None]
    inside = (row >= 0) & (row < shape[0]) & (column < shape[1]) & (data != 0)
    columns = np.broadcast_to(column, row.shape)[inside]
    return Sparse.from_coo((row[inside], columns), data[inside], shape)


def _from_pydata(name: str, value: Any) -> Sparse:
    if not np.all(np.asarray(value.fill_value) == 0):
        refuse(KNOWN_KIND, name, "a fill value of 0", f"{value.fill_value}")
    if type(value).__name__ == "GCXS":
        if value.ndim == 2:
            by_column = tuple(value.compressed_axes) == (1,)
            return _rows(name, value.shape, value.indptr, value.indices, value.data, by_column)
        if value.ndim > 2:
            _require_gcxs(name, value)
        value = value.tocoo()
    if not hasattr(value, "coords"):
        value = value.asformat("coo")
    return Sparse.from_coo(
        np.asarray(value.coords).reshape(value.ndim, -1), value.data, value.shape
    )


def _require_gcxs(name: str, value: Any) -> None:
    """What its conversion would read without looking."""
    rows, columns = (int(extent) for extent in value._compressed_shape)
    pos, crd = _index_pair(name, value.indptr, value.indices)
    level = Compressed(pos=pos, crd=crd)
    findings = level_findings(name, 1, level, rows, columns, in_order=False)
    if findings:
        raise TeirError(tuple(findings))


def _from_torch(name: str, value: Any) -> Sparse:
    if value.device.type != "cpu":
        refuse(KNOWN_KIND, name, "a tensor in CPU memory", f"one on {value.device}", "pass .cpu()")
    _require_plain(name, value, derivative)
    match str(value.layout):
        case "torch.sparse_coo":
            return _torch_coordinates(name, value)
        case "torch.sparse_csr" | "torch.sparse_bsr":
            by_column, parts = False, (value.crow_indices(), value.col_indices())
        case "torch.sparse_csc" | "torch.sparse_bsc":
            by_column, parts = True, (value.ccol_indices(), value.row_indices())
        case layout:
            expected = "sparse_coo, sparse_csr, sparse_csc, sparse_bsr or sparse_bsc"
            refuse(KNOWN_KIND, name, expected, layout)
    for part in (*parts, value.values()):
        _require_plain(name, part, not_plain)
    pos, crd = (part.numpy() for part in parts)
    data = torch_values(value.values())
    if pos.ndim != 1 or data.ndim not in (1, 3):
        found = f"{value.layout} with {value.dim()} axes"
        refuse(KNOWN_KIND, name, "one matrix of numbers", found, "pass .to_sparse_coo()")
    if data.ndim == 1:
        return _rows(name, value.shape, pos, crd, data, by_column)
    return _torch_blocks(name, tuple(value.shape), pos, crd, data, by_column)


def _require_plain(
    name: str, value: Any, reason_of: Callable[[Any], tuple[str, str | None] | None]
) -> None:
    reason = reason_of(value)
    if reason is not None:
        refuse(KNOWN_KIND, name, "a plain tensor", *reason)


def _torch_coordinates(name: str, value: Any) -> Sparse:
    """Axes of values that are arrays themselves become dense levels below the others."""
    for part in (value._indices(), value._values()):
        _require_plain(name, part, not_plain)
    coords, values = list(value._indices().numpy()), torch_values(value._values())
    inner = values.shape[1:]
    if not inner:
        return Sparse.from_coo(coords, values, value.shape)
    above = usual_levels(value.shape[: len(coords)], len(values))
    places = np.indices(inner).reshape(len(inner), -1)
    coords = [np.repeat(column, places.shape[1]) for column in coords]
    coords += [np.tile(column, len(values)) for column in places]
    return Sparse.from_coo(coords, values.reshape(-1), value.shape, above + "d" * len(inner))


def _torch_blocks(
    name: str, shape: tuple[int, ...], pos: Array, crd: Array, data: Array, by_column: bool
) -> Sparse:
    """Rows of blocks share their memory, as those of scipy; columns of blocks become columns."""
    if not by_column:
        return _blocks(name, shape, pos, crd, data)
    turned = _blocks(name, shape[::-1], pos, crd, data.transpose(0, 2, 1))
    coords, values = _in_order(name, turned).to_coo()
    return Sparse.from_coo(coords[::-1], values, shape, "ds:1,0")


def torch_values(values: Any) -> Array:
    """NumPy has no bfloat16 of PyTorch's: the same bytes under the name it knows."""
    values = values.detach()
    if str(values.dtype) != "torch.bfloat16":
        plain: Array = values.numpy()
        return plain
    import ml_dtypes

    torch = sys.modules["torch"]
    same: Array = values.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return same


def _in_order(name: str, made: Sparse) -> Sparse:
    """Itself where every fibre ascends, else sorted with duplicates summed."""
    try:
        made.require_valid(name)
    except TeirError:
        _require_in_range(name, made)
    else:
        return made
    if made.values.size != _stored_values(made):
        made.require_valid(name)
    return _sorted(made)


def _require_in_range(name: str, made: Sparse) -> None:
    findings = []
    fibres = 1
    for place, (extent, level) in enumerate(zip(made.level_extents, made.stored, strict=True)):
        if level is None:
            fibres *= extent
            continue
        findings += level_findings(name, place, level, fibres, extent, in_order=False)
        fibres = level.crd.size
    if findings:
        raise TeirError(tuple(findings))


def _stored_values(made: Sparse) -> int:
    count = 1
    for extent, level in zip(made.level_extents, made.stored, strict=True):
        count = count * extent if level is None else level.crd.size
    return count


def _sorted(made: Sparse) -> Sparse:
    match made.stored:
        case (None, Compressed() as level) if made.blocks is None:
            rows = ordered_fibres(level, made.level_extents[1], made.values)
            if rows is not None:
                return owned(made.shape, made.format, (None, rows[0]), rows[1])
    columns = expand(made.stored, made.level_extents)
    modes = [columns[made.format.mode_order.index(mode)] for mode in range(len(columns))]
    flat = Sparse.from_coo(modes, made.values, made.stored_shape, str(made.format))
    if made.blocks is None:
        return flat
    return Sparse(
        shape=made.shape,
        format=made.format,
        stored=flat.stored,
        values=flat.values,
        is_frozen=True,
        blocks=made.blocks,
    )


def computed_with(dtype: np.dtype[Any]) -> bool:
    """True for the types of values that are not converted."""
    data_type = data_type_of(dtype)
    return data_type is not None and not data_type.is_index


def scipy_array(sparse: Sparse) -> Any:
    """CSR, CSC and BSR with the same values, other formats as COO. Raises ImportError."""
    import scipy.sparse

    level = next((level for level in sparse.stored if level), None)
    if level is not None and sparse.format in (_CSR, _CSC, _BSR):
        parts = (sparse.values, level.crd, level.pos)
        if sparse.format == _BSR and sparse.blocks is not None:
            data = sparse.values.reshape(-1, *sparse.blocks)
            return scipy.sparse.bsr_array((data, level.crd, level.pos), shape=sparse.shape)
        if sparse.blocks is None and sparse.ndim == 2:
            kind = scipy.sparse.csr_array if sparse.format == _CSR else scipy.sparse.csc_array
            return kind(parts, shape=sparse.shape)
    if not 0 < sparse.ndim <= MOST_AXES:
        refuse(SHAPE, "array", f"1 to {MOST_AXES} axes, as arrays of scipy have", f"{sparse.ndim}")
    coords, values = sparse.to_coo()
    return scipy.sparse.coo_array((values, tuple(coords)), shape=sparse.shape)
