"""The kernels' own source, run on the host, against the evaluator."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
import pytest

from backends.cuda.emulation import HostKernels, body_of, compile_kernels, emulate
from backends.cuda.programs import (
    Buffer,
    aligned,
    contraction,
    drawn,
    permutation,
    sum_by_tiles,
)
from cases.case_file import Case, Operands
from cases.test_cases import CASES, check_result
from teir.backends.cuda.decision import Decision, decision_of, with_decision
from teir.backends.cuda.kernel import CudaProgram, Family
from teir.backends.cuda.plan import plan, problems
from teir.backends.cuda.problem import ContractionProblem
from teir.backends.cuda.tile_stores import Stores
from teir.backends.cuda.turn_inputs import turn_inputs
from teir.backends.cuda.warpgroup import plan_tile
from teir.dtypes import DataType
from teir.ir.accuracy import PASS, error_bound, error_ratio
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.soak.draws import seeded
from teir.soak.operands import Image, draw_images
from teir.soak.programs import draw_program


@pytest.fixture(scope="module")
def case_kernels() -> HostKernels:
    return compile_kernels(plan(case.program) for case in CASES.values())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_case(case: Case, case_kernels: HostKernels) -> None:
    before = case.operands()
    found = {name: aligned(array.size, kind) for name, array, kind in _typed(case, before)}
    for name, array in before.items():
        found[name][:] = array.reshape(-1)
    emulate(plan(case.program), found, case_kernels)
    after = {name: found[name].reshape(array.shape) for name, array in before.items()}
    check_result(case, before, after)


def _typed(case: Case, operands: Operands) -> list[tuple[str, Buffer, DataType]]:
    kinds = {tensor.name: tensor.data_type for tensor in case.program.tensors}
    return [(name, array, kinds[name]) for name, array in operands.items()]


FP32, FP64, BF16, FP16 = DataType.FP32, DataType.FP64, DataType.BF16, DataType.FP16
PERMUTATIONS = [
    ((70, 96), (1, 0), FP32, 0, Family.TURN_TILES),
    ((70, 96), (1, 0), BF16, 0, Family.TURN_TILES),
    ((71, 96), (1, 0), FP16, 0, Family.TURN_TILES),
    ((70, 40), (1, 0), FP64, 0, Family.TURN_TILES),
    ((64, 64), (1, 0), DataType.C64, 0, Family.TURN_TILES),
    ((12, 8, 16, 20), (3, 1, 0, 2), FP32, 0, Family.TURN_TILES),
    ((3, 40, 100), (0, 2, 1), FP32, 4, Family.TURN_TILES),
    ((40, 24), (1, 0), BF16, 8, Family.TURN_TILES),
    ((40, 16), (1, 0), BF16, 0, Family.TURN_TILES),
    ((13, 17, 5), (2, 0, 1), FP32, 0, Family.TURN),
    ((9, 33, 3, 7), (3, 1, 0, 2), BF16, 0, Family.TURN),
    ((6, 50, 10), (2, 1, 0), DataType.C128, 0, Family.TURN),
    ((8, 12, 64), (1, 0, 2), FP32, 0, Family.MAP),
    ((5, 7, 9), (1, 0, 2), FP32, 0, Family.MAP),
]


LONG_TURN = ((12, 8, 16, 20), (3, 1, 0, 2), FP32)
"""Six tiles per block, more than there are stages."""
WRONG_TURNS = {
    "loads before all have read": (
        "    __syncthreads();\n    const u32 ahead",
        "    const u32 ahead",
    ),
    "another parity": (
        "barrier_wait(full + stage * 8, parity);",
        "barrier_wait(full + stage * 8, parity ^ 1);",
    ),
    "too few bytes": (
        "barrier_expect(full + stage * 8, ",
        "barrier_expect(full + stage * 8, -128 + ",
    ),
    "never loads ahead": ("ahead < 96u", "false"),
}


def with_text(planned: CudaProgram, right: str, other: str) -> CudaProgram:
    """The program with a part of its only kernel's text replaced."""
    (kernel,) = planned.kernels
    body = body_of(kernel)
    assert right in body
    source = kernel.source.removesuffix(body) + body.replace(right, other)
    return replace(planned, kernels=(replace(kernel, source=source),))


