"""Products by tile registers: exact on whole numbers, inside their operands, in the order told."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lower.test_tile_loops import looped_text, nested_text
from tests.lower.test_tile_products import kernels_of, product_text

from teir.backends.llvm.compile_ir import runs_here
from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.kernels import Kernel
from teir.lower.tile_kernels import TileProduct, TileRows
from teir.pipeline.executable import Form, compile_program
from teir.soak.kernel_corpus import audit_kernel
from teir.soak.operands import differences, draw_images, tight_images
from teir.soak.pages import GuardedOperands
from teir.soak.running import as_operands, compiled, evaluated
from teir.target import Isa

pytestmark = pytest.mark.skipif(not runs_here(Isa.AMX), reason="no tile registers")

OUTPUTS = (DataType.BF16, DataType.FP32)
SHAPES = (
    (32, 32, 32),
    (33, 40, 63),
    (16, 186, 65),
    (70, 4, 64),
    (31, 33, 31),
    (64, 99, 1),
    (12, 129, 67),
)
"""Rows, columns and steps: whole tiles, parts of them on every side, blocks that overlap."""


def assert_as_evaluated(program: Program, seed: int) -> None:
    """On whole numbers, operands between pages that must not be touched."""
    images = tight_images(draw_images(program, seed, 3), program)
    expected = evaluated(program, images)
    pages = GuardedOperands(images)
    executable = compiled(program, Isa.AMX, 1)
    for at_end in (True, False):
        ours = pages.placed(at_end=at_end)
        executable.run(as_operands(ours))
        assert list(differences(ours, expected)) == []


@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.parametrize("from_zero", [False, True])
@pytest.mark.parametrize("b_adjacent", [False, True])
@pytest.mark.parametrize("a_adjacent", [False, True])
def test_whole_numbers_are_exact_and_nothing_else_is_touched(
    out: DataType, from_zero: bool, b_adjacent: bool, a_adjacent: bool
) -> None:
    for number, (m, n, k) in enumerate(SHAPES):
        for segments in ((), (3,), (2, 2)):
            text = product_text(
                m, n, (*segments, k), out, b_adjacent, from_zero, a_adjacent=a_adjacent
            )
            program = parse_program(text)
            if not any(isinstance(one, TileProduct) for one in kernels_of(program, Isa.AMX)):
                assert m * n * k < 8192
                continue
            assert_as_evaluated(program, number)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"m": 40, "n": 33, "k": 64},
        {"rows": 7, "columns": 2, "m": 16, "n": 17, "k": 96},
        {"rows": 2, "columns": 9, "m": 5, "n": 48, "k": 33},
        {"rows": 1, "columns": 3, "m": 70, "n": 40, "k": 2600},
    ],
)
def test_loops_inside_the_call_change_nothing(changes: dict[str, int]) -> None:
    program = parse_program(looped_text(**changes))
    assert_as_evaluated(program, 7)


@pytest.mark.parametrize(
    "changes",
    [{"rows": 8}, {"rows": 8, "columns": 1}, {"rows": 7, "n": 20, "m": 33, "k": 70, "columns": 3}],
)
def test_small_products_in_long_calls_change_nothing(changes: dict[str, int]) -> None:
    program = parse_program(nested_text(**changes))
    assert [type(one) for one in kernels_of(program, Isa.AMX)] == [TileProduct]
    assert_as_evaluated(program, 5)


@pytest.mark.parametrize("a_adjacent", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(530, 400, 1633), (112, 300, 5000), (1050, 700, 1000)])
def test_rows_that_pass_columns_again_change_nothing(
    m: int, n: int, k: int, a_adjacent: bool
) -> None:
    text = product_text(m, n, (k,), DataType.FP32, True, True, a_adjacent=a_adjacent)
    program = parse_program(text)
    (kernel,) = kernels_of(program, Isa.AMX)
    assert isinstance(kernel, TileProduct)
    assert kernel.rows is TileRows.FAR
    draw = np.random.default_rng(3)
    bf16 = DataType.BF16.numpy_dtype()
    a, b = (draw.integers(-3, 4, shape).astype(bf16) for shape in ((m, k), (n, k)))
    out = np.empty((n, m), np.float32)
    executable = compiled(program, Isa.AMX, 1)
    laid = a if a_adjacent else np.ascontiguousarray(a.T)
    executable.run({"in0": laid.reshape(-1), "in1": b.reshape(-1), "out": out.reshape(-1)})
    np.testing.assert_array_equal(out, b.astype(np.float32) @ a.astype(np.float32).T)


@pytest.mark.parametrize("k", [32, 33, 34, 47, 63, 95, 255])
@pytest.mark.parametrize(("m", "n"), [(512, 40), (527, 31)])
def test_short_rows_in_strips_change_nothing(m: int, n: int, k: int) -> None:
    """Odd and even ends of sums, behind one group of steps and behind several."""
    program = parse_program(product_text(m, n, (k,), DataType.BF16, True, True))
    (kernel,) = kernels_of(program, Isa.AMX)
    assert isinstance(kernel, TileProduct)
    assert not kernel.packs_pairs
    assert_as_evaluated(program, k)


def pieces_text(k: int, batch: int) -> str:
    """A has gaps between runs of k, B goes on: its steps are not padded."""
    text = product_text(40, 20, (batch, k), DataType.FP32, True, True)
    return text.replace(f"in1 {2 * k + 16}", f"in1 {2 * k}").replace(
        f"n = 20: in1 {(2 * k + 16) * batch}", f"n = 20: in1 {2 * k * batch}"
    )


@pytest.mark.parametrize(("k", "batch"), [(8, 9), (10, 7), (2, 33), (5, 20)])
def test_runs_of_steps_that_follow_one_another_in_b_are_one(k: int, batch: int) -> None:
    program = parse_program(pieces_text(k, batch))
    numbers = real_numbers(program)
    apart = 40 * k + 8
    at = [number * apart + step * 40 for number in range(batch) for step in range(k)]
    a = np.stack([numbers["in0"][place : place + 40] for place in at], axis=1)
    b = numbers["in1"][: 20 * k * batch].reshape(20, k * batch)
    result = run(program, Isa.AMX, Form.TABLE).reshape(20, 40)
    if k % 2:
        np.testing.assert_allclose(result, grouped_sums(a, b), rtol=1e-3, atol=1e-3)
    else:
        np.testing.assert_array_equal(result, grouped_sums(a, b))


def repeating_text(a_adjacent: bool) -> str:
    """B goes on from run of k to run of k, A begins anew."""
    text = product_text(40, 20, (3, 20), DataType.FP32, True, True, a_adjacent=a_adjacent)
    changes = {"in1 56": "in1 40", "in1 168": "in1 120"}
    changes |= {"in0 56": "in0 0", "in0 168": "in0 40"} if a_adjacent else {"in0 1616": "in0 0"}
    for before, after in changes.items():
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize("a_adjacent", [False, True])
def test_runs_of_steps_that_a_repeats_are_read_again(a_adjacent: bool) -> None:
    program = parse_program(repeating_text(a_adjacent))
    assert_as_evaluated(program, 3)


def real_numbers(program: Program) -> dict[str, np.ndarray]:
    random = np.random.default_rng(11)
    return {
        tensor.name: random.standard_normal(20_000).astype(tensor.data_type.numpy_dtype())
        for tensor in program.tensors
    }


def run(program: Program, isa: Isa, form: Form) -> np.ndarray:
    executable = compile_program(program, threads=1, isa=isa, form=form)
    arrays = {
        name: array[: need // array.itemsize]
        for (name, array), need in zip(
            real_numbers(program).items(), sizes_of(program), strict=True
        )
    }
    executable.run(arrays)
    return arrays["out"]


def sizes_of(program: Program) -> list[int]:
    return [
        sum((axis.extent - 1) * axis.strides.get(tensor.name, 0) for axis in program.axes)
        + tensor.data_type.width
        for tensor in program.tensors
    ]


def grouped_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The order of sums as `TileProduct` tells it; products of BF16 are exact in FP32."""
    total = np.zeros((b.shape[0], a.shape[0]), np.float32)
    for group in range(0, a.shape[1], 32):
        chains = [np.zeros_like(total), np.zeros_like(total)]
        for step in range(group, min(group + 32, a.shape[1])):
            product = b[:, step, None].astype(np.float32) * a[None, :, step].astype(np.float32)
            chains[step % 2] += product
        total += chains[0] + chains[1]
    return total


