"""Terms of index notation whose factors are all dense, as einsums planned by the dense half.

    R[a,b,i,j] = V[a,b,c,d] * T[c,d,i,j]   ->   abcd,cdij->abij

A loop nest is made for operands that are mostly zero: it has no panels, no contraction trees and
no axes fused across operands. It stays for element-wise products, and where no program is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, count
from string import ascii_letters

import numpy as np

from teir.dtypes import DataType
from teir.expr.nodes import Subscripts
from teir.expr.nodes import Term as Letters
from teir.pipeline.determinism import Determinism
from teir.pipeline.memory import scratch_bytes
from teir.pipeline.operand_types import OperandType, contiguous
from teir.pipeline.planning import Wishes, plan_titled
from teir.pipeline.sparse_factors import Factor
from teir.pipeline.sparse_schedule import Scheduled
from teir.pipeline.sparse_terms import Term

_FIRST_SIGN = 0x100
"""From this code point on letters stand for words where all letters of ASCII are taken."""


def dense_schedule(
    term: Term,
    data_type: DataType,
    threads: int,
    name: str,
    deterministic: Determinism,
    most_scratch_bytes: int | None = None,
) -> Scheduled | None:
    """What runs a term of dense factors; None where a loop nest does.

    The program reads the factors as `teir.pipeline.sparse_factors.flat_arrays` gives them, and
    writes a C-contiguous result.
    """
    subscripts = _subscripts(term)
    if subscripts is None:
        return None
    types = tuple(_laid_out(factor, data_type) for factor in term.factors)
    wishes = Wishes(threads=threads, deterministic=deterministic)
    plan = plan_titled(name, subscripts, types, wishes)
    executable = plan.executable
    if executable is None or any(plan.problem.copied):
        return None
    scratch = scratch_bytes(executable.kernel_program, executable.threads)
    if most_scratch_bytes is not None and scratch > most_scratch_bytes:
        return None
    return Scheduled(
        graph=None,
        executable=executable,
        choices=1,
        refusal=None,
        deterministic=deterministic,
        scratch_bytes=scratch,
        plan=plan,
    )


def _subscripts(term: Term) -> Subscripts | None:
    """The term as an einsum, one sign per index; None where it is none."""
    if any(not isinstance(factor.held.array, np.ndarray) for factor in term.factors):
        return None
    output = term.statement.output.indices
    found = {index for factor in term.factors for index in factor.access.indices}
    if not found.issuperset(output) or not found:
        return None
    # A nest walks element-wise products in the order of most of them, and holds no intermediate.
    if len(term.factors) > 1 and found.issubset(output):
        return None
    signs = _signs(term.statement.indices)
    inputs = [_letters(factor.access.indices, signs) for factor in term.factors]
    right = _letters(output, signs)
    text = ",".join(map(str, inputs)) + f"->{right}"
    return Subscripts(inputs=tuple(inputs), output=right, text=text)


def _signs(indices: tuple[str, ...]) -> dict[str, str]:
    """Indices of one letter stand for themselves."""
    signs = chain(ascii_letters, map(chr, count(_FIRST_SIGN)))
    free = (sign for sign in signs if sign.isalpha() and sign not in indices)
    return {index: index if len(index) == 1 else next(free) for index in indices}


def _letters(indices: tuple[str, ...], signs: Mapping[str, str]) -> Letters:
    symbols = tuple(signs[index] for index in indices)
    return Letters(symbols=symbols, ellipsis=None, columns=(0,) * len(symbols), start=0)


def _laid_out(factor: Factor, data_type: DataType) -> OperandType:
    """The array of a factor in the type it is computed in, without gaps, axes in their order."""
    array = factor.held.array
    assert isinstance(array, np.ndarray)
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    flat = contiguous(data_type, [array.shape[axis] for axis in order])
    strides = dict(zip(order, flat.strides_bytes, strict=True))
    ordered = tuple(strides[axis] for axis in range(len(order)))
    return OperandType(flat.data_type, flat.dtype, array.shape, ordered)
