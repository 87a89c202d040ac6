"""``teir einsum "ab,bc->ac" --sizes a=4,b=5,c=6``: plan, run and time one expression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import typer

from teir.cli.comparison import wide
from teir.cli.console import complain, say, say_json
from teir.cli.expression import (
    DtypeOption,
    SizesOption,
    data_type_named,
    draw_operands,
    operand_shapes,
    stated_einsum,
)
from teir.cli.options import CompareFlag, JsonFlag, SeedOption, ThreadsOption
from teir.cli.rules import ExitCode
from teir.dtypes import DataType
from teir.expr.check import bind_shapes
from teir.expr.nodes import Einsum
from teir.ir.accuracy import PASS, error_bound, error_ratio

Array = np.ndarray[Any, np.dtype[Any]]


def einsum(
    expression: Annotated[
        str,
        typer.Argument(
            help='For example "ab,bc->ac", or a tree "[[a,b],[b,c]->[a,c]],[c,d]->[a,d]".'
        ),
    ],
    sizes: SizesOption = [],  # noqa: B006  (typer copies it)
    dtype: DtypeOption = "FP32",
    threads: ThreadsOption = None,
    seed: SeedOption = 0,
    compare: CompareFlag = False,
    show: Annotated[bool, typer.Option("--show", help="Print the program that ran.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Plan an expression, run it on drawn operands, and time it beside the machine's peak.

    --compare judges the result against NumPy in double precision by the published error bound.
    """
    from teir.cli.measuring import measure_peaks, measure_speed
    from teir.ir.printing import print_program
    from teir.pipeline.einsum import plan

    data_type = data_type_named(dtype)
    subscripts = stated_einsum(expression)
    shapes = operand_shapes(subscripts, sizes)
    bind_shapes(subscripts, shapes)
    arrays = draw_operands(shapes, data_type, seed)
    made = plan(expression, *shapes, dtype=data_type, threads=threads)
    # A result without axes comes back as a scalar, which cannot be written again.
    out = np.asarray(made(*arrays))
    ratio = compare_with_numpy(expression, arrays, out, data_type) if compare else None
    used = made.threads
    speed = measure_speed(made.program, lambda: made(*arrays, out=out), measure_peaks(), used)
    if as_json:
        say_json(
            {
                "expression": expression,
                "dtype": data_type.value,
                "shape": list(out.shape),
                "threads": used,
                "seconds": speed.seconds,
                "per_second": speed.amount_per_second,
                "unit": speed.unit,
                "share": speed.share,
                "ok": None if ratio is None else ratio < PASS,
                "error_over_bound": ratio,
            }
        )
    else:
        if show:
            say(print_program(made.program).text)
        operands = ", ".join("×".join(map(str, shape)) or "scalar" for shape in shapes)
        result = "×".join(map(str, out.shape)) or "scalar"
        say(f"{expression}, {data_type.value}: {operands} -> {result}")
        say(f"{used} {'thread' if used == 1 else 'threads'}: {speed}")
        if ratio is not None:
            verdict = "OK" if ratio < PASS else "WRONG"
            say(f"compared with NumPy: {verdict}, largest error {ratio:.2g} of the bound")
    if ratio is not None and ratio >= PASS:
        complain("the result differs from NumPy's")
        raise typer.Exit(ExitCode.FINDINGS)


def compare_with_numpy(
    expression: str, arrays: list[Array], result: Array, data_type: DataType
) -> float:
    """The largest error over its bound, against NumPy's einsum in double precision."""
    bound = bind_shapes(stated_einsum(expression), [array.shape for array in arrays])
    exact = _numpy_einsum(bound.einsum, [wide(array) for array in arrays])
    magnitude = _numpy_einsum(bound.einsum, [np.abs(wide(array)) for array in arrays])
    summed = set(bound.einsum.indices) - set(bound.einsum.output)
    terms = int(np.prod([bound.extents[index] for index in summed], dtype=object))
    # Every pairwise product of a longer chain is rounded once more, and stored once more.
    steps = max(1, len(arrays) - 1)
    permitted = steps * error_bound(
        magnitude, terms=terms, invocations=1, input_type=data_type, output_type=data_type
    )
    return error_ratio(wide(np.asarray(result)), np.asarray(exact), np.asarray(permitted))


def _numpy_einsum(einsum: Einsum, arrays: Sequence[Array]) -> Array:
    """NumPy's result for an expression whose indices may be words, as in a tree."""
    number = {index: place for place, index in enumerate(einsum.indices)}
    arguments: list[Any] = []
    for array, term in zip(arrays, einsum.inputs, strict=True):
        arguments += [array, [number[index] for index in term]]
    output = [number[index] for index in einsum.output]
    return np.asarray(np.einsum(*arguments, output, optimize=True))