def wrong_turn(wrong: str) -> CudaProgram:
    return with_text(plan(permutation(*LONG_TURN)[0]), *WRONG_TURNS[wrong])


@pytest.mark.parametrize("wrong", WRONG_TURNS)
def test_a_wrong_turn_is_noticed(wrong: str, permutation_kernels: HostKernels) -> None:
    program, room = permutation(*LONG_TURN)
    source = drawn(room, FP32, 3)
    found, expected = aligned(room, FP32), aligned(room, FP32)
    evaluate(program, {"in0": source, "out": expected})
    try:
        emulate(wrong_turn(wrong), {"in0": source, "out": found}, permutation_kernels)
    except AssertionError:
        return
    assert found.tobytes() != expected.tobytes()


@pytest.fixture(scope="module")
def permutation_kernels() -> HostKernels:
    programs = (permutation(*drawn[:4])[0] for drawn in PERMUTATIONS)
    return compile_kernels([*map(plan, programs), *map(wrong_turn, WRONG_TURNS)])


@pytest.mark.parametrize(("shape", "order", "data_type", "pad", "family"), PERMUTATIONS)
def test_permutations(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    data_type: DataType,
    pad: int,
    family: Family,
    permutation_kernels: HostKernels,
) -> None:
    program, room = permutation(shape, order, data_type, pad)
    planned = plan(program)
    assert [kernel.family for kernel in planned.kernels] == [family]
    source, count = drawn(room, data_type, 3), int(np.prod(shape))
    found, expected = aligned(count, data_type), aligned(count, data_type)
    emulate(planned, {"in0": source, "out": found}, permutation_kernels)
    evaluate(program, {"in0": source, "out": expected})
    assert found.tobytes() == expected.tobytes()


SUMS = [sum_by_tiles(random.Random(seed), 5, 9) for seed in range(8)]


@pytest.fixture(scope="module")
def sum_kernels() -> HostKernels:
    return compile_kernels(plan(program) for program, _ in SUMS)


@pytest.mark.parametrize("number", range(len(SUMS)))
def test_sums_by_tiles(number: int, sum_kernels: HostKernels) -> None:
    program, counts = SUMS[number]
    planned = plan(program)
    assert [kernel.family for kernel in planned.kernels] == [Family.MAP_TILES]
    kind = program.tensors[0].data_type
    found = {name: drawn(count, kind, 5) for name, count in counts.items()}
    expected = {name: array.copy() for name, array in found.items()}
    evaluate(program, expected)
    emulate(planned, found, sum_kernels)
    assert found["out"].tobytes() == expected["out"].tobytes()


DRAWN = 12


@pytest.fixture(scope="module")
def drawn_kernels() -> HostKernels:
    programs = (draw_program(seeded(seed), work=4_000).program for seed in range(DRAWN))
    return compile_kernels(map(plan, programs))


@pytest.mark.parametrize("seed", range(DRAWN))
def test_drawn_programs(seed: int, drawn_kernels: HostKernels) -> None:
    drawn_program = draw_program(seeded(seed), work=4_000)
    images = draw_images(drawn_program.program, seed, drawn_program.largest)
    expected = {name: image.copy() for name, image in images.items()}
    evaluate(
        drawn_program.program,
        {name: image.content for name, image in expected.items()},
        bases={name: image.base for name, image in expected.items()},
    )
    found = {name: _with_aligned_base(image) for name, image in images.items()}
    bases = {name: image.base for name, image in images.items()}
    emulate(plan(drawn_program.program), found, drawn_kernels, bases)
    for name, image in expected.items():
        got = replace(image, content=found[name]).elements()
        np.testing.assert_array_equal(got, image.elements(), err_msg=name)


