"""Operands of sparse products: levels that are safe to walk, or dense arrays.

Index arrays that others can write are looked at by compiled code before every use; private ones
were looked at when they were made. What has to be converted is kept by (identity, version) of what
the caller gave; the version of an array is the fingerprint of its buffers, as nothing else tells
whether they changed.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Number
from typing import Any

import numpy as np

from teir.arrays.adapters import ELEMENTS, view_array
from teir.arrays.numpy_fields import address_of
from teir.arrays.sparse import Sparse
from teir.arrays.sparse_adapters import (
    adapt,
    computed_with,
    is_sparse,
    library_of,
    require_shape,
    torch_values,
)
from teir.arrays.sparse_storage import position_count
from teir.arrays.torch_plain import is_tensor
from teir.backends.llvm.fingerprint import fingerprint
from teir.backends.llvm.index_check import index_check
from teir.errors import refuse
from teir.pipeline.executable import default_isa
from teir.pipeline.sparse_room import Room, conversion_bytes
from teir.runtime.runtime import current

Array = np.ndarray[Any, np.dtype[Any]]

Version = tuple[Any, ...]
"""Kind, shape, and type, shape and fingerprint of every buffer."""

MOST_CONVERSIONS = 64
"""Kept conversions; the oldest go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An operand that can be computed with, and what the caller gave.

    ``made_for``: the purposes for which ``array`` was made of ``source``, one after the other.
    """

    name: str
    array: Sparse | Array
    source: Any
    is_torch: bool
    notes: tuple[Conversion, ...] = ()
    made_for: tuple[str, ...] = ()
    room: Room | None = None
    """What copies of it may take; None where there is no limit."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A copy in another form: what it was for, and how long making it took."""

    text: str
    seconds: float


def hold(name: str, value: Any, room: Room | None = None) -> Held:
    """``value`` as levels or as a dense array. Raises TeirError with the offending position."""
    is_torch = is_tensor(value)
    if not is_sparse(value):
        view = view_array(name, value)
        array = view.array
        if array is None:
            array = torch_values(value)
        elif array.dtype.hasobject:
            array = _as_numbers(name, array)
        return Held(name=name, array=array, source=value, is_torch=is_torch, room=room)
    require_shape(name, value)
    made = _shared(name, value)
    if made is not None:
        return Held(name=name, array=made, source=value, is_torch=is_torch, room=room)
    kind = type(value).__name__
    made, note = kept(value, "taken", kind, lambda: adapt(name, value, checked=True), room)
    return Held(name=name, array=made, source=value, is_torch=is_torch, notes=(note,), room=room)


def converted(held: Held, purpose: str, kind: str, make: Callable[[], Sparse]) -> Held:
    """``held`` with what ``make`` makes of its array for ``purpose``, kept with its source.

    Raises TeirError (TEIR643) where there is no room for it.
    """
    steps = (*held.made_for, purpose)
    made, note = kept(held.source, purpose, kind, make, held.room, held.made_for)
    return replace(held, array=made, notes=(*held.notes, note), made_for=steps)


