"""Tables 10.6.1 and 10.6.2: which kernel a Contraction matches, and its run-time parameters.

This is what the specification says about a program, read from its axes alone; the kernel program
says what is called. A Contraction that no row covers still runs, in loops around the nearest
kernel; `KernelParameters.reason` then says which condition fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from teir.ir.nodes import Axis, Operation, Primitive, Program, Tensor


class TableRow(Enum):
    """The rows of Table 10.6.1, and none of them."""

    SCALAR = "Scalar"
    GEMM = "GEMM"
    BRGEMM = "BRGEMM"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReduce:
    """The BRGEMM parameters: extent of K[0] and its strides on in0 and in1 in elements."""

    br_size: int
    br_stride_a_elements: int
    br_stride_b_elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmShape:
    """Extents, leading dimensions in elements, and the axes with unit stride on in0, in1, out."""

    m: int
    n: int
    k: int
    lda_elements: int
    ldb_elements: int
    ldc_elements: int
    unit_axes: tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParameters:
    """The row a Contraction matches and the parameters that row has.

    ``gemm`` is None for Scalar and other, ``batch_reduce`` for all but BRGEMM; ``reason`` is None
    unless the row is OTHER.
    """

    primitive: str
    row: TableRow
    gemm: GemmShape | None = None
    batch_reduce: BatchReduce | None = None
    reason: str | None = None

    def named_values(self) -> tuple[tuple[str, int], ...]:
        """The parameters under the names of Table 10.6.2, in its order."""
        if self.gemm is None:
            return ()
        shape = self.gemm
        values = (
            ("M", shape.m),
            ("N", shape.n),
            ("K", shape.k),
            ("lda", shape.lda_elements),
            ("ldb", shape.ldb_elements),
            ("ldc", shape.ldc_elements),
        )
        if self.batch_reduce is None:
            return values
        batch = self.batch_reduce
        return (
            *values,
            ("brSize", batch.br_size),
            ("brStrA", batch.br_stride_a_elements),
            ("brStrB", batch.br_stride_b_elements),
        )

    def __str__(self) -> str:
        if self.row is TableRow.SCALAR:
            return f"{self.primitive}: Scalar"
        if self.row is TableRow.OTHER:
            return f"{self.primitive}: other, loops around the nearest kernel: {self.reason}"
        values = ", ".join(f"{name} = {value}" for name, value in self.named_values())
        return f"{self.primitive}: {self.row.value}, {values}"


def contraction_parameters(program: Program) -> tuple[KernelParameters, ...]:
    """The row and parameters of every Contraction of a well-formed program, in its order."""
    axes, tensors = program.axis_table(), program.tensor_table()
    return tuple(
        kernel_parameters(primitive, axes, tensors)
        for primitive in program.primitives
        if primitive.operation is Operation.CONTRACTION
    )


def kernel_parameters(
    primitive: Primitive, axes: Mapping[str, Axis], tensors: Mapping[str, Tensor]
) -> KernelParameters:
    """The row of Table 10.6.1 that ``primitive`` matches, with its parameters."""
    if not primitive.axes:
        return KernelParameters(primitive=primitive.name, row=TableRow.SCALAR)
    reason = _cardinality_obstacle(primitive)
    if reason is not None:
        return _other(primitive, reason)
    m, n, k = axes[primitive.m[0]], axes[primitive.n[0]], axes[primitive.k[-1]]
    widths = {name: tensors[name].data_type.width for name in primitive.operands}
    in0, in1 = primitive.inputs
    # On a tie of unit strides M wins on in0 and out, K on in1: the first of each pair.
    a = _layout(in0, (m, k), n, widths[in0])
    b = _layout(in1, (k, n), m, widths[in1])
    c = _layout(primitive.output, (m, n), k, widths[primitive.output])
    for layout in (a, b, c):
        if isinstance(layout, str):
            return _other(primitive, layout)
    assert not isinstance(a, str)
    assert not isinstance(b, str)
    assert not isinstance(c, str)
    gemm = GemmShape(
        m=m.extent,
        n=n.extent,
        k=k.extent,
        lda_elements=a.leading_elements,
        ldb_elements=b.leading_elements,
        ldc_elements=c.leading_elements,
        unit_axes=(a.unit_axis, b.unit_axis, c.unit_axis),
    )
    if len(primitive.k) == 1:
        return KernelParameters(primitive=primitive.name, row=TableRow.GEMM, gemm=gemm)
    batch = axes[primitive.k[0]]
    if batch.strides[primitive.output] != 0:
        return _other(primitive, f"K axis {batch.name} has a stride on {primitive.output}")
    return KernelParameters(
        primitive=primitive.name,
        row=TableRow.BRGEMM,
        gemm=gemm,
        batch_reduce=BatchReduce(
            br_size=batch.extent,
            br_stride_a_elements=batch.strides[in0] // widths[in0],
            br_stride_b_elements=batch.strides[in1] // widths[in1],
        ),
    )


def _other(primitive: Primitive, reason: str) -> KernelParameters:
    return KernelParameters(primitive=primitive.name, row=TableRow.OTHER, reason=reason)


def _cardinality_obstacle(primitive: Primitive) -> str | None:
    """Why the numbers of inputs and axes match neither GEMM nor BRGEMM."""
    if len(primitive.inputs) != 2:
        return f"{len(primitive.inputs)} inputs, a product has two"
    if primitive.c:
        return f"batch axes C = [{', '.join(primitive.c)}]"
    for role, axes in (("M", primitive.m), ("N", primitive.n)):
        if len(axes) != 1:
            return f"{len(axes)} axes in {role}, GEMM and BRGEMM have one"
    if len(primitive.k) not in (1, 2):
        return f"{len(primitive.k)} axes in K, GEMM has one and BRGEMM two"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    unit_axis: str
    leading_elements: int


def _layout(tensor: str, pair: tuple[Axis, Axis], foreign: Axis, width: int) -> _Layout | str:
    """Which of ``pair`` has unit stride on ``tensor``, and the other one's stride in elements."""
    first, second = pair
    if foreign.strides[tensor] != 0:
        return f"axis {foreign.name} has a stride on {tensor}"
    for unit, leading in ((first, second), (second, first)):
        stride_bytes = leading.strides[tensor]
        carries = stride_bytes != 0 or leading.extent == 1
        if unit.strides[tensor] == width and carries:
            return _Layout(unit_axis=unit.name, leading_elements=stride_bytes // width)
    return (
        f"on {tensor} neither of {first.name}, {second.name} has unit stride while the other "
        "carries the leading dimension"
    )
