"""The metadata entry ``lanes`` of a Contraction: how many chains a sum is formed in.

    primitive dot = Contraction FP32 (in0, in1 -> out; M=[], N=[], K=[t, k]) with {"lanes": 32}

Within one invocation, chain c adds the products whose index on the last K axis is c modulo
``lanes``, in the order of the K axes, starting from zero. Then chain c takes chain c + lanes/2 for
every c below lanes/2, and so on with half as many, until one is left; that sum is added to the
output. Without the entry a sum is one chain that starts from the output.

A Contraction that consumes no axis may have the entry where it is all that a loop over one
compressed level holds and that loop does not move its output:

    sequential j.B over j.B { add }   primitive add = Contraction FP64 (B, x -> y; ...)

The products of all visits are then one such sum; the number of a visit stands for the index.
"""

from __future__ import annotations

from functools import lru_cache

from teir.dtypes import DataType
from teir.ir.nodes import Operation, Primitive

LANES = "lanes"
MOST_LANES = 256
JOINED_BYTES = 1024
"""Chains of all sums of a short row together, in bytes: sixteen vectors of 64."""
_VECTOR_BYTES = 64
_FIBRE_LANES = 8


def lanes_of(primitive: Primitive) -> int | None:
    """The chains of a well-formed Contraction; None where its sum is one chain."""
    if not primitive.metadata or primitive.operation is not Operation.CONTRACTION:
        return None
    return _lanes(primitive.metadata)


@lru_cache(maxsize=256)
def _lanes(metadata: tuple[tuple[str, str], ...]) -> int | None:
    text = dict(metadata).get(LANES)
    return None if text is None else int(text)


def dot_chains(data_type: DataType, vectors: int = 1) -> tuple[tuple[str, str], ...]:
    """The entry of a dot of adjacent elements: as many chains as vectors of 64 bytes have."""
    if data_type not in (DataType.FP64, DataType.FP32):
        return ()
    return ((LANES, str(vectors * _VECTOR_BYTES // data_type.width)),)


def fibre_chains(data_type: DataType) -> tuple[tuple[str, str], ...]:
    """The entry of a sum over a fibre: few chains, for many fibres are short."""
    return ((LANES, str(_FIBRE_LANES)),) if data_type in (DataType.FP64, DataType.FP32) else ()


def fibre_lanes(primitive: Primitive) -> int | None:
    """The chains of a sum over the visits of the loop above; None where there are none."""
    return None if primitive.axes else lanes_of(primitive)


def lanes_text(primitive: Primitive) -> str | None:
    """The entry as it stands in the program."""
    return dict(primitive.metadata).get(LANES)


def is_lane_count(text: str) -> bool:
    """True for the JSON text of a power of two from 2 to `MOST_LANES`."""
    return text in _COUNTS


_COUNTS = frozenset(str(1 << bits) for bits in range(1, MOST_LANES.bit_length()))
