"""The kernels most programs call: what products and element-wise tiles of many extents lower to.

Compiling them ahead (``teir warm``) spares first calls the compiler. Nothing depends on the list
being complete: a kernel that is not on it is compiled when a program first needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from teir.dtypes import DataType
from teir.ir.nodes import Axis, Bytes, InvocationNode, Operation, Primitive, Program, Tensor
from teir.lower.blocking import NARROW_DEPTH
from teir.lower.copy_kernels import MOST_PIECES
from teir.lower.explanation import count_calls
from teir.lower.kernels import Kernel
from teir.lower.lower import lower
from teir.lower.usual_sites import site_programs
from teir.lower.usual_walks import walked_programs
from teir.passes.short_sides import SHORT_NEAR_SIDES
from teir.target import Isa

DEPTH = NARROW_DEPTH
"""The contracted extent of the products: long enough for all kernels but those of short sums."""
COLUMNS = range(1, 33)
_BINARY = (
    Operation.ADD,
    Operation.SUB,
    Operation.MUL,
    Operation.DIV,
    Operation.MIN,
    Operation.MAX,
)


def usual_kernels(isa: Isa, data_types: Iterable[DataType]) -> frozenset[Kernel]:
    """The kernels of products and element-wise tiles of ``data_types``, all layouts."""
    kernels: set[Kernel] = set()
    for data_type in data_types:
        for program in (
            *_products(isa, data_type),
            *_tiles(data_type),
            *_permutations(data_type),
            *_short_rows(isa, data_type),
            *_joined_runs(isa, data_type),
            *_few_turned(isa, data_type),
            *_picked(isa, data_type),
            *site_programs(isa, data_type),
            *walked_programs(data_type),
        ):
            kernels.update(count_calls(lower(program, isa).roots))
    return frozenset(kernels)


def _products(isa: Isa, data_type: DataType) -> Iterator[Program]:
    """Products with a leading Zero, m up to some vectors, every unit axis on every operand."""
    width = data_type.width
    lanes = max(1, isa.vector_bytes // data_type.accumulator.width)
    rows = {1, 2, 3, *(lanes * count + rest for count in range(1, 9) for rest in (-1, 0, 1))}
    for m, n, m_first, k_first in product(
        sorted(rows - {0}), COLUMNS, (True, False), (True, False)
    ):
        a = (width, width * m) if m_first else (width * DEPTH, width)
        b = (width, width * DEPTH) if k_first else (width * n, width)
        yield _program(
            data_type,
            (
                Axis(name="m", extent=m, strides=Bytes({"in0": a[0], "out": width})),
                Axis(name="n", extent=n, strides=Bytes({"in1": b[1], "out": width * m})),
                Axis(name="k", extent=DEPTH, strides=Bytes({"in0": a[1], "in1": b[0]})),
            ),
            (
                _primitive(Operation.ZERO, ()),
                _primitive(Operation.CONTRACTION, ("in0", "in1"), k=("k",)),
            ),
        )


def _tiles(data_type: DataType) -> Iterator[Program]:
    """Element-wise operations on a tile, the input as the output lies and turned; lines whole and
    not."""
    width = data_type.width
    operations: dict[Operation, tuple[str, ...]] = {Operation.ZERO: ()}
    operations[Operation.COPY] = ("in0",)
    if not data_type.is_complex:
        operations[Operation.RELU] = ("in0",)
        operations |= dict.fromkeys(_BINARY, ("in0", "in1"))
    layouts = ((80, False), (80, True), (81, True))
    for (operation, inputs), (extent, turned) in product(operations.items(), layouts):
        near, far = (width * extent, width) if turned else (width, width * extent)
        strides = {"in0": near, "in1": width, "out": width}
        across = {"in0": far, "in1": width * extent, "out": width * extent}
        yield _program(
            data_type,
            (
                Axis(name="m", extent=extent, strides=Bytes(strides)),
                Axis(name="n", extent=extent, strides=Bytes(across)),
            ),
            (_primitive(operation, inputs),),
        )


def _permutations(data_type: DataType) -> Iterator[Program]:
    """Large permutations: squares of every side, and runs of every vector."""
    width, long = data_type.width, 2048
    for run, rows in (*product((1,), (4, 8, long)), *product((2, 4, 8, 16, 32, 64), (long,))):
        lines = run * width
        columns = max(long, (4 << 20) // (rows * lines))
        axes = (
            Axis(name="e", extent=run, strides=Bytes({"in0": width, "out": width})),
            Axis(name="m", extent=rows, strides=Bytes({"in0": lines * columns, "out": lines})),
            Axis(name="n", extent=columns, strides=Bytes({"in0": lines, "out": lines * rows})),
        )
        primitive = Primitive(
            name="copy",
            operation=Operation.COPY,
            inputs=("in0",),
            output="out",
            m=("e", "m", "n") if run > 1 else ("m", "n"),
        )
        yield _program(data_type, axes if run > 1 else axes[1:], (primitive,))


def _short_rows(isa: Isa, data_type: DataType) -> Iterator[Program]:
    """Copies of rows of every count of pieces, whole and of one element more."""
    width, vector = data_type.width, isa.vector_bytes
    pieces = [
        2 * width << more for more in range(vector.bit_length()) if 2 * width << more < vector
    ]
    ends = [end for piece in pieces for end in (piece, piece + width)]
    for row in {*ends, *(vector * count for count in range(1, MOST_PIECES + 1))}:
        axes = (
            Axis(name="m", extent=row // width, strides=Bytes({"in0": width, "out": width})),
            Axis(name="n", extent=8, strides=Bytes({"in0": row + width, "out": row})),
        )
        yield _program(data_type, axes, (_primitive(Operation.COPY, ("in0",)),))


def _joined_runs(isa: Isa, data_type: DataType) -> Iterator[Program]:
    """Turns of runs of three elements, in squares of every side."""
    width = data_type.width
    for lanes in (4, 8, 16, 32):
        if lanes * width > isa.vector_bytes:
            return
        column = lanes * width
        axes = (
            Axis(name="m", extent=lanes, strides=Bytes({"in0": width, "out": 3 * column})),
            Axis(name="n", extent=3, strides=Bytes({"in0": column, "out": width})),
            Axis(name="o", extent=lanes, strides=Bytes({"in0": 4 * column, "out": 3 * width})),
        )
        yield _program(data_type, axes, (_primitive(Operation.COPY, ("in0",), n=("n", "o")),))


def _few_turned(isa: Isa, data_type: DataType) -> Iterator[Program]:
    """A few elements put together from whole vectors, and taken apart."""
    width = data_type.width
    for side in SHORT_NEAR_SIDES:
        together, apart = (side * width, width), (width, isa.vector_bytes)
        for source, target in ((apart, together), (together, apart)):
            axes = (
                Axis(
                    name="m",
                    extent=isa.vector_bytes // width,
                    strides=Bytes({"in0": source[0], "out": target[0]}),
                ),
                Axis(name="n", extent=side, strides=Bytes({"in0": source[1], "out": target[1]})),
            )
            yield _program(data_type, axes, (_primitive(Operation.COPY, ("in0",)),))


def _picked(isa: Isa, data_type: DataType) -> Iterator[Program]:
    """Every second element of whole vectors, every third and every fourth."""
    width = data_type.width
    for step in (2, 3, 4):
        axes = (
            Axis(
                name="m",
                extent=isa.vector_bytes // width,
                strides=Bytes({"in0": step * width, "out": width}),
            ),
            Axis(name="n", extent=1, strides=Bytes({})),
        )
        yield _program(data_type, axes, (_primitive(Operation.COPY, ("in0",)),))


def _primitive(
    operation: Operation,
    inputs: tuple[str, ...],
    n: tuple[str, ...] = ("n",),
    k: tuple[str, ...] = (),
) -> Primitive:
    return Primitive(
        name=operation.value,
        operation=operation,
        inputs=inputs,
        output="out",
        m=("m",),
        n=n,
        k=k,
    )


def _program(
    data_type: DataType, axes: tuple[Axis, ...], primitives: tuple[Primitive, ...]
) -> Program:
    return Program(
        name="usual",
        tensors=tuple(Tensor(name=name, data_type=data_type) for name in ("in0", "in1", "out")),
        axes=axes,
        primitives=primitives,
        roots=tuple(InvocationNode(name=one.name, primitive=one.name) for one in primitives),
    )