def test_sums_have_the_order_that_is_told() -> None:
    m, n, k = 40, 35, 75
    program = parse_program(product_text(m, n, (k,), DataType.FP32, True, True))
    numbers = real_numbers(program)
    a = numbers["in0"][: m * k].reshape(k, m).T
    b = numbers["in1"][: n * k].reshape(n, k)
    result = run(program, Isa.AMX, Form.TABLE).reshape(n, m)
    np.testing.assert_array_equal(result, grouped_sums(a, b))


@pytest.mark.parametrize("b_adjacent", [False, True])
def test_tables_and_specialised_code_give_the_same_bits(b_adjacent: bool) -> None:
    program = parse_program(product_text(45, 51, (2, 50), DataType.BF16, b_adjacent, False))
    results = [run(program, Isa.AMX, form) for form in (Form.TABLE, Form.SPECIALISED)]
    np.testing.assert_array_equal(results[0].view(np.uint16), results[1].view(np.uint16))
    by_vectors = run(program, Isa.AVX512, Form.TABLE).astype(np.float32)
    close = np.abs(results[0].astype(np.float32) - by_vectors)
    assert close.max() <= 2**-7 * np.abs(by_vectors).max()


def test_subnormal_numbers_count_as_zero() -> None:
    m = n = k = 32
    program = parse_program(product_text(m, n, (k,), DataType.FP32, True, False))
    executable = compiled(program, Isa.AMX, 1)
    bf16 = DataType.BF16.numpy_dtype()
    tiny = np.full(m * k, 1e-39, bf16)
    out = np.full(m * n, 1e-39, np.float32)
    executable.run({"in0": tiny, "in1": np.full(n * k, 1e30, bf16), "out": out})
    assert not out.any()


def kernels() -> list[Kernel]:
    return [
        TileProduct(
            in_type=DataType.BF16,
            out_type=out,
            b_adjacent=adjacent,
            copies=copies,
            rows=rows,
            a_adjacent=a_adjacent,
            packs_pairs=packs_pairs,
            asks=copies and rows is not TileRows.PASSING,
        )
        for out in OUTPUTS
        for adjacent, copies in ((False, True), (True, False), (True, True))
        for rows in TileRows
        for a_adjacent, packs_pairs in ((False, False), (False, True), (True, False))
        if not (packs_pairs and rows is TileRows.FAR)
    ]


@pytest.mark.parametrize("kernel", kernels(), ids=str)
def test_the_code_does_nothing_but_its_work(kernel: Kernel) -> None:
    assert audit_kernel(kernel, Isa.AMX) == ()
