"""Multiplying and adding vectors of numbers, real and complex.

A complex product takes two chained steps on interleaved lanes: first the real part of the second
factor times (re, im), then its imaginary part times (-im, re).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_lanes import load_number
from teir.backends.llvm.emit_numbers import (
    computed_number,
    numbers_per_element,
    round_factor,
    widen,
)
from teir.backends.llvm.emit_text import FunctionText, constants, shuffle, splat, vector
from teir.dtypes import DataType
from teir.target import Isa


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What the arithmetic of one kernel's vectors depends on: ``count`` numbers per vector."""

    isa: Isa
    data_type: DataType
    count: int

    @property
    def element(self) -> str:
        return computed_number(self.data_type)

    @property
    def kind(self) -> str:
        return vector(self.element, self.count)

    @property
    def fills_masked_vector(self) -> bool:
        """Whether the numbers of a vector are as many as a register holds that has masks."""
        width = 8 if self.element == "double" else 4
        return self.isa.has_masks and self.count * width == self.isa.vector_bytes


@dataclass(frozen=True, slots=True)
class Factor:
    """A first factor: the numbers, and for complex types also (-im, re)."""

    numbers: str
    turned: str | None


@dataclass(frozen=True, slots=True)
class Scale:
    """A second factor: real parts in both places, and for complex types imaginary parts."""

    real: str
    imaginary: str | None


def multiply_add(text: FunctionText, kind: Arithmetic, left: str, right: str, sum_: str) -> str:
    """left * right + sum_, fused where the instruction set can."""
    if kind.isa.has_fma:
        width = "f64" if kind.element == "double" else "f32"
        name = f"@llvm.fma.v{kind.count}{width}"
        return text.value(
            f"call {kind.kind} {name}({kind.kind} {left}, {kind.kind} {right}, {kind.kind} {sum_})"
        )
    product = text.value(f"fmul {kind.kind} {left}, {right}")
    return text.value(f"fadd {kind.kind} {product}, {sum_}")


def add_product(
    text: FunctionText, kind: Arithmetic, factor: Factor, scale: Scale, sum_: str
) -> str:
    """sum_ + factor * scale, one step of the chain of an output element."""
    sum_ = multiply_add(text, kind, factor.numbers, scale.real, sum_)
    if factor.turned is None or scale.imaginary is None:
        return sum_
    return multiply_add(text, kind, factor.turned, scale.imaginary, sum_)


def product(text: FunctionText, kind: Arithmetic, factor: Factor, scale: Scale) -> str:
    """factor * scale rounded by itself."""
    real = text.value(f"fmul {kind.kind} {factor.numbers}, {scale.real}")
    if factor.turned is None or scale.imaginary is None:
        return real
    return multiply_add(text, kind, factor.turned, scale.imaginary, real)


def add_all(text: FunctionText, kind: Arithmetic, numbers: Sequence[str], sum_: str) -> str:
    """sum_ + the product of one or more vectors, formed left to right, the last one fused."""
    if len(numbers) == 1:
        return text.value(f"fadd {kind.kind} {sum_}, {numbers[0]}")
    left = numbers[0]
    for right in numbers[1:-1]:
        left = product(text, kind, as_factor(text, kind, left), as_scale(text, kind, right))
    scale = as_scale(text, kind, numbers[-1])
    return add_product(text, kind, as_factor(text, kind, left), scale, sum_)


def as_factor(text: FunctionText, kind: Arithmetic, numbers: str) -> Factor:
    """Computed numbers made ready to stand left of a product."""
    if not kind.data_type.is_complex:
        return Factor(numbers, None)
    swapped = _shuffled(text, kind, numbers, [lane ^ 1 for lane in range(kind.count)])
    width = 64 if kind.element == "double" else 32
    ints = vector(f"i{width}", kind.count)
    signs = [-(1 << (width - 1)) if lane % 2 == 0 else 0 for lane in range(kind.count)]
    bits = text.value(f"bitcast {kind.kind} {swapped} to {ints}")
    flipped = text.value(f"xor {ints} {bits}, {constants(f'i{width}', signs)}")
    return Factor(numbers, text.value(f"bitcast {ints} {flipped} to {kind.kind}"))


def as_scale(text: FunctionText, kind: Arithmetic, numbers: str) -> Scale:
    """Computed numbers made ready to stand right of a product."""
    if not kind.data_type.is_complex:
        return Scale(numbers, None)
    lanes = range(kind.count)
    real = _shuffled(text, kind, numbers, [lane & ~1 for lane in lanes])
    return Scale(real, _shuffled(text, kind, numbers, [lane | 1 for lane in lanes]))


def load_scale(text: FunctionText, kind: Arithmetic, pointer: str) -> Scale:
    """The element at ``pointer`` as right factor of every lane."""
    parts = []
    for part in range(numbers_per_element(kind.data_type)):
        stored = load_number(text, kind.data_type, pointer, part)
        number = widen(text, kind.data_type, kind.isa, stored, 1)
        parts.append(round_factor(text, kind.data_type, number, 1))
    splats = [_splat_single(text, kind, part) for part in parts]
    return Scale(splats[0], splats[1] if len(splats) == 2 else None)


def _splat_single(text: FunctionText, kind: Arithmetic, single: str) -> str:
    one = vector(kind.element, 1)
    scalar = text.value(f"extractelement {one} {single}, i64 0")
    return splat(text, kind.element, scalar, kind.count)


def _shuffled(text: FunctionText, kind: Arithmetic, numbers: str, lanes: Sequence[int]) -> str:
    return shuffle(text, kind.element, kind.count, numbers, "poison", lanes)
