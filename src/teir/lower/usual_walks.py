"""Programs over one sparse matrix whose kernels most sparse products call.

i { j over a fibre { A[i, :] += B[p] C[j, :] } }                       a matrix of rows, a large one
i { j over a fibre { t = C[i, :] . D[j, :]; S[p] += B[p] t } }         sampled dots
i { j over a fibre { t = C[i, :] . D[j, :]; A[i, :] += B[p] t E[j, :] } }
"""

from __future__ import annotations

from collections.abc import Iterator

from teir.dtypes import DataType
from teir.ir.lanes import LANES
from teir.ir.nodes import (
    Axis,
    Bytes,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Segment,
    Tensor,
)
from teir.target import LINE_BYTES

WIDTHS = (16, 32, 64, 128)
"""Elements of a dense row."""
_ROWS = 640
_MANY_ROWS = 1 << 16
"""Of a result that is far from all caches."""
_COLUMNS = 512
_FLOATS = (DataType.FP64, DataType.FP32)


def walked_programs(data_type: DataType) -> Iterator[Program]:
    """The programs for one type of values, indices of type I32; none for narrow or complex ones."""
    if data_type not in _FLOATS:
        return
    for width in WIDTHS:
        zero, add = _add(("B", "C"), "A")
        for rows in (_ROWS, _MANY_ROWS):
            yield _program(data_type, width, "BCA", (zero,), (add,), (), rows)
        dot, use = _dot(data_type), _primitive(Operation.CONTRACTION, ("B", "t"), "S")
        clear = _primitive(Operation.ZERO, (), "S")
        yield _program(data_type, width, "BCDS", (), (*dot, clear, use), ("t",))
        zero, add = _add(("B", "t", "E"), "A")
        yield _program(data_type, width, "BCDEA", (zero,), (*dot, add), ("t",))


def _add(inputs: tuple[str, ...], output: str) -> tuple[Primitive, Primitive]:
    """The Zero of a row, and what is added to it."""
    is_pair = len(inputs) == 2
    add = _primitive(
        Operation.CONTRACTION,
        inputs,
        output,
        m=() if is_pair else ("l",),
        n=("l",) if is_pair else (),
    )
    return _primitive(Operation.ZERO, (), output, m=("l",)), add


def _dot(data_type: DataType) -> tuple[Primitive, Primitive]:
    chains = ((LANES, str(LINE_BYTES // data_type.width)),)
    dot = _primitive(Operation.CONTRACTION, ("C", "D"), "t", k=("l",), metadata=chains)
    return _primitive(Operation.ZERO, (), "t"), dot


def _primitive(
    operation: Operation,
    inputs: tuple[str, ...],
    output: str,
    m: tuple[str, ...] = (),
    n: tuple[str, ...] = (),
    k: tuple[str, ...] = (),
    metadata: tuple[tuple[str, str], ...] = (),
) -> Primitive:
    return Primitive(
        name=f"{operation.value}_{output}",
        operation=operation,
        inputs=inputs,
        output=output,
        m=m,
        n=n,
        k=k,
        metadata=metadata,
    )


def _program(
    data_type: DataType,
    width: int,
    tensors: str,
    of_row: tuple[Primitive, ...],
    of_position: tuple[Primitive, ...],
    scratch: tuple[str, ...],
    count: int = _ROWS,
) -> Program:
    """``of_row`` below the rows, then ``of_position`` below the stored elements."""
    size, index = data_type.width, DataType.I32
    row = size * width
    gathered = {"C": row} if "D" not in tensors else {"D": row, "E": row}
    fixed = {"pos": index.width, "A": row} | ({"C": row} if "D" in tensors else {})
    by_position = tuple(name for name in ("B", "S") if name in tensors)
    values = {"crd": index.width} | dict.fromkeys(by_position, size)
    axes = (
        _axis("i", count, fixed, tensors),
        Axis(
            name="j",
            extent=_COLUMNS,
            strides=Bytes({**values, **_known(gathered, tensors)}),
            segments=(Segment(pos="pos", crd="crd", by_position=by_position),),
        ),
        _axis("l", width, dict.fromkeys("ACDE", size), tensors),
    )
    walk = IterationNode(
        name="j",
        axis="j",
        policy=Policy.SEQUENTIAL,
        children=_calls(of_position),
        scratch=tuple(Tensor(name=name, data_type=data_type) for name in scratch),
    )
    rows = IterationNode(
        name="i", axis="i", policy=Policy.PARALLEL, children=(*_calls(of_row), walk)
    )
    arrays = (Tensor(name=name, data_type=data_type) for name in tensors)
    return Program(
        name="usual",
        tensors=(
            *(Tensor(name=name, data_type=index) for name in ("pos", "crd")),
            *arrays,
        ),
        axes=axes,
        primitives=(*of_row, *of_position),
        roots=(rows,),
    )


def _axis(name: str, extent: int, strides: dict[str, int], tensors: str) -> Axis:
    return Axis(name=name, extent=extent, strides=Bytes(_known(strides, tensors)))


def _known(strides: dict[str, int], tensors: str) -> dict[str, int]:
    return {name: one for name, one in strides.items() if name in (*tensors, "pos")}


def _calls(primitives: tuple[Primitive, ...]) -> tuple[Node, ...]:
    return tuple(InvocationNode(name=f"do_{one.name}", primitive=one.name) for one in primitives)
