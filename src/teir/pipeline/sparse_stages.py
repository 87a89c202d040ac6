"""Products of several sparse factors as a row of products of two: sparse temporaries.

    C[i, l] = R[i, j] * A[j, k] * P[k, l]   ->   t0[j, l] = A[j, k] * P[k, l]
                                                 C[i, l] = R[i, j] * t0[j, l]

Which two come first `teir.pipeline.sparse_pairs` says; what is left is one product as any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from teir.arrays.sparse import Sparse
from teir.expr.index_notation import Access, Assignment, Product
from teir.pipeline.sparse_joined import with_joined_indices
from teir.pipeline.sparse_operands import Held, converted
from teir.pipeline.sparse_pairs import Pair, next_pair
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.sparse_room import Room
from teir.pipeline.sparse_run import Step, run_sparse, steps_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An assignment with its schedules: the last of a plan, or one whose result the next reads."""

    problem: SparseProblem
    steps: tuple[Step, ...]


def stages_of(
    problem: SparseProblem, held: Mapping[str, Held], room: Room | None = None
) -> tuple[Stage, ...]:
    """The assignment with its schedules, behind the temporaries it reads, which are computed.

    Raises TeirError (TEIR643) before the stage that there is no ``room`` for.
    """
    stages: list[Stage] = []
    if problem.has_sparse_result:
        held = {name: _without_blocks(one) for name, one in held.items()}
    problem, held = with_joined_indices(problem, held)
    while (found := _first_pair(problem, held)) is not None:
        product, pair = found
        name = _new_name({problem.assignment.output.tensor, *held})
        temporary = Access(tensor=name, indices=pair.indices)
        stage = _stage(_pair_problem(problem, pair, temporary), held, room)
        stages.append(stage)
        made = run_sparse(stage.problem, stage.steps)
        if room is not None:
            room.take(made)
        held = {**held, name: Held(name=name, array=made, source=made, is_torch=False, room=room)}
        problem = _without(problem, product, pair, temporary)
    return *stages, _stage(problem, held, room)


def _without_blocks(one: Held) -> Held:
    """What every product with a sparse result is computed with."""
    array = one.array
    if not isinstance(array, Sparse) or array.blocks is None:
        return one
    return converted(one, "without blocks", "BSR", array.converted)


def _stage(problem: SparseProblem, held: Mapping[str, Held], room: Room | None) -> Stage:
    used = {name: held[name] for name in problem.assignment.inputs}
    return Stage(problem=problem, steps=tuple(steps_of(problem, used, room)))


def _first_pair(problem: SparseProblem, held: Mapping[str, Held]) -> tuple[Product, Pair] | None:
    """The factors to multiply next and their product; None where one program computes the rest."""
    if problem.has_sparse_result and problem.assignment.accumulates:
        return None
    for product in problem.assignment.products:
        pair = next_pair(product.factors, problem, held)
        if pair is not None:
            return product, pair
    return None


def _pair_problem(problem: SparseProblem, pair: Pair, temporary: Access) -> SparseProblem:
    product = Product(factors=(pair.left, pair.right))
    assignment = Assignment(output=temporary, products=(product,))
    return replace(
        problem,
        assignment=assignment,
        extents={index: problem.extents[index] for index in assignment.indices},
        operands=(),
        output_format=pair.format,
        has_sparse_result=True,
        result_type=problem.computed_type,
    )


def _without(
    problem: SparseProblem, product: Product, pair: Pair, temporary: Access
) -> SparseProblem:
    """With the temporary instead of the two factors, where the first of them was."""
    left, right = (
        next(place for place, one in enumerate(product.factors) if one is factor)
        for factor in (pair.left, pair.right)
    )
    factors = [temporary if place == left else one for place, one in enumerate(product.factors)]
    made = replace(product, factors=tuple(factors[:right] + factors[right + 1 :]))
    assignment = problem.assignment
    products = tuple(made if one is product else one for one in assignment.products)
    return replace(problem, assignment=replace(assignment, products=products, text=""))


def _new_name(taken: Collection[str]) -> str:
    number = 0
    while f"t{number}" in taken:
        number += 1
    return f"t{number}"