def _with_aligned_base(image: Image) -> Buffer:
    size = image.content.size
    raw = np.zeros(size + 512, np.uint8)
    start = -(raw.ctypes.data + image.base) % 256
    room = raw[start : start + size]
    room[:] = image.content
    return room


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A contraction, its plan, and how many elements its tensors have."""

    expression: str
    sizes: Mapping[str, int]
    zero: bool
    relu: bool
    counts: Mapping[str, int]
    planned: CudaProgram


def product(
    expression: str,
    sizes: Mapping[str, int],
    data_type: DataType,
    out_type: DataType | None,
    zero: bool,
    relu: bool,
    changed: Callable[[Program], Program],
) -> Product:
    program, counts = contraction(expression, sizes, data_type, out_type, zero, relu)
    return Product(
        expression=expression,
        sizes=sizes,
        zero=zero,
        relu=relu,
        counts=counts,
        planned=plan(changed(program)),
    )


SYNC_AND_STORE = """    group_sync(1, 256);
        if (threadIdx.x == 0) {
          tile_store("""
BATCHED = {"b": 3, "m": 40, "n": 24, "k": 24}
SQUARE = {"m": 136, "n": 72, "k": 80}
FOUR = {"a": 10, "b": 24, "c": 6, "d": 16, "k": 40}
EIGHTS = {"a": 8, "b": 16, "c": 8, "d": 24, "e": 8, "f": 16}
TENS = {"a": 10, "b": 24, "c": 12, "d": 9, "k": 24}
ODD = {"a": 7, "b": 5, "c": 9, "d": 13, "e": 3, "f": 5}
TF32 = DataType.TF32
PRODUCTS = [
    ("mk,nk->mn", SQUARE, BF16, None, True, False, Family.WARPGROUP),
    ("mk,nk->mn", SQUARE, FP16, None, True, True, Family.WARPGROUP),
    ("mk,nk->mn", SQUARE, TF32, None, False, False, Family.WARPGROUP),
    ("mk,kn->mn", SQUARE, BF16, None, True, False, Family.WARPGROUP),
    ("km,kn->mn", SQUARE, BF16, None, True, False, Family.WARPGROUP),
    ("km,nk->mn", SQUARE, FP16, FP32, False, True, Family.WARPGROUP),
    ("mk,kn->nm", SQUARE, BF16, None, True, False, Family.WARPGROUP),
    ("abk,cdk->acbd", FOUR, BF16, None, True, False, Family.WARPGROUP),
    ("abk,cdk->dbca", FOUR, BF16, FP32, True, False, Family.WARPGROUP),
    ("bmk,bnk->bmn", BATCHED, FP16, None, True, False, Family.WARPGROUP),
    ("abk,cdk->acbd", TENS, BF16, None, True, True, Family.WARPGROUP),
    ("akb,cdk->abcd", TENS, FP16, FP32, False, False, Family.WARPGROUP),
    ("abk,ckd->acbd", TENS, FP32, None, True, False, Family.PRODUCT),
    ("mk,kn->mn", {"m": 130, "n": 72, "k": 35}, FP32, None, True, False, Family.PRODUCT),
    ("km,nk->mn", {"m": 61, "n": 150, "k": 35}, FP64, None, True, True, Family.PRODUCT),
    ("mk,kn->mn", {"m": 40, "n": 33, "k": 19}, TF32, None, False, False, Family.PRODUCT),
    ("aebf,dfce->abcd", ODD, FP32, None, True, False, Family.PRODUCT),
    ("bmk,bkn->bmn", {"b": 3, "m": 20, "n": 18, "k": 21}, FP64, None, True, False, Family.PRODUCT),
]


CLUSTERS = [
    ("mk,nk->mn", {"m": 300, "n": 136, "k": 200}, (64, 64)),
    ("mk,kn->mn", {"m": 300, "n": 264, "k": 200}, (128, 128)),
    ("abk,cdk->acbd", FOUR, (128, 128)),
]
TURNED = [
    ("mk,kn->mn", {"m": 72, "n": 80, "k": 68}, TF32, None, True, False),
    ("km,kn->mn", {"m": 72, "n": 80, "k": 66}, TF32, None, True, True),
    ("aebf,dfce->abcd", EIGHTS, BF16, None, False, False),
]


PIECES = [
    ("mk,nk->mn", {"m": 200, "n": 264, "k": 296}, BF16, None, False, (128, 256)),
    ("mk,nk->mn", {"m": 200, "n": 264, "k": 40}, BF16, FP32, True, (128, 192)),
    ("mk,nk->mn", {"m": 64, "n": 32, "k": 64}, TF32, None, False, (64, 32)),
    ("bmk,bnk->bmn", {"b": 2, "m": 72, "n": 128, "k": 24}, FP16, None, False, (64, 64)),
    ("mk,cdk->cmd", {"m": 72, "c": 6, "d": 32, "k": 24}, BF16, None, False, (64, 128)),
    ("abk,ck->bac", {"a": 24, "b": 10, "c": 64, "k": 24}, BF16, None, True, (128, 64)),
]
"""Products whose tiles are stored in pieces: expression, sizes, types, ReLU, tile.

Columns over two axes; and, last, boxes of 10 x 12 rows whose order in the output is another.
"""
BY_TILES = (3, 4)
"""The products whose tiles are stored whole."""
WRONG = {
    "no fence": ("stores_fence();", ""),
    "no wait before writing": ("stores_read<1>();", ";"),
    "no wait at the end": ("stores_read<0>();", ";"),
    "stored before all have written": (SYNC_AND_STORE, SYNC_AND_STORE.split("\n", 1)[1]),
    "no wait for room": ("barrier_wait(empty + stage * 8, (round / 2 & 1) ^ 1);", ""),
    "no wait for a stage": ("barrier_wait(full + stage * 8, round / 2 & 1);", ""),
    "one stage too many": ("const u32 stage = round % 2;", "const u32 stage = round % 3;"),
    "no fence of products": ("products_fence();", ""),
    "products not committed": ("products_commit();", ""),
    "a stage given back too early": ("products_wait<1>();", ""),
    "sums stored too early": ("products_wait<0>();", ""),
    "sums not begun anew": (", step != 0);", ", 1);"),
    "another pattern": ("put_shared(to + swizzled<128>(", "put_shared(to + swizzled<64>("),
}


WRONG_CLUSTERS = {
    "ends before its neighbour": ("  cluster_sync();\n}", "}"),
    "waits for half of the consumers": (
        "barrier_init(empty + stage * 8, 8);",
        "barrier_init(empty + stage * 8, 4);",
    ),
    "gives back to itself": ("barrier_arrive_at(lane,", "barrier_arrive_at(rank,"),
    "loads for itself": ("tile_load_all(3,", "tile_load_all(1 << rank,"),
}


DOUBLES = [
    ("mk,nk->mn", {"m": 130, "n": 140, "k": 37}, 128),
    ("km,kn->mn", {"m": 70, "n": 90, "k": 16}, 64),
    ("bkm,bnk->bnm", {"b": 2, "m": 40, "n": 30, "k": 21}, 32),
]


def planned_double(number: int) -> Product:
    expression, sizes, side = DOUBLES[number]
    asked = Decision(kernel=Family.PRODUCT, tile=(side, side))
    changed = partial(with_decision, primitive="gemm", decision=asked)
    return product(expression, sizes, FP64, None, False, False, changed)


def planned_product(number: int) -> Product:
    return product(*PRODUCTS[number][:-1], changed=lambda program: program)


def by_registers(program: Program) -> Program:
    """Asks for the plan it gets anyway, its tiles stored from registers."""
    found = decision_of(plan(program).program.primitive_table()["gemm"])
    assert found is not None
    return with_decision(program, "gemm", replace(found, stores=Stores.REGISTERS))


def planned_by_registers(number: int) -> Product:
    return product(*PRODUCTS[number][:-1], changed=by_registers)


def planned_pieces(number: int) -> Product:
    expression, sizes, data_type, out_type, relu, tile = PIECES[number]
    asked = Decision(kernel=Family.WARPGROUP, tile=tile, stages=2, stores=Stores.TILES)
    changed = partial(with_decision, primitive="gemm", decision=asked)
    return product(expression, sizes, data_type, out_type, True, relu, changed)


def planned_wrongly(wrong: str) -> Product:
    """The first of the products in pieces, with a part of its text replaced."""
    found = planned_pieces(0)
    return replace(found, planned=with_text(found.planned, *WRONG[wrong]))


def planned_cluster(number: int) -> Product:
    expression, sizes, tile = CLUSTERS[number]
    asked = Decision(kernel=Family.WARPGROUP, tile=tile, stages=3, cluster=2)
    changed = partial(with_decision, primitive="gemm", decision=asked)
    return product(expression, sizes, BF16, None, True, False, changed)


def planned_wrong_cluster(wrong: str) -> Product:
    found = planned_cluster(0)
    return replace(found, planned=with_text(found.planned, *WRONG_CLUSTERS[wrong]))


def planned_turned(number: int) -> Product:
    return product(*TURNED[number], changed=turn_inputs)


@pytest.fixture(scope="module")
def product_kernels() -> HostKernels:
    products = [
        *map(planned_product, range(len(PRODUCTS))),
        *map(planned_by_registers, BY_TILES),
        *map(planned_pieces, range(len(PIECES))),
        *(planned_wrongly(wrong) for wrong in WRONG),
        *map(planned_cluster, range(len(CLUSTERS))),
        *(planned_wrong_cluster(wrong) for wrong in WRONG_CLUSTERS),
        *map(planned_turned, range(len(TURNED))),
        *map(planned_double, range(len(DOUBLES))),
    ]
    return compile_kernels(one.planned for one in products)


def named(rows: Sequence[tuple[Any, ...]]) -> Any:
    names = [f"{row[0]} {row[2]} {number}" for number, row in enumerate(rows)]
    return pytest.mark.parametrize("number", range(len(rows)), ids=names)


@named(PRODUCTS)
def test_products(number: int, product_kernels: HostKernels) -> None:
    """Within the error that the numerical contract allows."""
    found = planned_product(number)
    assert [kernel.family for kernel in found.planned.kernels] == [PRODUCTS[number][-1]]
    check_product(found, product_kernels)


@pytest.mark.parametrize("number", BY_TILES)
def test_products_stored_by_registers(number: int, product_kernels: HostKernels) -> None:
    check_product(planned_by_registers(number), product_kernels)


def test_every_way_to_store_is_among_the_products() -> None:
    """Whole tiles; from registers whole sectors by four lanes, pairs, and single columns."""
    found = [*map(planned_product, range(len(PRODUCTS))), *map(planned_by_registers, BY_TILES)]
    sources = [one.planned.kernels[-1].source for one in found]
    ways = [
        (
            "tile_store(to" in source,
            "from_lane(t" in source,
            "*(Pack<4>*)to0" in source or "*(Pack<8>*)to0" in source,
            "if (right1 != NOWHERE)" in source,
        )
        for source in sources
    ]
    assert {way.index(True) for way in ways if True in way} == {0, 1, 2, 3}


@named(PIECES)
def test_pieces_are_stored(number: int, product_kernels: HostKernels) -> None:
    """Several pieces of a tile, whole and cut; the planner knows when they lie in all banks."""
    found = planned_pieces(number)
    assert "tile_store(to" in found.planned.kernels[-1].source
    check_product(found, product_kernels)
    got, ideal = (product_kernels.host.counted(at) for at in (0, 1))
    rows, columns = PIECES[number][-1]
    problem = next(iter(problems(found.planned.program)))
    assert isinstance(problem, ContractionProblem)
    chosen = plan_tile(problem, rows, columns, most_stages=2)
    assert chosen is not None
    assert (got == ideal > 0) == (chosen.stores is Stores.TILES) == (number < 5)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_store_is_noticed(wrong: str, product_kernels: HostKernels) -> None:
    with pytest.raises(AssertionError):
        check_product(planned_wrongly(wrong), product_kernels)


@named(CLUSTERS)
def test_clusters(number: int, product_kernels: HostKernels) -> None:
    """Two blocks share the columns they load; an odd number of tiles leaves one without rows."""
    found = planned_cluster(number)
    assert found.planned.kernels[0].cluster == 2
    assert "multicast" in found.planned.kernels[0].source
    check_product(found, product_kernels)


@pytest.mark.parametrize("wrong", WRONG_CLUSTERS)
def test_a_wrong_cluster_is_noticed(wrong: str, product_kernels: HostKernels) -> None:
    with pytest.raises(AssertionError):
        check_product(planned_wrong_cluster(wrong), product_kernels)


@named(TURNED)
def test_turned_inputs(number: int, product_kernels: HostKernels) -> None:
    found = planned_turned(number)
    assert found.planned.kernels[-1].family is Family.WARPGROUP
    assert found.planned.run_scratch
    check_product(found, product_kernels)


@named(DOUBLES)
def test_doubles_on_tensor_cores(number: int, product_kernels: HostKernels) -> None:
    """Fragments of a warp, in every tile there is; exact on small integers."""
    found = planned_double(number)
    assert "double_product(sums" in found.planned.kernels[0].source
    check_product(found, product_kernels)
    operands = {name: aligned(count, FP64) for name, count in found.counts.items()}
    for seed, array in enumerate(operands.values()):
        array[:] = np.random.default_rng(seed).integers(-4, 5, array.size)
    expected = {name: array.copy() for name, array in operands.items()}
    evaluate(found.planned.program, expected)
    emulate(found.planned, operands, product_kernels)
    for name, array in expected.items():
        np.testing.assert_array_equal(operands[name], array)


def check_product(checked: Product, kernels: HostKernels) -> None:
    """Run it on normal numbers and judge against exact arithmetic."""
    kinds = {tensor.name: tensor.data_type for tensor in checked.planned.program.tensors}
    operands = {name: drawn(count, kinds[name], 5) for name, count in checked.counts.items()}
    inputs, out = checked.expression.split("->")
    shapes = dict(zip(("in0", "in1", "out"), (*inputs.split(","), out), strict=True))
    exact = {
        name: operands[name].astype(np.float64).reshape([checked.sizes[i] for i in shapes[name]])
        for name in shapes
    }
    before = np.zeros_like(exact["out"]) if checked.zero else exact["out"]
    summed = partial(np.einsum, checked.expression, optimize=True)
    wanted = summed(exact["in0"], exact["in1"]) + before
    magnitude = summed(abs(exact["in0"]), abs(exact["in1"])) + abs(before)
    terms = {index for one in ("in0", "in1") for index in shapes[one]} - set(out)
    emulate(checked.planned, operands, kernels)
    bound = error_bound(
        magnitude,
        terms=prod(checked.sizes[index] for index in terms),
        invocations=1,
        input_type=kinds["in0"],
        output_type=kinds["out"],
    )
    found = operands["out"].astype(np.float64).reshape(wanted.shape)
    if checked.relu:
        wanted = np.maximum(wanted, 0)
    assert error_ratio(found, wanted, bound) < PASS
