"""What a sparse product is asked to compute: assignment, extents, formats, types, operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.arrays.adapters import view_array
from teir.arrays.levels import Format, dense_format, parse_format
from teir.arrays.sparse import Sparse
from teir.arrays.sparse_adapters import is_sparse, shape_of
from teir.arrays.sparse_values import SHORT_NUMBERS, is_long
from teir.dtypes import DataType, data_type_of
from teir.errors import ArgumentPlace, Finding, TeirError, refuse
from teir.expr.check import bind_shapes
from teir.expr.index_notation import Access, Assignment, Product
from teir.expr.index_notation_check import index_extents
from teir.expr.index_notation_rules import COMPLEX_NUMBER, at_column
from teir.expr.nodes import Subscripts
from teir.pipeline.determinism import Determinism
from teir.pipeline.executable import thread_count
from teir.pipeline.operand_types import asked_type, common_type, require_imaginary_parts
from teir.pipeline.problem import require_dense
from teir.pipeline.sparse_operands import Held, hold
from teir.pipeline.sparse_room import Room
from teir.pipeline.sparse_rules import OUT_LEVELS, SPARSE_OPERANDS, SPARSE_TYPE

_COMPUTED = {
    DataType.BF16: DataType.FP32,
    DataType.FP16: DataType.FP32,
    DataType.TF32: DataType.FP32,
}

_HINT = "pass a complex operand, or dtype=complex"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseProblem:
    """An assignment on operands of given shapes, types and formats."""

    assignment: Assignment
    extents: Mapping[str, int]
    operands: tuple[str, ...]
    """What every operand has to be: type, shape and format in words."""
    output_format: Format
    has_sparse_result: bool
    result_type: DataType
    threads: int
    deterministic: Determinism
    memory_limit: int | None = None
    """Bytes a call may allocate."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.extents[index] for index in self.assignment.output.indices)

    @property
    def computed_type(self) -> DataType:
        """What the result is summed in."""
        return _COMPUTED.get(self.result_type, self.result_type)


def sparse_problem(
    assignment: Assignment,
    held: Mapping[str, Held],
    *,
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
    deterministic: Determinism = Determinism.RUNS,
    memory_limit: int | None = None,
) -> SparseProblem:
    """The problem these operands state. Raises TeirError."""
    rank = len(assignment.output.indices)
    result_type = _result_type(held, dtype)
    _require_complex(assignment, result_type)
    extents = extents_of(assignment, held)
    if out_levels is None:
        shape = [extents[index] for index in assignment.output.indices]
        require_dense("result", shape, _COMPUTED.get(result_type, result_type).width)
    output_format = dense_format(rank) if out_levels is None else _output_format(out_levels, rank)
    return SparseProblem(
        assignment=assignment,
        extents=extents,
        operands=tuple(map(_text_of, held.values())),
        output_format=output_format,
        has_sparse_result=out_levels is not None,
        result_type=result_type,
        threads=thread_count(threads),
        deterministic=deterministic,
        memory_limit=memory_limit,
    )


def hold_all(
    assignment: Assignment, operands: Sequence[Any], room: Room | None = None
) -> dict[str, Held]:
    """Every operand by the name of its tensor, copies within the room. Raises TeirError."""
    names = tuple(assignment.inputs)
    if len(names) != len(operands):
        plural = "" if len(names) == 1 else "s"
        expected = f"{len(names)} operand{plural}: {', '.join(names)}"
        uses = sum(len(product.factors) for product in assignment.products)
        hint = "a tensor named more than once is one operand" if uses == len(operands) else None
        refuse(SPARSE_OPERANDS, "operands", expected, f"{len(operands)}", hint)
    findings: list[Finding] = []
    held: dict[str, Held] = {}
    for name, value in zip(names, operands, strict=True):
        try:
            held[name] = hold(name, value, room)
        except TeirError as error:
            findings += error.findings
    if findings:
        raise TeirError(tuple(findings))
    return held


def require_planned(problem: SparseProblem, held: Mapping[str, Held]) -> None:
    """Raises TeirError (TEIR688) for operands of other shapes, types or formats."""
    findings = tuple(
        Finding(
            rule=SPARSE_OPERANDS,
            place=ArgumentPlace(name=f"operand {number}"),
            expected=wanted,
            found=given,
        )
        for number, (wanted, given) in enumerate(
            zip(problem.operands, map(_text_of, held.values()), strict=True)
        )
        if wanted != given
    )
    if findings:
        raise TeirError(findings)


