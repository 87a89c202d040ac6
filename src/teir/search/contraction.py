"""What a contraction is, before anything is decided: tensors, strides, extents."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from teir.dtypes import DataType
from teir.ir.nodes import Tensor

Path = tuple[tuple[int, ...], ...]


class Factor(msgspec.Struct, frozen=True, gc=False):
    """A tensor of the contraction and the bytes it moves along each of its indices.

    A stride may be 0 (repetition), never negative: an axis walked backwards has a positive stride
    and an offset. An index of extent 1 must be left out.
    """

    tensor: Tensor
    strides: Mapping[str, int]
    offsets: Mapping[str, int] = msgspec.field(default_factory=dict)

    @property
    def order(self) -> tuple[str, ...]:
        """The indices, the largest stride first."""
        return tuple(sorted(self.strides, key=lambda index: self.strides[index], reverse=True))

    @property
    def adjacent(self) -> str | None:
        """The index along which elements are adjacent, if there is one."""
        width = self.tensor.data_type.width
        return next((index for index in self.strides if self.strides[index] == width), None)


class Contraction(msgspec.Struct, frozen=True, gc=False):
    """What is to be computed: inputs, the output, and the extent of every index."""

    name: str
    inputs: tuple[Factor, ...]
    output: Factor
    extents: Mapping[str, int]

    @property
    def compute(self) -> DataType:
        """The type of the output, of intermediates and of the operands of every product."""
        return self.output.tensor.data_type

    @property
    def is_copy(self) -> bool:
        """True when one operand is moved and nothing is summed."""
        return len(self.inputs) == 1 and set(self.inputs[0].strides) <= set(self.output.strides)


def dense_strides(
    order: tuple[str, ...], extents: Mapping[str, int], width: int
) -> tuple[dict[str, int], int]:
    """Bytes per index of a dense tensor, ``order`` outermost first; and its size in bytes."""
    strides: dict[str, int] = {}
    stride = width
    for index in reversed(order):
        strides[index] = stride
        stride *= extents[index]
    return {index: strides[index] for index in order}, stride
