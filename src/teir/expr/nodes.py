"""An einsum as a value.

`Subscripts` is what the user wrote: terms with symbols and perhaps an ellipsis. `Einsum` is what
it means for operands of known rank: every ellipsis expanded, the output given. A symbol is one
character (in a tree a word); the axes an ellipsis stands for are named ``...0``, ``...1``, counted
from the right, so that operands of different rank broadcast against each other as NumPy's do.
"""

from __future__ import annotations

import msgspec


class Term(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The subscripts of one operand: symbols, and where among them the ellipsis stands, if any.

    ``columns`` holds the 0-based position of every symbol in the text, for findings; ``start`` is
    the position where the term begins. Terms are equal wherever they stand.
    """

    symbols: tuple[str, ...]
    ellipsis: int | None
    columns: tuple[int, ...]
    start: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Term):
            return NotImplemented
        return self.symbols == other.symbols and self.ellipsis == other.ellipsis

    def __hash__(self) -> int:
        return hash((self.symbols, self.ellipsis))

    def __str__(self) -> str:
        together = "".join(self.symbols)
        if len(together) > len(self.symbols):
            return " ".join(self.symbols)
        if self.ellipsis is None:
            return together
        before, after = self.symbols[: self.ellipsis], self.symbols[self.ellipsis :]
        return "".join((*before, "...", *after))


class Nesting(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How an einsum tree nests its terms.

    ``path`` holds the steps in opt_einsum's convention (positions in the list of what is left, the
    result appended), ``results`` the indices of every step's result in the order the tree wrote.
    """

    path: tuple[tuple[int, ...], ...]
    results: tuple[tuple[str, ...], ...]


class Subscripts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A parsed expression; ``output`` is None where the text has no arrow.

    ``nesting`` is given where the text was a tree; its symbols may have several characters.
    Expressions are equal however their ``text`` is spaced.
    """

    inputs: tuple[Term, ...]
    output: Term | None
    text: str
    nesting: Nesting | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Subscripts):
            return NotImplemented
        return (self.inputs, self.output, self.nesting) == (
            other.inputs,
            other.output,
            other.nesting,
        )

    def __hash__(self) -> int:
        return hash((self.inputs, self.output, self.nesting))

    def __str__(self) -> str:
        """The canonical text: no blanks."""
        if self.nesting is None and self.text.split() == [self.text]:
            return self.text
        left = ",".join(map(str, self.inputs))
        return left if self.output is None else f"{left}->{self.output}"


class Einsum(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An expression for operands of known rank: one index name per axis of every operand.

    The value at the output indices is the sum, over all other indices, of the product of the
    inputs at their indices. An index of extent 1 in one operand repeats along a larger extent.
    """

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]

    @property
    def indices(self) -> tuple[str, ...]:
        """All index names: the output's, then the summed ones in order of appearance."""
        seen = dict.fromkeys(self.output)
        for term in self.inputs:
            seen.update(dict.fromkeys(term))
        return tuple(seen)

    def __str__(self) -> str:
        left = ",".join(" ".join(term) for term in self.inputs)
        return f"{left} -> {' '.join(self.output)}"
