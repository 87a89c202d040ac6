"""Transfers as JSON cases: the fields of a case file, read with every finding at its path.

    {"cases": [{"id": "...", "direction": "load", "dtype": "f32", "shape": [16, 12],
                "gmem_strides": [12, 1], "contiguity": [true, true], "gmem_allocation": null,
                "base_address_mod_128": 0, "schedule": [["split", 1, 4]],
                "parallel": {"2": "Bulk"}, "smem_allocation": null | [] | verbs | "loop",
                "smem_unallocated_axes": [], "swizzle_bytes": 0}]}

``id``, ``dtype``, ``shape``, ``schedule`` and ``parallel`` are required. Further fields of this
package: ``instruction`` ("tensor", "bulk", "plain"), ``broadcast_axes``, ``threads``, ``strong``
(true: holes must hold 0), ``circular_buffer`` ({"stages": 4, "warp_specialised": true}). Unknown
fields are left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from teir.errors import Finding, RecordPlace, TeirError
from teir.tma.element_types import ElementType
from teir.tma.nodes import (
    CircularBuffer,
    Direction,
    Flatten,
    Instruction,
    Merge,
    Parallel,
    Reorder,
    Resize,
    SharedLayout,
    Split,
    Swizzle,
    Transfer,
    Verb,
)
from teir.tma.rules import TRANSFER_FORM

LARGEST_EXTENT = 2**40
Member = TypeVar("Member", bound=Enum)


def transfers_of(document: object) -> tuple[Transfer, ...]:
    """The transfers of a case file, in file order. Raises TeirError (TEIR900)."""
    cases = case_list(document)
    return tuple(transfer_of(case, f"$.cases[{at}]") for at, case in enumerate(cases))


def case_list(document: object) -> list[object]:
    """The unread cases of a case file. Raises TeirError (TEIR900)."""
    cases = document.get("cases") if isinstance(document, dict) else None
    if not isinstance(cases, list):
        raise _wrong("$", 'an object with a list "cases"', document)
    return cases


def transfer_of(case: object, path: str) -> Transfer:
    """One case. Raises TeirError (TEIR900) naming the field below ``path``."""
    if not isinstance(case, dict):
        raise _wrong(path, "an object", case)
    shape = _integers(case.get("shape"), f"{path}.shape", 1)
    if not shape or math.prod(shape) >= 2**62:
        raise _wrong(f"{path}.shape", "extents of 1 or more, their product below 2^62", shape)
    rank = len(shape)
    dense = tuple(math.prod(shape[at + 1 :]) for at in range(rank))
    strides = _optional(case, path, "gmem_strides", dense, lambda v, p: _integers(v, p, 0))
    flags = _optional(case, path, "contiguity", _adjoining(shape, strides), _booleans)
    for name, listed in (("gmem_strides", strides), ("contiguity", flags)):
        if len(listed) != rank:
            raise _wrong(f"{path}.{name}", f"{rank} entries", listed)
    schedule = _verbs(case.get("schedule"), f"{path}.schedule")
    return Transfer(
        name=_text(case.get("id"), f"{path}.id"),
        direction=_optional(case, path, "direction", Direction.LOAD, _member(Direction)),
        instruction=_optional(case, path, "instruction", Instruction.TENSOR, _member(Instruction)),
        element_type=_member(ElementType)(case.get("dtype"), f"{path}.dtype"),
        shape=shape,
        strides_elements=strides,
        contiguous=flags,
        base_address_mod_128=_optional(case, path, "base_address_mod_128", 0, _natural),
        allocation=_optional(case, path, "gmem_allocation", None, _verbs),
        broadcast=frozenset(_optional(case, path, "broadcast_axes", (), _axes_below(rank))),
        schedule=schedule,
        parallel=_parallel(case.get("parallel"), f"{path}.parallel"),
        shared=_shared(case, path),
        swizzle_bytes=_optional(case, path, "swizzle_bytes", 0, _natural),
        circular_buffer=_optional(case, path, "circular_buffer", None, _circular_buffer),
        strong=case.get("strong") is True,
        threads=_optional(case, path, "threads", None, _natural),
    )


def _adjoining(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[bool, ...]:
    if len(strides) != len(shape):
        return (False,) * len(shape)
    inner = [extent * stride for extent, stride in zip(shape[1:], strides[1:], strict=True)]
    return tuple(a == b for a, b in zip(strides, [*inner, 1], strict=True))


Value = TypeVar("Value")
Missing = TypeVar("Missing")


def _optional(
    case: dict[str, Any],
    path: str,
    name: str,
    missing: Missing,
    read: Callable[[object, str], Value],
) -> Value | Missing:
    value = case.get(name)
    return missing if value is None else read(value, f"{path}.{name}")


def _shared(case: dict[str, Any], path: str) -> SharedLayout | None:
    layout = case.get("smem_allocation")
    skipped = _optional(
        case, path, "smem_unallocated_axes", (), lambda v, p: _integers(v, p, -(2**31))
    )
    if layout is None:
        return None
    verbs = None if layout == "loop" else _verbs(layout, f"{path}.smem_allocation")
    return SharedLayout(verbs=verbs, unallocated=skipped)


def _parallel(value: object, path: str) -> tuple[tuple[int, Parallel], ...]:
    if not isinstance(value, dict):
        raise _wrong(path, "an object of axes", value)
    read = _member(Parallel)
    return tuple((_axis(axis, path), read(kind, f"{path}.{axis}")) for axis, kind in value.items())


def _circular_buffer(value: object, path: str) -> CircularBuffer:
    if not isinstance(value, dict):
        raise _wrong(path, "an object", value)
    return CircularBuffer(
        stages=_natural(value.get("stages"), f"{path}.stages"),
        warp_specialised=value.get("warp_specialised") is True,
    )


def _verbs(value: object, path: str) -> tuple[Verb, ...]:
    if not isinstance(value, list):
        raise _wrong(path, "a list of verbs", value)
    return tuple(_verb(one, f"{path}[{at}]") for at, one in enumerate(value))


def _verb(value: object, path: str) -> Verb:
    expected = (
        "[split|outer_split, axis, factor], [merge, axis(, other)], [reorder, {old: new}], "
        "[flatten, first(, last)], [swizzle, x, y] or [resize, axis, left, right]"
    )
    match value:
        case ["split" | "outer_split" as name, int(axis), int(factor)]:
            return Split(axis=axis, factor=factor, outer=name == "outer_split")
        case ["merge", int(axis)]:
            return Merge(outer=axis, inner=axis + 1)
        case ["merge", int(outer), int(inner)]:
            return Merge(outer=outer, inner=inner)
        case ["reorder", dict(moves)]:
            return Reorder(
                moves=tuple((_axis(old, path), _axis(new, path)) for old, new in moves.items())
            )
        case ["flatten", int(first)]:
            return Flatten(first=first, last=-1)
        case ["flatten", int(first), int(last)]:
            return Flatten(first=first, last=last)
        case ["flatten"]:
            return Flatten(first=0, last=-1)
        case ["swizzle", int(x), int(y)]:
            return Swizzle(x=x, y=y)
        case ["resize", int(axis), int(left), int(right)]:
            return Resize(axis=axis, left=left, right=right)
        case _:
            raise _wrong(path, expected, value)


def _axis(value: object, path: str) -> int:
    text = str(value)
    if not text.removeprefix("-").isdecimal() or len(text) > 9:
        raise _wrong(path, "a position", value)
    return int(text)


def _axes_below(rank: int) -> Callable[[object, str], tuple[int, ...]]:
    def read(value: object, path: str) -> tuple[int, ...]:
        axes = _integers(value, path, 0)
        if any(axis >= rank for axis in axes):
            raise _wrong(path, f"axes below {rank}", value)
        return axes

    return read


def _member(kind: type[Member]) -> Callable[[object, str], Member]:
    def read(value: object, path: str) -> Member:
        for member in kind:
            if member.value == value:
                return member
        raise _wrong(path, ", ".join(str(member.value) for member in kind), value)

    return read


def _integers(value: object, path: str, least: int) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(_is_integer(one, least) for one in value):
        raise _wrong(path, f"a list of integers of {least} or more", value)
    return tuple(value)


def _booleans(value: object, path: str) -> tuple[bool, ...]:
    if not isinstance(value, list) or not all(isinstance(one, bool) for one in value):
        raise _wrong(path, "a list of true and false", value)
    return tuple(value)


def _natural(value: object, path: str) -> int:
    if not _is_integer(value, 0):
        raise _wrong(path, "an integer of 0 or more", value)
    assert isinstance(value, int)
    return value


def _is_integer(value: object, least: int) -> bool:
    return (
        isinstance(value, int) and not isinstance(value, bool) and least <= value <= LARGEST_EXTENT
    )


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or len(value) > 256:
        raise _wrong(path, "a text of at most 256 characters", value)
    return value


def _wrong(path: str, expected: str, found: object) -> TeirError:
    shown = repr(found)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    finding = Finding(
        rule=TRANSFER_FORM, place=RecordPlace(path=path), expected=expected, found=shown
    )
    return TeirError((finding,))
