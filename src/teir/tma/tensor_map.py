"""Tensor maps: what the tile instruction is told of a tensor, and every limit on it.

Dimensions are listed innermost first. The limits are those of `cuTensorMapEncodeTiled` for Hopper;
each broken one is a finding of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from teir.errors import Rule
from teir.tma.dimensions import LARGEST_BOX, Dimension
from teir.tma.domain import IterDomain
from teir.tma.element_types import ElementType
from teir.tma.refusal import Refusal, Stage, refusal
from teir.tma.rules import (
    BOX_DIM,
    ELEMENT_STRIDE,
    FILL,
    GLOBAL_ADDRESS,
    GLOBAL_DIM,
    GLOBAL_STRIDE,
    INNER_BOX,
    INNERMOST_DENSE,
    INTERLEAVE,
    RANK,
    STRIDE_ORDER,
    SWIZZLE_WIDTH,
    TRANSACTION,
)

LARGEST_RANK = 5
LARGEST_ELEMENT_STRIDE = 8
LARGEST_SIZE = 2**32
STRIDE_LIMIT_BYTES = 2**40
TRANSACTION_LIMIT_BYTES = 2**20
SWIZZLES_BYTES = (0, 32, 64, 128)


class Fill(Enum):
    """What a load writes for elements out of bounds."""

    ZERO = "zero"
    NAN = "nan"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """A descriptor, innermost dimension first.

    ``strides_bytes`` has one entry per dimension but the innermost, whose stride is one element.
    """

    element_type: ElementType
    address: int
    sizes: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle_bytes: int
    interleave_bytes: int
    fill: Fill

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def tile(self) -> tuple[int, ...]:
        """Elements moved along every dimension."""
        pairs = zip(self.box, self.element_strides, strict=True)
        return tuple(-(-box // stride) for box, stride in pairs)

    @property
    def tile_bytes(self) -> int:
        """Bytes one instruction moves and a barrier is told to expect, out of bounds included."""
        count = self.element_type.width
        for extent in self.tile:
            count *= extent
        return count


def tensor_map_of(
    dimensions: tuple[Dimension, ...], element_type: ElementType, address: int, swizzle_bytes: int
) -> TensorMap:
    """The map of inferred ``dimensions``, innermost first."""
    return TensorMap(
        element_type=element_type,
        address=address,
        sizes=tuple(one.size for one in dimensions),
        strides_bytes=tuple(one.stride_elements * element_type.width for one in dimensions[1:]),
        box=tuple(one.box for one in dimensions),
        element_strides=tuple(one.element_stride for one in dimensions),
        swizzle_bytes=swizzle_bytes,
        interleave_bytes=0,
        fill=Fill.ZERO,
    )


def check_tensor_map(
    tensor_map: TensorMap,
    concerned: tuple[tuple[IterDomain, ...], ...],
    strides_must_ascend: bool,
) -> tuple[Refusal, ...]:
    """Every limit ``tensor_map`` breaks, in the order of the driver's parameters.

    ``concerned`` names the IterDomains of every dimension, innermost first. With
    ``strides_must_ascend`` each stride has to cover the dimension below it.
    """
    return (
        *_rank_and_address(tensor_map),
        *_sizes_and_strides(tensor_map, concerned),
        *(_ascending(tensor_map, concerned) if strides_must_ascend else ()),
        *_boxes(tensor_map, concerned),
        *_modes(tensor_map, concerned),
    )


def _broken(rule: Rule, concerned: tuple[IterDomain, ...], expected: str, reason: str) -> Refusal:
    return refusal(Stage.DESCRIPTOR, rule, concerned, expected, reason)


def _rank_and_address(tensor_map: TensorMap) -> Iterator[Refusal]:
    least = 3 if tensor_map.interleave_bytes else 1
    if not least <= tensor_map.rank <= LARGEST_RANK:
        span = f"{least}..{LARGEST_RANK}"
        yield _broken(RANK, (), f"a rank in {span}", f"rank {tensor_map.rank} not in {span}")
    alignment = 32 if tensor_map.interleave_bytes == 32 else 16
    if tensor_map.address % alignment:
        reason = f"globalAddress not {alignment}-byte aligned"
        yield _broken(GLOBAL_ADDRESS, (), f"a multiple of {alignment}", reason)


def _sizes_and_strides(
    tensor_map: TensorMap, concerned: tuple[tuple[IterDomain, ...], ...]
) -> Iterator[Refusal]:
    for at, size in enumerate(tensor_map.sizes):
        if not 1 <= size <= LARGEST_SIZE:
            reason = f"globalDim[{at}]={size} not in 1..2^32"
            yield _broken(GLOBAL_DIM, concerned[at], "a size in 1..2^32", reason)
    unit = 32 if tensor_map.interleave_bytes == 32 else 16
    for at, stride in enumerate(tensor_map.strides_bytes):
        if stride % unit or not 0 <= stride < STRIDE_LIMIT_BYTES:
            reason = f"globalStrides[{at}]={stride} not a multiple of {unit} below 2^40"
            expected = f"a multiple of {unit} bytes below 2^40"
            yield _broken(GLOBAL_STRIDE, concerned[at + 1], expected, reason)


def _ascending(
    tensor_map: TensorMap, concerned: tuple[tuple[IterDomain, ...], ...]
) -> Iterator[Refusal]:
    strides = (tensor_map.element_type.width, *tensor_map.strides_bytes)
    for at in range(1, tensor_map.rank):
        least = strides[at - 1] * (tensor_map.sizes[at - 1] if at == 1 else 1)
        if strides[at] < least:
            reason = f"globalStrides[{at - 1}]={strides[at]} below {least}"
            yield _broken(STRIDE_ORDER, concerned[at], f"at least {least} bytes", reason)


def _boxes(
    tensor_map: TensorMap, concerned: tuple[tuple[IterDomain, ...], ...]
) -> Iterator[Refusal]:
    for at, box in enumerate(tensor_map.box):
        if not 1 <= box <= LARGEST_BOX:
            reason = f"boxDim[{at}]={box} not in 1..{LARGEST_BOX}"
            yield _broken(BOX_DIM, concerned[at], f"a box extent in 1..{LARGEST_BOX}", reason)
    inner_bytes = tensor_map.box[0] * tensor_map.element_type.width
    if not tensor_map.interleave_bytes and inner_bytes % 16:
        reason = f"inner box {inner_bytes} B not a multiple of 16"
        yield _broken(INNER_BOX, concerned[0], "a multiple of 16 bytes", reason)
    for at, stride in enumerate(tensor_map.element_strides):
        if not 1 <= stride <= LARGEST_ELEMENT_STRIDE:
            span = f"1..{LARGEST_ELEMENT_STRIDE}"
            reason = f"elementStrides[{at}]={stride} not in {span}"
            yield _broken(ELEMENT_STRIDE, concerned[at], f"an element stride in {span}", reason)
    if tensor_map.element_strides[0] != 1:
        reason = "first element of elementStrides must be one"
        yield _broken(INNERMOST_DENSE, concerned[0], "element stride 1", reason)


def _modes(
    tensor_map: TensorMap, concerned: tuple[tuple[IterDomain, ...], ...]
) -> Iterator[Refusal]:
    swizzle = tensor_map.swizzle_bytes
    inner_bytes = tensor_map.box[0] * tensor_map.element_type.width
    if swizzle not in SWIZZLES_BYTES:
        reason = f"swizzle {swizzle} not in 0, 32, 64, 128"
        yield _broken(SWIZZLE_WIDTH, concerned[0], "0, 32, 64 or 128 bytes", reason)
    elif swizzle and not tensor_map.interleave_bytes and inner_bytes > swizzle:
        reason = f"inner box {inner_bytes} B exceeds swizzle {swizzle} B"
        yield _broken(SWIZZLE_WIDTH, concerned[0], f"at most {swizzle} bytes", reason)
    if tensor_map.interleave_bytes == 32 and swizzle != 32:
        yield _broken(INTERLEAVE, (), "a swizzle of 32 bytes", f"swizzle {swizzle}")
    if tensor_map.fill is Fill.NAN and not tensor_map.element_type.is_float:
        kind = tensor_map.element_type.value
        yield _broken(FILL, (), "a floating-point element type", f"NaN fill of {kind}")
    if tensor_map.tile_bytes >= TRANSACTION_LIMIT_BYTES:
        reason = f"tile of {tensor_map.tile_bytes} B not below 2^20"
        every = tuple(one for group in concerned for one in group)
        yield _broken(TRANSACTION, every, "fewer than 2^20 bytes", reason)
