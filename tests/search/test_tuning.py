"""Which programs are measured, in which order, and which one wins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import fields

from search.planned import USUAL
from teir.dtypes import DataType
from teir.ir.nodes import Program, Tensor
from teir.search.choice import Choice
from teir.search.contraction import Contraction, Factor
from teir.search.tree import TreeOptions, TreeProgram, contraction_program
from teir.search.tuning import (
    MOST_MEASURED,
    Measured,
    best_of,
    default_choices,
    measured_candidates,
    one_away,
)


def contraction(*extents: int) -> Contraction:
    """ik = ij jk, row-major, FP32."""
    i, j, k = extents
    tensors = [Tensor(name=name, data_type=DataType.FP32) for name in ("in0", "in1", "out")]
    return Contraction(
        "ij,jk->ik",
        (
            Factor(tensors[0], {"i": 4 * j, "j": 4}),
            Factor(tensors[1], {"j": 4 * k, "k": 4}),
        ),
        Factor(tensors[2], {"i": 4 * k, "k": 4}),
        {"i": i, "j": j, "k": k},
    )


def maker(problem: Contraction) -> Callable[[tuple[Choice, ...]], TreeProgram]:
    return lambda choices: contraction_program(
        problem, ((0, 1),), USUAL, TreeOptions(choices=choices)
    )


MAKE = maker(contraction(300, 700, 400))


def test_choices_change_the_program_and_the_default_is_the_default() -> None:
    default = MAKE(())
    assert len(default.matrix_steps) == 1
    assert MAKE(default_choices(default)).program == default.program
    others = set(one_away(default_choices(default), default.matrix_steps))
    assert len(others) >= 5
    assert any(MAKE(choices).program != default.program for choices in others)


def test_the_default_comes_first_then_what_the_model_likes() -> None:
    seen: list[Program] = []

    def measure(program: Program) -> float:
        seen.append(program)
        return 1.0 + len(seen)

    def predict(program: Program) -> float:
        return float(len(str(program)))

    found = list(measured_candidates(MAKE, predict, measure))
    assert found[0].candidate.tree.program == MAKE(()).program
    expected = [one.candidate.predicted for one in found[1:]]
    assert expected == sorted(expected)
    assert 2 <= len(found) <= MOST_MEASURED
    assert all(one != two for number, one in enumerate(seen) for two in seen[:number])


def changed_fields(choice: Choice) -> frozenset[str]:
    default = default_choices(MAKE(()))[0]
    return frozenset(
        field.name
        for field in fields(Choice)
        if getattr(choice, field.name) != getattr(default, field.name)
    )


def test_a_faster_program_is_where_the_next_round_starts() -> None:
    """Two decisions that each save a third are both found, one round after the other."""
    default = MAKE(())
    changes = [
        changed_fields(choices[0])
        for choices in one_away(default_choices(default), default.matrix_steps)
        if MAKE(choices).program != default.program
    ]
    first = changes[0]
    second = next(change for change in changes if not change & first)
    times = {str(default.program): 1.0}

    def make(choices: tuple[Choice, ...]) -> TreeProgram:
        tree = MAKE(choices)
        changed = changed_fields(choices[0]) if choices else frozenset()
        saved = sum(wanted <= changed for wanted in (first, second)) / 3
        times.setdefault(str(tree.program), 1.0 - saved)
        return tree

    def seconds(program: Program) -> float:
        return times[str(program)]

    found = list(measured_candidates(make, seconds, seconds))
    assert best_of(found).seconds == pytest.approx(1 / 3)
    assert first | second <= changed_fields(best_of(found).candidate.choices[0])


def test_noise_does_not_replace_the_default() -> None:
    found = list(measured_candidates(MAKE, lambda _: 1.0, lambda _: 1.0))
    noisy = [
        Measured(one.candidate, 1.0 if number == 0 else 0.995) for number, one in enumerate(found)
    ]
    assert best_of(noisy) is noisy[0]
    clear = [*noisy, Measured(found[-1].candidate, 0.9)]
    assert best_of(clear) is clear[-1]


def test_a_copy_has_nothing_to_choose() -> None:
    tensors = [Tensor(name=name, data_type=DataType.FP32) for name in ("in0", "out")]
    transpose = Contraction(
        "ij->ji",
        (Factor(tensors[0], {"i": 40, "j": 4}),),
        Factor(tensors[1], {"j": 80, "i": 4}),
        {"i": 20, "j": 10},
    )

    def make(choices: tuple[Choice, ...]) -> TreeProgram:
        return contraction_program(transpose, ((0,),), USUAL, TreeOptions(choices=choices))

    assert len(list(measured_candidates(make, lambda _: 1.0, lambda _: 1.0))) == 1


@pytest.mark.parametrize("stop", [1, 2])
def test_what_was_measured_before_an_interruption_was_given(stop: int) -> None:
    calls = 0

    def measure(program: Program) -> float:
        nonlocal calls
        del program
        calls += 1
        if calls > stop:
            raise KeyboardInterrupt
        return 1.0

    found: list[Measured] = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(measured_candidates(MAKE, lambda _: 1.0, measure))
    assert len(found) == stop