def _as_numbers(name: str, objects: Array) -> Array:
    """Python's own numbers, which may be long, rounded to 64 bits. Raises TeirError for others."""
    values = objects.ravel().tolist()
    if not all(isinstance(one, Number) for one in values):
        refuse(ELEMENTS, name, "numbers", "objects that are none")
    is_complex = any(isinstance(one, complex) for one in values)
    try:
        return objects.astype(np.complex128 if is_complex else np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        refuse(ELEMENTS, name, "numbers that 64 bits hold", str(error))


def _shared(name: str, value: Any) -> Sparse | None:
    """The caller's own memory as levels, looked at; None where it has to be converted."""
    if isinstance(value, Sparse):
        if not value.is_frozen and not is_walkable(value):
            value.require_valid(name)
        return value
    if not _is_compressed(value):
        return None
    made = adapt(name, value, checked=False)
    return made if is_walkable(made) else None


def _is_compressed(value: Any) -> bool:
    """True for the kinds that become levels without a conversion."""
    data = getattr(value, "data", None)
    if hasattr(value, "crow_indices") and "sparse_cs" in str(getattr(value, "layout", "")):
        return str(value.dtype) != "torch.int64"
    if not isinstance(data, np.ndarray) or not hasattr(value, "indptr"):
        return False
    return len(value.shape) == 2 and computed_with(data.dtype)


def is_walkable(made: Sparse) -> bool:
    """What compiled code says of every level."""
    fibres = 1
    for extent, level in zip(made.level_extents, made.stored, strict=True):
        if level is None:
            fibres *= extent
            continue
        pos, crd = level.pos, level.crd
        arrays = (pos, crd)
        if any(array.ndim != 1 or not array.flags.c_contiguous for array in arrays):
            return False
        if pos.dtype != crd.dtype or pos.dtype not in (np.int32, np.int64):
            return False
        if pos.size != fibres + 1:
            return False
        check = index_check(default_isa(), pos.dtype.itemsize)
        if check(pos.ctypes.data, fibres, crd.ctypes.data, crd.size, extent):
            return False
        fibres = crd.size
    return bool(made.values.shape == (position_count(made.stored, made.level_extents),))


@dataclass(slots=True)
class _Kept:
    """One kept conversion."""

    source: weakref.ref[Any]
    version: Version
    made: Any
    note: Conversion


@dataclass(slots=True)
class _Conversions:
    """Conversions by the identity of what was converted and what for."""

    entries: dict[tuple[int, tuple[str, ...]], _Kept] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def before_fork(self) -> None:
        self.lock.acquire()

    def after_fork_in_parent(self) -> None:
        self.lock.release()

    def after_fork_in_child(self) -> None:
        self.lock = threading.RLock()


def kept(
    source: Any,
    purpose: str,
    kind: str,
    make: Callable[[], Sparse],
    room: Room | None = None,
    after: tuple[str, ...] = (),
) -> tuple[Sparse, Conversion]:
    """What ``make`` makes of ``source`` for ``purpose``, kept until ``source`` changes or dies.

    ``after`` are the purposes for which ``source`` was converted before: of two diagonals of one
    tensor in the same order each is its own.

    Raises TeirError (TEIR643) where there is no ``room`` for it.
    """
    cache = current().once("sparse conversions", _Conversions)
    key = (id(source), (*after, purpose))
    version = version_of(source)
    known = cache.entries.get(key)
    if (
        known is not None
        and version is not None
        and known.version == version
        and known.source() is source
    ):
        if room is not None:
            room.take(known.made)
        return known.made, known.note
    if room is not None:
        room.require(conversion_bytes(source), f"a copy of an operand ({kind} {purpose})")
    started = time.perf_counter()
    made = make()
    seconds = time.perf_counter() - started
    if room is not None:
        room.take(made)
    target = f"{made.format}, {made.nnz:,} values"
    note = Conversion(text=f"{kind} {purpose} as {target}", seconds=seconds)
    if version is not None:
        _keep(cache, key, source, version, made, note)
    return made, note


def version_of_copy(made: Sparse | Array) -> Version | None:
    """The version of what a kept conversion, or its values, was made from; None for others."""
    cache = current().once("sparse conversions", _Conversions)
    with cache.lock:
        entries = list(cache.entries.values())
    found = (one.version for one in entries if one.made is made or one.made.values is made)
    return next(found, None)


def _keep(
    cache: _Conversions,
    key: tuple[int, tuple[str, ...]],
    source: Any,
    version: Version,
    made: Sparse,
    note: Conversion,
) -> None:
    try:
        alive = weakref.ref(source, lambda _: cache.entries.pop(key, None))
    except TypeError:
        return
    with cache.lock:
        cache.entries.pop(key, None)
        cache.entries[key] = _Kept(alive, version, made, note)
        while len(cache.entries) > MOST_CONVERSIONS:
            cache.entries.pop(next(iter(cache.entries)), None)


def version_of(source: Any) -> Version | None:
    """Everything that says what ``source`` is; None where that cannot be seen.

    Of classes other than those of SciPy and of the package ``sparse`` nobody knows which arrays
    their elements come from.
    """
    if isinstance(source, Sparse) and source.is_frozen:
        return ("frozen",)
    shape = getattr(source, "shape", None)
    if shape is None:
        return None
    buffers = _buffers(source)
    if not buffers:
        return None
    number = fingerprint(default_isa())
    parts: list[Any] = [type(source), tuple(shape)]
    if library_of(source) == "sparse":
        axes = getattr(source, "compressed_axes", None)
        parts += [axes if axes is None else tuple(axes), repr(source.fill_value)]
    for array in map(np.ascontiguousarray, buffers):
        address = address_of(array)
        parts += [array.dtype.str, array.shape, number(address, array.nbytes, 0)]
    return tuple(parts)


def _buffers(source: Any) -> list[Array]:
    if isinstance(source, Sparse):
        levels = [array for level in source.stored if level for array in (level.pos, level.crd)]
        return [*levels, source.values]
    if not library_of(source):
        return []
    found: list[Array] = []
    for word in ("data", "indptr", "indices", "coords", "row", "col", "offsets"):
        part = getattr(source, word, None)
        parts = part if isinstance(part, tuple) else (part,)
        found += [array for array in parts if isinstance(array, np.ndarray)]
    is_plain = all(array.dtype.kind in "biufcV" for array in found)
    return found if is_plain and getattr(source, "format", "") not in ("lil", "dok") else []
