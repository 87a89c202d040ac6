"""Memory for a program's operands: small integers, odd alignments, room on both sides."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.arrays.numpy_fields import address_of
from teir.dtypes import DataType
from teir.ir.nodes import Program, Tensor

Buffer = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The bytes of one operand; the tensor's base address is ``base`` bytes into them.

    The elements of the tensor lie on a grid of its width through the base.
    """

    data_type: DataType
    content: Buffer
    base: int

    def elements(self) -> Buffer:
        """The whole grid as numbers: complex as two reals, BF16 and FP16 as FP32."""
        numbers = self.content.copy().view(self.data_type.numpy_dtype())
        if self.data_type.is_complex:
            return numbers.view(np.float32 if self.data_type is DataType.C64 else np.float64)
        if self.data_type in (DataType.BF16, DataType.FP16):
            return numbers.astype(np.float32)
        return numbers

    def copy(self) -> Image:
        """The same bytes at an address with the same remainder by 64."""
        content = _at_remainder(self.content.size, address_of(self.content) % 64)
        content[:] = self.content
        return Image(data_type=self.data_type, content=content, base=self.base)


def intervals(program: Program) -> dict[str, tuple[int, int]]:
    """The bytes a dense program may touch of each tensor, relative to its base: [low, high).

    The base itself lies inside, also where offsets move every access away from it.
    """
    axes, primitives, tensors = (
        program.axis_table(),
        program.primitive_table(),
        program.tensor_table(),
    )
    found: dict[str, tuple[int, int]] = {}
    for path, invocation in program.invocations():
        primitive = primitives[invocation.primitive]
        named = [axes[name] for name in (*(node.axis for node in path), *primitive.axes)]
        for tensor in primitive.operands:
            low = sum(axis.offsets[tensor] for axis in named)
            high = low + sum(axis.strides[tensor] * (axis.extent - 1) for axis in named)
            high += tensors[tensor].data_type.width
            before = found.get(tensor, (0, 0))
            found[tensor] = (min(low, before[0]), max(high, before[1]))
    return found


def draw_images(
    program: Program, seed: int, largest: int, divisors: frozenset[str] = frozenset()
) -> dict[str, Image]:
    """Operands of integers from -``largest`` to ``largest``; divisors are powers of two.

    Each has random room before and behind the bytes the program needs, so that a stray write
    shows, and a random alignment.
    """
    numbers = np.random.default_rng(seed)
    order = random.Random(seed)
    needed = intervals(program)
    return {
        tensor.name: _image(
            tensor,
            needed.get(tensor.name, (0, 0)),
            largest,
            tensor.name in divisors,
            numbers,
            order,
        )
        for tensor in program.tensors
    }


def tight_images(images: Mapping[str, Image], program: Program) -> dict[str, Image]:
    """The same operands without any room around the bytes the program needs."""
    needed = intervals(program)
    tight = {}
    for name, image in images.items():
        low, high = needed.get(name, (0, 0))
        content = image.content[image.base + low : image.base + high].copy()
        tight[name] = Image(data_type=image.data_type, content=content, base=-low)
    return tight


def fractions_instead(images: Mapping[str, Image], seed: int) -> dict[str, Image]:
    """The same operands holding numbers between -1 and 1."""
    numbers = np.random.default_rng(seed)
    changed = {}
    for name, image in images.items():
        after = image.copy()
        count = image.content.size // image.data_type.width
        shape = (count, 2) if image.data_type.is_complex else (count, 1)
        values = numbers.uniform(-1, 1, shape)
        typed = values[:, 0] if shape[1] == 1 else values[:, 0] + 1j * values[:, 1]
        stored = np.ascontiguousarray(typed.astype(image.data_type.numpy_dtype()))
        after.content[:] = stored.view(np.uint8)
        changed[name] = after
    return changed


def differences(left: Mapping[str, Image], right: Mapping[str, Image]) -> Iterator[str]:
    """A sentence for each operand whose elements differ; NaN equals NaN, -0 equals 0."""
    for name, image in left.items():
        if np.array_equal(image.content, right[name].content):
            continue
        ours, theirs = image.elements(), right[name].elements()
        wrong = np.flatnonzero((ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs)))
        if wrong.size:
            at = int(wrong[0])
            yield (
                f"{name}: {wrong.size} of {ours.size} numbers differ, the first at {at}: "
                f"{ours[at]} and {theirs[at]}"
            )


def _image(
    tensor: Tensor,
    needed: tuple[int, int],
    largest: int,
    is_divisor: bool,
    numbers: np.random.Generator,
    order: random.Random,
) -> Image:
    width = tensor.data_type.width
    before, behind = (order.choice((0, 1, 5, 16)) for _ in range(2))
    count = (needed[1] - needed[0]) // width + before + behind
    shape = (count, 2) if tensor.data_type.is_complex and not is_divisor else (count, 1)
    values = numbers.integers(-largest, largest + 1, shape).astype(np.float64)
    if is_divisor:
        values = numbers.choice(np.array([1.0, 2.0, 4.0, -1.0, -2.0]), shape)
    typed = values[:, 0] if shape[1] == 1 else values[:, 0] + 1j * values[:, 1]
    stored = np.ascontiguousarray(typed.astype(tensor.data_type.numpy_dtype())).view(np.uint8)
    content = _at_remainder(stored.size, order.choice((0, 0, 1, 2, 4, 8, 33)))
    content[:] = stored
    return Image(data_type=tensor.data_type, content=content, base=before * width - needed[0])


def _at_remainder(size: int, remainder: int) -> Buffer:
    room = np.empty(size + 128, np.uint8)
    start = (remainder - address_of(room)) % 64
    return room[start : start + size]
