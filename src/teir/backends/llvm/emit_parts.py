"""Complex vectors in parts: the real numbers of two in one, their imaginary ones in another.

    re0 im0 re1 im1 ...   re8 im8 ...      elements, two vectors
    re0 re1 ... re8 ...   im0 im1 ... im8  parts

A product in parts takes the multiply-adds of a product of elements, on the same numbers and in the
same order, and no element is turned for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.backends.llvm.emit_products import Arithmetic, Scale, multiply_add
from teir.backends.llvm.emit_text import FunctionText, shuffle


def in_parts(text: FunctionText, kind: Arithmetic, elements: Sequence[str]) -> list[str]:
    """An even number of vectors of elements in parts, pair by pair."""
    count = kind.count
    return [
        shuffle(text, kind.element, count, first, second, range(part, 2 * count, 2))
        for first, second in zip(elements[::2], elements[1::2], strict=True)
        for part in (0, 1)
    ]


def as_elements(text: FunctionText, kind: Arithmetic, parts: Sequence[str]) -> list[str]:
    """What `in_parts` made parts of."""
    count = kind.count
    lanes = [lane + part * count for lane in range(count) for part in (0, 1)]
    return [
        shuffle(text, kind.element, count, real, imaginary, half)
        for real, imaginary in zip(parts[::2], parts[1::2], strict=True)
        for half in (lanes[:count], lanes[count:])
    ]


def add_product_of_parts(
    text: FunctionText, kind: Arithmetic, factors: Sequence[str], scale: Scale, sums: Sequence[str]
) -> list[str]:
    """``sums`` + ``factors`` * ``scale``, both in parts: what `add_product` adds to elements."""
    assert scale.imaginary is not None
    following = []
    for place in range(0, len(sums), 2):
        real, imaginary = factors[place : place + 2]
        less = text.value(f"fneg {kind.kind} {imaginary}")
        for part, turned in ((place, less), (place + 1, real)):
            sum_ = multiply_add(text, kind, factors[part], scale.real, sums[part])
            following.append(multiply_add(text, kind, turned, scale.imaginary, sum_))
    return following
