"""Dots, sweeps and batches: programs are safe, exact on integers, and call their kernels."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from search.planned import USUAL, of_shapes
from search.test_dense import MACHINES, run
from strategies.contractions import draw_terms
from teir.dtypes import DataType
from teir.ir.lanes import lanes_of
from teir.ir.nodes import Program
from teir.lower.explanation import count_calls
from teir.lower.kernels import (
    BatchBlock,
    DotRows,
    Elementwise,
    JoinedDots,
    Kernel,
    LaneBlock,
    RowSweep,
)
from teir.lower.lower import lower
from teir.search.machine import Machine
from teir.search.tree import contraction_program
from teir.target import Isa

SHAPES = (
    ("k,k->", {"k": 75}),
    ("ik,ik->", {"i": 9, "k": 17}),
    ("ik,ki->", {"i": 40, "k": 33}),
    ("aik,kia->", {"a": 3, "i": 30, "k": 20}),
    ("ik,k->i", {"i": 9, "k": 37}),
    ("k,ik->i", {"i": 7, "k": 16}),
    ("bik,bk->bi", {"b": 4, "i": 5, "k": 19}),
    ("bk,bk->b", {"b": 11, "k": 13}),
    ("ik->i", {"i": 6, "k": 50}),
    ("ki,k->i", {"i": 300, "k": 9}),
    ("ki,k->i", {"i": 3, "k": 150}),
    ("ki,ki->i", {"i": 13, "k": 200}),
    ("bki->bi", {"b": 3, "i": 5, "k": 131}),
    ("bik,bkj->bij", {"b": 17, "i": 4, "j": 4, "k": 4}),
    ("bik,bkj->bij", {"b": 9, "i": 3, "j": 13, "k": 5}),
    ("bik,bjk->bij", {"b": 21, "i": 5, "j": 8, "k": 6}),
    ("bik,bjk->bij", {"b": 400, "i": 2, "j": 3, "k": 7}),
    ("abki,abjk->abij", {"a": 3, "b": 33, "i": 4, "j": 13, "k": 5}),
    ("abik,abkj->abij", {"a": 3, "b": 8, "i": 2, "j": 3, "k": 4}),
    ("ikb,kjb->ijb", {"b": 35, "i": 4, "j": 5, "k": 3}),
    ("bik,bkj->ijb", {"b": 20, "i": 3, "j": 2, "k": 4}),
    ("ikb,kb->ib", {"b": 40, "i": 5, "k": 7}),
    ("aikb,akjb->aijb", {"a": 3, "b": 18, "i": 2, "j": 3, "k": 4}),
    ("ij,ji->ij", {"i": 70, "j": 40}),
    ("ij,i->ij", {"i": 9, "j": 30}),
    ("ij,ij,ij->ij", {"i": 9, "j": 31}),
    ("aij,aij,aij,aij->aij", {"a": 3, "i": 4, "j": 17}),
)
TYPES = (DataType.FP32, DataType.FP64, DataType.C64)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("case", range(len(SHAPES)))
def test_integers_are_exact_in_any_layout(case: int, machine: Machine) -> None:
    text, extents = SHAPES[case]
    inputs, _, output = text.partition("->")
    for seed in range(3):
        drawn = draw_terms(seed, TYPES[seed], inputs.split(","), output, extents)
        run(drawn, machine)
        np.testing.assert_array_equal(drawn.out, drawn.expected, err_msg=drawn.text)


def program_of(
    text: str, shapes: tuple[tuple[int, ...], ...], threads: int, data_type: DataType
) -> Program:
    machine = replace(USUAL, threads=threads)
    path = (tuple(range(len(shapes))),)
    return contraction_program(of_shapes(text, shapes, data_type), path, machine).program


KERNELS: tuple[tuple[str, tuple[tuple[int, ...], ...], type[Kernel]], ...] = (
    ("k,k->", ((1009,), (1009,)), DotRows),
    ("ik,k->i", ((31, 1009), (1009,)), DotRows),
    ("bk,bk->b", ((1009, 31), (1009, 31)), DotRows),
    ("ik,ki->", ((64, 64), (64, 64)), DotRows),
    ("ki,k->i", ((1009, 1009), (1009,)), RowSweep),
    ("ikb,kb->ib", ((13, 13, 4096), (13, 4096)), RowSweep),
    ("ki,k->i", ((1009, 3), (1009,)), JoinedDots),
    ("ki,ki->i", ((1009, 13), (1009, 13)), JoinedDots),
    ("bki->bi", ((4, 300, 7),), JoinedDots),
    ("ikb,kjb->ijb", ((8, 8, 127), (8, 8, 127)), LaneBlock),
    ("ikb,kjb->bij", ((8, 8, 127), (8, 8, 127)), LaneBlock),
    ("bik,bkj->bij", ((100, 13, 13), (100, 13, 13)), BatchBlock),
    ("bik,bjk->bij", ((100, 8, 8), (100, 8, 8)), BatchBlock),
)


@pytest.mark.parametrize(("text", "shapes", "kernel"), KERNELS)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_kernel_made_for_the_shape_is_called(
    text: str, shapes: tuple[tuple[int, ...], ...], kernel: type[Kernel], threads: int
) -> None:
    program = program_of(text, shapes, threads, DataType.FP32)
    called = count_calls(lower(program, Isa.AVX512).roots)
    assert any(isinstance(one, kernel) for one in called), called


@pytest.mark.parametrize(
    ("text", "near"), [("ik,k->i", 1000), ("ik,ik->i", 430), ("ik->i", 1000), ("ik,i->k", 1000)]
)
@pytest.mark.parametrize("is_far", [True, False])
def test_short_rows_from_memory_are_read_one_after_the_other(
    text: str, near: int, is_far: bool
) -> None:
    extents = {"i": 30_000 if is_far else near, "k": 300}
    terms = text.partition("->")[0].split(",")
    shapes = tuple(tuple(extents[index] for index in term) for term in terms)
    program = program_of(text, shapes, 1, DataType.FP32)
    called = count_calls(lower(program, Isa.AVX512).roots)
    at_once = [one.rows for one in called if isinstance(one, (DotRows, RowSweep))]
    assert at_once
    assert all((one == 1) == is_far for one in at_once)


@pytest.mark.parametrize("text", ["k,k->", "ik,ik->", "ik,k->i", "ik,ki->"])
def test_lanes_do_not_depend_on_threads_or_machine(text: str) -> None:
    shapes = tuple((300,) * len(term) for term in text.partition("->")[0].split(","))
    programs = [program_of(text, shapes, threads, DataType.FP32) for threads in (1, 2, 7)]
    sums = [
        {
            (lanes_of(one) or 1, program.axis_table()[one.k[-1]].extent)
            for one in program.primitives
            if one.k
        }
        for program in programs
    ]
    assert sums[0] == sums[1] == sums[2]
    assert max(sums[0])[0] > 1


def test_lanes_fill_no_more_than_the_products() -> None:
    program = program_of("ik,k->i", ((50, 5), (5,)), 1, DataType.FP32)
    assert [lanes_of(one) for one in program.primitives if one.k] == [8]


@pytest.mark.parametrize(("lanes", "is_far"), [(32_768, True), (1024, False)])
def test_slabs_of_tensors_no_near_cache_holds_are_asked_for_ahead(lanes: int, is_far: bool) -> None:
    program = program_of("ikb,kjb->ijb", ((4, 4, lanes),) * 2, 1, DataType.FP32)
    called = count_calls(lower(program, Isa.AVX512).roots)
    copies = [one for one in called if isinstance(one, Elementwise) and one.brings]
    assert bool(copies) == is_far


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.BF16, DataType.FP16])
@pytest.mark.parametrize("threads", [1, 2])
def test_many_tensors_that_lie_alike_are_multiplied_in_one_pass(
    threads: int, data_type: DataType
) -> None:
    program = program_of("ij,ij,ij->ij", ((257, 300),) * 3, threads, data_type)
    products = [one for one in program.primitives if one.inputs]
    assert {len(one.inputs) for one in products} == {3}
    assert not [tensor for tensor in program.tensors if tensor.name.startswith("part")]


@pytest.mark.parametrize("extent", [2, 3, 5, 13, 16])
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_chains_of_joined_rows_fill_the_accumulators(extent: int, data_type: DataType) -> None:
    program = program_of("ki,k->i", ((1000, extent), (1000,)), 1, data_type)
    (lanes,) = [lanes_of(one) for one in program.primitives if one.k]
    assert lanes is not None
    assert lanes * data_type.width >= 64
    assert 512 <= lanes * extent * data_type.width <= 1024


@pytest.mark.parametrize(("shape", "lanes"), [((127, 3), 16), ((64, 5), 16), ((32, 4), 8)])
def test_fewer_joined_rows_have_fewer_chains(shape: tuple[int, int], lanes: int) -> None:
    program = program_of("ki,k->i", (shape, shape[:1]), 1, DataType.FP32)
    assert [lanes_of(one) for one in program.primitives if one.k] == [lanes]


@pytest.mark.parametrize("shape", [(31, 3), (63, 5), (1000, 17)])
def test_few_or_long_rows_are_one_chain_each(shape: tuple[int, int]) -> None:
    program = program_of("ki,k->i", (shape, shape[:1]), 1, DataType.FP32)
    assert [lanes_of(one) for one in program.primitives if one.k] == [None]


@pytest.mark.parametrize(
    ("shapes", "data_type", "is_joined"),
    [
        (((8, 20, 100), (8, 100, 6)), DataType.FP32, False),
        (((8, 2, 100), (8, 100, 6)), DataType.FP32, True),
        (((8, 20, 100), (8, 100, 3)), DataType.FP32, True),
        (((8, 20, 40), (8, 40, 4)), DataType.FP32, True),
        (((8, 3, 40), (8, 40, 4)), DataType.FP64, False),
        (((8, 2, 40), (8, 40, 4)), DataType.FP64, True),
    ],
)
def test_rows_that_many_others_meet_are_not_joined(
    shapes: tuple[tuple[int, ...], ...], data_type: DataType, is_joined: bool
) -> None:
    program = program_of("dac,dcb->dab", shapes, 1, data_type)
    assert any(lanes_of(one) is not None for one in program.primitives) is is_joined
