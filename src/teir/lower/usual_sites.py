"""Programs whose kernels apply usual small matrices along sites: gates, and turned points.

See `teir.lower.usual_kernels`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from teir.dtypes import DataType
from teir.ir.nodes import Axis, Bytes, InvocationNode, Operation, Primitive, Program, Tensor
from teir.passes.sites import SITE_TYPES
from teir.target import Isa

_ROWS = 1024
"""Sites, more than enough for vectors of any length."""
_APART = 64
"""Rows between two qubits of which one lies in other vectors."""


def site_programs(isa: Isa, data_type: DataType) -> Iterator[Program]:
    """Gates on one and two of the last qubits, and points of two to four coordinates."""
    if data_type not in SITE_TYPES:
        return
    width = data_type.width
    inner = [1 << power for power in range((isa.vector_bytes // width).bit_length())]
    for rows in inner:
        yield _program(data_type, (rows,))
        for between in (*inner, _APART):
            yield _program(data_type, (between, rows))
    for columns, products in product((2, 3, 4), repeat=2):
        yield _points(data_type, columns, products)


def _program(data_type: DataType, rows: tuple[int, ...]) -> Program:
    """A gate on as many qubits as there are ``rows`` behind each, two states a qubit."""
    width, axes = data_type.width, []
    place, matrix = width, width
    m: list[str] = []
    n: list[str] = []
    k: list[str] = []
    for number, extent in reversed(list(enumerate(rows))):
        if extent > 1:
            m.append(f"m{number}")
            strides = {"in0": place, "out": place}
            axes.append(Axis(name=m[-1], extent=extent, strides=Bytes(strides)))
        place *= extent
        n.insert(0, f"n{number}")
        k.insert(0, f"k{number}")
        column = matrix << len(rows)
        axes.append(Axis(name=n[0], extent=2, strides=Bytes({"in1": column, "out": place})))
        axes.append(Axis(name=k[0], extent=2, strides=Bytes({"in0": place, "in1": matrix})))
        place, matrix = 2 * place, 2 * matrix
    axes.append(Axis(name="m", extent=_ROWS, strides=Bytes({"in0": place, "out": place})))
    return _product(data_type, axes, ("m", *m), tuple(n), tuple(k))


def _points(data_type: DataType, columns: int, products: int) -> Program:
    width = data_type.width
    rows = {"in0": products * width, "out": columns * width}
    axes = [
        Axis(name="m", extent=_ROWS, strides=Bytes(rows)),
        Axis(name="n", extent=columns, strides=Bytes({"in1": width, "out": width})),
        Axis(name="k", extent=products, strides=Bytes({"in0": width, "in1": columns * width})),
    ]
    return _product(data_type, axes, ("m",), ("n",), ("k",))


def _product(
    data_type: DataType,
    axes: list[Axis],
    m: tuple[str, ...],
    n: tuple[str, ...],
    k: tuple[str, ...],
) -> Program:
    zero = Primitive(name="zero", operation=Operation.ZERO, inputs=(), output="out", m=m, n=n, k=())
    sites = Primitive(
        name="sites",
        operation=Operation.CONTRACTION,
        inputs=("in0", "in1"),
        output="out",
        m=m,
        n=n,
        k=k,
        data_type=data_type,
    )
    return Program(
        name="usual",
        tensors=tuple(Tensor(name=name, data_type=data_type) for name in ("in0", "in1", "out")),
        axes=tuple(axes),
        primitives=(zero, sites),
        roots=tuple(InvocationNode(name=one.name, primitive=one.name) for one in (zero, sites)),
    )
