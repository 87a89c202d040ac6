"""Products computed through tiles of scratch: when, and that they mean what NumPy computes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import assert_exact, planned
from teir.dtypes import DataType
from teir.ir.memory_hints import memory_hints
from teir.ir.nodes import Operation, Primitive, Program
from teir.search.machine import Machine

NEAR = Machine(vector_bytes=64, l1_bytes=1024, l2_bytes=8192, threads=1, threaded_work=1)
FORGETFUL = replace(NEAR, forgets_requests=True)
SMALL = replace(NEAR, l2_bytes=2048, follows_few_rows=True)
THROUGH_TILES = {
    "adb,cd->cba": {"a": 20, "b": 19, "c": 5, "d": 17},
    "acd,db->cba": {"a": 33, "b": 9, "c": 7, "d": 13},
    "aebd,ce->dcba": {"a": 18, "b": 3, "c": 4, "d": 9, "e": 12},
    "dabe,ec->dcba": {"a": 17, "b": 5, "c": 8, "d": 2, "e": 14},
    "afbce,df->edcba": {"a": 6, "b": 5, "c": 4, "d": 3, "e": 8, "f": 12},
}
PACKED_IN_TILES = {
    "dacfe,fb->edcba": {"a": 6, "b": 13, "c": 5, "d": 4, "e": 9, "f": 12},
    "dabfe,fc->edcba": {"a": 24, "b": 7, "c": 14, "d": 3, "e": 8, "f": 12},
    "aebd,ce->dcba": {"a": 18, "b": 3, "c": 14, "d": 9, "e": 12},
    "sutr,tupq->pqrs": {"p": 4, "q": 4, "r": 25, "s": 17, "t": 3, "u": 5},
}
"""The last blocks of one index: s is 17, in blocks of 2."""
DIRECT = {
    "ij,jk->ik": {"i": 40, "j": 40, "k": 40},
    "dcea,be->dcba": {"a": 16, "b": 5, "c": 6, "d": 7, "e": 12},
    "adb,cd->cba": {"a": 20, "b": 19, "c": 90, "d": 17},
}


def program_of(text: str, extents: dict[str, int], machine: Machine) -> Program:
    return planned(text, extents, machine).program


def uses_tiles(program: Program, name: str = "tile") -> bool:
    """True where scratch of this name belongs to the iterations of a loop."""
    return any(
        tensor.name.startswith(name)
        for node in program.nodes()
        for tensor in getattr(node, "scratch", ())
    )


def asked_by(primitive: Primitive) -> frozenset[str]:
    return memory_hints(primitive).prefetched


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", THROUGH_TILES)
def test_tiles_mean_what_numpy_computes(text: str, threads: int) -> None:
    extents = THROUGH_TILES[text]
    program = program_of(text, extents, replace(SMALL, threads=threads))
    assert uses_tiles(program)
    assert_exact(program, text, extents, DataType.FP32, 3)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", PACKED_IN_TILES)
def test_an_input_packed_in_tiles_means_what_numpy_computes(text: str, threads: int) -> None:
    extents = PACKED_IN_TILES[text]
    program = program_of(text, extents, replace(SMALL, threads=threads))
    assert not uses_tiles(program)
    assert uses_tiles(program, "in0_packed")
    assert_exact(program, text, extents, DataType.FP32, 4)


@pytest.mark.parametrize("text", DIRECT)
def test_other_products_go_straight_to_the_output(text: str) -> None:
    program = program_of(text, DIRECT[text], SMALL)
    assert not uses_tiles(program)


def test_tiles_go_past_the_caches_and_lie_as_the_input_reads() -> None:
    extents = {"a": 24, "b": 20, "c": 20, "d": 12, "e": 24, "f": 24}
    program = program_of("afbce,df->edcba", extents, replace(SMALL, l2_bytes=1 << 20))
    (copy,) = (one for one in program.primitives if one.operation is Operation.COPY)
    assert memory_hints(copy).streams
    (product,) = (one for one in program.primitives if one.operation is Operation.CONTRACTION)
    lanes = max(axis.extent for axis in program.axes if axis.name in product.m)
    assert lanes > extents["e"]
    assert lanes % extents["e"] == 0


@pytest.mark.parametrize("machine", [NEAR, FORGETFUL])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", THROUGH_TILES | PACKED_IN_TILES)
def test_near_tiles_mean_what_numpy_computes(text: str, threads: int, machine: Machine) -> None:
    extents = (THROUGH_TILES | PACKED_IN_TILES)[text]
    program = program_of(text, extents, replace(machine, threads=threads))
    assert_exact(program, text, extents, DataType.FP32, 3)


@pytest.mark.parametrize(
    ("machine", "data_type", "asked"),
    [
        (FORGETFUL, DataType.FP32, {(Operation.COPY, "in0")}),
        (NEAR, DataType.FP32, {(Operation.COPY, "in0"), (Operation.CONTRACTION, "out")}),
        (NEAR, DataType.BF16, {(Operation.CONTRACTION, "out")}),
        (SMALL, DataType.FP32, {(Operation.CONTRACTION, "out")}),
    ],
)
def test_near_tiles_are_asked_for_by_their_copies(
    machine: Machine, data_type: DataType, asked: set[tuple[Operation, str]]
) -> None:
    """Lines of the output by their products too, unless requests are forgotten."""
    text = "dacfe,fb->edcba"
    program = planned(text, PACKED_IN_TILES[text], machine, data_type).program
    assert uses_tiles(program, "in0_packed")
    assert {(one.operation, name) for one in program.primitives for name in asked_by(one)} == asked


@pytest.mark.parametrize(
    ("data_type", "sums", "packs"),
    [(DataType.FP32, 28, True), (DataType.FP32, 33, False), (DataType.FP64, 28, False)],
)
def test_inputs_along_short_sums_of_fp32_are_packed(
    data_type: DataType, sums: int, packs: bool
) -> None:
    extents = {"a": 24, "b": 6, "c": 16, "d": 10, "e": sums}
    program = planned("dabe,ec->dcba", extents, FORGETFUL, data_type).program
    assert uses_tiles(program, "in0_packed") is packs
    assert uses_tiles(program) is not packs
    assert_exact(program, "dabe,ec->dcba", extents, data_type, 5)


@pytest.mark.parametrize(("sums", "is_near"), [(12, True), (24, True), (33, False)])
def test_tiles_of_long_sums_are_not_near(sums: int, is_near: bool) -> None:
    extents = {"a": 24, "b": 40, "c": 40, "d": 4, "e": 9, "f": sums}
    machine = replace(NEAR, l2_bytes=1 << 17)
    program = program_of("dacfe,fb->edcba", extents, machine)
    assert uses_tiles(program, "in0_packed")
    asks = {name for one in program.primitives for name in asked_by(one)}
    assert ("in0" in asks) is is_near


@pytest.mark.parametrize("machine", [NEAR, SMALL])
@pytest.mark.parametrize("sums", [14, 40])
def test_tiles_leave_room_for_lines_of_the_output(machine: Machine, sums: int) -> None:
    """A run of the input that fills the tile is cut, or every write would be one element."""
    text, extents = "kcba,zk->bazc", {"a": 52, "b": 34, "c": 36, "k": sums, "z": 41}
    program = program_of(text, extents, replace(machine, l2_bytes=1 << 18))
    adjacent = {axis.name: axis.extent for axis in program.axes if axis.strides.get("out") == 4}
    written = {name for one in program.primitives for name in (*one.m, *one.n)} & adjacent.keys()
    assert max((adjacent[name] for name in written), default=1) >= 8
    assert_exact(program, text, extents, DataType.FP32, 3)


@pytest.mark.parametrize(("rows", "panels"), [(20, 1), (64, 1), (96, 2)])
def test_panels_of_near_tiles_are_even(rows: int, panels: int) -> None:
    """Three vectors each, or four rather than a short last one."""
    extents = {"a": rows, "b": 40, "c": 9, "k": 16}
    program = program_of("akc,bk->cba", extents, replace(NEAR, l2_bytes=1 << 17))
    contractions = [one for one in program.primitives if one.operation is Operation.CONTRACTION]
    heights = {axis.extent for one in contractions for axis in program.axes if axis.name in one.m}
    assert heights == {rows // panels}


@pytest.mark.parametrize(("machine", "rows"), [(NEAR, 48), (FORGETFUL, 96)])
@pytest.mark.parametrize(("extent", "halved"), [(24, True), (32, False)])
def test_panels_of_whole_rows_are_of_three_vectors_where_results_are_asked_for(
    machine: Machine, rows: int, extent: int, halved: bool
) -> None:
    """Rows of 32 do not fill three vectors, and stay three together in six."""
    extents = {"a": extent, "b": 12, "c": 24, "d": 4, "e": 24, "f": 20}
    program = program_of("dabfe,fc->edcba", extents, replace(machine, l2_bytes=1 << 20))
    contractions = [one for one in program.primitives if one.operation is Operation.CONTRACTION]
    heights = {axis.extent for one in contractions for axis in program.axes if axis.name in one.m}
    assert heights == {rows if halved else 96}
