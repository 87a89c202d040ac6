"""Every pass there is takes part in translation validation, and a wrong one is noticed."""

from __future__ import annotations

import inspect
import pkgutil
from collections import Counter
from functools import partial
from importlib import import_module

import pytest
from msgspec.structs import replace

import teir.passes
from teir.ir.nodes import Program
from teir.passes.optimise import pass_list
from teir.soak import translation
from teir.soak.draws import seeded
from teir.soak.loop_nests import draw_loop_nest
from teir.soak.translation import MACHINES, pass_names, translate_one, translations


def test_every_pass_of_the_package_is_validated() -> None:
    validated = {
        pass_.func if isinstance(pass_, partial) else pass_
        for facts in MACHINES
        for pass_ in translations(facts).values()
    }
    for module in pkgutil.iter_modules(teir.passes.__path__):
        found = getattr(import_module(f"teir.passes.{module.name}"), module.name, None)
        if found is None or module.name == "optimise":
            continue
        parameters = list(inspect.signature(found).parameters)
        if parameters[0] == "program":
            assert found in validated or module.name == "split_axes", module.name
    assert set(pass_names()) == {*dict(pass_list(MACHINES[0])), "fuse remainders", "lowering"}


def test_passes_keep_the_meaning_and_all_of_them_change_something() -> None:
    changed: Counter[str] = Counter()
    for seed in range(48):
        result = translate_one(seed)
        assert result["wrong"] == [], seed
        changed.update(result["named"])
    rare = {"pack operands", "promote batch"}
    assert {name for name in pass_names() if not changed[name]} <= rare


def test_a_pass_that_changes_the_meaning_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def shorter(program: Program) -> Program:
        axes = tuple(replace(axis, extent=max(1, axis.extent - 1)) for axis in program.axes)
        return replace(program, axes=axes)

    monkeypatch.setattr(translation, "pass_list", lambda _: (("shorter", shorter),))
    assert any(translate_one(seed)["wrong"] for seed in range(3))


def test_loop_nests_are_drawn_from_their_seed() -> None:
    assert draw_loop_nest(seeded(3), 500) == draw_loop_nest(seeded(3), 500)
    assert draw_loop_nest(seeded(3), 500) != draw_loop_nest(seeded(4), 500)
