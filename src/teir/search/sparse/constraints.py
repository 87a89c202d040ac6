"""What is known of extents and fibre lengths: ranges, inferred facts and the user's (5.4).

A constraint compares two polynomials with integer coefficients: ``8 <= k <= 256``,
``1000 * i * jpos < i * j``. Symbols are indices and, for compressed ones, ``jpos``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from teir.errors import ArgumentPlace, Finding, Rule, TeirError
from teir.search.sparse.cost import FIBRE, Product
from teir.search.sparse.statement import Statement

CONSTRAINT = Rule(
    code="TEIR667",
    sentence="A constraint compares sums of products of integers, indices and fibre lengths "
    "(jpos for a compressed index j) with <, <=, >, >= or ==: 8 <= k <= 256.",
    source="SparseAuto, 5.4",
)
POSSIBLE = Rule(
    code="TEIR668",
    sentence="Some extents and fibre lengths meet all constraints.",
    source="SparseAuto, 5.4",
)

_LONGEST = 1000

Polynomial = tuple[tuple[Product, int], ...]
"""Products with their coefficients, in increasing order."""
Bounds = Mapping[str, tuple[int, int | None]]
"""The least and the largest value each symbol may have by its own constraints."""


class Relation(Enum):
    """How the two sides compare."""

    LESS = "<"
    AT_MOST = "<="
    EQUAL = "=="


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """``left`` relation ``right``."""

    left: Polynomial
    relation: Relation
    right: Polynomial

    def __str__(self) -> str:
        return f"{_print(self.left)} {self.relation.value} {_print(self.right)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All constraints on the symbols of a statement (Φ in the paper)."""

    symbols: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    bounds: Bounds


def _bounds(symbols: tuple[str, ...], constraints: Iterable[Constraint]) -> Bounds:
    found: dict[str, tuple[int, int | None]] = dict.fromkeys(symbols, (0, None))
    for constraint in constraints:
        is_less = constraint.relation is Relation.LESS
        sides = [(constraint.left, constraint.right)]
        if constraint.relation is Relation.EQUAL:
            sides.append((constraint.right, constraint.left))
        for small, large in sides:
            name, most = _bound(small, large)
            if name is not None and most is not None:
                low, high = found[name]
                most -= is_less
                found[name] = (low, most if high is None else min(high, most))
            name, least = _bound(large, small)
            if name is not None and least is not None:
                low, high = found[name]
                found[name] = (max(low, least + is_less), high)
    return found


def symbols_of(statement: Statement) -> tuple[str, ...]:
    """Indices, then the fibre length of every compressed one."""
    compressed = {
        index
        for access in statement.accesses
        for index in statement.compressed_indices(access.tensor)
    }
    fibres = tuple(f"{index}{FIBRE}" for index in statement.indices if index in compressed)
    return (*statement.indices, *fibres)


def known_of(statement: Statement, texts: Iterable[str]) -> Known:
    """The user's constraints, and those that hold for every statement: extents are at least 1,
    fibre lengths between 0 and the extent. Raises TeirError for a text that is no constraint."""
    symbols = symbols_of(statement)
    inferred = [f"{symbol} >= 1" for symbol in symbols if symbol in statement.indices]
    for symbol in symbols[len(statement.indices) :]:
        inferred += [f"{symbol} >= 0", f"{symbol} <= {symbol.removesuffix(FIBRE)}"]
    parsed = [
        constraint for text in (*inferred, *texts) for constraint in parse_constraint(text, symbols)
    ]
    constraints = tuple(dict.fromkeys(parsed))
    return Known(symbols=symbols, constraints=constraints, bounds=_bounds(symbols, constraints))


