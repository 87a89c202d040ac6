"""Index notation as a value: a sum of products of tensors at named indices.

    A[i, l] = B[i, j] * C[i, k] * D[j, k] * E[j, l] - 0.5 * F[i, l]

`Assignment` is the whole statement, a `Product` one of its terms, an `Access` a tensor at its
indices. Names of tensors and indices are words. ``str`` gives the canonical text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Number = float | complex


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A tensor at its indices; a scalar has none.

    ``column`` is the 0-based place in the text, ``columns`` those of the indices, for findings.
    """

    tensor: str
    indices: tuple[str, ...]
    column: int = field(default=0, compare=False)
    columns: tuple[int, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{self.tensor}[{','.join(self.indices)}]" if self.indices else self.tensor

    def column_of(self, place: int) -> int:
        """The column of the index at ``place``; the access' own where it was built by hand."""
        return self.columns[place] if self.columns else self.column


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A term of the sum: the factors in their order, a number, taken with a minus sign or not.

    ``number`` is 0 or greater, or such a multiple of the imaginary unit; ``column`` is where the
    first number of the term stands in the text.
    """

    factors: tuple[Access, ...]
    is_negative: bool = False
    number: Number = 1.0
    column: int = field(default=0, compare=False)

    @property
    def coefficient(self) -> Number:
        """What the product of the factors is multiplied by."""
        return -self.number if self.is_negative else self.number

    @property
    def indices(self) -> tuple[str, ...]:
        """The indices of the factors, in order of appearance."""
        return tuple(dict.fromkeys(index for factor in self.factors for index in factor.indices))

    def __str__(self) -> str:
        factors = " * ".join(map(str, self.factors))
        return factors if self.number == 1 else f"{_number_text(self.number)} * {factors}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """``output = products[0] ± products[1] ...``; indices not in the output are summed per term.

    ``accumulates`` is True for ``+=``: the output's old value is one more term.
    """

    output: Access
    products: tuple[Product, ...]
    accumulates: bool = False
    text: str = field(default="", compare=False)

    @property
    def indices(self) -> tuple[str, ...]:
        """The output's indices, then the summed ones in order of appearance."""
        inner = (index for product in self.products for index in product.indices)
        return tuple(dict.fromkeys((*self.output.indices, *inner)))

    @property
    def inputs(self) -> dict[str, Access]:
        """The first access of every tensor on the right, in order of appearance."""
        found: dict[str, Access] = {}
        for product in self.products:
            for factor in product.factors:
                found.setdefault(factor.tensor, factor)
        return found

    def __str__(self) -> str:
        """The canonical text; parsing it gives the same value."""
        first, *rest = self.products
        right = ("-" if first.is_negative else "") + str(first)
        for product in rest:
            right += f" {'-' if product.is_negative else '+'} {product}"
        return f"{self.output} {'+=' if self.accumulates else '='} {right}"


def _number_text(number: Number) -> str:
    """The shortest text that gives the number again: 2, 0.5, 1e-30, 2j."""
    if isinstance(number, complex):
        return f"{_number_text(number.imag)}j"
    return repr(number).removesuffix(".0")


def signed(number: Number) -> tuple[bool, Number]:
    """Whether a real or imaginary number has a minus sign, and the number without."""
    if isinstance(number, complex) and number.imag == 0:
        number = number.real
    if isinstance(number, complex):
        return number.imag < 0, complex(0.0, abs(number.imag))
    return number < 0, abs(number)
