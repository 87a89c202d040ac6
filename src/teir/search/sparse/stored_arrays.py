"""The arrays of a stored tensor as operands of a program.

tensors of B with levels "dss": B (its values), B.pos1, B.crd1, B.pos2, B.crd2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from teir.arrays.levels import Format, Level
from teir.dtypes import DataType
from teir.expr.index_notation import Access
from teir.ir.nodes import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """One array of a stored tensor: its bytes per step along each index it is addressed by.

    ``by_position`` names the index whose compressed level addresses it, None for the others.
    """

    tensor: Tensor
    strides: Mapping[str, int]
    by_position: str | None


def arrays_of(
    access: Access,
    fmt: Format,
    extents: Mapping[str, int],
    data_type: DataType,
    index_type: DataType,
) -> tuple[Array, ...]:
    """The values, then pos and crd of every compressed level: B, B.pos1, B.crd1, ..."""
    name = access.tensor
    levels = [access.indices[mode] for mode in fmt.mode_order]
    made = []
    since = 0
    for place, level in enumerate(fmt.levels):
        if level is Level.DENSE:
            continue
        above = levels[since - 1 : place] if since else levels[:place]
        parent = levels[since - 1] if since else None
        pos = Tensor(name=f"{name}.pos{place}", data_type=index_type)
        crd = Tensor(name=f"{name}.crd{place}", data_type=index_type)
        width = index_type.width
        made.append(Array(tensor=pos, strides=_strides(above, extents, width), by_position=parent))
        made.append(Array(tensor=crd, strides={levels[place]: width}, by_position=levels[place]))
        since = place + 1
    inner = levels[since - 1 :] if since else levels
    values = Array(
        tensor=Tensor(name=name, data_type=data_type),
        strides=_strides(inner, extents, data_type.width),
        by_position=levels[since - 1] if since else None,
    )
    return (values, *made)


def _strides(levels: list[str], extents: Mapping[str, int], width: int) -> dict[str, int]:
    """Row-major strides in bytes; the extent of the first level does not matter."""
    strides = {}
    step = width
    for index in reversed(levels):
        strides[index] = step
        step *= extents[index]
    return dict(reversed(strides.items()))
