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


@pytest.mark.parametrize(
    ("tree", "sizes"),
    [
        ("[0,1],[1,2]->[0,2]", "3,4,5"),
        ("[[[a,b],[b,c]->[a,c]],[c,d]->[d,a]]", "a=2,b=3,c=4,d=5"),
        ("[i_1,i_2],[ i_2,k ]->[k,i_1]", "i_1=3,i_2=4,k=5"),
        ("[0,1]->[1,0]", "8,9"),
    ],
)
def test_trees_are_timed_beside_the_einsum_of_their_leaves(
    teir: Teir, tree: str, sizes: str
) -> None:
    done = teir("compare", tree, "--sizes", sizes, "--rounds", "1", "--json")
    assert done.code == 0, done.err
    assert done.json()["expression"] == tree.replace(" ", "")
    timed = {one["name"] for one in done.json()["contenders"] if one["seconds"] is not None}
    assert {"teir", "NumPy"} <= timed


def test_a_tree_of_more_indices_than_letters_is_refused(teir: Teir) -> None:
    terms = [f"[{','.join(map(str, range(start, start + 9)))}]" for start in range(0, 54, 9)]
    tree = terms[0]
    for term in terms[1:]:
        tree = f"[{tree}],{term}->[]" if tree.endswith("->[]") else f"{tree},{term}->[]"
    done = teir("compare", tree, "--sizes", ",".join(["1"] * 54))
    assert done.code == 2
    assert "at most 52 indices, as other libraries have them, found 54 indices" in done.err


@pytest.mark.parametrize("expression", ["aa,ab->b", "[[a,a],[a,c]->[a,c]],[c,d]->[a,d]"])
def test_what_other_libraries_do_not_have_is_refused(teir: Teir, expression: str) -> None:
    done = teir("compare", expression, "--sizes", "a=2,b=3,c=4,d=5")
    assert done.code == 2
    assert "TEIR815" in done.err or "TEIR805" in done.err
