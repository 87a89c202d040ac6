"""Measured peaks of this machine: fused multiply-adds in registers, and copying large arrays.

The peak is measured, not computed, because the clock moves with the width of the vectors and with
what the machine's other tenants do. Compare with a figure taken in the same process.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache

from teir.backends.llvm.compile_ir import LoadedCode, compile_object, load_object, module_text
from teir.backends.llvm.emit_loops import emit_loop
from teir.backends.llvm.emit_numbers import computed_number, numbers_per_element
from teir.backends.llvm.emit_pairs import ROWS, add_pair, has_pairs
from teir.backends.llvm.emit_products import Arithmetic, multiply_add
from teir.backends.llvm.emit_text import FunctionText, splat
from teir.backends.llvm.emit_tile_sums import LANES, configure
from teir.dtypes import DataType
from teir.lower.tile_room import GROUP_STEPS
from teir.target import Isa

_SYMBOL = "teir_peak"
_CHAINS = 12
"""Independent sums: more than latency x throughput of every processor so far (5 x 2)."""
_STEPS = 60_000
_TILE_STEPS = 6_000
_TILE_SUMS = 4
_TILE_REGISTERS = 8
_CONFIGURATION_BYTES = 64
_COPY_BYTES = 64 << 20
_SHORTEST_COPY = 4 << 20
"""Smaller copies are repeated until the clock can tell their time."""


def measure_fma_peak(isa: Isa, data_type: DataType, rounds: int = 8) -> float:
    """Floating-point operations per second of one thread, the best of ``rounds`` runs.

    A fused multiply-add counts as two operations. The type is the one sums are kept in (FP32 for
    TF32, BF16 and FP16; the parts of complex numbers). Takes about 0.2 ms a round on
    a present-day core.
    """
    code = _code(_peak_function(isa, computed_number(data_type.accumulator)), isa)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.addresses[_SYMBOL])
    result = (ctypes.c_char * isa.vector_bytes)()
    number_bytes = data_type.accumulator.width // numbers_per_element(data_type.accumulator)
    operations = 2 * _CHAINS * _STEPS * (isa.vector_bytes // number_bytes)
    return operations / min(_seconds(run, result) for _ in range(rounds))


def measure_bf16_peak(isa: Isa, rounds: int = 8) -> float:
    """Operations per second of one thread on BF16 factors with FP32 sums, the best of ``rounds``.

    By tile registers or by `vdpbf16ps` where the machine has them; else by FP32.
    """
    if isa is Isa.AMX:
        return _tile_peak(rounds)
    if not has_pairs(isa):
        return measure_fma_peak(isa, DataType.FP32, rounds)
    code = _code(_pair_function(), isa)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.addresses[_SYMBOL])
    result = (ctypes.c_char * isa.vector_bytes)()
    operations = 2 * _CHAINS * _STEPS * (isa.vector_bytes // DataType.BF16.width)
    return operations / min(_seconds(run, result) for _ in range(rounds))


def _tile_peak(rounds: int) -> float:
    """Products of 16 x 16 x 32 on tiles that stay in registers."""
    code = _code(_tile_function(), Isa.AMX)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.addresses[_SYMBOL])
    result = (ctypes.c_char * _CONFIGURATION_BYTES)()
    operations = 2 * _TILE_SUMS * _TILE_STEPS * LANES * LANES * GROUP_STEPS
    return operations / min(_seconds(run, result, _TILE_STEPS) for _ in range(rounds))


def measure_copy_bandwidth(rounds: int = 6, size_bytes: int = _COPY_BYTES) -> float:
    """Bytes read plus bytes written per second by one thread copying, best of ``rounds``.

    ``size_bytes`` are copied, 64 MiB if not said; twice as many must fit into the cache whose
    bandwidth is asked for.
    """
    import numpy as np

    source = np.ones(size_bytes, np.uint8)
    target = np.zeros_like(source)
    repeats = max(1, _SHORTEST_COPY // size_bytes)
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            np.copyto(target, source)
        best = min(best, (time.perf_counter() - start) / repeats)
    return 2 * size_bytes / best


def _seconds(
    run: ctypes._CFunctionType, result: ctypes.Array[ctypes.c_char], steps: int = _STEPS
) -> float:
    start = time.perf_counter()
    run(steps, result)
    return time.perf_counter() - start


@cache
def _code(function: str, isa: Isa) -> LoadedCode:
    return load_object(compile_object(module_text([function], isa), isa, (_SYMBOL,)), (_SYMBOL,))


def _peak_function(isa: Isa, element: str) -> str:
    """A loop of independent multiply-adds whose operands never leave the registers."""
    data_type = DataType.FP64 if element == "double" else DataType.FP32
    kind = Arithmetic(isa, data_type, isa.vector_bytes // data_type.width)
    text = FunctionText()
    text.label("entry")
    opaque = text.value(f"sitofp i64 %steps to {element}")
    factor = splat(text, element, opaque, kind.count)
    return _looped(
        text, kind, factor, lambda total: multiply_add(text, kind, factor, factor, total)
    )


def _pair_function() -> str:
    """The same loop with two steps of BF16 in one instruction."""
    kind = Arithmetic(Isa.AVX512, DataType.FP32, ROWS)
    text = FunctionText()
    text.label("entry")
    opaque = text.value("sitofp i64 %steps to float")
    start = splat(text, "float", opaque, ROWS)
    factor = text.value(f"bitcast {kind.kind} {start} to <32 x bfloat>")
    return _looped(text, kind, start, lambda total: add_pair(text, factor, factor, total))


def _tile_function() -> str:
    """Products of tiles of zeros into four sums; the configuration is written to the result."""
    text = FunctionText()
    text.label("entry")
    configure(text, "%result", str(LANES))
    for register in range(_TILE_REGISTERS):
        text.effect(f"call void @llvm.x86.tilezero(i8 {register})")

    def products(_: list[str]) -> list[str]:
        for number in range(_TILE_SUMS):
            factors = f"i8 {4 + number // 2}, i8 {6 + number % 2}"
            text.effect(f"call void @llvm.x86.tdpbf16ps(i8 {number}, {factors})")
        return []

    emit_loop(text, "products", "%steps", 1, (), products)
    text.effect("call void @llvm.x86.tilerelease()")
    text.effect("ret void")
    return f"define void @{_SYMBOL}(i64 %steps, ptr %result) nounwind {{\n{text.text()}\n}}\n"


def _looped(text: FunctionText, kind: Arithmetic, start: str, step: Callable[[str], str]) -> str:
    """The function that takes ``step`` on every sum ``%steps`` times and stores their total."""
    text.effect("br label %loop")
    left, fewer = text.fresh(), text.fresh()
    sums = [text.fresh() for _ in range(_CHAINS)]
    text.label("work")
    following = [step(total) for total in sums]
    text.define(fewer, f"sub i64 {left}, 1")
    ended = text.value(f"icmp eq i64 {fewer}, 0")
    text.effect(f"br i1 {ended}, label %exit, label %loop")
    text.label("loop")
    for total, next_total in zip(sums, following, strict=True):
        text.define(total, f"phi {kind.kind} [ {start}, %entry ], [ {next_total}, %work ]")
    text.define(left, f"phi i64 [ %steps, %entry ], [ {fewer}, %work ]")
    text.effect("br label %work")
    text.label("exit")
    total = following[0]
    for other in following[1:]:
        total = text.value(f"fadd {kind.kind} {total}, {other}")
    text.effect(f"store {kind.kind} {total}, ptr %result, align 1")
    text.effect("ret void")
    return f"define void @{_SYMBOL}(i64 %steps, ptr %result) nounwind {{\n{text.text()}\n}}\n"
