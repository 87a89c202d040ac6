"""Products of three and more sparse matrices with a sparse result: two at a time.

    C[i, l] = R[i, j] * A[j, k] * P[k, l]   ->   t0[j, l] = A[j, k] * P[k, l]
                                                 C[i, l] = R[i, j] * t0[j, l]

One loop nest would add every path i, j, k, l into the result: as many additions as paths. A sparse
temporary holds the sum of those that share its two ends. The two neighbours that make the fewest
products are multiplied first, counted on the operands at hand (the rule of Gustavson, 1978, for
what a product of sparse matrices costs); other operands may be taken in another order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from teir.arrays.levels import Level, parse_format
from teir.arrays.sparse import Sparse
from teir.arrays.sparse_storage import expand
from teir.expr.index_notation import Access, Assignment, Product
from teir.pipeline.sparse_operands import Array, Held
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.sparse_run import Step, run_sparse, steps_of

_MOST_COUNTED = 1 << 26
"""Extent up to which elements are counted by coordinate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An assignment with its schedules: the last of a plan, or one whose result the next reads."""

    problem: SparseProblem
    held: Mapping[str, Held]
    steps: tuple[Step, ...]


def stages_of(problem: SparseProblem, held: Mapping[str, Held]) -> tuple[Stage, ...]:
    """The assignment with its schedules, behind the temporaries it reads, which are computed."""
    stages: list[Stage] = []
    while (pair := _first_pair(problem, held)) is not None:
        stage = _stage(_pair_problem(problem, pair), held)
        stages.append(stage)
        made = run_sparse(stage.problem, stage.steps)
        name = stage.problem.assignment.output.tensor
        temporary = Held(name=name, array=made, source=made, is_torch=False)
        problem = _without(problem, pair, stage.problem.assignment.output)
        held = {**held, name: temporary}
    return *stages, _stage(problem, held)


def _stage(problem: SparseProblem, held: Mapping[str, Held]) -> Stage:
    used = {name: held[name] for name in problem.assignment.inputs}
    return Stage(problem=problem, held=used, steps=tuple(steps_of(problem, used)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two neighbours of a chain: ``outer`` and ``inner`` are the indices that only one has."""

    product: Product
    left: Access
    right: Access
    outer: str
    inner: str
    name: str
    is_compressed: bool
    """True where the rows of ``left`` are compressed too."""


def _first_pair(problem: SparseProblem, held: Mapping[str, Held]) -> _Pair | None:
    """The neighbours to multiply next; None where one program computes every product."""
    if not problem.has_sparse_result or problem.assignment.accumulates:
        return None
    for product in problem.assignment.products:
        chain = _chain_of(product, problem, held)
        if len(chain) < 3:
            continue
        ends = _ends(chain, problem)
        places = range(len(chain) - 1)
        place = min(places, key=lambda at: _count(chain[at], chain[at + 1], ends[at + 1], held))
        left, right = chain[place], chain[place + 1]
        stored = held[left.tensor].array
        assert isinstance(stored, Sparse)
        return _Pair(
            product=product,
            left=left,
            right=right,
            outer=ends[place],
            inner=ends[place + 2],
            name=_new_name({problem.assignment.output.tensor, *held}),
            is_compressed=Level.DENSE not in stored.format.levels,
        )
    return None


def _chain_of(
    product: Product, problem: SparseProblem, held: Mapping[str, Held]
) -> tuple[Access, ...]:
    """The matrices from the result's outer index to its inner one; empty where they are no chain.

    Numbers stay where they are: the last product is multiplied by them.
    """
    matrices = [one for one in product.factors if one.indices]
    outputs = problem.assignment.output.indices
    if len(outputs) != 2 or not all(_is_matrix(one, problem, held) for one in matrices):
        return ()
    counts = dict.fromkeys((*outputs, *product.indices), 0)
    for one in matrices:
        for index in one.indices:
            counts[index] += 1
    if any(count != (1 if index in outputs else 2) for index, count in counts.items()):
        return ()
    at = outputs[problem.output_format.mode_order[0]]
    chain: list[Access] = []
    while following := [one for one in matrices if at in one.indices and one not in chain]:
        chain.append(following[0])
        at = _other(following[0], at)
    return tuple(chain) if len(chain) == len(matrices) else ()


def _is_matrix(access: Access, problem: SparseProblem, held: Mapping[str, Held]) -> bool:
    """True for elements of two different indices, of the extents the indices have."""
    array = held[access.tensor].array
    if not isinstance(array, Sparse) or not array.format.is_sparse or array.blocks is not None:
        return False
    extents = tuple(problem.extents[index] for index in access.indices)
    is_counted = all(extent <= _MOST_COUNTED for extent in extents)
    return len(set(access.indices)) == 2 and array.shape == extents and is_counted


def _other(access: Access, index: str) -> str:
    first, second = access.indices
    return second if first == index else first


def _ends(chain: Sequence[Access], problem: SparseProblem) -> list[str]:
    """The indices along the chain, one more than it has matrices."""
    first = problem.assignment.output.indices[problem.output_format.mode_order[0]]
    ends = [first]
    for one in chain:
        ends.append(_other(one, ends[-1]))
    return ends


def _count(left: Access, right: Access, index: str, held: Mapping[str, Held]) -> int:
    """How many products of two elements the product of two matrices has."""
    return int(np.dot(_elements(left, index, held), _elements(right, index, held)))


def _elements(access: Access, index: str, held: Mapping[str, Held]) -> Array:
    """The elements at every coordinate along ``index``."""
    stored = held[access.tensor].array
    assert isinstance(stored, Sparse)
    axis = access.indices.index(index)
    level = stored.format.mode_order.index(axis)
    outer, inner = stored.stored
    if level == 0 and outer is None and inner is not None:
        return np.diff(inner.pos)
    if level == 1 and inner is not None:
        return np.bincount(inner.crd, minlength=stored.shape[axis])
    coordinates = expand(stored.stored, stored.level_extents)[level]
    return np.bincount(coordinates, minlength=stored.shape[axis])


def _pair_problem(problem: SparseProblem, pair: _Pair) -> SparseProblem:
    output = Access(tensor=pair.name, indices=(pair.outer, pair.inner))
    assignment = Assignment(output=output, products=(Product(factors=(pair.left, pair.right)),))
    return replace(
        problem,
        assignment=assignment,
        extents={index: problem.extents[index] for index in assignment.indices},
        operands=(),
        output_format=parse_format("ss" if pair.is_compressed else "ds"),
        result_type=problem.computed_type,
    )


def _without(problem: SparseProblem, pair: _Pair, temporary: Access) -> SparseProblem:
    """With the temporary instead of the two matrices, where the first of them was."""
    assignment = problem.assignment
    factors = [one for one in pair.product.factors if one != pair.right]
    factors[factors.index(pair.left)] = temporary
    made = replace(pair.product, factors=tuple(factors))
    products = tuple(made if one is pair.product else one for one in assignment.products)
    return replace(problem, assignment=replace(assignment, products=products, text=""))


def _new_name(taken: Collection[str]) -> str:
    number = 0
    while f"t{number}" in taken:
        number += 1
    return f"t{number}"
