"""Blocks of pairs against exact integer arithmetic and the evaluator, at forbidden pages."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from backends.llvm.kernel_calls import (
    HERE,
    Compiled,
    Edge,
    Guarded,
    kernel_assembly,
    small_integers,
    strided,
)
from teir.backends.llvm import emit_pair_block, emit_pairs
from teir.backends.llvm.emit_kernel import kernel_symbol
from teir.backends.llvm.emit_pair_block import emit_pair_block_body
from teir.backends.llvm.emit_pairs import has_pairs
from teir.dtypes import DataType
from teir.ir.tile_arithmetic import contract, convert
from teir.lower.kernels import PairBlock
from teir.target import Isa

BF16 = DataType.BF16
WIDTH = BF16.width
needs_avx512 = pytest.mark.skipif(Isa.AVX512 not in HERE, reason="needs AVX-512")


def pairs(vectors: int, columns: int, runs: int = 1, flags: str = "") -> PairBlock:
    return PairBlock(
        vectors=vectors,
        columns=columns,
        runs=runs,
        b_adjacent="adjacent" in flags,
        claims="claims" in flags,
        accumulates="accumulates" in flags,
    )


def _never(isa: Isa) -> bool:
    assert isa.is_avx512
    return False


BLOCKS = (
    pairs(2, 1),
    pairs(2, 12, flags="adjacent claims"),
    pairs(4, 6, flags="adjacent"),
    pairs(4, 3, flags="claims"),
    pairs(6, 4, flags="adjacent claims"),
    pairs(6, 4, runs=4, flags="adjacent claims"),
    pairs(6, 2, runs=2),
    pairs(6, 3, runs=8, flags="adjacent"),
    pairs(4, 5, runs=16),
    pairs(2, 2, runs=8, flags="claims"),
    pairs(6, 1, runs=3, flags="adjacent"),
    pairs(2, 11, flags="adjacent accumulates"),
    pairs(6, 4, flags="claims accumulates"),
)


@needs_avx512
@pytest.mark.parametrize("is_emulated", [False, True])
def test_block_is_exact_and_stays_inside(
    is_emulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by two multiply-adds, as where the processor has no instruction for both."""
    if is_emulated:
        for module in (emit_pair_block, emit_pairs):
            monkeypatch.setattr(module, "has_pairs", _never)
    random = np.random.default_rng(6)
    compiled = Compiled(BLOCKS, Isa.AVX512)
    for kernel, edge, k, gap_bytes in product(BLOCKS, Edge, (0, 1, 2, 7, 12), (0, WIDTH, 64)):
        _run(compiled, kernel, edge, k, gap_bytes, random)


def _run(
    compiled: Compiled,
    kernel: PairBlock,
    edge: Edge,
    k: int,
    gap_bytes: int,
    random: np.random.Generator,
) -> None:
    run_rows, blocks, batch = kernel.rows // kernel.runs, 3, int(random.integers(1, 4))
    c_run = run_rows * WIDTH + gap_bytes
    c_n = c_run * kernel.runs + gap_bytes
    c_block = c_n * kernel.columns + gap_bytes
    b_k, b_n = (WIDTH, k * WIDTH + gap_bytes) if kernel.b_adjacent else (3 * WIDTH * k, 2 * WIDTH)
    b_batch = max(b_n * kernel.columns, b_k * k) + gap_bytes
    b_block = b_batch * batch
    a_k = kernel.rows * WIDTH + gap_bytes
    a_batch = a_k * k + gap_bytes
    axes = (
        ((batch, a_batch), (k, a_k), (kernel.rows, WIDTH)),
        ((blocks, b_block), (kernel.columns, b_n), (batch, b_batch), (k, b_k)),
        ((blocks, c_block), (kernel.columns, c_n), (kernel.runs, c_run), (run_rows, WIDTH)),
    )
    memory = []
    for operand in axes:
        size = sum((extent - 1) * stride for extent, stride in operand) + WIDTH
        guarded = Guarded(max(size, WIDTH), edge)
        guarded.bytes[:] = 0xFF
        view = strided(guarded.bytes, BF16, 0, operand)
        view[...] = small_integers(random, view.shape, BF16)
        memory.append((guarded, view))
    (a, a_view), (b, b_view), (c, c_view) = memory
    sums = np.einsum("tkm,bntk->bnm", a_view.astype(np.float32), b_view.astype(np.float32))
    if kernel.accumulates:
        sums += c_view.astype(np.float32).reshape(sums.shape)
    expected = c.bytes.copy()
    strided(expected, BF16, 0, axes[2])[...] = sums.reshape(c_view.shape).astype(c_view.dtype)
    sums_over = (k, a_k, b_k, batch, a_batch, b_batch)
    arguments = (*sums_over, b_n, c_n, c_run, 1 << 40, blocks, b_block, c_block)
    compiled.call(kernel, arguments, [a.address, b.address, c.address])
    np.testing.assert_array_equal(c.bytes, expected, str((kernel, k, gap_bytes, edge)))


