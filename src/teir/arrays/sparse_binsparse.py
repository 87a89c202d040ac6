"""Arrays behind ``__binsparse__``: a descriptor in the words of the binsparse specification.

Taken are CSR, CSC, DCSR, DCSC, coordinate formats (COO, COOR, COOC, CVEC), dense ones (DVEC, DMAT,
DMATR, DMATC) and custom formats of dense and sparse levels. The method returns the named arrays,
with the descriptor from ``__binsparse_descriptor__``, or both as a pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from teir.arrays.levels import Format, Level, parse_format
from teir.arrays.sparse import Sparse, assembled
from teir.arrays.sparse_rules import KNOWN_KIND
from teir.arrays.sparse_shapes import checked_shape
from teir.arrays.sparse_storage import Compressed
from teir.arrays.sparse_values import as_values
from teir.errors import refuse

_LEVELS = {
    "CSR": "ds",
    "CSC": "ds:1,0",
    "DCSR": "ss",
    "DCSC": "ss:1,0",
    "DVEC": "d",
    "DMAT": "dd",
    "DMATR": "dd",
    "DMATC": "dd:1,0",
}
_COORDINATES = ("COO", "COOR", "COOC", "CVEC")


def from_binsparse(name: str, value: Any) -> Sparse:
    """``value`` as levels nobody has looked at yet, or sorted coordinates. Raises TeirError."""
    given = value.__binsparse__()
    is_pair = isinstance(given, tuple) and len(given) == 2
    descriptor, arrays = given if is_pair else (value.__binsparse_descriptor__(), given)
    head = descriptor.get("binsparse", descriptor)
    if head.get("fill", False) and np.any(np.asarray(arrays.get("fill_value", 0)) != 0):
        refuse(KNOWN_KIND, name, "a fill value of 0", f"{arrays['fill_value']}")
    shape = checked_shape(head["shape"])
    form = head["format"]
    letters = form if isinstance(form, str) else ""
    if letters in _COORDINATES:
        coords = [_array(name, arrays, f"indices_{axis}") for axis in range(len(shape))]
        return Sparse.from_coo(coords, _array(name, arrays, "values"), shape)
    if letters in _LEVELS:
        fmt = parse_format(_LEVELS[letters])
    elif isinstance(form, Mapping) and "custom" in form:
        fmt = _custom_format(name, form["custom"], len(shape))
    else:
        refuse(KNOWN_KIND, name, "CSR, CSC, COO, CVEC or levels", f"format {form!r}")
    stored = tuple(
        Compressed(
            pos=_indices(_pointers(name, arrays, place)),
            crd=_indices(_array(name, arrays, f"indices_{place}")),
        )
        if level is Level.COMPRESSED
        else None
        for place, level in enumerate(fmt.levels)
    )
    values = as_values(_array(name, arrays, "values"))
    return assembled(shape, fmt, stored, values, None, frozen=False)


def _custom_format(name: str, form: Any, rank: int) -> Format:
    letters, level = "", form.get("level")
    while isinstance(level, Mapping) and level.get("level_desc", level.get("level_kind")):
        kind = level.get("level_desc", level.get("level_kind"))
        if kind == "element":
            break
        if kind not in ("dense", "sparse") or (level.get("rank", 1) != 1 and kind == "sparse"):
            refuse(KNOWN_KIND, name, "dense and sparse levels of one axis", f"{kind} level")
        letters += ("d" if kind == "dense" else "s") * level.get("rank", 1)
        level = level.get("level")
    order = ",".join(str(axis) for axis in form.get("transpose", range(rank)))
    if len(letters) != rank:
        refuse(KNOWN_KIND, name, f"{rank} levels", f"{letters!r}")
    return parse_format(f"{letters}:{order}", name)


def _indices(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Unsigned and short integers, which the specification allows, as int64."""
    is_other = array.dtype.kind in "iu" and array.dtype not in (np.int32, np.int64)
    return np.ascontiguousarray(array, np.int64 if is_other else None)


def _pointers(name: str, arrays: Mapping[str, Any], place: int) -> Any:
    if place == 0:
        return np.array([0, len(_array(name, arrays, "indices_0"))], np.int64)
    return _array(name, arrays, f"pointers_to_{place}")


def _array(name: str, arrays: Mapping[str, Any], key: str) -> np.ndarray[Any, Any]:
    if key not in arrays:
        refuse(KNOWN_KIND, name, f"an array {key}", f"{sorted(arrays)}")
    value = arrays[key]
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
