"""Sums shared among threads: exact on integers, safe, sliced only where it pays."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import teir
from search.planned import USUAL, of_shapes
from search.test_dense import run
from strategies.contractions import draw_terms
from teir.dtypes import DataType
from teir.ir.nodes import IterationNode, Policy, Program
from teir.search.tree import contraction_program

TWO = replace(USUAL, threads=2)
SHAPES = (
    ("ki,kj->ij", {"i": 3, "j": 5, "k": 8192}),
    ("ik,kj->ij", {"i": 4, "j": 4, "k": 8704}),
    ("ik,k->i", {"i": 3, "k": 9001}),
    ("ki,k->i", {"i": 10, "k": 8300}),
    ("ki->i", {"i": 4, "k": 9007}),
    ("ka,kb->ba", {"a": 2, "b": 7, "k": 8257}),
    ("alk,lk->a", {"a": 4, "l": 2, "k": 8500}),
    ("alk,klb->ab", {"a": 3, "b": 5, "l": 21, "k": 400}),
    ("lka,kl->a", {"a": 6, "l": 90, "k": 95}),
)
TYPES = (DataType.FP32, DataType.FP64, DataType.C64)


@pytest.mark.parametrize("case", range(len(SHAPES)))
def test_integers_are_exact_in_any_layout(case: int) -> None:
    text, extents = SHAPES[case]
    inputs, _, output = text.partition("->")
    for seed in range(2):
        drawn = draw_terms(seed, TYPES[(seed + case) % 3], inputs.split(","), output, extents)
        run(drawn, TWO)
        np.testing.assert_array_equal(drawn.out, drawn.expected, err_msg=drawn.text)


def program_of(text: str, *shapes: tuple[int, ...], threads: int = 2) -> Program:
    machine = replace(USUAL, threads=threads)
    path = (tuple(range(len(shapes))),)
    return contraction_program(of_shapes(text, shapes), path, machine).program


def is_sliced(program: Program) -> bool:
    return any(tensor.name == "out_slices" for tensor in program.scratch)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ki,kj->ij", ((10**6, 64), (10**6, 64))),
        ("ik,kj->ij", ((8, 10**5), (10**5, 8))),
        ("ik,k->i", ((4, 10**6), (10**6,))),
        ("ki,k->i", ((20_000, 1000), (20_000,))),
        ("ki->i", ((10**5, 16),)),
        ("acd,dcb->ab", ((16, 63, 313), (313, 63, 54))),
        ("cda,bdc->ab", ((116, 570, 7), (20, 570, 116))),
    ],
)
def test_long_sums_of_few_results_are_sliced(
    text: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    assert is_sliced(program_of(text, *shapes))
    assert not is_sliced(program_of(text, *shapes, threads=1))


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ik,kj->ij", ((1600, 1600), (1600, 1600))),
        ("ik,kj->ij", ((512, 10**5), (10**5, 512))),
        ("ik,k->i", ((2000, 10_000), (10_000,))),
        ("ki,k->i", ((10_000, 20_000), (10_000,))),
        ("bki,bkj->bij", ((8, 10_000, 4), (8, 10_000, 4))),
        ("acd,dcb->ab", ((80, 63, 313), (313, 63, 54))),
        ("acd,dcb->ab", ((16, 23, 313), (313, 23, 54))),
    ],
)
def test_rows_columns_or_batches_are_shared_where_there_are_enough(
    text: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    assert not is_sliced(program_of(text, *shapes))


def test_bits_do_not_depend_on_the_threads_where_they_must_not() -> None:
    draw = np.random.default_rng(4)
    a, b = (draw.standard_normal((40_000, 6), np.float32) for _ in range(2))
    once, twice = (
        teir.einsum("ki,kj->ij", a, b, threads=threads, deterministic="threads")
        for threads in (1, 2)
    )
    np.testing.assert_array_equal(once, twice)
    exact = a.astype(np.float64).T @ b
    np.testing.assert_allclose(once, exact, atol=1e-2)


def test_a_short_axis_is_cut_so_that_little_remains() -> None:
    program = program_of("acd,dcb->ab", (16, 63, 313), (313, 63, 54))
    shared = [
        node
        for node in program.nodes()
        if isinstance(node, IterationNode) and node.policy is Policy.PARALLEL
    ]
    extents = {axis.name: axis.extent for axis in program.axes}
    assert [extents[node.axis] for node in shared] == [2]


def test_long_rows_of_a_matrix_from_memory_are_shared_by_slices_of_the_sum() -> None:
    assert is_sliced(program_of("ki,k->i", (600, 8000), (600,)))
    assert is_sliced(program_of("kji,k->ji", (600, 20, 400), (600,)))
    near = program_of("ki,k->i", (600, 6000), (600,))
    few = program_of("ki,k->i", (500, 10_000), (500,))
    inside = program_of("jki,k->ji", (20, 600, 400), (600,))
    again = program_of("ki,kj->ij", (600, 8000), (600, 2))
    long = program_of("ki,k->i", (600, 17_000), (600,))
    for program in (near, few, inside, again, long):
        assert not is_sliced(program)


def test_slices_of_a_matrix_from_memory_are_exact() -> None:
    extents = {"k": 525, "i": 8001}
    drawn = draw_terms(3, DataType.FP32, ["ki", "k"], "i", extents)
    run(drawn, TWO)
    np.testing.assert_array_equal(drawn.out, drawn.expected)
