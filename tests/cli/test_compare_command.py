"""``teir compare``: every installed library, checked, in one table."""

from __future__ import annotations

import pytest

from cli.command_line import Teir

SIZES = ("--sizes", "a=9,b=33,c=17", "--rounds", "2")


def test_contenders_are_timed_side_by_side(teir: Teir) -> None:
    done = teir("compare", "ab,bc->ac", *SIZES)
    assert done.code == 0, done.err
    first, second, header, *rows = done.out.splitlines()
    assert first == "ab,bc->ac, FP32: 9×33, 33×17"
    assert second.startswith("1 thread; peak ")
    assert header.split() == ["library", "form", "time", "speed", "share"]
    assert {"teir", "NumPy"} <= {row.split()[0] for row in rows}


@pytest.mark.parametrize("data_type", ["FP64", "BF16", "FP16", "TF32", "C64", "C128"])
def test_every_type(teir: Teir, data_type: str) -> None:
    done = teir("compare", "ab,bc->ac", *SIZES, "--json", "--dtype", data_type)
    assert done.code == 0, done.err
    ours = done.json()["contenders"][0]
    assert ours["name"] == "teir"
    assert ours["seconds"] > 0.0
    assert done.json()["dtype"] == data_type


@pytest.mark.parametrize("expression", ["abc->cab", "ab,ab->ab", "ab,ab->", "ab,b,c->ac", "abc->a"])
def test_every_kind_of_expression(teir: Teir, expression: str) -> None:
    used = sorted(set(expression) - set(",->"))
    sizes = ",".join(f"{index}={5 + place}" for place, index in enumerate(used))
    done = teir("compare", expression, "--sizes", sizes, "--rounds", "1", "--json")
    assert done.code == 0, done.err
    timed = {one["name"] for one in done.json()["contenders"] if one["seconds"] is not None}
    assert {"teir", "NumPy"} <= timed


@pytest.mark.parametrize("expression", ["aa,ab->b", "[[a,b],[b,c]->[a,c]],[c,d]->[a,d]"])
def test_what_other_libraries_do_not_have_is_refused(teir: Teir, expression: str) -> None:
    done = teir("compare", expression, "--sizes", "a=2,b=3,c=4,d=5")
    assert done.code == 2
    assert "TEIR815" in done.err or "TEIR805" in done.err
