"""One product of held operands as what can be scheduled: a statement and the arrays it names.

Repeated indices become diagonals, repeated tensors get second names, blocks become axes of their
own, orders of levels that do not agree are made to, dense arrays keep their order of axes where
their memory has no gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from teir.arrays.levels import Format, Level, dense_format, is_mostly_empty
from teir.arrays.sparse import Sparse
from teir.expr.index_notation import Access
from teir.pipeline.diagonals import diagonal_of
from teir.pipeline.sparse_factors import Factor
from teir.pipeline.sparse_operands import Conversion, Held, converted
from teir.pipeline.sparse_patterns import as_stored_values, with_equal_patterns_once
from teir.pipeline.sparse_turned import sorted_anew
from teir.pipeline.unused_names import unused_name
from teir.search.sparse.graph import Branch
from teir.search.sparse.statement import Statement, sorted_loops
from teir.search.sparse.workspace import workspace_graph

_LARGEST_WORKSPACE = 1 << 24
"""Elements of a temporary from which on operands are rather sorted anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A statement, the extents of its indices, the array of every input, what was converted.

    ``has_workspace`` marks a sparse output whose levels no order of all loops visits in order.
    """

    statement: Statement
    extents: Mapping[str, int]
    factors: tuple[Factor, ...]
    has_workspace: bool = False

    @property
    def notes(self) -> tuple[Conversion, ...]:
        return tuple(note for factor in self.factors for note in factor.held.notes)


def term_of(
    accesses: Sequence[Access],
    held: Sequence[Held],
    output: Access,
    output_format: Format,
    extents: Mapping[str, int],
) -> Term:
    """The product of these operands, added into ``output``."""
    names: set[str] = {output.tensor}
    factors = []
    for access, one in zip(accesses, held, strict=True):
        name = unused_name(access.tensor, names)
        names.add(name)
        factors.append(_plain(Factor(access=replace(access, tensor=name), held=one), extents))
    is_dense = output_format == dense_format(len(output.indices))
    single = _single_indices(factors, extents) - (set() if is_dense else set(output.indices))
    factors = [_without_indices(factor, single) for factor in factors]
    if not is_dense:
        factors = [_without_blocks(factor) for factor in factors]
        return _ordered(factors, output, output_format, extents)
    kept_indices = tuple(index for index in output.indices if index not in single)
    output = replace(output, indices=kept_indices, columns=())
    output_format = dense_format(len(kept_indices))
    values = as_stored_values(factors, output)
    if values is not None:
        return _ordered(values[0], output, output_format, values[1])
    factors = with_equal_patterns_once(factors)
    split = _split_blocks(factors, output, extents)
    if split is None:
        factors = [_without_blocks(factor) for factor in factors]
        return _ordered(factors, output, output_format, extents)
    return _ordered(*split)


def _plain(factor: Factor, extents: Mapping[str, int]) -> Factor:
    """Each index once, with its whole extent."""
    indices, array = factor.access.indices, factor.held.array
    shape = array.shape
    spread = [n for n, index in enumerate(indices) if shape[n] == 1 != extents[index]]
    if not spread and len(set(indices)) == len(indices):
        return factor
    if isinstance(array, Sparse):
        names = tuple(index for n, index in enumerate(indices) if n not in spread)
        access = replace(factor.access, indices=tuple(dict.fromkeys(names)), columns=())
        pick = partial(diagonal_of, array, indices, spread)
        held = converted(factor.held, f"diagonal {indices} {spread}", "sparse", pick)
        return replace(factor, access=access, held=held)
    for n in reversed(spread):
        array = np.moveaxis(array, n, 0)[0]
        indices = (*indices[:n], *indices[n + 1 :])
    names = tuple(dict.fromkeys(indices))
    number = {index: n for n, index in enumerate(names)}
    diagonal = np.einsum(array, [number[i] for i in indices], list(range(len(names))))
    access = replace(factor.access, indices=names, columns=())
    return replace(factor, access=access).with_array(diagonal)


def _single_indices(factors: Sequence[Factor], extents: Mapping[str, int]) -> set[str]:
    """Indices of extent 1 that only dense factors have, unless they are all that one has.

    A column vector of shape (n, 1) is multiplied as a vector is.
    """
    single = {index for index, extent in extents.items() if extent == 1}
    for factor in factors:
        indices = set(factor.access.indices)
        if factor.stored is not None or indices <= single:
            single -= indices
    return single


def _without_indices(factor: Factor, single: set[str]) -> Factor:
    """The dense factor without axes of extent 1."""
    indices, array = factor.access.indices, factor.held.array
    if not single.intersection(indices) or isinstance(array, Sparse):
        return factor
    names = tuple(index for index in indices if index not in single)
    whole = array[tuple(0 if index in single else slice(None) for index in indices)]
    return replace(factor, access=replace(factor.access, indices=names, columns=())).with_array(
        whole
    )


def _without_blocks(factor: Factor) -> Factor:
    array = factor.held.array
    if not isinstance(array, Sparse) or array.blocks is None:
        return factor
    held = converted(factor.held, "without blocks", "BSR", array.converted)
    return replace(factor, held=held)


def _split_blocks(
    factors: list[Factor], output: Access, extents: Mapping[str, int]
) -> tuple[list[Factor], Access, Format, dict[str, int]] | None:
    """Indices of the one factor with blocks split in two; None where that cannot be done."""
    blocked = [f for f in factors if isinstance(f.held.array, Sparse) and f.held.array.blocks]
    if len(blocked) != 1:
        return None
    (one,) = blocked
    array = one.held.array
    assert isinstance(array, Sparse)
    assert array.blocks is not None
    if len(one.access.indices) != array.ndim:
        return None
    used = set(extents)
    inner = {index: unused_name(f"{index}_in", used) for index in one.access.indices}
    if any(f.stored and f is not one and set(f.access.indices) & set(inner) for f in factors):
        return None
    blocks = dict(zip(one.access.indices, array.blocks, strict=True))
    made = []
    for factor in factors:
        if factor is one:
            indices = (*factor.access.indices, *inner.values())
            access = replace(factor.access, indices=indices, columns=())
            made.append(replace(factor, access=access))
            continue
        made.append(_split_dense(factor, inner, blocks))
    sizes = {index: extent // blocks.get(index, 1) for index, extent in extents.items()}
    sizes |= {inner[index]: block for index, block in blocks.items()}
    whole = replace(output, indices=_split_names(output.indices, inner), columns=())
    return made, whole, dense_format(len(whole.indices)), sizes


def _split_names(indices: Sequence[str], inner: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(
        name
        for index in indices
        for name in ((index, inner[index]) if index in inner else (index,))
    )


def _split_dense(factor: Factor, inner: Mapping[str, str], blocks: Mapping[str, int]) -> Factor:
    array = factor.held.array
    if isinstance(array, Sparse):
        # Coordinates of all elements, in columns and as one array.
        most = prod(array.shape) * array.dtype.itemsize + 16 * (array.ndim + 1) * array.nnz
        factor = factor.with_copy(most, array.to_dense)
    dense = factor.held.array
    assert isinstance(dense, np.ndarray)
    shape: list[int] = []
    for index, extent in zip(factor.access.indices, dense.shape, strict=True):
        shape += [extent // blocks[index], blocks[index]] if index in inner else [extent]
    names = _split_names(factor.access.indices, inner)
    access = replace(factor.access, indices=names, columns=())
    return replace(factor, access=access).with_array(dense.reshape(shape))


def _ordered(
    factors: list[Factor], output: Access, output_format: Format, extents: Mapping[str, int]
) -> Term:
    """With orders of levels that agree; the largest sparse factors keep theirs."""
    turned = _as_the_result(factors, output, output_format)
    laid = [_laid_out(factor) for factor in _row_by_row(turned, output, output_format)]
    statement = _statement(laid, output, output_format)
    tensors = [factor.access.tensor for factor in laid]
    has_workspace = False
    if not _agree(statement, (output.tensor, *tensors)):
        free = _reordered(laid, statement, ()) if output_format.is_sparse else laid
        freed = _statement(free, output, output_format)
        has_workspace = output_format.is_sparse and not _agree(freed, (output.tensor, *tensors))
        if has_workspace and _workspace_elements(freed, extents) > _LARGEST_WORKSPACE:
            has_workspace = False
        if has_workspace or _agree(freed, (output.tensor, *tensors)):
            laid, statement = free, freed
        else:
            laid = _reordered(laid, statement, (output.tensor,))
            statement = _statement(laid, output, output_format)
    return Term(
        statement=statement,
        extents={index: extents[index] for index in statement.indices},
        factors=tuple(laid),
        has_workspace=has_workspace,
    )


def _as_the_result(factors: list[Factor], output: Access, output_format: Format) -> list[Factor]:
    """Factors over the indices of a sparse result and no others, in its order.

    Rows of sums are then formed from rows; in another order it takes a dense array of all rows.
    """
    stored = [factor for factor in factors if factor.stored is not None]
    is_all = output_format.is_sparse and output_format.sparse_prefix == len(output.indices)
    if not is_all or any(f.access.indices for f in factors if f.stored is None):
        return factors
    for factor in stored:
        is_dense_below = factor.stored and factor.stored.format.sparse_prefix < factor.stored.ndim
        if is_dense_below or set(factor.access.indices) != set(output.indices):
            return factors
    order = tuple(output.indices[mode] for mode in output_format.mode_order)
    return [
        _sorted_as(factor, order)
        if factor.stored is not None and _levels_order(factor) != order
        else factor
        for factor in factors
    ]


def _row_by_row(factors: list[Factor], output: Access, output_format: Format) -> list[Factor]:
    """Two sparse matrices, turned where rows of the result then sum rows.

    A[i,k] = B[i,j] C[k,j] has an intersection of two rows for every element of the result, where
    rows of a turned C need an addition for every product. A dense result takes sums of columns too.
    """
    if len(factors) != 2 or len(output.indices) != 2:
        return factors
    row, column = (output.indices[mode] for mode in output_format.mode_order)
    wanted: dict[str, tuple[str, str]] = {}
    for factor, other in (factors, factors[::-1]):
        indices = factor.access.indices
        shared = set(indices) & set(other.access.indices)
        if factor.stored is None or len(indices) != 2 or len(shared) != 1:
            return factors
        (summed,) = shared
        if summed in output.indices:
            return factors
        if not output_format.is_sparse and _levels_order(factor)[-1] != summed:
            return factors
        if row in indices:
            wanted[factor.access.tensor] = (row, summed)
        elif column in indices:
            wanted[factor.access.tensor] = (summed, column)
    turned = [f for f in factors if wanted.get(f.access.tensor) != _levels_order(f)]
    if len(wanted) != 2 or not turned:
        return factors
    return [_sorted_as(f, wanted[f.access.tensor]) if f in turned else f for f in factors]


def _levels_order(factor: Factor) -> tuple[str, ...]:
    assert factor.stored is not None
    return tuple(factor.access.indices[mode] for mode in factor.stored.format.mode_order)


def _workspace_elements(statement: Statement, extents: Mapping[str, int]) -> int:
    graph = workspace_graph(statement)
    assert graph is not None
    assert isinstance(graph.root, Branch)
    return prod(extents[index] for index in graph.root.temporary.indices)


def _statement(factors: Sequence[Factor], output: Access, output_format: Format) -> Statement:
    formats = [_format(factor) for factor in factors]
    inputs = tuple(factor.access for factor in factors)
    return Statement(output=output, inputs=inputs, formats=(output_format, *formats))


def _format(factor: Factor) -> Format:
    array = factor.held.array
    if isinstance(array, Sparse):
        return array.format
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    return Format(levels=(Level.DENSE,) * array.ndim, mode_order=tuple(order))


def _laid_out(factor: Factor) -> Factor:
    """Dense arrays without gaps, in whatever order of axes."""
    array = factor.held.array
    if isinstance(array, Sparse):
        return factor
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    if array.transpose(order).flags.c_contiguous and all(s >= 0 for s in array.strides):
        return factor
    return factor.with_copy(array.nbytes, partial(np.ascontiguousarray, array))


def _agree(statement: Statement, tensors: Sequence[str]) -> bool:
    return sorted_loops(statement.indices, statement.order_pairs(tensors)) is not None


def _reordered(
    factors: Sequence[Factor], statement: Statement, fixed: tuple[str, ...]
) -> list[Factor]:
    """Factors that agree with each other; those with fewer values are sorted anew."""
    sparse = sorted((f for f in factors if f.stored), key=lambda f: -_values(f))
    agreed = fixed
    for factor in sparse:
        if _agree(statement, (*agreed, factor.access.tensor)):
            agreed = (*agreed, factor.access.tensor)
    order = sorted_loops(statement.indices, statement.order_pairs(agreed))
    assert order is not None
    return [
        factor if factor.access.tensor in agreed or not factor.stored else _sorted_as(factor, order)
        for factor in factors
    ]


def _values(factor: Factor) -> int:
    return 0 if factor.stored is None else factor.stored.nnz


def _sorted_as(factor: Factor, order: Sequence[str]) -> Factor:
    array = factor.stored
    assert array is not None
    indices = factor.access.indices
    modes = sorted(range(len(indices)), key=lambda mode: order.index(indices[mode]))
    rows = array.shape[modes[0]]
    first = "s" if len(modes) == 1 or is_mostly_empty(rows, array.nnz) else "d"
    levels = first + "s" * (len(modes) - 1)
    purpose = f"sorted {indices} {levels} {modes} blocks {array.blocks}"
    make = partial(sorted_anew, array, levels, modes)
    return replace(factor, held=converted(factor.held, purpose, "levels", make))
