"""Sums over many short rows that lie one behind the other: chains across the ends of rows.

    outer { zero; Contraction M=[short row] K=[rows] lanes }

One chain would wait for every multiply-add, with most of every vector empty. How many chains there
are is decided by the extents alone, so that the result does not depend on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.dtypes import DataType
from teir.ir.lanes import JOINED_BYTES
from teir.ir.nodes import Operation, Tensor
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Span, Step
from teir.target import LINE_BYTES

_FEWEST_ROWS = 64
FEW, FEWEST_SHORT_ROWS = 4, 32
"""Rows worth joining; and of so few elements, most of whose vectors would be empty. Measured on Zen
4, 32 to 127 rows: 0.3 to 1.1 of the time, 0.5 (FP32) and 0.75 (FP64) in the mean; longer rows 1.6.
"""
_MANY_ROWS, _ROWS_OF_A_CHAIN = 128, 4
"""Rows from which halving the chains at the end does not show; of fewer, those each chain has."""
_MOST_CHAINS = 64
_FEWEST_MET = 5
"""Rows of each operand that meet all of the other's, from which a batch of matrix products is one
of register blocks: drawn ones on Golden Cove, sides of 5 to 700, 0.13 to 0.6 of the time, 0.29 in
the mean; sides of 2 to 4 from 0.25 to 2.5."""
_MANY_RESULTS, _MANY_MET = 12, 64
"""Results of FP64 that meet the same rows, half as many as of FP32, from which register blocks take
less time; and rows of FP32 that meet rows of two or three elements. Measured on Zen 4, 3 to 200
rows that meet rows of 2 to 8, sums of 40 to 5000 products: 0.13 to 0.9 of the time."""


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """A step over joined rows: the axis along a row, the summed one, and those around."""

    step: Step
    row: Span
    k: Span
    outer: tuple[Span, ...]

    @property
    def lanes(self) -> int:
        """Chains of a power of two that fill the accumulators: at least one vector of 64 bytes."""
        row_bytes = self.row.extent * self.step.output.data_type.width
        most = min(_MOST_CHAINS, JOINED_BYTES // row_bytes)
        if self.k.extent < _MANY_ROWS:
            most = min(most, self.k.extent // _ROWS_OF_A_CHAIN)
        return 1 << most.bit_length() - 1


def joined_rows_of(step: Step) -> JoinedRows | None:
    """The step as a sum over joined rows; None where its rows are long, few, or lie apart."""
    output, width = step.output, step.output.data_type.width
    if output.data_type not in (DataType.FP32, DataType.FP64) or len(step.reductions) != 1:
        return None
    (k,) = step.reductions
    free = [axis for axis in step.axes if axis is not k]
    row = next((axis for axis in free if axis.stride(output.name) == width), None)
    if row is None or row.extent * LINE_BYTES > JOINED_BYTES:
        return None
    if k.extent < (FEWEST_SHORT_ROWS if row.extent <= FEW else _FEWEST_ROWS):
        return None
    for tensor in step.inputs:
        if tensor.data_type is not output.data_type or not are_joined(row, k, tensor):
            return None
    outer = outermost_first([axis for axis in free if axis is not row], output)
    if _are_matrices(step, row, outer) or _meets_many(step, row, k, outer):
        return None
    has_rows = any(row.stride(tensor.name) for tensor in step.inputs)
    return JoinedRows(step, row, k, outer) if has_rows else None


def _are_matrices(step: Step, row: Span, outer: tuple[Span, ...]) -> bool:
    """True for two operands of a batch along the row, each with many rows of its own."""
    if len(step.inputs) != 2:
        return False
    first, second = (one.name for one in step.inputs)
    if not (row.stride(first) and row.stride(second)):
        return False
    rows = extent_of([axis for axis in outer if not axis.stride(second)])
    columns = extent_of([axis for axis in outer if not axis.stride(first)])
    return min(rows, columns) >= _FEWEST_MET


def _meets_many(step: Step, row: Span, k: Span, outer: tuple[Span, ...]) -> bool:
    """True for one operand with the rows, which many rows of the other meet one after another."""
    with_row = [tensor.name for tensor in step.inputs if row.stride(tensor.name)]
    if len(step.inputs) != 2 or len(with_row) != 1:
        return False
    met = max((axis.extent for axis in outer if not axis.stride(with_row[0])), default=1)
    if met == 1:
        return False
    if step.output.data_type is DataType.FP64:
        return met * row.extent >= _MANY_RESULTS
    fewest = 2 * _MANY_RESULTS if row.extent >= FEW else _MANY_MET * row.extent
    return k.extent >= _FEWEST_ROWS and met * row.extent >= fewest


def are_joined(row: Span, k: Span, tensor: Tensor) -> bool:
    """True where the rows of a tensor lie one behind the other, or its single elements do."""
    width = tensor.data_type.width
    walk = row.stride(tensor.name), k.stride(tensor.name)
    return walk in ((width, row.extent * width), (0, width))


def emit_joined_rows(emission: Emission, joined: JoinedRows, machine: Machine) -> Body:
    """The nodes of a step that `joined_rows_of` recognised."""
    step, roles = joined.step, Roles(m=(joined.row,), k=(joined.k,))

    def leaf() -> Body:
        zero = emission.leaf(Operation.ZERO, (), step.output.name, Roles(m=(joined.row,)))
        return zero + emission.leaf(
            Operation.CONTRACTION,
            tuple(tensor.name for tensor in step.inputs),
            step.output.name,
            roles,
            data_type=step.output.data_type,
            lanes=joined.lanes,
        )

    is_shared = machine.threads > 1 and extent_of(step.axes) >= machine.threaded_work
    return emission.loops(joined.outer, leaf, parallel=is_shared)
