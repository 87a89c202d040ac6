"""TBLIS, through pytblis, as a contender."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from teir.cli.peers.case import Case
from teir.cli.peers.forms import Form
from teir.cli.peers.operands import Operands
from teir.dtypes import DataType

_TYPES = (DataType.FP32, DataType.FP64, DataType.C64, DataType.C128)


def tblis_forms(
    case: Case, data_type: DataType, operands: Operands, threads: int
) -> Iterator[Form]:
    """Its own product where there are two operands, else its einsum."""
    import pytblis

    if data_type not in _TYPES:
        return
    pytblis.set_num_threads(threads)
    inputs, out = operands.inputs, operands.out
    if case.is_copy:
        yield "add", partial(pytblis.add, inputs[0], out, case.inputs[0], case.output, 1.0, 0.0)
    elif len(inputs) == 2:
        left, right = case.inputs
        yield "mult", partial(pytblis.mult, *inputs, out, left, right, case.output, 1.0, 0.0)
    else:
        yield "einsum", partial(pytblis.einsum, case.einsum, *inputs, out=out)
