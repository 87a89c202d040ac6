"""What is compared: one einsum on arrays of given shapes and memory orders."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from teir.dtypes import DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One einsum on arrays. All counts are of one call."""

    name: str
    family: str
    einsum: str
    shapes: tuple[tuple[int, ...], ...]
    """One per input, in the order of the axes in ``einsum``."""
    orders: tuple[tuple[int, ...], ...] = ()
    """One per input: its axes from the outermost in memory; none: every input C-contiguous."""
    program: str | None = None
    """The example program that does this, where a program and not an einsum is measured."""
    clears_negatives: bool = False
    """True where a ReLU follows."""
    is_copy: bool = False
    """True for a permutation, whose bound is copying."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.einsum.partition("->")[0].split(","))

    @property
    def output(self) -> str:
        return self.einsum.partition("->")[2]

    @property
    def extents(self) -> dict[str, int]:
        pairs = zip(self.inputs, self.shapes, strict=True)
        return {index: n for term, shape in pairs for index, n in zip(term, shape, strict=True)}

    @property
    def output_shape(self) -> tuple[int, ...]:
        extents = self.extents
        return tuple(extents[index] for index in self.output)

    def order(self, place: int) -> tuple[int, ...]:
        return self.orders[place] if self.orders else tuple(range(len(self.shapes[place])))

    def flops(self, data_type: DataType) -> int:
        """Two for a real multiply-add, eight for a complex one; 0 for a permutation.

        Those of more than two operands are the ones that the path of opt_einsum needs.
        """
        if self.is_copy:
            return 0
        return (8 if data_type.is_complex else 2) * self._products()

    def _products(self) -> int:
        """Multiply-adds, over all steps."""
        if len(self.inputs) <= 2:
            return prod(self.extents.values())
        import opt_einsum

        _, path = opt_einsum.contract_path(self.einsum, *self.shapes, shapes=True)
        extents = self.extents
        steps = (set(step[2]) & set(extents) for step in path.contraction_list)
        return sum(prod(extents[index] for index in indices) for indices in steps)

    def size_bytes(self, data_type: DataType) -> int:
        """Every input read once, the result written once."""
        elements = sum(prod(shape) for shape in (*self.shapes, self.output_shape))
        return data_type.width * elements

    def bound_seconds(self, data_type: DataType, flops_peak: float, copy_peak: float) -> float:
        """The least time: arithmetic at the peak, or every byte moved once at copying speed."""
        return max(
            self.flops(data_type) / flops_peak,
            self.size_bytes(data_type) / copy_peak,
        )