def parse_constraint(text: str, symbols: tuple[str, ...]) -> tuple[Constraint, ...]:
    """The comparisons of ``text``; ``a <= b <= c`` is two. Raises TeirError."""
    if len(text) > _LONGEST:
        raise _refusal(text[:40], f"at most {_LONGEST} characters", str(len(text)))
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refusal(text, "a comparison", "no expression") from None
    if not isinstance(tree, ast.Compare):
        raise _refusal(text, "a comparison", "an expression without one")
    sides = [_polynomial(side, text, symbols) for side in (tree.left, *tree.comparators)]
    return tuple(
        _compared(left, operator, right, text)
        for left, operator, right in zip(sides, tree.ops, sides[1:], strict=False)
    )


def _compared(left: Polynomial, operator: ast.cmpop, right: Polynomial, text: str) -> Constraint:
    match operator:
        case ast.Lt():
            return Constraint(left=left, relation=Relation.LESS, right=right)
        case ast.LtE():
            return Constraint(left=left, relation=Relation.AT_MOST, right=right)
        case ast.Gt():
            return Constraint(left=right, relation=Relation.LESS, right=left)
        case ast.GtE():
            return Constraint(left=right, relation=Relation.AT_MOST, right=left)
        case ast.Eq():
            return Constraint(left=left, relation=Relation.EQUAL, right=right)
        case _:
            raise _refusal(text, "<, <=, >, >= or ==", type(operator).__name__)


def _polynomial(node: ast.expr, text: str, symbols: tuple[str, ...]) -> Polynomial:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return (((), number),) if number else ()
        case ast.Name(id=name) if name in symbols:
            return (((name,), 1),)
        case ast.BinOp(left=one, op=ast.Add(), right=other):
            return _sum(_polynomial(one, text, symbols), _polynomial(other, text, symbols), 1)
        case ast.BinOp(left=one, op=ast.Sub(), right=other):
            return _sum(_polynomial(one, text, symbols), _polynomial(other, text, symbols), -1)
        case ast.BinOp(left=one, op=ast.Mult(), right=other):
            return _times(_polynomial(one, text, symbols), _polynomial(other, text, symbols))
        case _:
            found = ast.unparse(node)
            raise _refusal(text, f"integers, + - * and {', '.join(symbols)}", found)


def _sum(one: Polynomial, other: Polynomial, sign: int) -> Polynomial:
    total = dict(one)
    for product, factor in other:
        total[product] = total.get(product, 0) + sign * factor
    return _normal(total)


def _times(one: Polynomial, other: Polynomial) -> Polynomial:
    total: dict[Product, int] = {}
    for left, factor in one:
        for right, times in other:
            product = tuple(sorted((*left, *right)))
            total[product] = total.get(product, 0) + factor * times
    return _normal(total)


def _normal(total: Mapping[Product, int]) -> Polynomial:
    return tuple(sorted((product, factor) for product, factor in total.items() if factor))


def _bound(side: Polynomial, other: Polynomial) -> tuple[str | None, int | None]:
    """(x, c) where the sides are one symbol and one number."""
    if len(side) != 1 or side[0][1] != 1 or len(side[0][0]) != 1:
        return None, None
    if any(product for product, _ in other):
        return None, None
    return side[0][0][0], other[0][1] if other else 0


def polynomial_value(
    polynomial: Polynomial, of: Callable[[str], int | float], start: int | float
) -> int | float:
    """The polynomial where ``of`` gives the value of each symbol, added to ``start``."""
    total = start
    for product, factor in polynomial:
        term: int | float = factor
        for symbol in product:
            term = term * of(symbol)
        total = total + term
    return total


def _print(polynomial: Polynomial) -> str:
    words = [
        " * ".join([*([str(factor)] if factor != 1 or not product else []), *product])
        for product, factor in polynomial
    ]
    return " + ".join(words) or "0"


def _refusal(text: str, expected: str, found: str) -> TeirError:
    place = ArgumentPlace(name=f"constraint {text!r}")
    return TeirError((Finding(rule=CONSTRAINT, place=place, expected=expected, found=found),))
