"""Which products go to tile registers, and what room they take."""

from __future__ import annotations

import pytest

from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.explanation import count_calls
from teir.lower.kernel_program import Call
from teir.lower.kernels import GemmBlock, Kernel
from teir.lower.lower import lower
from teir.lower.tile_kernels import TileProduct, TileRows
from teir.lower.tile_room import room_bytes
from teir.target import Isa


def product_text(
    m: int,
    n: int,
    k: tuple[int, ...],
    out: DataType,
    b_adjacent: bool,
    from_zero: bool,
    flushes: bool = True,
    a_adjacent: bool = False,
) -> str:
    """out[n, m] (+)= sum over k of in0[k, m] in1[n, k]; k in as many axes as given.

    Or of in1[k, n], and of in0[m, k] where its steps are adjacent.

    There are gaps between the steps of an outer axis, so that no two axes are one.
    """
    axes: list[str] = []
    a, b = 2 if a_adjacent else 2 * m, 2 if b_adjacent else 2 * n
    for number, extent in reversed(list(enumerate(k))):
        axes.insert(0, f"axis k{number} = {extent}: in0 {a}, in1 {b}")
        gap = 16 if number else 0
        a, b = a * extent + gap, b * extent + gap
    depth = ", ".join(f"k{number}" for number in range(len(k)))
    zero = "do_zero: zero\n" if from_zero else ""
    metadata = ' with {"subnormals": "zero"}' if flushes else ""
    return f"""teir 1 "product"
tensor in0: BF16
tensor in1: BF16
tensor out: {out.value}
axis m = {m}: in0 {a if a_adjacent else 2}, out {out.width}
axis n = {n}: in1 {b if b_adjacent else 2}, out {out.width * m}
{chr(10).join(axes)}
primitive zero = Zero(out; M=[m], N=[n])
primitive product = Contraction BF16 (in0, in1 -> out; M=[m], N=[n], K=[{depth}]){metadata}
{zero}do_product: product
"""


def kernels_of(program: Program, isa: Isa) -> list[Kernel]:
    return list(count_calls(lower(program, isa).roots))


def product(**changes: object) -> Program:
    usual = {"m": 40, "n": 40, "k": (40,), "out": DataType.BF16, "b_adjacent": True}
    return parse_program(product_text(**(usual | {"from_zero": True} | changes)))  # type: ignore[arg-type]


def test_large_products_of_bf16_are_one_call_where_there_are_tiles() -> None:
    assert [type(one) for one in kernels_of(product(), Isa.AMX)] == [TileProduct]
    assert {type(one) for one in kernels_of(product(), Isa.AVX512)} == {GemmBlock}


@pytest.mark.parametrize(
    "changes",
    [
        {"flushes": False},
        {"n": 3},
        {"m": 16, "n": 16, "k": (16,)},
        {"k": (2, 2, 2, 2)},
        {"m": 32, "n": 32, "k": (40_000,)},
    ],
)
def test_others_are_formed_by_vectors(changes: dict[str, object]) -> None:
    called = kernels_of(product(**changes), Isa.AMX)
    assert called
    assert not any(isinstance(one, TileProduct) for one in called)


def test_the_room_is_scratch_of_the_thread() -> None:
    kernel_program = lower(product(k=(3, 40)), Isa.AMX)
    room = room_bytes(3, 40, 4, row_pairs=2)
    assert kernel_program.thread_scratch_bytes == room
    assert room == 4096 + 64 + 6 * (2 * 2048 + 4 * 1024)


def test_rows_stay_in_the_room_where_they_are_many_and_fit() -> None:
    kept = {
        (m, n, k): settled_call(m, n, k).kernel.keeps_rows  # type: ignore[union-attr]
        for m, n, k in ((40, 40, 40), (32, 500, 40), (500, 32, 40), (480, 480, 640))
    }
    assert list(kept.values()) == [True, False, False, False]


def settled_call(m: int, n: int, k: int) -> Call:
    (call,) = [
        node for node in lower(product(m=m, n=n, k=(k,)), Isa.AMX).roots if isinstance(node, Call)
    ]
    return call


@pytest.mark.parametrize(
    ("m", "n", "k", "copies"),
    [
        (64, 500, 64, False),
        (64, 30_000, 64, True),
        (32, 30_000, 64, False),
        (80, 500, 64, True),
        (32, 500, 48, True),
    ],
)
def test_columns_are_copied_where_that_pays(m: int, n: int, k: int, *, copies: bool) -> None:
    kernel = settled_call(m, n, k).kernel
    assert isinstance(kernel, TileProduct)
    assert kernel.copies is copies


@pytest.mark.parametrize(("m", "k"), [(30, 48), (32, 64), (16, 256)])
def test_columns_of_short_sums_stay_near_until_all_rows_met_them(m: int, k: int) -> None:
    packed = settled_call(m, 30_000, k).arguments[-1]
    groups, rows = -(-k // 32), -(-m // 16)
    assert packed <= max(8 * rows, (256 << 10) // (groups * 1024))
    assert packed >= 8 * rows


def test_rows_are_interleaved_once_where_columns_come_in_parts() -> None:
    rows = {
        (m, n, k): settled_call(m, n, k).kernel.rows  # type: ignore[union-attr]
        for m, n, k in ((600, 1200, 1000), (600, 400, 1000), (30_000, 1200, 1000))
    }
    assert list(rows.values()) == [TileRows.FAR, TileRows.PASSING, TileRows.PASSING]


@pytest.mark.parametrize(
    ("m", "k", "packs_pairs"),
    [(512, 48, False), (496, 48, True), (512, 31, True), (64, 256, False)],
)
def test_short_rows_are_interleaved_in_strips_where_many_lie_side_by_side(
    m: int, k: int, *, packs_pairs: bool
) -> None:
    kernel = settled_call(m, 48, k).kernel
    assert isinstance(kernel, TileProduct)
    assert kernel.packs_pairs is packs_pairs


def test_rows_whose_steps_are_adjacent_are_turned_by_the_kernel() -> None:
    (kernel,) = kernels_of(product(a_adjacent=True), Isa.AMX)
    assert isinstance(kernel, TileProduct)
    assert kernel.a_adjacent


@pytest.mark.parametrize(("m", "k"), [(48, 48), (48, 2000), (480, 30)])
def test_few_columns_are_copied_at_once_where_rows_stay(m: int, k: int) -> None:
    packed = settled_call(m, 30_000, k).arguments[-1]
    assert 2 <= packed <= max(2, (128 << 10) // (-(-k // 32) * 1024))
