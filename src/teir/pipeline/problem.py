"""An einsum on given arrays as a problem: which route it takes, and its operands as factors.

The route is native code where the result is a floating-point or complex type of ours, NumPy for
integers, booleans and objects (which takes the native route of a floating-point type where that is
exact, `teir.pipeline.exact_integers`), and plain zeros where some extent is 0 (empty extents never
reach a program).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import prod
from operator import attrgetter

import msgspec
import numpy as np

from teir.arrays.numpy_fields import MOST_AXES
from teir.dtypes import DataType
from teir.errors import Rule, TeirError, at_argument, refuse
from teir.expr.check import BoundEinsum, bind_shapes
from teir.expr.nodes import Subscripts
from teir.ir.nodes import LIMIT, Tensor
from teir.pipeline.operand_types import OperandType, contiguous, result_type, stored_type
from teir.search.tree import Contraction, Factor

OUT_ORDER = Rule(
    code="TEIR634",
    sentence="Every axis of out is walked forwards, or backwards by every operand that has it.",
    source="docs/safety.md G9",
)
OUT_OVERLAP = Rule(
    code="TEIR633",
    sentence="No two elements of out share a byte.",
    source="docs/safety.md G10",
)
OUT_WIDTH = Rule(
    code="TEIR636",
    sentence="The strides of out are multiples of its element width.",
    source="docs/design.md 2",
)
SIZE = Rule(
    code="TEIR614",
    sentence="Every operand and the result have at most 64 axes, as arrays of NumPy do, and less "
    "than 2^62 elements, and span as few bytes.",
    source="docs/design.md 2",
)


class Route(Enum):
    """Who computes the result."""

    NATIVE = "native"
    NUMPY = "numpy"
    ZEROS = "zeros"


class Problem(msgspec.Struct, frozen=True, gc=False):
    """``contraction`` is given for the native route only.

    ``copied`` says which operands are made contiguous (and converted) before every run, and
    ``notes`` why.
    """

    subscripts: Subscripts
    bound: BoundEinsum
    operands: tuple[OperandType, ...]
    out: OperandType
    route: Route
    contraction: Contraction | None
    copied: tuple[bool, ...]
    notes: tuple[str, ...]

    @property
    def copied_bytes(self) -> int:
        """Bytes of the copies of operands made before every run."""
        if not any(self.copied):
            return 0
        types = self.tensor_types()[:-1]
        chosen = [one for one, copied in zip(types, self.copied, strict=True) if copied]
        return sum(prod(one.shape) * one.dtype.itemsize for one in chosen)

    @property
    def result_bytes(self) -> int:
        """Bytes of the result."""
        return prod(self.out.shape) * self.out.dtype.itemsize

    def tensor_types(self) -> tuple[OperandType, ...]:
        """What the program's tensors stand for: the operands, copied ones as their copies, out."""
        assert self.contraction is not None
        if not any(self.copied):
            return (*self.operands, self.out)
        used = [
            contiguous(factor.tensor.data_type, operand.shape) if copied else operand
            for operand, copied, factor in zip(
                self.operands, self.copied, self.contraction.inputs, strict=True
            )
        ]
        return (*used, self.out)


def state_problem(
    subscripts: Subscripts,
    operands: tuple[OperandType, ...],
    out: OperandType | None,
    dtype: object,
) -> Problem:
    """The problem of one call. ``out`` is the caller's array, None for a fresh C-contiguous one.

    Raises TeirError: expression and shapes (TEIR606 to TEIR610), types, an ``out`` that cannot be
    written directly. The shape and the type of ``out`` must have been checked.
    """
    bound = bind_shapes(subscripts, list(map(_SHAPE, operands)))
    if out is not None:
        _require_elements_apart(out)
    result = result_type(operands, dtype)
    shape = bound.output_shape
    require_axes("result", shape)
    if isinstance(result, np.dtype):
        target = OperandType(None, result, shape, ())
        return Problem(
            subscripts,
            bound,
            operands,
            out or target,
            Route.NUMPY,
            None,
            (False,) * len(operands),
            (f"NumPy computes this: {result} is no type of the generated code",),
        )
    target = out or contiguous(stored_type(result), shape)
    if 0 in bound.extents.values():
        notes = ("an extent is 0: the result is zero or empty",)
        copied = (False,) * len(operands)
        return Problem(subscripts, bound, operands, target, Route.ZEROS, None, copied, notes)
    return _native_problem(subscripts, bound, operands, target, result, out is not None)


def _native_problem(
    subscripts: Subscripts,
    bound: BoundEinsum,
    operands: tuple[OperandType, ...],
    out: OperandType,
    result: DataType,
    out_is_given: bool,
) -> Problem:
    terms = bound.einsum.inputs
    notes: list[str] = []
    used: list[OperandType] = []
    strides: list[dict[str, int]] = []
    goes_back = False
    for number, (term, operand) in enumerate(zip(terms, operands, strict=True)):
        reason = _copy_reason(operand, result)
        if reason is not None:
            notes.append(f"operand {number} is copied first: {reason}")
            operand = contiguous(operand.data_type or stored_type(result), operand.shape)
        used.append(operand)
        walk = _index_strides(term, operand, bound.extents)
        goes_back = goes_back or (bool(walk) and min(walk.values()) < 0)
        strides.append(walk)
    out_strides = _index_strides(bound.einsum.output, out, bound.extents)
    if out_is_given:
        _require_width(out, out_strides)
    for number in _backward_operands(strides, out_strides) if goes_back else ():
        notes.append(f"operand {number} is copied first: strides of both signs meet on an axis")
        used[number] = contiguous(used[number].data_type or stored_type(result), used[number].shape)
        strides[number] = _index_strides(terms[number], used[number], bound.extents)
    if out_is_given:
        _require_out_order(strides, out_strides)
    _require_size([*used, out])
    factors = []
    copied = []
    for number, (operand, walk) in enumerate(zip(used, strides, strict=True)):
        assert operand.data_type is not None
        factors.append(_factor(f"in{number}", operand.data_type, walk, bound.extents))
        copied.append(operand is not operands[number])
    if result is DataType.TF32:
        factors = [_as_tf32(factor) for factor in factors]
    output = _factor("out", result, out_strides, bound.extents)
    contraction = Contraction(_program_name(subscripts), tuple(factors), output, bound.extents)
    return Problem(
        subscripts, bound, operands, out, Route.NATIVE, contraction, tuple(copied), tuple(notes)
    )


