"""Permutations in every shape of tile: on the host against the evaluator, and as machine code."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from backends.cuda.disassembly import disassemble, need_compiler
from backends.cuda.emulation import HostKernels, compile_kernels, emulate
from backends.cuda.programs import aligned, drawn, permutation
from teir.backends.cuda.compiler import compile_source
from teir.backends.cuda.emit_map import emit_map
from teir.backends.cuda.emit_turn import emit_turn
from teir.backends.cuda.emit_turn_tiles import emit_turn_tiles
from teir.backends.cuda.kernel import MULTIPROCESSORS, CudaKernel, CudaProgram, Family
from teir.backends.cuda.plan import plan, problems
from teir.backends.cuda.problem import MapProblem
from teir.backends.cuda.tile_turn import TileTurn, tile_turn
from teir.backends.cuda.turn_boxes import RUNS, TurnTile, turn_tile
from teir.dtypes import DataType
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program

FP32, FP64, BF16, FP16 = DataType.FP32, DataType.FP64, DataType.BF16, DataType.FP16
C64, C128 = DataType.C64, DataType.C128


def map_problem(program: Program) -> MapProblem:
    (problem,) = problems(program)
    assert isinstance(problem, MapProblem)
    return problem


def planned_as(program: Program, kernel: Callable[[MapProblem, str], CudaKernel]) -> CudaProgram:
    """The program with another kernel in place of its only one."""
    planned = plan(program)
    (one,) = planned.kernels
    return replace(planned, kernels=(kernel(map_problem(program), one.name),))


TILES: list[tuple[Sequence[int], Sequence[int], DataType, dict[str, int]]] = [
    ((100, 100), (1, 0), FP32, {}),
    ((300, 76), (1, 0), FP32, {"stages": 1}),
    ((70, 136), (1, 0), FP32, {"rows": 24, "spans": 3, "stages": 2}),
    ((40, 96), (1, 0), FP32, {"rows": 96, "spans": 2, "stages": 3, "blocks": 2}),
    ((75, 200), (1, 0), BF16, {"rows": 16, "spans": 2}),
    ((96, 304), (1, 0), BF16, {}),
    ((97, 136), (1, 0), FP16, {"rows": 40, "spans": 3}),
    ((33, 200), (1, 0), BF16, {"rows": 8, "spans": 1, "stages": 2}),
    ((41, 36), (1, 0), FP64, {"rows": 16, "spans": 2}),
    ((30, 4, 42), (2, 1, 0), C64, {"rows": 8, "spans": 1, "stages": 4}),
    ((6, 90, 5, 72), (3, 2, 0, 1), BF16, {"rows": 24}),
    ((5, 4, 90, 72), (3, 1, 0, 2), FP32, {"rows": 32, "spans": 2}),
    ((20, 304), (1, 0), FP32, {"rows": 8, "spans": 1}),
    ((20, 608), (1, 0), FP32, {"rows": 8, "spans": 1}),
]
"""Shapes and tiles whose last ones hang over: whole spans, rows, one row of a pair, groups."""


def tiled(number: int) -> tuple[CudaProgram, Program, int]:
    shape, order, data_type, given = TILES[number]
    program, room = permutation(shape, order, data_type)

    def kernel(problem: MapProblem, name: str) -> CudaKernel:
        turn = tile_turn(problem, **given)
        assert turn is not None
        return emit_turn_tiles(problem, turn, name)

    return planned_as(program, kernel), program, room


def drawn_turn(seed: int) -> tuple[CudaProgram, Program, int, DataType]:
    """A permutation with a box of any extents, and any number of threads."""
    random_ = random.Random(seed)
    data_type = (BF16, FP32, FP16, FP64, C128)[seed % 5]
    rank = random_.choice((2, 3, 3, 4, 5))
    shape = [random_.randint(2, {2: 90, 3: 30, 4: 11, 5: 7}[rank]) for _ in range(rank)]
    order = list(range(rank))
    while order[-1] == rank - 1:
        random_.shuffle(order)
    program, room = permutation(shape, order, data_type)
    threads = random_.choice((32, 64, 128, 224))

    def kernel(problem: MapProblem, name: str) -> CudaKernel:
        boxes = [random_.randint(1, axis.extent) for axis in problem.axes]
        if random_.random() < 0.3:
            boxes = [axis.extent for axis in problem.axes]
        return emit_turn(problem, name, turn_tile(problem, boxes=boxes, threads=threads))

    return planned_as(program, kernel), program, room, data_type


MAPS = [
    ((8, 12, 264), (1, 0, 2), FP32),
    ((9, 5, 72), (1, 0, 2), BF16),
    ((9, 25, 31), (1, 0, 2), BF16),
    ((16, 8, 32), (1, 0, 2), FP32),
    ((7, 40, 13), (1, 0, 2), C128),
]
"""Whole groups and the rest of one; whole groups alone; less than a group."""
TURNS = 40


@pytest.fixture(scope="module")
def kernels() -> HostKernels:
    return compile_kernels(
        [
            *(tiled(number)[0] for number in range(len(TILES))),
            *(drawn_turn(seed)[0] for seed in range(TURNS)),
            *(plan(permutation(*one)[0]) for one in MAPS),
        ]
    )


def check(planned: CudaProgram, program: Program, room: int, kind: DataType, on: Any) -> None:
    source = drawn(room, kind, 3)
    found, expected = aligned(room, kind), aligned(room, kind)
    emulate(planned, {"in0": source, "out": found}, on)
    evaluate(program, {"in0": source, "out": expected})
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("number", range(len(TILES)))
def test_tiles_of_every_shape(number: int, kernels: HostKernels) -> None:
    planned, program, room = tiled(number)
    check(planned, program, room, TILES[number][2], kernels)


@pytest.mark.parametrize("seed", range(TURNS))
def test_boxes_of_every_shape(seed: int, kernels: HostKernels) -> None:
    check(*drawn_turn(seed), kernels)


@pytest.mark.parametrize("number", range(len(MAPS)))
def test_groups_of_every_length(number: int, kernels: HostKernels) -> None:
    program, room = permutation(*MAPS[number])
    planned = plan(program)
    assert planned.kernels[0].family is Family.MAP
    check(planned, program, room, MAPS[number][2], kernels)


def turned(shape: Sequence[int], order: Sequence[int], kind: DataType, **given: int) -> TileTurn:
    found = tile_turn(map_problem(permutation(shape, order, kind)[0]), **given)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", [FP32, BF16, FP64])
def test_tiles_read_and_write_two_lines(kind: DataType) -> None:
    turn = turned((16384, 16384), (1, 0), kind)
    assert turn.rows * kind.width >= 256
    assert turn.spans * turn.span_bytes == 512
    assert turn.stages >= 2
    assert turn.blocks * (turn.shared_bytes + 1024) <= 228 * 1024


@pytest.mark.parametrize("kind", [FP32, BF16])
def test_rows_are_what_an_extent_asks_for(kind: DataType) -> None:
    assert turned((96, 96, 96, 304), (3, 1, 0, 2), kind).rows == 96


def test_a_tile_is_what_is_given() -> None:
    turn = turned((512, 512), (1, 0), FP32, rows=48, spans=3, stages=1, blocks=5)
    assert (turn.rows, turn.spans, turn.stages, turn.blocks) == (48, 3, 1, 5)
    problem = map_problem(permutation((512, 512), (1, 0), FP32)[0])
    assert tile_turn(problem, rows=20) is None
    assert tile_turn(problem, rows=256, spans=4, stages=2) is None


WHOLE = ((211, 211, 211, 27), (3, 2, 1, 0))


def boxed(kind: DataType) -> tuple[MapProblem, TurnTile]:
    problem = map_problem(permutation(*WHOLE, kind)[0])
    return problem, turn_tile(problem)


@pytest.mark.parametrize("kind", [FP32, BF16])
def test_boxes_take_whole_axes(kind: DataType) -> None:
    problem, tile = boxed(kind)
    (short,) = (at for at, axis in enumerate(problem.axes) if axis.extent == 27)
    extents = sorted(tile.boxes)
    assert tile.boxes[short] == 27
    assert extents[0] == 1
    assert extents[-1] == 211
    assert 27 * extents[1] * kind.width >= 128


@pytest.mark.parametrize("kind", [BF16, FP32, FP64, C128])
def test_neighbours_of_the_output_meet_different_banks(kind: DataType) -> None:
    _, tile = boxed(kind)
    step = tile.places[-1] * kind.width
    lanes = 128 // max(4, kind.width)
    assert len({lane * step % 128 // max(4, kind.width) for lane in range(lanes)}) == lanes


def test_the_grid_stays() -> None:
    problem, tile = boxed(FP32)
    kernel = emit_turn(problem, "turn")
    assert kernel.blocks == MULTIPROCESSORS * tile.blocks
    assert tile.room * 4 <= max(RUNS) * 64
    assert emit_turn(problem, "turn", turn_tile(problem, blocks=2)).blocks == MULTIPROCESSORS * 2


def machine_code(kernel: CudaKernel, folder: Path) -> list[str]:
    """One instruction an entry, without addresses; no local memory in any."""
    need_compiler()
    compiled = compile_source(kernel.source, kernel.name)
    assert compiled.spilled_bytes == 0
    text = disassemble(compiled.cubin, folder)
    lines = [re.sub(r"/\*.*?\*/", "", line).strip() for line in text.splitlines()]
    found = [line for line in lines if line.endswith(";") and not line.startswith("NOP")]
    assert not [line for line in found if "LDL" in line or "STL" in line]
    return found


def counted(lines: Sequence[str], *names: str) -> int:
    return sum(any(name in line for name in names) for line in lines)


def test_the_loads_of_a_group_wait_together(tmp_path: Path) -> None:
    """A branch between them would leave one load in flight where four are meant."""
    problem = map_problem(permutation((1024, 512, 512), (1, 0, 2), FP32)[0])
    kernel = emit_map(problem, "map")
    lines = machine_code(kernel, tmp_path)
    at = [number for number, line in enumerate(lines) if "LDG.E.128" in line]
    assert len(at) == 4
    assert not counted(lines[at[0] : at[-1]], "BRA", "PRMT", "STG")
    moves = re.findall(r"[LS][DT]G\.E\.128|\bBRA\b|PRMT", "\n".join(lines[at[0] :]))
    assert moves[:8] == ["LDG.E.128"] * 4 + ["STG.E.128"] * 4
    assert not counted(lines, "PRMT")
    registers = compile_source(kernel.source, kernel.name).log
    assert max(map(int, re.findall(r"Used (\d+) registers", registers))) <= 64


@pytest.mark.parametrize("kind", [FP32, BF16])
def test_an_element_of_a_turn_takes_few_instructions(kind: DataType, tmp_path: Path) -> None:
    """A load, a store, an addition to an address: nothing is decoded in a loop over elements."""
    problem, tile = boxed(kind)
    lines = machine_code(emit_turn(problem, "turn", tile), tmp_path)
    moves = counted(lines, "LDG", "STS", "LDS", "STG")
    assert moves > 100
    assert len(lines) < 5 * moves
    # The batches that are not tested: their loads follow each other.
    order = re.findall(r"LDG|STS|BRA|IMAD\.HI", "\n".join(lines))
    assert max(len(list(same)) for one, same in groupby(order) if one == "LDG") >= 9


@pytest.mark.parametrize(("kind", "most"), [(FP32, 5), (BF16, 8)])
def test_an_element_of_a_tile_takes_few_instructions(
    kind: DataType, most: int, tmp_path: Path
) -> None:
    problem = map_problem(permutation((16384, 16384), (1, 0), kind)[0])
    turn = tile_turn(problem)
    assert turn is not None
    lines = machine_code(emit_turn_tiles(problem, turn, "turn"), tmp_path)
    assert counted(lines, "STG") == turn.tile_bytes // 256 // 4
    assert counted(lines, "LDS.128") == turn.tile_bytes // 256 // 16
    waits = [number for number, line in enumerate(lines) if "SYNCS.PHASECHK" in line]
    ends = [number for number, line in enumerate(lines) if "BAR.SYNC" in line]
    inside = lines[waits[0] : ends[-1]]
    assert len(inside) < most * counted(inside, "STG")