def assignment_of(subscripts: Subscripts, operands: Sequence[Any]) -> Assignment:
    """An einsum as an assignment: operands in0, in1, ..., the result out. Raises TeirError."""
    shapes = [_shape_of(f"operand {number}", one) for number, one in enumerate(operands)]
    bound = bind_shapes(subscripts, shapes)
    names = _index_names(bound.einsum.indices)
    factors = tuple(
        Access(tensor=f"in{number}", indices=tuple(names[index] for index in term))
        for number, term in enumerate(bound.einsum.inputs)
    )
    output = Access(tensor="out", indices=tuple(names[index] for index in bound.einsum.output))
    product = Product(factors=factors)
    return Assignment(output=output, products=(product,), text=str(subscripts))


def _shape_of(name: str, operand: Any) -> tuple[int, ...]:
    if is_sparse(operand):
        return shape_of(name, operand)
    return operand.shape if type(operand) is np.ndarray else view_array(name, operand).shape


def extents_of(assignment: Assignment, held: Mapping[str, Held]) -> dict[str, int]:
    """The extent of every index; those of an einsum may repeat along 1. Raises TeirError."""
    shapes = {name: one.shape for name, one in held.items()}
    if "=" in (assignment.text or "="):
        return index_extents(assignment, shapes)
    extents: dict[str, int] = {}
    for name, access in assignment.inputs.items():
        for index, extent in zip(access.indices, shapes[name], strict=True):
            extents[index] = extent if extents.get(index, 1) == 1 else extents[index]
    return {index: extents[index] for index in assignment.indices}


def _index_names(indices: Sequence[str]) -> dict[str, str]:
    """Words for the indices of an einsum: its letters where they are letters."""
    names = {index: index for index in indices if index.isidentifier()}
    for number, index in enumerate(indices):
        if index not in names:
            wish = f"x{number}"
            while wish in names.values():
                wish += "_"
            names[index] = wish
    return names


def _output_format(out_levels: str, rank: int) -> Format:
    if not isinstance(out_levels, str):
        refuse(OUT_LEVELS, "out_levels", "a text such as 'ds'", repr(out_levels))
    fmt = parse_format(out_levels, "out_levels")
    if len(fmt.levels) != rank:
        refuse(OUT_LEVELS, "out_levels", f"{rank} levels", repr(out_levels))
    return fmt


def _result_type(held: Mapping[str, Held], dtype: Any) -> DataType:
    if dtype is not None:
        asked = asked_type(dtype)
        if not isinstance(asked, DataType):
            refuse(SPARSE_TYPE, "dtype", "a floating-point or complex type", str(asked))
        require_imaginary_parts(asked, dtype, map(_given_type, held.values()))
        return asked
    given = [_given_type(one) for one in held.values()]
    for name, one in zip(held, given, strict=True):
        if is_long(one):
            refuse(SPARSE_TYPE, name, SHORT_NUMBERS, f"dtype {one}", "dtype='float64' rounds them")
    found = data_type_of(common_type(list(map(_value_type, given))))
    if found is None or found.is_index or all(dtype.kind in "biu" for dtype in given):
        return DataType.FP64
    return found


def _require_complex(assignment: Assignment, result_type: DataType) -> None:
    """Raises TeirError (TEIR656) for complex numbers in a statement with a real result."""
    if result_type.is_complex:
        return
    text = assignment.text or str(assignment)
    findings = tuple(
        at_column(COMPLEX_NUMBER, text, one.column, "a real number", f"{one.number.imag:g}j", _HINT)
        for one in assignment.products
        if isinstance(one.number, complex)
    )
    if findings:
        raise TeirError(findings)


def _given_type(held: Held) -> np.dtype[Any]:
    """The type the caller's values have; those of a `Sparse` are floating-point already."""
    dtype = getattr(held.source, "dtype", None)
    return dtype if isinstance(dtype, np.dtype) else held.array.dtype


def _value_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Whole numbers of one and two bytes are exact in FP32, as NumPy promotes them."""
    data_type = data_type_of(dtype)
    if data_type is not None and not data_type.is_index:
        return dtype
    if dtype.kind in "biu" and dtype.itemsize <= 2:
        return np.dtype(np.float32)
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def _text_of(held: Held) -> str:
    array = held.array
    if isinstance(array, Sparse):
        blocks = f", blocks of {array.blocks}" if array.blocks else ""
        return f"{array.dtype} of shape {array.shape}, levels {array.format}{blocks}"
    return f"{array.dtype} of shape {array.shape}"
