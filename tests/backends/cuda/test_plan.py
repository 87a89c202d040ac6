"""Plans: decisions as metadata, budgets, refusals, what happens without a GPU, barriers."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from backends.cuda.disassembly import need_compiler
from backends.cuda.programs import contraction, permutation
from teir.backends.cuda.boxes import boxes_of
from teir.backends.cuda.budget import check_budget, check_launch
from teir.backends.cuda.compiled import compile_program, read_folder, run, write_folder
from teir.backends.cuda.compiler import compile_source
from teir.backends.cuda.decision import Decision, decision_of, with_decision
from teir.backends.cuda.driver import find_driver
from teir.backends.cuda.emit_warpgroup import emit_warpgroup
from teir.backends.cuda.kernel import SHARED_LIMIT_BYTES, Family, MapParameter
from teir.backends.cuda.plan import plan
from teir.backends.cuda.problem import ContractionProblem, recognise
from teir.backends.cuda.protocol import protocol_of, store_protocol
from teir.backends.cuda.tile_stores import Stores
from teir.backends.cuda.turn_inputs import turn_inputs
from teir.backends.cuda.warpgroup import WarpgroupPlan, plan_tile
from teir.dtypes import DataType
from teir.errors import TeirError
from teir.ir.load import loads
from teir.ir.nodes import Program
from teir.ir.printing import print_program
from teir.lower.slots import assign_slots
from teir.tma.interleave import explore, run_drawn
from teir.tma.protocol import Arrive, Fence, Protocol, Wait, WaitStores

BF16, FP32 = DataType.BF16, DataType.FP32
SIZES = {"m": 512, "n": 512, "k": 256}


def code_of(error: pytest.ExceptionInfo[TeirError]) -> str:
    return error.value.findings[0].code


def problem_of(program: Program) -> ContractionProblem:
    found = recognise(program.roots, program, assign_slots(program))
    assert isinstance(found, ContractionProblem)
    return found


def test_decisions_are_written_into_the_program_and_followed() -> None:
    program, _ = contraction("mk,nk->mn", SIZES, BF16)
    planned = plan(program)
    decision = decision_of(planned.program.primitive_table()["gemm"])
    assert decision is not None
    assert decision.kernel is Family.WARPGROUP
    assert '"kernel": "warpgroup"' in print_program(planned.program).text
    again = plan(loads(print_program(planned.program).text))
    assert again.kernels == planned.kernels
    stores = Stores.REGISTERS
    wanted = Decision(kernel=Family.WARPGROUP, tile=(64, 96, 64), stages=3, stores=stores)
    narrow = plan(with_decision(program, "gemm", wanted))
    assert decision_of(narrow.program.primitive_table()["gemm"]) == wanted
    assert "m64n96k16" in narrow.kernels[0].source


@pytest.mark.parametrize("family", [Family.PRODUCT, Family.GENERIC])
def test_another_kernel_is_taken_where_one_asks(family: Family) -> None:
    program, _ = contraction("mk,nk->mn", SIZES, BF16)
    asked = plan(with_decision(program, "gemm", Decision(kernel=family)))
    assert [kernel.family for kernel in asked.kernels] == [family]


def test_decisions_nobody_can_follow_are_refused() -> None:
    program, _ = contraction("mk,nk->mn", SIZES, BF16)
    wide = Decision(kernel=Family.WARPGROUP, tile=(64, 264, 64))
    for decision in (wide, Decision(kernel=Family.TURN)):
        with pytest.raises(TeirError) as error:
            plan(with_decision(program, "gemm", decision))
        assert code_of(error) == "TEIR728"
    text = print_program(plan(program).program).text.replace('"warpgroup"', '"magic"')
    with pytest.raises(TeirError) as error:
        plan(loads(text))
    assert code_of(error) == "TEIR728"


def test_zero_and_relu_join_the_product() -> None:
    program, _ = contraction("mk,nk->mn", SIZES, BF16, relu=True)
    problem = problem_of(program)
    assert (problem.from_zero, problem.relu) == (True, True)
    bare, _ = contraction("mk,nk->mn", SIZES, BF16, zero=False)
    assert not problem_of(bare).from_zero


def test_splits_fuse_and_guards_are_understood() -> None:
    text = """
    teir 1 "guarded"
    tensor a: BF16
    tensor b: BF16
    tensor c: BF16
    axis mo = 8: a 131072, c 65536
    axis mi = 64: a 2048, c 1024
    axis n = 512: b 2048, c 2
    axis ko = 16: a 128, b 128
    axis ki = 64: a 2, b 2
    primitive zero = Zero (c; M=[mi], N=[n])
    primitive gemm = Contraction (a, b -> c; M=[mi], N=[n], K=[ki])
    primitive relu = ReLU (c -> c; M=[mi], N=[n])
    parallel mo over mo
      sequential ko over ko
        zero: zero if first(ko)
        gemm: gemm
        relu: relu if last(ko)
    """
    problem = problem_of(loads(dedent(text)))
    assert sorted(axis.extent for axis in problem.axes) == [512, 512, 1024]
    assert (problem.from_zero, problem.relu) == (True, True)
    unguarded = loads(dedent(text).replace(" if first(ko)", ""))
    assert recognise(unguarded.roots, unguarded, assign_slots(unguarded)) is None


def test_remainders_become_overhang() -> None:
    need_compiler()
    text = """
    teir 1 "blocks and a rest"
    tensor a: BF16
    tensor b: BF16
    tensor c: BF16
    axis mb = 3: a 16384, c 32768
    axis mi = 64: a 256, c 512
    axis mr = 40: a 256 + 49152, c 512 + 98304
    axis n = 256: b 256, c 2
    axis k = 128: a 2, b 2
    primitive zero = Zero (c; M=[mi], N=[n])
    primitive gemm = Contraction (a, b -> c; M=[mi], N=[n], K=[k])
    primitive zero_rest = Zero (c; M=[mr], N=[n])
    primitive gemm_rest = Contraction (a, b -> c; M=[mr], N=[n], K=[k])
    parallel m over mb
      zero: zero
      gemm: gemm
    zero_rest: zero_rest
    gemm_rest: gemm_rest
    """
    program = loads(dedent(text))
    compiled = compile_program(program)
    (kernel,) = compiled.planned.kernels
    assert kernel.family is Family.WARPGROUP
    (left, _, _) = kernel.parameters
    assert isinstance(left, MapParameter)
    # One dimension of 232 rows: 232 is no multiple of the box, and nothing follows it in memory.
    assert left.described.sizes == (128, 232)
    assert 232 % left.described.box[1]


def test_sparse_programs_are_refused() -> None:
    text = """
        teir 1 "sparse"
        tensor pos: I64
        tensor crd: I64
        tensor v: FP32
        tensor x: FP32
        tensor y: FP32
        axis i = 4: pos 8, y 4
        axis j = 4: crd 8, v 4, x 4; segment pos pos crd crd by_position [v]
        primitive add = Contraction (v, x -> y; M=[], N=[], K=[])
        sequential i over i
          sequential j over j
            add: add
        """
    program = loads(dedent(text))
    with pytest.raises(TeirError) as error:
        plan(program)
    assert code_of(error) == "TEIR723"


def test_addresses_off_their_alignment_get_another_kernel() -> None:
    program, _ = contraction("mk,nk->mn", SIZES, BF16)
    families = [kernel.family for kernel in plan(program, {"in0": 2, "in1": 16, "out": 16}).kernels]
    assert families == [Family.PRODUCT]
    again = plan(plan(program).program, {"in0": 2, "in1": 16, "out": 16})
    assert [kernel.family for kernel in again.kernels] == families
    turned, _ = permutation((64, 64), (1, 0), FP32)
    assert plan(turned, {"in0": 4}).kernels[0].family is Family.TURN


TURNED = """teir 1 "turned"
tensor in0: FP32
tensor out: FP32
axis i = 72: in0 400 + {offset}, out 4
axis j = 100: in0 4, out 288
primitive turn = Copy (in0 -> out; M=[i], N=[j])
turn: turn
"""


@pytest.mark.parametrize(("offset", "family"), [(64, Family.TURN_TILES), (8, Family.TURN)])
def test_maps_begin_at_multiples_of_16_bytes(offset: int, family: Family) -> None:
    (kernel,) = plan(loads(TURNED.format(offset=offset))).kernels
    assert kernel.family is family


def test_budgets_are_checked_before_compiling() -> None:
    program, _ = contraction("mk,nk->mn", dict.fromkeys("mnk", 4096), BF16)
    (kernel,) = plan(program).kernels
    check_budget(kernel)
    with pytest.raises(TeirError) as error:
        check_budget(replace(kernel, shared_bytes=SHARED_LIMIT_BYTES + 1))
    assert code_of(error) == "TEIR725"
    with pytest.raises(TeirError) as error:
        check_budget(replace(kernel, threads_and_registers=((128, 40), (512, 232))))
    assert code_of(error) == "TEIR979"


def test_a_launch_brings_the_registers_its_roles_take() -> None:
    """128 * 40 + 256 * 232 = 384 * 168: with fewer, the consumers would wait for ever."""
    program, _ = contraction("mk,nk->mn", dict.fromkeys("mnk", 4096), BF16)
    (kernel,) = plan(program).kernels
    check_launch(kernel, 168)
    check_launch(kernel, 0)
    with pytest.raises(TeirError) as error:
        check_launch(kernel, 160)
    assert code_of(error) == "TEIR979"


def warpgroup(columns: int, groups: int, cluster: int = 1) -> WarpgroupPlan:
    problem = problem_of(contraction("mk,nk->mn", SIZES, BF16)[0])
    found = plan_tile(problem, 64 * groups, columns, cluster=cluster)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("columns", "groups", "cluster"), [(256, 2, 1), (128, 1, 1), (8, 1, 1), (256, 2, 2)]
)
def test_the_barriers_of_the_kernel_are_sound(columns: int, groups: int, cluster: int) -> None:
    """The kernel's stages and bytes under the emulator; a tile load may land at any time."""
    found = warpgroup(columns, groups, cluster)
    assert found.cluster == cluster
    small = explore(protocol_of(found, 2 // cluster, 5 // cluster, 1), most_states=50_000)
    assert small.complete
    assert small.finding is None
    for seed in range(6 // cluster):
        protocol = protocol_of(found, found.stages, found.steps * 3, 4 * groups)
        assert run_drawn(protocol, seed).finding is None


def without(protocol: Protocol, number: int) -> Protocol:
    """The protocol without one action of its first role."""
    first, *others = protocol.roles
    actions = first.actions[:number] + first.actions[number + 1 :]
    return replace(protocol, roles=(replace(first, actions=actions), *others))


def test_the_stores_of_the_kernel_are_sound() -> None:
    """Two writers, four pieces, two rooms; what the storing writer does is needed.

    Its wait before it writes is not: it has waited for the stores itself.
    """
    protocol = store_protocol(2, 4)
    explored = explore(protocol, most_states=50_000)
    assert explored.complete
    assert explored.finding is None
    first = protocol.roles[0].actions
    kinds = (Wait(barrier=0, parity=1), Arrive(barrier=0, expect_bytes=0), Fence())
    needed = [at for at, one in enumerate(first) if one in kinds]
    needed += [at for at, one in enumerate(first) if one == WaitStores(pending=2)][2:]
    for at in needed:
        assert explore(without(protocol, at), most_states=50_000).finding is not None
    for seed in range(10):
        assert run_drawn(store_protocol(8, 9), seed).finding is None


def test_a_cluster_that_does_not_wait_for_its_neighbour_is_found_out() -> None:
    found = warpgroup(256, 2, 2)
    sound = protocol_of(found, 1, 3, 1)
    hasty = replace(sound, barrier_arrivals=(1, 1, 1, 1))
    explored = explore(hasty, most_states=50_000)
    assert explored.finding is not None


@pytest.mark.parametrize(
    ("extents", "total", "least", "boxes"),
    [
        ((4096,), 128, 1, (128,)),
        ((300,), 128, 1, (128,)),
        ((10, 24), 128, 1, (10, 12)),
        ((7, 5, 9), 64, 1, (7, 1, 9)),
        ((16, 8, 9), 128, 1, (16, 8, 1)),
        ((312,), 256, 64, (256,)),
    ],
)
def test_boxes_have_the_fewest_tiles(
    extents: tuple[int, ...], total: int, least: int, boxes: tuple[int, ...]
) -> None:
    assert boxes_of(extents, total, least, exact=False) == boxes
    whole = boxes_of(extents, total, least, exact=True)
    assert whole is not None
    assert prod(whole) == total
    assert tile_number(extents, boxes) <= tile_number(extents, whole)


def tile_number(extents: tuple[int, ...], boxes: tuple[int, ...]) -> int:
    return prod(-(-extent // box) for extent, box in zip(extents, boxes, strict=True))


def test_rows_that_are_never_loaded_are_not_waited_for() -> None:
    """10 x 24 rows in tiles of 10 x 12: 120 of 128 rows come, and so many bytes are announced."""
    sizes = {"a": 10, "b": 24, "n": 64, "k": 64}
    program, _ = contraction("abk,nk->ban", sizes, BF16)
    found = plan_tile(problem_of(program), 128, 64)
    assert found is not None
    assert (found.left.box_rows, found.left.tile_rows) == (120, 128)
    assert found.loaded_bytes < found.stage_bytes
    source = emit_warpgroup(found, "kernel").source
    assert f"barrier_expect(full + stage * 8, {found.loaded_bytes});" in source


@pytest.mark.parametrize("columns", [8, 16, 24, 32, 64])
@pytest.mark.parametrize("expression", ["km,nk->mn", "akb,cdk->abcd", "km,kn->mn", "mk,nk->mn"])
def test_every_tile_begins_where_the_pattern_of_its_swizzle_does(
    expression: str, columns: int
) -> None:
    """Short K beside narrow tiles: 16 steps of 8 columns are 256 bytes, a period is 1,024."""
    sizes = {"a": 4, "b": 32, "c": 8, "d": 40, "m": 72, "n": 64, "k": 16}
    found = plan_tile(problem_of(contraction(expression, sizes, BF16)[0]), 64, columns)
    if found is None:
        assert columns % 8 or "kn" in expression
        return
    for stage in range(found.stages):
        for chunk in range(found.chunks_per_stage):
            for side, start in ((found.left, 0), (found.right, found.right_start)):
                begin = stage * found.stage_bytes + start + chunk * side.chunk_bytes
                period = 8 * side.span_bytes
                loads = [begin + load * side.load_bytes for load in range(side.loads)]
                assert not any(one % period for one in loads)
                assert side.map.described.swizzle_bytes == side.span_bytes


def test_the_announced_bytes_are_those_of_the_loads() -> None:
    found = warpgroup(256, 2)
    loaded = sum(
        side.loads * side.map.described.tile_bytes * found.chunks_per_stage
        for side in (found.left, found.right)
    )
    assert loaded == found.loaded_bytes == found.stage_bytes < 2**20


def has_driver() -> bool:
    try:
        find_driver()
    except TeirError:
        return False
    return True


def test_without_a_driver_every_entry_says_so_at_once() -> None:
    need_compiler()
    if has_driver():
        pytest.skip("there is a GPU here")
    program, _ = permutation((4, 8), (1, 0), FP32)
    compiled = compile_program(program)
    array = np.zeros(32, np.float32)
    with pytest.raises(TeirError) as refused:
        run(compiled, {"in0": array, "out": array})
    assert code_of(refused) == "TEIR721"


def test_folders_hold_everything(tmp_path: Path) -> None:
    need_compiler()
    program, _ = contraction("mk,nk->mn", SIZES, BF16)
    compiled = compile_program(program, debug=True)
    write_folder(compiled, tmp_path)
    again = read_folder(tmp_path)
    assert [code.cubin for code in again.code] == [code.cubin for code in compiled.code]
    assert again.planned == compiled.planned
    for other in ('{"kernels": []}', '{"kernels": [3]}', "nothing"):
        (tmp_path / "kernels.json").write_text(other)
        with pytest.raises(TeirError) as error:
            read_folder(tmp_path)
        assert code_of(error) == "TEIR729"


@pytest.mark.parametrize("missing", ["kernels.json", "kernel0.cubin", "program.teir"])
def test_files_that_are_missing_are_named(missing: str, tmp_path: Path) -> None:
    need_compiler()
    write_folder(compile_program(permutation((4, 8), (1, 0), FP32)[0]), tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(TeirError, match=re.escape(missing)):
        read_folder(tmp_path)


def test_the_compilers_words_are_shown() -> None:
    need_compiler()
    with pytest.raises(TeirError) as error:
        compile_source("this is no program", "broken")
    assert code_of(error) == "TEIR724"
    assert "error" in error.value.findings[0].found


def test_without_a_compiler_it_is_said_where_one_comes_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("teir.backends.cuda.compiler.nvrtc_path", lambda: None)
    monkeypatch.setattr("shutil.which", {}.get)
    with pytest.raises(TeirError, match=re.escape("teir[cuda]")) as error:
        compile_source("", "kernel")
    assert code_of(error) == "TEIR722"


@pytest.mark.parametrize(
    ("expression", "data_type", "copies"),
    [
        ("mk,kn->mn", DataType.TF32, ["turned right"]),
        ("km,nk->mn", DataType.TF32, ["turned left"]),
        ("km,kn->mn", DataType.TF32, ["turned right", "turned left"]),
        ("mk,nk->mn", DataType.TF32, []),
        ("mk,kn->mn", BF16, []),
    ],
)
def test_inputs_are_turned_where_that_leads_to_warpgroup_products(
    expression: str, data_type: DataType, copies: list[str]
) -> None:
    program, _ = contraction(expression, SIZES, data_type)
    turned = turn_inputs(program)
    assert {tensor.name for tensor in turned.scratch} == set(copies)
    assert (turned is program) == (not copies)
    assert turn_inputs(turned) is turned
    families = [kernel.family for kernel in plan(turned).kernels]
    assert families == [Family.TURN_TILES] * len(copies) + [Family.WARPGROUP]


def test_small_products_are_not_worth_a_copy() -> None:
    program, _ = contraction("mk,kn->mn", {"m": 512, "n": 32, "k": 64}, DataType.TF32)
    assert turn_inputs(program) is program