@needs_avx512
@pytest.mark.parametrize("is_emulated", [False, True])
@pytest.mark.parametrize("size", [1.0, 2.0**-63])
@pytest.mark.parametrize("accumulates", [False, True])
def test_bits_are_those_of_the_evaluator(
    accumulates: bool, size: float, is_emulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not factors and sums become subnormal, with infinities and no numbers, too."""
    if is_emulated:
        for module in (emit_pair_block, emit_pairs):
            monkeypatch.setattr(module, "has_pairs", _never)
    random = np.random.default_rng(7)
    kernel, k = pairs(4, 6, flags="adjacent accumulates" if accumulates else "adjacent"), 9
    a = (size * random.standard_normal((k, kernel.rows))).astype(BF16.numpy_dtype())
    b = (size * random.standard_normal((kernel.columns, k))).astype(a.dtype)
    a[2], b[1, 4] = a[2] * a.dtype.type(1e-30), b.dtype.type(1e-39)
    a[3, 5], a[4, 6], b[2, 0] = np.inf, np.nan, -np.inf
    whole = (kernel.columns, kernel.rows, k)
    factors = (np.broadcast_to(a.T[None], whole), np.broadcast_to(b[:, None], whole))
    c = (size * size * random.standard_normal(whole[:2])).astype(a.dtype)
    c[1, :3] = np.inf, np.nan, a.dtype.type(1e-39)
    start = c.astype(np.float32) if accumulates else np.zeros(whole[:2], np.float32)
    with np.errstate(all="ignore"):
        expected = convert(contract(factors, start, BF16, None, True), BF16)
    sums_over = (k, kernel.rows * WIDTH, WIDTH, 1, 0, 0)
    arguments = (*sums_over, k * WIDTH, kernel.rows * WIDTH, 0, 0, 1, 0, 0)
    operands = [one.ctypes.data for one in (a, b, c)]
    Compiled([kernel], Isa.AVX512).call(kernel, arguments, operands)
    np.testing.assert_array_equal(c.astype(np.float32), expected.astype(np.float32))


@needs_avx512
@pytest.mark.skipif(not has_pairs(Isa.AVX512), reason="needs AVX512_BF16")
@pytest.mark.parametrize(("vectors", "columns"), [(2, 12), (4, 6), (6, 4)])
def test_sums_stay_in_registers_and_two_vectors_are_rounded_at_once(
    vectors: int, columns: int
) -> None:
    """But for one that the last step of an odd number, which is on its own, moves aside."""
    text = kernel_assembly(pairs(vectors, columns, flags="adjacent claims"), Isa.AVX512)
    stored = re.findall(r"[xyz]mm\d+, .*\(%rsp\)", text)
    assert len(stored) <= 1, stored
    assert text.count("vcvtne2ps2bf16") == vectors * columns // 2


def test_symbols_are_distinct() -> None:
    """Of blocks that differ in one field."""
    flags = ("", "adjacent", "claims", "accumulates")
    blocks = [pairs(2, 4, flags=one) for one in flags] + [pairs(4, 4), pairs(2, 2), pairs(2, 4, 2)]
    assert len({kernel_symbol(one, Isa.AVX512) for one in blocks}) == len(blocks)


def test_only_avx512_has_such_blocks() -> None:
    with pytest.raises(ValueError, match="expected an instruction set of AVX-512, found avx2"):
        emit_pair_block_body(pairs(2, 2), Isa.AVX2)
