"""Tensors moved before or after a product: when, and that it means what NumPy computes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, USUAL, assert_exact, assert_means_it, planned, stated
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.nodes import Operation, Program
from teir.pipeline.operand_types import contiguous
from teir.search.machine import Machine
from teir.search.tree import contraction_program

NARROW_BATCHES = {
    "aefg,defcgb->abcdg": {"a": 45, "b": 5, "c": 4, "d": 3, "e": 8, "f": 5, "g": 2},
    "fmk,fkn->mnf": {"f": 3, "m": 40, "k": 20, "n": 30},
    "mkf,knf->mnf": {"f": 6, "m": 40, "k": 20, "n": 30},
    "mfk,nfk->mnf": {"f": 20, "m": 60, "k": 30, "n": 8},
    "acbfe,efd->abcdf": {"a": 3, "b": 4, "c": 8, "d": 2, "e": 40, "f": 6},
    "gbaf,cdgef->ebcadg": {"a": 2, "b": 8, "c": 9, "d": 2, "e": 5, "f": 26, "g": 3},
    "acfed,bfedc->abef": {"a": 12, "b": 14, "c": 7, "d": 13, "e": 3, "f": 4},
    "dac,dcb->bad": {"a": 20, "b": 16, "c": 40, "d": 24},
    "aedc,bdce->bae": {"a": 8, "b": 5, "c": 20, "d": 9, "e": 3},
}
TURNED_RESULTS = {
    "bac,cb->ca": {"a": 40, "b": 7, "c": 19},
    "kyx,xk->xy": {"k": 9, "x": 33, "y": 17},
    "kyx,k->xy": {"k": 9, "x": 33, "y": 17},
    "kyx,yk->xy": {"k": 9, "x": 33, "y": 17},
    "dba,dc->acb": {"a": 8, "b": 39, "c": 2, "d": 23},
    "edab,cde->bca": {"a": 9, "b": 14, "c": 34, "d": 31, "e": 2},
    "cbea,de->abcd": {"a": 40, "b": 6, "c": 4, "d": 18, "e": 50},
    "ecba,ed->abcd": {"a": 23, "b": 9, "c": 6, "d": 4, "e": 19},
    "abd,cd->bca": {"a": 3, "b": 34, "c": 2, "d": 40},
    "cabe,de->abdc": {"a": 2, "b": 11, "c": 3, "d": 2, "e": 56},
    "agef,defcgb->abcdg": {"a": 9, "b": 5, "c": 7, "d": 4, "e": 6, "f": 20, "g": 2},
    "dfgeba,gdfce->bcafg": {"a": 17, "b": 4, "c": 3, "d": 2, "e": 7, "f": 19, "g": 3},
    "ebca,de->abdc": {"a": 5, "b": 2, "c": 23, "d": 11, "e": 24},
    "edc,bae->acdb": {"a": 40, "b": 3, "c": 5, "d": 2, "e": 12},
    "feadb,defc->fbca": {"a": 2, "b": 15, "c": 2, "d": 4, "e": 3, "f": 6},
    "dabc,d->bac": {"a": 20, "b": 6, "c": 8, "d": 30},
    "ydabc,d->ybac": {"y": 2, "a": 10, "b": 6, "c": 4, "d": 9},
    "abfd,fdc->cbfa": {"a": 2, "b": 9, "c": 14, "d": 34, "f": 5},
    "abd,edc->bcea": {"a": 6, "b": 10, "c": 16, "d": 80, "e": 5},
    "dcab,bdc->ad": {"a": 350, "b": 3, "c": 7, "d": 4},
    "dbac,cd->abd": {"a": 6, "b": 11, "c": 5, "d": 3},
    "bdac,cd->bad": {"a": 9, "b": 4, "c": 2, "d": 5},
}
TURNED_LANES = {
    "kyx,xk->xy": {"k": 9, "x": 33, "y": 17},
    "ecad,ecbd->bade": {"a": 4, "b": 6, "c": 13, "d": 9, "e": 7},
    "aced,bdce->aebd": {"a": 2, "b": 9, "c": 14, "d": 5, "e": 9},
    "dbae,ced->beca": {"a": 3, "b": 5, "c": 2, "d": 15, "e": 17},
}
TURNED_BATCHES = {
    "xkd,kyd->dxy": {"d": 7, "x": 9, "k": 12, "y": 20},
    "xkd,dyk->dyx": {"d": 5, "x": 19, "k": 8, "y": 4},
    "bead,dce->ebac": {"a": 2, "b": 4, "c": 11, "d": 13, "e": 9},
}
JOINED_ROWS = {
    "afbg,fgdec->cebda": {"a": 3, "b": 16, "c": 11, "d": 2, "e": 4, "f": 17, "g": 3},
    "bea,cde->cbda": {"a": 2, "b": 32, "c": 6, "d": 12, "e": 50},
    "bdfae,cdfe->acfb": {"a": 6, "b": 2, "c": 7, "d": 5, "e": 6, "f": 9},
    "cafbe,fde->bdca": {"a": 2, "b": 9, "c": 2, "d": 30, "e": 6, "f": 20},
    "cabe,de->abdc": {"a": 20, "b": 3, "c": 4, "d": 36, "e": 50},
}
TURNED_FACTORS = {
    "acb,bc->a": {"a": 21, "b": 31, "c": 17},
    "bac,ca->b": {"a": 20, "b": 15, "c": 8},
    "cab,d->dabc": {"a": 6, "b": 7, "c": 3, "d": 13},
    "ba,cd->dabc": {"a": 7, "b": 16, "c": 17, "d": 9},
    "bi,bj->ijb": {"b": 20, "i": 13, "j": 14},
    "a,bc->cab": {"a": 47, "b": 3, "c": 9},
    "zakx,kz->zax": {"z": 9, "a": 4, "k": 32, "x": 2},
    "ykx,xk->yx": {"y": 9, "k": 40, "x": 3},
    "zkyx,ykx->zx": {"z": 9, "k": 5, "y": 8, "x": 2},
    "zkx,xk->zx": {"z": 9, "k": 500, "x": 4},
    "xyk,ky->x": {"x": 2, "y": 21, "k": 19},
    "zyk,zky->z": {"z": 3, "y": 21, "k": 19},
    "acb,d->dcab": {"a": 20, "b": 2, "c": 3, "d": 13},
    "cda,dc->a": {"a": 300, "c": 3, "d": 7},
}
TURNED_SUMS = {
    "cba->ab": {"a": 9, "b": 40, "c": 2},
    "zcba->zab": {"z": 2, "a": 9, "b": 40, "c": 20},
    "bcad->abc": {"a": 7, "b": 5, "c": 4, "d": 30},
    "kyxz->xyz": {"k": 8, "y": 6, "x": 9, "z": 3},
    "abdcf->bac": {"a": 3, "b": 6, "c": 4, "d": 5, "f": 9},
}
SUMS_IN_PLACE = {
    "dbac,dc->bad": {"a": 6, "b": 11, "c": 5, "d": 3},
    "abdc,cd->abd": {"a": 6, "b": 11, "c": 5, "d": 3},
    "cba->ba": {"a": 9, "b": 40, "c": 20},
    "bac->ab": {"a": 7, "b": 5, "c": 1200},
    "bac->abc": {"a": 7, "b": 5, "c": 20},
    "kyxz->xyz": {"k": 8, "y": 3, "x": 2, "z": 1200},
    "yxkz->xyz": {"k": 8, "y": 3, "x": 2, "z": 120},
    "abdcf->bac": {"a": 3, "b": 6, "c": 4, "d": 5, "f": 150},
}
GATHERED_ROWS = {
    "bda,cd->acb": {"a": 7, "b": 12, "c": 4, "d": 65},
    "beda,ecd->ceab": {"a": 3, "b": 6, "c": 4, "d": 60, "e": 5},
    "eadb,dce->cba": {"a": 11, "b": 6, "c": 17, "d": 5, "e": 12},
}
IN_PLACE = {
    "mkf,kf->mf": {"f": 3, "m": 60, "k": 50},
    "zakx,zk->zax": {"z": 9, "a": 4, "k": 32, "x": 2},
    "zakx,kz->zax": {"z": 9, "a": 4, "k": 31, "x": 2},
    "zkx,xk->zx": {"z": 5, "k": 300, "x": 5},
    "zkyx,yk->zx": {"z": 9, "k": 5, "y": 6, "x": 2},
    "fmk,fkn->mnf": {"f": 16, "m": 40, "k": 20, "n": 30},
    "kmf,knf->mnf": {"f": 5, "m": 12, "k": 12, "n": 12},
    "abde,cde->abce": {"a": 9, "b": 8, "c": 2, "d": 30, "e": 3},
    "kxy,k->xy": {"k": 9, "x": 33, "y": 17},
    "dabc,cd->ab": {"a": 9, "b": 8, "c": 4, "d": 50},
    "cda,dc->a": {"a": 200, "c": 3, "d": 7},
    "cdza,dcz->za": {"a": 300, "c": 3, "d": 7, "z": 2},
    "i,j->ij": {"i": 40, "j": 30},
    "xkd,dky->dxy": {"d": 7, "x": 9, "k": 12, "y": 20},
    "xkd,kyd->dxy": {"d": 3, "x": 9, "k": 12, "y": 20},
    "eca,de->adc": {"a": 70, "c": 20, "d": 12, "e": 30},
    "ik,kj->ij": {"i": 1, "j": 1, "k": 1},
    "acb,d->dcab": {"a": 20, "b": 17, "c": 3, "d": 13},
    "xyk,yk->x": {"x": 2, "y": 21, "k": 19},
    "cabe,de->abdc": {"a": 20, "b": 3, "c": 4, "d": 16, "e": 50},
    "dabc,d->bac": {"a": 20, "b": 6, "c": 64, "d": 8},
    "adcbe,ed->cbae": {"a": 20, "b": 2, "c": 9, "d": 15, "e": 3},
}


def moved_names(program: Program) -> set[str]:
    """What scratch holds for a tensor that lies otherwise."""
    tensors = [*program.scratch, *(t for n in program.nodes() for t in getattr(n, "scratch", ()))]
    names = (tensor.name for tensor in tensors)
    return {name for name in names if name.split("_")[1] in ("apart", "turned", "joined")}


def test_batches_packed_to_more_than_caches_hold_come_outermost() -> None:
    """Not those that lie within a line or two, nor what the caches hold."""
    extents = {"a": 12, "b": 30, "c": 8, "d": 5, "e": 4}
    tiny = replace(USUAL, l2_bytes=1 << 13)
    for text, machine, is_moved in (
        ("abce,dae->dbca", tiny, True),
        ("abce,dae->dbca", USUAL, False),
        ("bcae,dae->dbca", tiny, False),
    ):
        program = planned(text, extents, machine).program
        assert ("out_apart" in moved_names(program)) == is_moved
        assert_means_it(text, extents, machine, 1)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", NARROW_BATCHES)
def test_narrow_batches_come_outermost(text: str, threads: int) -> None:
    machine = replace(USUAL, threads=threads, threaded_work=64)
    extents = NARROW_BATCHES[text]
    assert "out_apart" in moved_names(planned(text, extents, USUAL).program)
    assert_means_it(text, extents, machine, 3)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", TURNED_RESULTS)
def test_results_are_made_as_the_matrix_lies(text: str, threads: int) -> None:
    machine = replace(USUAL, threads=threads, threaded_work=64)
    extents = TURNED_RESULTS[text]
    assert moved_names(planned(text, extents, USUAL).program) == {"out_turned"}
    assert_means_it(text, extents, machine, 4)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", TURNED_LANES)
def test_lanes_run_where_batches_lie_in_the_larger_operand(text: str, threads: int) -> None:
    machine = replace(USUAL, threads=threads, threaded_work=64)
    extents = TURNED_LANES[text]
    program = planned(text, extents, USUAL).program
    assert "out_turned" in moved_names(program)
    products = [one for one in program.primitives if one.operation is Operation.CONTRACTION]
    assert products
    for product in products:
        lanes = program.axis_table()[product.c[-1]]
        assert {lanes.strides[name] for name in product.operands} == {DataType.FP32.width}
    assert_means_it(text, extents, machine, 8)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", TURNED_BATCHES)
def test_operands_that_carry_lanes_are_laid_batch_by_batch(text: str, threads: int) -> None:
    machine = replace(USUAL, threads=threads, threaded_work=64)
    extents = TURNED_BATCHES[text]
    names = moved_names(planned(text, extents, USUAL).program)
    assert names
    assert "out_turned" not in names
    assert_means_it(text, extents, machine, 9)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", JOINED_ROWS)
def test_short_rows_are_put_next_to_each_other(text: str, threads: int) -> None:
    machine = replace(USUAL, threads=threads, threaded_work=64)
    extents = JOINED_ROWS[text]
    assert {"in0_joined", "out_joined"} <= moved_names(planned(text, extents, USUAL).program)
    assert_means_it(text, extents, machine, 7)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", TURNED_FACTORS)
def test_small_operands_are_laid_as_what_they_meet(text: str, threads: int) -> None:
    machine = replace(USUAL, threads=threads, threaded_work=64)
    extents = TURNED_FACTORS[text]
    found = moved_names(planned(text, extents, USUAL).program)
    assert found
    assert "out_turned" not in found
    assert_means_it(text, extents, machine, 5)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", GATHERED_ROWS)
def test_rows_that_would_be_gathered_again_and_again_are_laid_first(
    text: str, threads: int
) -> None:
    machine = replace(USUAL, threads=threads, threaded_work=64)
    extents = GATHERED_ROWS[text]
    (moved,) = moved_names(planned(text, extents, USUAL).program)
    assert moved in ("in0_turned", "in1_turned")
    assert_means_it(text, extents, machine, 10)


@pytest.mark.parametrize(
    ("text", "changed", "data_type", "machine", "is_moved"),
    [
        ("ad,dcb->bac", {}, DataType.FP32, FAR, True),
        ("ad,dcb->bac", {}, DataType.FP64, FAR, True),
        ("ad,dcb->bac", {"d": 7}, DataType.FP32, FAR, False),
        ("ad,dcb->bac", {"c": 7}, DataType.FP64, FAR, False),
        ("ad,dcb->abc", {}, DataType.FP32, FAR, False),
        ("ad,dcb->bac", {}, DataType.FP32, USUAL, False),
    ],
    ids=["FP32", "FP64", "short sums", "longer rows", "rows that follow", "near third cache"],
)
def test_results_in_rows_of_some_elements_are_moved(
    text: str, changed: dict[str, int], data_type: DataType, machine: Machine, *, is_moved: bool
) -> None:
    extents = {"a": 46, "b": 461, "c": 2, "d": 37} | changed
    program = planned(text, extents, machine, data_type).program
    assert (moved_names(program) == {"out_turned"}) == is_moved
    assert_exact(program, text, extents, data_type, 1)


@pytest.mark.parametrize("text", IN_PLACE)
def test_other_products_stay_in_place(text: str) -> None:
    program = planned(text, IN_PLACE[text], USUAL).program
    assert not moved_names(program)
    assert_exact(program, text, IN_PLACE[text], DataType.FP32, 6)


def test_operands_that_repeat_are_laid_once() -> None:
    """The matrix stands still along c, and along e it is adjacent."""
    text, width = "ce,bedc->b", DataType.FP32.width
    vector = contiguous(DataType.FP32, (2, 25))
    turned = replace(vector, strides_bytes=(width, 2 * width))
    matrix = contiguous(DataType.FP32, (7, 25, 5, 2))
    repeated = replace(matrix, strides_bytes=(125 * width, width, 25 * width, 0))
    contraction = stated(text, (turned, repeated))
    program = contraction_program(contraction, ((0, 1),), USUAL).program
    assert check(program).ok
    assert moved_names(program) == {"in0_turned"}


@pytest.mark.parametrize(("sums", "joins"), [(72, False), (12, True)], ids=["large", "near"])
def test_short_rows_of_a_large_operand_along_the_sum_are_not_laid_otherwise(
    sums: int, joins: bool
) -> None:
    extents = {"a": 73, "b": 7, "c": 105, "d": 32, "e": sums}
    program = planned("dea,cbde->cab", extents, USUAL, DataType.FP64).program
    copied = {name for one in program.primitives if "joined" in one.output for name in one.inputs}
    assert ("in1" in copied) == joins


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", TURNED_SUMS)
def test_sums_are_made_as_the_operand_lies(text: str, threads: int) -> None:
    machine, extents = replace(USUAL, threads=threads, threaded_work=64), TURNED_SUMS[text]
    assert moved_names(planned(text, extents, USUAL).program) == {"out_turned"}
    assert_means_it(text, extents, machine, 5)


@pytest.mark.parametrize("text", SUMS_IN_PLACE)
def test_sums_in_order_or_of_long_pieces_stay(text: str) -> None:
    extents = SUMS_IN_PLACE[text]
    assert not moved_names(planned(text, extents, USUAL).program)
    assert_means_it(text, extents, USUAL, 5)


@pytest.mark.parametrize(("rows", "tile"), [(256, {2, 256}), (3, {2, 5})])
def test_tiles_of_products_are_not_a_few_results(rows: int, tile: set[int]) -> None:
    """The first input lies along d, which the result has lines away; unless nothing is nearer."""
    text, extents = "ced,eab->edbac", {"a": rows, "b": 4, "c": 2, "d": 5, "e": 6}
    program = planned(text, extents, USUAL).program
    (product,) = program.primitives
    extent = {axis.name: axis.extent for axis in program.axes}
    assert {extent[name] for name in (*product.m, *product.n)} == tile
    assert_exact(program, text, extents, DataType.FP32, 4)


@pytest.mark.parametrize("threads", [1, 2])
def test_factors_are_laid_as_results_lie_by_any_number_of_threads(threads: int) -> None:
    extents = {"a": 7, "b": 87, "c": 16, "d": 36, "e": 3}
    program = planned("ead,edcb->beadc", extents, replace(USUAL, threads=threads)).program
    assert [tensor.name for tensor in program.scratch] == ["in1_turned"]
    assert_exact(program, "ead,edcb->beadc", extents, DataType.FP32, 1)
