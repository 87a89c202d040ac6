"""One element of a primitive's result as C++ text: pointers p0, p1, ... stand at its operands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from teir.backends.cuda.text import address, block, computed
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Primitive
from teir.ir.subnormals import flushes_subnormals

_BINARY = {
    Operation.ADD: "add",
    Operation.SUB: "sub",
    Operation.MUL: "mul",
    Operation.DIV: "quotient",
    Operation.MIN: "least",
    Operation.MAX: "most",
}


def element_result(
    primitive: Primitive,
    types: Sequence[DataType],
    loops: Sequence[tuple[str, int]],
    moves: Sequence[Sequence[tuple[str, int]]],
) -> list[str]:
    """Statements that compute and store one element.

    ``types`` are those of the operands, output last. A Contraction sums over ``loops`` (index and
    extent, outermost first); ``moves`` says per input how far each of them moves it.
    """
    out = types[-1]
    target = f"p{len(types) - 1}"
    if primitive.operation is not Operation.CONTRACTION:
        values = [f"load_{one.value}(p{at})" for at, one in enumerate(types[:-1])]
        return [f"store_{out.value}({target}, {combined(primitive.operation, values, out)});"]
    flushes = flushes_subnormals(primitive)
    sum_type = computed(out)
    lines = [f"{sum_type} sum = {_flushed(f'load_{out.value}({target})', flushes)};"]
    factors = []
    for at, one in enumerate(types[:-1]):
        value = f"load_{one.value}({address(f'p{at}', 0, moves[at])})"
        if one is DataType.TF32 and len(types) > 2:
            value = f"tf32({value})"
        factors.append(_flushed(value, flushes))
    product = f"sum = {_flushed(summed(factors), flushes)};"
    lines += reduce(
        lambda body, loop: [
            f"for (i64 {loop[0]} = 0; {loop[0]} < {loop[1]}ll; ++{loop[0]}) {{",
            *block(body),
            "}",
        ],
        reversed(loops),
        [product],
    )
    return [*lines, f"store_{out.value}({target}, sum);"]


def combined(operation: Operation, values: Sequence[str], out: DataType) -> str:
    """The expression of an element-wise operation on computed ``values``."""
    if operation is Operation.ZERO:
        return f"{computed(out)}{{}}"
    if operation is Operation.COPY:
        return values[0]
    if operation is Operation.RELU:
        return f"relu({values[0]})"
    return f"{_BINARY[operation]}({values[0]}, {values[1]})"


def summed(factors: Sequence[str]) -> str:
    """``sum`` plus the product of the factors, formed left to right, the last one fused."""
    if len(factors) == 1:
        return f"add(sum, {factors[0]})"
    left = reduce(lambda one, other: f"mul({one}, {other})", factors[:-1])
    return f"madd({left}, {factors[-1]}, sum)"


def _flushed(value: str, flushes: bool) -> str:
    return f"flushed({value})" if flushes else value
