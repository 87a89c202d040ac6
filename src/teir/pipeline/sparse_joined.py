"""Summed indices that lie side by side in every sparse factor, as one.

    out[i, l] = A[i, j, k] * B[l, j, k]   ->   out[i, l] = A[i, jk] * B[l, jk]
    out = A[i, j, k] * B[i, j, k]         ->   out = A[ijk] * B[ijk]

Tensors become matrices and vectors, for whose products there is faster code. The values stay as
they lie; the coordinates of the joined levels are written anew, kept as every conversion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np

from teir.arrays.levels import Format, Level
from teir.arrays.sparse import Sparse, owned
from teir.arrays.sparse_storage import Compressed, expand, index_type, position_count
from teir.expr.index_notation import Access, Product
from teir.pipeline.sparse_factors import plain_levels
from teir.pipeline.sparse_operands import Held, converted
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.unused_names import unused_name

_MOST_COORDINATES = 1 << 57
"""Programs have addresses of less than 2^62 bytes: an element of 16 for each of the coordinates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Factor:
    """A sparse factor, its indices in the order of its levels."""

    access: Access
    array: Sparse
    order: tuple[str, ...]


def with_joined_indices(
    problem: SparseProblem, held: Mapping[str, Held]
) -> tuple[SparseProblem, Mapping[str, Held]]:
    """The problem with what can be joined, and the operands it names; itself where nothing can."""
    if len(problem.assignment.products) != 1:
        return problem, held
    (product,) = problem.assignment.products
    factors = [_sparse_factor(access, held) for access in product.factors]
    runs = _runs([one for one in factors if one is not None], product, problem)
    if not runs:
        return problem, held
    names = {run: unused_name("".join(run), problem.extents) for run in runs}
    accesses: list[Access] = []
    for access, factor in zip(product.factors, factors, strict=True):
        if factor is None or not any(set(run) <= set(factor.order) for run in runs):
            accesses.append(access)
            continue
        groups = _groups(factor.order, runs)
        made = _joined(held[access.tensor], factor, groups)
        name = _operand_name(access.tensor, made, held)
        held = {**held, name: made}
        indices = tuple(names[group] if group in names else group[0] for group in groups)
        accesses.append(Access(tensor=name, indices=indices))
    extents = dict(problem.extents)
    for run, name in names.items():
        extents[name] = prod(extents.pop(index) for index in run)
    products = (replace(product, factors=tuple(accesses)),)
    assignment = replace(problem.assignment, products=products, text="")
    return replace(problem, assignment=assignment, extents=extents), held


def _sparse_factor(access: Access, held: Mapping[str, Held]) -> _Factor | None:
    """None for what is not sparse, has blocks, or has an index twice."""
    array = plain_levels(access, held[access.tensor].array)
    if array is None:
        return None
    order = tuple(access.indices[mode] for mode in array.format.mode_order)
    return _Factor(access=access, array=array, order=order)


def _runs(
    factors: Sequence[_Factor], product: Product, problem: SparseProblem
) -> tuple[tuple[str, ...], ...]:
    """Indices of two factors and more that follow each other in all that have one of them.

    Matrices stay as they are: they are read where they lie.
    """
    if len(factors) < 2 or max(len(factor.order) for factor in factors) < 3:
        return ()
    found: list[tuple[str, ...]] = []
    for factor in factors:
        runs: list[tuple[str, ...]] = []
        for index in factor.order:
            if runs and _follows(runs[-1][-1], index, factors, product, problem):
                runs[-1] = (*runs[-1], index)
            else:
                runs.append((index,))
        found += [run for run in runs if len(run) > 1 and run not in found]
    extents = problem.extents
    fitting = [run for run in found if prod(map(extents.__getitem__, run)) <= _MOST_COORDINATES]
    return tuple(fitting)


def _follows(
    index: str,
    after: str,
    factors: Sequence[_Factor],
    product: Product,
    problem: SparseProblem,
) -> bool:
    """True where both are summed, and wherever one is the other is next to it, all along."""
    pair = {index, after}
    if pair & set(problem.assignment.output.indices):
        return False
    having = [one for one in product.factors if pair & set(one.indices)]
    with_levels = [one for one in factors if pair & set(one.order)]
    if len(having) < 2 or len(having) != len(with_levels):
        return False
    return all(_has_side_by_side(one, index, after, problem) for one in with_levels)


def _has_side_by_side(factor: _Factor, index: str, after: str, problem: SparseProblem) -> bool:
    if index not in factor.order or after not in factor.order:
        return False
    place = factor.order.index(index)
    if factor.order.index(after) != place + 1:
        return False
    levels = factor.array.format.levels[place : place + 2]
    extents = factor.array.level_extents[place : place + 2]
    wanted = problem.extents[index], problem.extents[after]
    return Level.COMPRESSED in levels and tuple(extents) == wanted


def _groups(order: tuple[str, ...], runs: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    groups: list[tuple[str, ...]] = []
    for index in order:
        run = next((one for one in runs if index in one), (index,))
        if run not in groups:
            groups.append(run)
    return tuple(groups)


def _joined(one: Held, factor: _Factor, groups: Sequence[tuple[str, ...]]) -> Held:
    sizes = tuple(map(len, groups))
    make = partial(joined_levels, factor.array, sizes)
    return converted(one, f"joined {sizes}", "levels", make)


def joined_levels(array: Sparse, sizes: Sequence[int]) -> Sparse:
    """The levels in groups of these sizes, each group one level; values as they lie.

    Axes of the result are in the order of its levels.
    """
    extents = array.level_extents
    levels: list[Level] = []
    stored: list[Compressed | None] = []
    shape: list[int] = []
    first = 0
    for size in sizes:
        last = first + size
        kinds = array.format.levels[first:last]
        shape.append(prod(extents[first:last]))
        is_compressed = Level.COMPRESSED in kinds
        levels.append(Level.COMPRESSED if is_compressed else Level.DENSE)
        stored.append(_level(array, first, last) if is_compressed else None)
        first = last
    width = np.result_type(*(level.pos.dtype for level in stored if level))
    alike = tuple(
        level and Compressed(pos=level.pos.astype(width), crd=level.crd.astype(width))
        for level in stored
    )
    fmt = Format(levels=tuple(levels), mode_order=tuple(range(len(levels))))
    return owned(tuple(shape), fmt, alike, array.values)


def _level(array: Sparse, first: int, last: int) -> Compressed | None:
    """Levels from ``first`` to before ``last`` as one."""
    if last - first == 1:
        return array.stored[first]
    extents = array.level_extents
    pos = np.arange(position_count(array.stored[:first], extents[:first]) + 1)
    for extent, level in zip(extents[first:last], array.stored[first:last], strict=True):
        pos = pos * extent if level is None else level.pos[pos]
    crd = np.zeros(int(pos[-1]), np.int64)
    for extent, column in zip(
        extents[first:last], expand(array.stored, extents, last)[first:], strict=True
    ):
        crd = crd * extent + column
    dtype = index_type([prod(extents[first:last])], crd.size)
    return Compressed(pos=pos.astype(dtype), crd=crd.astype(dtype))


def _operand_name(tensor: str, made: Held, held: Mapping[str, Held]) -> str:
    """Its own name; another one where the operand is read in another way too."""
    others = {name for name, one in held.items() if one.array is not made.array}
    return unused_name(f"{tensor}_joined", others)
