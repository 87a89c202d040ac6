"""The metadata entry ``subnormals`` of a Contraction: ``"zero"`` lets no subnormal number count.

    primitive gemm = Contraction BF16 (a, b -> c; M=[m], N=[n], K=[k]) with {"subnormals": "zero"}

Every factor, the value the output had, and the sum after every product is taken for zero where it
is smaller than the smallest normal FP32 number. The order of the products is that of any other
Contraction. Only for two inputs of type BF16, whose products are exact: the instructions that
processors have for them compute so. Where products are formed by tile registers, the sum of each
group of 32 steps is flushed, and the order is that of `teir.lower.tile_kernels.TileProduct`.
"""

from __future__ import annotations

from functools import lru_cache

from teir.ir.nodes import Operation, Primitive

SUBNORMALS = "subnormals"
ZERO = '"zero"'
"""The only value, as JSON text."""


def flushes_subnormals(primitive: Primitive) -> bool:
    """True where a well-formed Contraction takes subnormal numbers for zero."""
    if not primitive.metadata or primitive.operation is not Operation.CONTRACTION:
        return False
    return _has_entry(primitive.metadata)


@lru_cache(maxsize=256)
def _has_entry(metadata: tuple[tuple[str, str], ...]) -> bool:
    return SUBNORMALS in dict(metadata)


def subnormals_text(primitive: Primitive) -> str | None:
    """The entry as it stands in the program."""
    return dict(primitive.metadata).get(SUBNORMALS)


def with_subnormals_zero(metadata: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """``metadata`` with the entry, sorted by key."""
    return tuple(sorted((dict(metadata) | {SUBNORMALS: ZERO}).items()))
