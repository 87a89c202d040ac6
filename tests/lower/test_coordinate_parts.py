"""Fibres walked in parts: the same bits from kernels, their meaning and the program's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.ir.coordinate_parts import coordinates_at_once, parted_nest
from teir.ir.evaluate import evaluate
from teir.ir.load import loads
from teir.ir.nodes import Program
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernel_program import Call, KernelNode, Loop, inner_nodes
from teir.lower.lower import lower
from teir.lower.walked_kernels import FibreParts, WalkedScatter
from teir.pipeline.executable import Form, compile_program
from teir.target import Isa

Array = np.ndarray[Any, np.dtype[Any]]
ROWS, FIBRES, EXTENT = 5, 6, 40

HEAD = """teir 1 "parts"
tensor B: {type}
tensor pos1: {p1}
tensor crd1: {c1}
tensor pos2: {p2}
tensor crd2: {c2}
tensor C: {type}
tensor D: {type}
tensor A: {type}
"""
SUMMED = """axis i = 5: pos1 {wp1}, A {row}
axis j = 6: crd1 {wc1}, pos2 {wp2}, D {row}; segment pos pos1 crd crd1 by_position [pos2]
axis k = 40: B {w}, crd2 {wc2}, C {row}; segment pos pos2 crd crd2 by_position [B]
axis m = {length}: C {w}, D {w}, A {w}, T {w}
primitive zero_A = Zero(A; M=[m], N=[])
primitive zero_T = Zero(T; M=[m], N=[])
primitive add_T = Contraction {type} (B, C -> T; M=[], N=[m], K=[]){hint}
primitive add_A = Contraction {type} (T, D -> A; C=[m], M=[], N=[], K=[])
parallel i over i
{clear}  sequential j over j
    scratch T: {type}
    clear_T: zero_T
    sequential k over k
      T: add_T
    A: add_A
"""
STORED = """axis i = 5: pos1 {wp1}
axis j = 6: crd1 {wc1}, pos2 {wp2}, A {row}; segment pos pos1 crd crd1 by_position [pos2, A]
axis k = 40: B {w}, crd2 {wc2}, C {row}; segment pos pos2 crd crd2 by_position [B]
axis m = {length}: C {w}, A {w}
primitive zero_A = Zero(A; M=[m], N=[])
primitive add_A = Contraction {type} (B, C -> A; M=[], N=[m], K=[]){hint}
parallel i over i
  sequential j over j
{clear}    sequential k over k
      A: add_A
"""
SCALED = """axis i = 5: pos1 {wp1}, A {row}
axis j = 6: crd1 {wc1}, pos2 {wp2}, D {row}; segment pos pos1 crd crd1 by_position [pos2]
axis k = 40: B {w}, crd2 {wc2}, C {row}; segment pos pos2 crd crd2 by_position [B]
axis m = {length}: C {w}, D {w}, A {w}
primitive zero_A = Zero(A; M=[m], N=[])
primitive add_A = Contraction {type} (B, C, D -> A; C=[m], M=[], N=[], K=[]){hint}
parallel i over i
{clear}  sequential j over j
    sequential k over k
      A: add_A
