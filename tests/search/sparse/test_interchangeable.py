"""Loops that may change places, and how many orders there are."""

from __future__ import annotations

from hypothesis import given, settings

from search.sparse.drawn import statements
from search.sparse.written import statement
from teir.search.sparse.cost import FIBRE
from teir.search.sparse.generation import space_of
from teir.search.sparse.interchangeable import has_more_orders, in_turn
from teir.search.sparse.loop_trees import LARGEST_RANK
from teir.search.sparse.planned import Planner
from teir.search.sparse.space import Identity
from teir.search.sparse.statement import Pairs, Statement


def test_loops_over_indices_of_the_same_tensors_keep_one_order() -> None:
    product = statement("sa,tb,stcde->abcde")
    sizes = dict.fromkeys("abstcde", 4.0)
    pairs = in_turn(product, sizes)
    assert pairs == (("c", "d"), ("c", "e"), ("d", "e"))
    assert has_more_orders(product, (), 5039)
    assert not has_more_orders(product, (), 5040)
    assert has_more_orders(product, pairs, 839)
    assert not has_more_orders(product, pairs, 840)


def test_the_longest_is_outermost_and_the_adjacent_one_innermost() -> None:
    product = statement("sa,stcde,tb->abedc")
    sizes = dict.fromkeys("abst", 4.0) | {"c": 2.0, "d": 3.0, "e": 9.0}
    # c is adjacent in the result, e in a factor: one of them may stand anywhere.
    assert in_turn(product, sizes) == (("d", "e"),)


def test_levels_keep_their_order() -> None:
    product = statement("stuv,va->stua", "dsss")
    sizes = {"s": 2.0, "t": 3.0, "u": 9.0, "v": 4.0, "a": 5.0}
    assert in_turn(product, sizes) == (("s", "t"), ("s", "u"), ("t", "u"))
    assert not has_more_orders(product, (), 5)


@settings(max_examples=60)
@given(statements(largest_inputs=3))
def test_they_do_not_change_the_fewest_iterations(drawn: Statement) -> None:
    sizes = {index: 3.0 + 2 * place for place, index in enumerate(drawn.indices)}
    known = sizes | {
        f"{index}{FIBRE}": 2.0
        for access in drawn.accesses
        for index in drawn.compressed_indices(access.tensor)
    }
    assert fewest(drawn, known, in_turn(drawn, sizes)) == fewest(drawn, known, ())


def fewest(drawn: Statement, sizes: dict[str, float], pairs: Pairs) -> float:
    space = space_of(drawn, Identity.ACCESSES, LARGEST_RANK, pairs)
    planner = Planner(space, sizes)
    return min(
        iterations
        for ordered in space.orders
        for (iterations, _, _), _ in planner.front(ordered.expression)
    )
