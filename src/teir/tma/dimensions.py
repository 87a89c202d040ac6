"""Dimensions of the tile instruction: the raw TMA domain, collapsed by compositing.

An IterDomain of the raw domain is partitioned (P), a coordinate (C), a strided box (SB) or a
contiguous box (CB). Contiguous neighbours collapse: first C+C and CB+CB, then C+CB and C+SB. Boxes
stay apart where their product passes 256 or, innermost, the width of the swizzle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from teir.tma.domain import IterDomain
from teir.tma.refusal import Refusal, Stage, refusal
from teir.tma.roles import Boxed, Roles
from teir.tma.rules import FOUR_KINDS
from teir.tma.view import Frontier

LARGEST_BOX = 256


class Kind(Enum):
    """What an IterDomain of the raw TMA domain is."""

    PARTITIONED = "partitioned"
    COORDINATE = "coordinate"
    STRIDED_BOX = "strided box"
    DENSE_BOX = "box"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One dimension of a tensor map.

    ``raw`` are the IterDomains of the raw TMA domain it is made of, outer to inner; ``tiles`` the
    Bulk IterDomains whose product, outer to inner, is the tile; ``stride`` the stride IterDomain.
    """

    raw: tuple[IterDomain, ...]
    kinds: tuple[Kind, ...]
    size: int
    stride_elements: int
    box: int
    tiles: tuple[IterDomain, ...]
    stride: IterDomain | None

    @property
    def element_stride(self) -> int:
        return 1 if self.stride is None else self.stride.extent

    @property
    def tile(self) -> int:
        """Elements moved along this dimension."""
        return -(-self.box // self.element_stride)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    kind: Kind
    raw: tuple[IterDomain, ...]
    kinds: tuple[Kind, ...]
    extent: int
    stride_elements: int
    contiguous: bool
    box: int
    tiles: tuple[IterDomain, ...]
    stride: IterDomain | None


def dimensions_of(
    raw: Frontier, roles: Roles, swizzle_elements: int
) -> tuple[Dimension, ...] | Refusal:
    """The dimensions, innermost first. ``swizzle_elements`` is 0 without a swizzle."""
    groups: list[_Group] = []
    for one in raw:
        known = next((boxed for boxed in roles.boxed if boxed.partitioned == one.domain), None)
        kind = _kind(one.domain, known, roles)
        if kind is None:
            return _mixed(one.domain)
        box, tiles, stride = _box(one.domain, kind, known)
        groups.append(
            _Group(
                kind=kind,
                raw=(one.domain,),
                kinds=(kind,),
                extent=one.domain.extent,
                stride_elements=one.stride_elements,
                contiguous=one.contiguous,
                box=box,
                tiles=tiles,
                stride=stride,
            )
        )
    merged = _merge_boxes_and_coordinates(groups, swizzle_elements)
    return tuple(_dimension(group) for group in reversed(_merge_coordinates_into_boxes(merged)))


def _kind(domain: IterDomain, known: Boxed | None, roles: Roles) -> Kind | None:
    if known is not None and known.box != domain:
        return Kind.PARTITIONED
    if known is not None:
        return Kind.DENSE_BOX if known.stride is None else Kind.STRIDED_BOX
    if domain in roles.bulk:
        return Kind.DENSE_BOX
    return Kind.COORDINATE if domain in roles.not_bulk else None


def _box(
    domain: IterDomain, kind: Kind, known: Boxed | None
) -> tuple[int, tuple[IterDomain, ...], IterDomain | None]:
    if known is not None:
        return known.box_extent, known.tiles, known.stride
    if kind is Kind.DENSE_BOX:
        return domain.extent, (domain,), None
    return 1, (), None


def _merge_boxes_and_coordinates(groups: list[_Group], swizzle_elements: int) -> list[_Group]:
    groups = list(groups)
    at = 0
    while at + 1 < len(groups):
        outer, inner = groups[at], groups[at + 1]
        mergeable = outer.contiguous and outer.kind is inner.kind
        if mergeable and outer.kind is Kind.DENSE_BOX:
            extent = outer.extent * inner.extent
            innermost = at + 2 == len(groups)
            mergeable = extent <= LARGEST_BOX and not (
                innermost and swizzle_elements and extent > swizzle_elements
            )
        if mergeable and outer.kind in (Kind.DENSE_BOX, Kind.COORDINATE):
            box = outer.box * inner.box
            groups[at : at + 2] = [_joined(outer, inner, inner.kind, box)]
        else:
            at += 1
    return groups


def _merge_coordinates_into_boxes(groups: list[_Group]) -> list[_Group]:
    groups = list(groups)
    at = 0
    while at + 1 < len(groups):
        outer, inner = groups[at], groups[at + 1]
        boxes = (Kind.DENSE_BOX, Kind.STRIDED_BOX)
        if outer.contiguous and outer.kind is Kind.COORDINATE and inner.kind in boxes:
            groups[at : at + 2] = [_joined(outer, inner, Kind.PARTITIONED, inner.box)]
        else:
            at += 1
    return groups


def _joined(outer: _Group, inner: _Group, kind: Kind, box: int) -> _Group:
    return _Group(
        kind=kind,
        raw=(*outer.raw, *inner.raw),
        kinds=(*outer.kinds, *inner.kinds),
        extent=outer.extent * inner.extent,
        stride_elements=inner.stride_elements,
        contiguous=inner.contiguous,
        box=box,
        tiles=(*outer.tiles, *inner.tiles),
        stride=inner.stride,
    )


def _dimension(group: _Group) -> Dimension:
    return Dimension(
        raw=group.raw,
        kinds=group.kinds,
        size=group.extent,
        stride_elements=group.stride_elements,
        box=group.box,
        tiles=group.tiles,
        stride=group.stride,
    )


def tile_elements(dimensions: tuple[Dimension, ...]) -> int:
    """Elements one instruction moves, those out of bounds included."""
    return math.prod(dimension.tile for dimension in dimensions)


def _mixed(domain: IterDomain) -> Refusal:
    return refusal(
        Stage.INFER,
        FOUR_KINDS,
        (domain,),
        "tile and non-tile IterDomains transformed separately",
        f"{domain} mixes tile and non-tile IterDomains",
    )
