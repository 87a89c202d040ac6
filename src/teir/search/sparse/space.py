"""The space of schedules of a statement: what is generated (5.1), counted without being stored.

`Expression` holds everything that can be made of one product: the valid orders of its loops, and
every way to split it into a producer and a consumer with each possible prefix of common loops.
Equal expressions are one object, so a space of hundreds of millions of schedules is some thousand
expressions. Indices are single bits here, sets of indices are masks.

Two expressions are the same where their output, inputs and indices are. `Identity.NAMES` follows
the published generator instead, which knows a temporary by its name, its depth and its result's
index order only: in products of five tensors it takes different expressions for one. The published
counts have this in them, so ``rule="paper"`` keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec

from teir.search.sparse.statement import Statement

Mask = int
Bits = tuple[int, ...]
"""Indices in an order."""
BitPairs = tuple[tuple[int, int], ...]


class Identity(Enum):
    """When two expressions count as one."""

    NAMES = "names"
    ACCESSES = "accesses"


class Fusion(msgspec.Struct, frozen=True, gc=False):
    """A split of the inputs with one set of common loops, and what is left below them."""

    step: Step
    producer: Expression
    consumer: Expression

    @property
    def count(self) -> int:
        return len(self.step.sequences) * self.producer.count * self.consumer.count


class Expression(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One product: valid loop orders, fusions, and the number of schedules of both kinds."""

    orders: tuple[Bits, ...]
    walked: Mask
    """The loops that visit stored coordinates only."""
    strided: Mask
    """The loops that, as the innermost one, stride over an operand or gather from one."""
    fusions: tuple[Fusion, ...]
    count: int


class Step(msgspec.Struct, frozen=True, gc=False):
    """How a product may be split: after ``position`` inputs, with the loops ``common``.

    ``sequences`` are the orders the common loops may have, ``temporary`` the indices of the
    temporary.
    """

    position: int
    producer_in_left: bool
    common: Mask
    sequences: tuple[Bits, ...]
    temporary: Bits


class Unfused(msgspec.Struct, frozen=True, gc=False):
    """A pipeline (kind 0): both halves stored, then a third nest multiplies them."""

    position: int
    left: Expression
    right: Expression
    left_pipelines: tuple[Unfused, ...]
    right_pipelines: tuple[Unfused, ...]
    orders: tuple[Bits, ...]
    temporary_rank: int

    @property
    def count(self) -> int:
        left = self.left.count + sum(pipeline.count for pipeline in self.left_pipelines)
        right = self.right.count + sum(pipeline.count for pipeline in self.right_pipelines)
        return left * right * len(self.orders)


@dataclass(frozen=True, slots=True)
class Ordered:
    """One order of the inputs; pipelines are generated for the given order only."""

    inputs: tuple[int, ...]
    expression: Expression
    pipelines: tuple[Unfused, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """All schedules of a statement."""

    statement: Statement
    names: tuple[str, ...]
    """The index of bit 1 << n."""
    orders: tuple[Ordered, ...]

    @property
    def generated(self) -> int:
        """The number of schedules, equal ones of different input orders counted again."""
        return sum(
            order.expression.count + sum(pipeline.count for pipeline in order.pipelines)
            for order in self.orders
        )