"""
BODIES = {"summed": SUMMED, "stored": STORED, "scaled": SCALED}
WIDTH = {"FP32": 4, "FP64": 8, "I32": 4, "I64": 8}
I32, I64 = "I32", "I64"


def program(
    body: str,
    size: int | None,
    *,
    kind: str = "FP64",
    indices: tuple[str, str, str, str] = (I32, I32, I32, I32),
    length: int = 16,
    clears: bool = True,
) -> Program:
    types = dict(zip(("p1", "c1", "p2", "c2"), indices, strict=True))
    widths = {f"w{name}": WIDTH[one] for name, one in types.items()}
    indent = "    " if body == "stored" else "  "
    return loads(
        (HEAD + BODIES[body]).format(
            type=kind,
            w=WIDTH[kind],
            row=WIDTH[kind] * length,
            length=length,
            hint="" if size is None else f' with {{"coordinates_at_once": {size}}}',
            clear=f"{indent}clear_A: zero_A\n" if clears else "",
            **types,
            **widths,
        )
    )


def operands(made: Program, length: int) -> dict[str, Array]:
    """Rows and fibres that hold nothing, and fibres with much and little of a part.

    Dense factors are powers of two: products are exact, so that only the order of sums is left.
    """
    draw = np.random.default_rng(7)
    types = {tensor.name: tensor.data_type.numpy_dtype() for tensor in made.tensors}
    above = [np.sort(draw.permutation(FIBRES)[:n]) for n in (3, 0, 6, 1, 4)]
    below = [
        np.sort(draw.permutation(EXTENT)[: (0, 40, 3, 1, 0, 21, 9)[number % 7]])
        for number in range(sum(map(len, above)))
    ]
    arrays = {
        "B": draw.standard_normal(sum(map(len, below))),
        "pos1": np.cumsum([0, *map(len, above)]),
        "crd1": np.concatenate(above),
        "pos2": np.cumsum([0, *map(len, below)]),
        "crd2": np.concatenate(below),
        "C": 2.0 ** draw.integers(-3, 4, (EXTENT, length)),
        "D": 2.0 ** draw.integers(-3, 4, (FIBRES, length)),
        "A": draw.standard_normal((len(below), length)),
    }
    return {name: array.astype(types[name]) for name, array in arrays.items()}


def calls(nodes: tuple[KernelNode, ...]) -> list[Call]:
    found: list[Call] = []
    for node in nodes:
        found += [node] if isinstance(node, Call) else calls(inner_nodes(node))
    return found


def evaluated(made: Program, arrays: dict[str, Array]) -> Array:
    mine = {name: array.copy() for name, array in arrays.items()}
    evaluate(made, mine)
    return mine["A"]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("kind", "indices", "length", "size", "clears"),
    [
        ("FP64", (I32, I32, I32, I32), 16, 16, True),
        ("FP64", (I32, I32, I32, I32), 16, 1, False),
        ("FP32", (I64, I32, I64, I32), 40, 39, True),
        ("FP64", (I32, I64, I32, I64), 5, 9, True),
    ],
)
def test_every_bit_is_that_of_the_program(
    body: str, kind: str, indices: tuple[str, str, str, str], length: int, size: int, clears: bool
) -> None:
    made = program(body, size, kind=kind, indices=indices, length=length, clears=clears)
    arrays = operands(made, length)
    expected = evaluated(made, arrays)
    for isa in filter(runs_here, Isa):
        mine = {name: array.copy() for name, array in arrays.items()}
        evaluate_kernels(lower(made, isa), mine, {})
        np.testing.assert_array_equal(mine["A"], expected)
    for form, threads in ((Form.TABLE, 1), (Form.TABLE, 2), (Form.SPECIALISED, 1)):
        mine = {name: array.copy() for name, array in arrays.items()}
        compile_program(made, threads=threads, form=form).run(mine)
        np.testing.assert_array_equal(mine["A"], expected)


@pytest.mark.parametrize("body", BODIES)
def test_parts_sum_what_whole_fibres_do(body: str) -> None:
    whole, parted = program(body, None), program(body, 7)
    arrays = operands(whole, 16)
    expected = evaluated(whole, arrays)
    found = evaluated(parted, arrays)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    assert np.array_equal(found, expected) == (body == "stored")


@pytest.mark.parametrize("body", BODIES)
def test_a_list_is_made_for_every_part(body: str) -> None:
    lowered = lower(program(body, 16), Isa.AVX512)
    first, *_, loop = lowered.roots
    assert isinstance(first, Call)
    assert isinstance(loop, Loop)
    assert loop.extent == 2
    lists = [call for call in calls(lowered.roots) if isinstance(call.kernel, FibreParts)]
    assert [call.arguments for call in lists] == [(ROWS, 16, 1, 1), (ROWS, 16, 0, 1)]
    assert not any(isinstance(call.kernel, WalkedScatter) for call in calls(lowered.roots))


@pytest.mark.parametrize("size", [None, EXTENT, EXTENT + 1])
def test_whole_fibres_need_no_list(size: int | None) -> None:
    lowered = lower(program("summed", size), Isa.AVX512)
    assert not any(isinstance(call.kernel, FibreParts) for call in calls(lowered.roots))


def test_infinities_are_not_multiplied_by_empty_parts() -> None:
    made = program("summed", 16, clears=False)
    arrays = operands(made, 16)
    arrays["D"][:] = np.inf
    expected = evaluated(program("summed", None, clears=False), arrays)
    arrays["B"][:] = np.abs(arrays["B"])
    arrays["C"][:] = np.abs(arrays["C"])
    found = evaluated(made, arrays)
    stored = np.diff(arrays["pos2"]) > 0
    rows = [stored[a:b].any() and stored[a:b].all() for a, b in zip(*_bounds(arrays), strict=True)]
    assert any(rows)
    assert expected.shape == found.shape
    assert np.isinf(found[:ROWS][rows]).all()
    mine = {name: array.copy() for name, array in arrays.items()}
    compile_program(made, threads=1).run(mine)
    np.testing.assert_array_equal(mine["A"], found)


def _bounds(arrays: dict[str, Array]) -> tuple[Array, Array]:
    return arrays["pos1"][:-1], arrays["pos1"][1:]


@pytest.mark.parametrize("text", ["0", "-1", '"8"', "1.5", "true", "9" * 20])
def test_other_entries_are_ignored(text: str) -> None:
    one = program("summed", None).primitive_table()["add_T"]
    assert coordinates_at_once(type(one)(**_fields(one, (("coordinates_at_once", text),)))) is None


def _fields(one: Any, metadata: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__} | {"metadata": metadata}


TERM = "  sequential j_2 over j\n    D: add_D\n"


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        ("summed", "(T, D -> A; C=[m]", "(T, T -> A; C=[m]"),
        ("summed", "(T, D -> A; C=[m], M=[], N=[], K=[])", "(D -> A; M=[m], N=[], K=[])"),
        ("summed", "parallel i", "sequential i"),
        ("summed", "A {row}\naxis j", "A {w}\naxis j"),
        ("summed", "    A: add_A", "    A: add_A with guard last(k)"),
        ("stored", "pos2 {wp2}, A {row}", "pos2 {wp2}, A {w}"),
        ("stored", "axis i = 5: pos1 {wp1}", "axis i = 5: pos1 {wp1}, A 4096"),
        ("scaled", "pos1 {wp1}, A {row}", "pos1 0, A {row}"),
        ("scaled", "axis i = 5", "axis i = 500000"),
    ],
)
def test_what_does_not_add_up_is_walked_whole(body: str, old: str, new: str) -> None:
    assert old in BODIES[body]
    text = HEAD + BODIES[body]
    made = [_nest(text), None if "guard" in new else _nest(text.replace(old, new))]
    assert [one is None for one in made] == [False, True]


def _nest(text: str) -> object:
    from teir.ir.parsing import parse_program

    filled = text.format(
        **dict.fromkeys(("p1", "c1", "p2", "c2"), "I32"),
        **dict.fromkeys(("wp1", "wc1", "wp2", "wc2"), 4),
        type="FP64",
        w=8,
        row=128,
        length=16,
        hint="",
        clear="    clear_A: zero_A\n" if "by_position [pos2, A]" in text else "  clear_A: zero_A\n",
    )
    made = parse_program(filled)
    types = {name: one.data_type for name, one in made.tensor_table().items()}
    return parted_nest(made.roots[0], made.axis_table(), made.primitive_table(), types)
