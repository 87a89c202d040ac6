"""The exact search against enumeration."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teir.ir.check.collision import (
    Budget,
    BudgetSpentError,
    Term,
    is_injective,
    self_collision,
    solve,
)


@st.composite
def terms(draw: st.DrawFn) -> Term:
    low = draw(st.integers(-3, 2))
    return draw(st.integers(1, 24)), low, low + draw(st.integers(0, 4))


@given(st.lists(terms(), max_size=4), st.integers(-60, 60))
def test_solve_finds_a_solution_exactly_where_there_is_one(
    equation: list[Term], target: int
) -> None:
    points = product(*(range(low, high + 1) for _, low, high in equation))
    strides = [stride for stride, _, _ in equation]
    reachable = {sum(map(int.__mul__, strides, point)) for point in points}
    found = solve(equation, target, Budget(100_000))
    assert (found is not None) == (target in reachable)
    if found is not None:
        assert sum(map(int.__mul__, strides, found)) == target
        assert all(low <= i <= high for i, (_, low, high) in zip(found, equation, strict=True))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), max_size=4))
def test_self_collision_is_exact(layout: list[tuple[int, int]]) -> None:
    points = list(product(*(range(extent) for _, extent in layout)))
    strides = [stride for stride, _ in layout]
    addresses = {sum(map(int.__mul__, strides, point)) for point in points}
    found = self_collision(layout, Budget(100_000))
    assert (found is not None) == (len(addresses) < len(points))
    if found is not None:
        assert any(found)
        assert sum(map(int.__mul__, strides, found)) == 0
    if is_injective(layout):
        assert found is None


@given(st.lists(terms(), min_size=1, max_size=6), st.integers(-200, 200))
def test_z3_agrees(equation: list[Term], target: int) -> None:
    z3 = pytest.importorskip("z3")
    indices = [z3.Int(f"i{number}") for number in range(len(equation))]
    solver = z3.Solver()
    for index, (_, low, high) in zip(indices, equation, strict=True):
        solver.add(low <= index, index <= high)
    pairs = zip(equation, indices, strict=True)
    solver.add(z3.Sum([stride * index for (stride, _, _), index in pairs]) == target)
    found = solve(equation, target, Budget(100_000))
    assert (found is not None) == (solver.check() == z3.sat)


def test_nested_strides_take_one_step_each() -> None:
    layout = [(4 * 10**level, -9, 9) for level in range(15)]
    budget = Budget(60)
    assert solve(layout, 4 * 123_456_789, budget) is not None


def test_a_hostile_equation_ends_with_the_budget() -> None:
    strides = [(2**40 + 7919 * 3**number) * 4 for number in range(40)]
    with pytest.raises(BudgetSpentError):
        solve([(stride, -1, 1) for stride in strides], 4, Budget(10_000))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), max_size=4))
def test_axes_of_one_index_do_not_count(layout: list[tuple[int, int]]) -> None:
    longer = [axis for axis in layout if axis[1] > 1]
    assert is_injective([*layout, (5, 1), (0, 1)]) == is_injective(longer)


def test_an_axis_of_one_index_may_lie_inside_another() -> None:
    assert is_injective([(4, 3), (5, 1)])
