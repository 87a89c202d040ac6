"""What is scheduled: one product of tensors with storage formats (2.1 of the SparseAuto paper)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from teir.arrays.levels import Format, Level, dense_format
from teir.errors import Rule, refuse
from teir.expr.index_notation import Access, Assignment
from teir.expr.index_notation_check import sole_product

SCHEDULED = Rule(
    code="TEIR661",
    sentence="What is scheduled is one product of tensors, not all of them scalars, each with "
    "different indices, none used twice; a sum is scheduled term by term.",
    source="docs/sparse-scheduling.md, what is scheduled",
)
FORMAT_RANK = Rule(
    code="TEIR662",
    sentence="A format names a tensor of the expression and has one level per index.",
    source="docs/sparse-scheduling.md, formats",
)
FEASIBLE = Rule(
    code="TEIR663",
    sentence="Some order of the loops visits the levels of every sparse tensor from the outermost "
    "inwards.",
    source="SparseAuto, 4.1",
)

Pairs = tuple[tuple[str, str], ...]
"""(a, b): the loop over a stands outside the loop over b."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """``output += inputs[0] * inputs[1] * ...`` with the format of every tensor.

    ``formats`` is in the order (output, inputs).
    """

    output: Access
    inputs: tuple[Access, ...]
    formats: tuple[Format, ...]

    @property
    def indices(self) -> tuple[str, ...]:
        """All indices, the output's first."""
        inner = (index for access in self.inputs for index in access.indices)
        return tuple(dict.fromkeys((*self.output.indices, *inner)))

    @property
    def accesses(self) -> tuple[Access, ...]:
        return (self.output, *self.inputs)

    def format_of(self, tensor: str) -> Format | None:
        """The format, None for a tensor that is not the statement's (a temporary)."""
        for access, fmt in zip(self.accesses, self.formats, strict=True):
            if access.tensor == tensor:
                return fmt
        return None

    def level_indices(self, tensor: str) -> tuple[str, ...]:
        """The indices of a tensor of the statement, outermost level first."""
        for access, fmt in zip(self.accesses, self.formats, strict=True):
            if access.tensor == tensor:
                return tuple(access.indices[mode] for mode in fmt.mode_order)
        raise KeyError(tensor)

    def compressed_indices(self, tensor: str) -> tuple[str, ...]:
        """The indices of the compressed levels; none for temporaries and dense tensors."""
        fmt = self.format_of(tensor)
        if fmt is None:
            return ()
        pairs = zip(self.level_indices(tensor), fmt.levels, strict=True)
        return tuple(index for index, level in pairs if level is Level.COMPRESSED)

    def order_pairs(self, tensors: Iterable[str]) -> Pairs:
        """The order constraints these tensors put on the loops of an expression (2.1).

        A sparse tensor keeps its level order. Every other index comes after the levels of a
        sparse output down to its last compressed one.
        """
        pairs: dict[tuple[str, str], None] = {}
        for tensor in tensors:
            fmt = self.format_of(tensor)
            if fmt is None or not fmt.is_sparse:
                continue
            levels = self.level_indices(tensor)
            pairs.update(dict.fromkeys(combinations(levels, 2)))
            if tensor == self.output.tensor:
                prefix = levels[: fmt.sparse_prefix]
                others = (index for index in self.indices if index not in levels)
                pairs.update(dict.fromkeys((prefix[-1], index) for index in others))
        return tuple(pairs)


def statement_of(assignment: Assignment, formats: Mapping[str, Format]) -> Statement:
    """The statement of an assignment with one product; tensors without a format are dense.

    Raises TeirError: a sum, a repeated tensor or index, a wrong format, no valid loop order.
    """
    product = sole_product(assignment)
    if product is None:
        refuse(SCHEDULED, str(assignment), "one product", "a sum or a difference")
    if not assignment.indices:
        refuse(SCHEDULED, str(assignment), "a product with an index", "scalars alone")
    accesses = (assignment.output, *product.factors)
    names = [access.tensor for access in accesses]
    for place, access in enumerate(accesses):
        if access.tensor in names[:place]:
            refuse(SCHEDULED, access.tensor, "each tensor once", "another use")
        if len(set(access.indices)) != len(access.indices):
            refuse(SCHEDULED, access.tensor, "different indices", str(access))
    for name, fmt in formats.items():
        rank = next((len(access.indices) for access in accesses if access.tensor == name), None)
        if rank != len(fmt.levels):
            expected = "a tensor of the expression" if rank is None else f"{rank} levels"
            refuse(FORMAT_RANK, f"format of {name}", expected, str(fmt))
    statement = Statement(
        output=assignment.output,
        inputs=product.factors,
        formats=tuple(
            formats.get(access.tensor) or dense_format(len(access.indices)) for access in accesses
        ),
    )
    if first_order(statement) is None:
        found = ", ".join(f"{a} before {b}" for a, b in statement.order_pairs(names))
        refuse(FEASIBLE, "formats", "orders of levels that agree", found)
    return statement


def first_order(statement: Statement) -> tuple[str, ...] | None:
    """The first valid order of all loops, indices taken as early as they appear."""
    tensors = (access.tensor for access in statement.accesses)
    return sorted_loops(statement.indices, statement.order_pairs(tensors))


def sorted_loops(loops: Iterable[str], pairs: Pairs) -> tuple[str, ...] | None:
    """``loops`` with as few changes as keep every pair; None where the pairs form a circle."""
    left = dict.fromkeys(loops, 0)
    inner: dict[str, list[str]] = {index: [] for index in left}
    for before, after in pairs:
        if before in left and after in left:
            left[after] += 1
            inner[before].append(after)
    done: list[str] = []
    while left:
        free = next((index for index, outer in left.items() if not outer), None)
        if free is None:
            return None
        del left[free]
        for index in inner[free]:
            if index in left:
                left[index] -= 1
        done.append(free)
    return tuple(done)


def keeps(order: tuple[str, ...], pairs: Pairs) -> bool:
    """True where no pair stands the wrong way round; indices that are not there do not matter."""
    place = {index: number for number, index in enumerate(order)}
    return all(
        place[before] < place[after]
        for before, after in pairs
        if before in place and after in place
    )