def _as_tf32(factor: Factor) -> Factor:
    if factor.tensor.data_type is not DataType.FP32:
        return factor
    tensor = Tensor(name=factor.tensor.name, data_type=DataType.TF32)
    return Factor(tensor, factor.strides, factor.offsets)


def require_axes(name: str, shape: Sequence[int]) -> None:
    """Raises TeirError (TEIR614) for more axes than arrays of NumPy have."""
    if len(shape) > MOST_AXES:
        refuse(SIZE, name, f"at most {MOST_AXES} axes", f"{len(shape)} axes")


def require_dense(name: str, shape: Sequence[int], width: int) -> None:
    """Raises TeirError (TEIR614) for what no array of NumPy without gaps can be."""
    require_axes(name, shape)
    size_bytes = width * prod(extent for extent in shape if extent)
    if size_bytes >= LIMIT:
        refuse(SIZE, name, "less than 2^62 bytes", f"{size_bytes} bytes")


_NAME_BYTES = 200
_SHAPE = attrgetter("shape")


def _program_name(subscripts: Subscripts) -> str:
    text = str(subscripts)
    return text if len(text.encode()) <= _NAME_BYTES else f"einsum of {len(subscripts.inputs)}"


def _copy_reason(operand: OperandType, result: DataType) -> str | None:
    if operand.data_type is None:
        return f"{operand.dtype} is converted to {result.value} by NumPy"
    width = operand.data_type.width
    for stride in operand.strides_bytes:
        if stride % width:
            return "its strides are no multiples of the element width"
    return None


def _index_strides(
    term: Sequence[str], operand: OperandType, extents: dict[str, int]
) -> dict[str, int]:
    """Bytes per index: repeated indices add up, axes of extent 1 stand still or are left out."""
    strides: dict[str, int] = {}
    for index, extent, stride in zip(term, operand.shape, operand.strides_bytes, strict=True):
        if extents[index] > 1 and extent > 1:
            strides[index] = strides.get(index, 0) + stride
    return strides


def _backward_operands(strides: Sequence[dict[str, int]], out: dict[str, int]) -> list[int]:
    """Operands to copy so that no index is walked in both directions."""
    copied: list[int] = []
    changed = True
    while changed:
        changed = False
        for number, walk in enumerate(strides):
            if number in copied or all(stride >= 0 for stride in walk.values()):
                continue
            for index, stride in walk.items():
                others = [
                    other.get(index, 0) if place not in copied else 1
                    for place, other in enumerate(strides)
                    if index in other
                ]
                if stride < 0 and (out.get(index, 0) > 0 or max(others) > 0):
                    copied.append(number)
                    changed = True
                    break
    return copied


def _require_out_order(strides: Sequence[dict[str, int]], out: dict[str, int]) -> None:
    for index, stride in out.items():
        if stride < 0 and any(walk.get(index, 0) > 0 for walk in strides):
            raise _out_refusal(
                OUT_ORDER,
                f"a forward axis for {index!r}",
                f"a stride of {stride} bytes",
                "reverse the other operands as well, or pass a forward out and reverse the result",
            )


def _require_elements_apart(out: OperandType) -> None:
    reach = out.dtype.itemsize
    walks = zip(out.strides_bytes, out.shape, strict=True)
    for stride, extent in sorted((abs(step), extent) for step, extent in walks if extent > 1):
        if stride < reach and 0 not in out.shape:
            raise _out_refusal(
                OUT_OVERLAP,
                "elements that lie apart",
                f"shape {out.shape} with strides {out.strides_bytes} bytes",
            )
        reach += stride * (extent - 1)


def _require_width(out: OperandType, strides: dict[str, int]) -> None:
    width = out.dtype.itemsize
    if any(stride % width for stride in strides.values()):
        raise _out_refusal(OUT_WIDTH, f"multiples of {width}", f"strides {out.strides_bytes}")


def _out_refusal(rule: Rule, expected: str, found: str, hint: str | None = None) -> TeirError:
    return TeirError((at_argument(rule, "out", expected, found, hint),))


def _require_size(operands: Sequence[OperandType]) -> None:
    for number, operand in enumerate(operands):
        low, high = operand.span_bytes
        reach = high - low - operand.dtype.itemsize
        if max(reach, prod(operand.shape)) + operand.dtype.itemsize >= LIMIT:
            name = "result" if number == len(operands) - 1 else f"operand {number}"
            refuse(SIZE, name, "less than 2^62 bytes", f"{reach} bytes")


def _factor(
    name: str, data_type: DataType, strides: dict[str, int], extents: dict[str, int]
) -> Factor:
    tensor = Tensor(name=name, data_type=data_type)
    if not strides or min(strides.values()) >= 0:
        return Factor(tensor, strides, {})
    offsets = {
        index: stride * (extents[index] - 1) for index, stride in strides.items() if stride < 0
    }
    forward = {index: abs(stride) for index, stride in strides.items()}
    return Factor(tensor, forward, offsets)
