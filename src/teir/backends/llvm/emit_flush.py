"""Sums in which subnormal numbers count as zero: by the processor's own mode where it has one.

Between `start_flushing` and `stop_flushing` no multiply-add reads or makes a subnormal number. The
mode covers what stands in other basic blocks than the two calls: inside one block LLVM may move an
instruction past them. Sources: Intel SDM, section 10.2.3 (FTZ and DAZ of MXCSR); Arm ARM, FPCR.FZ.
"""

from __future__ import annotations

from typing import assert_never

from teir.backends.llvm.emit_text import FunctionText, repeated, vector
from teir.target import Isa

_X86_MODE = 0x8040
"""FTZ and DAZ."""
_ARM_MODE = 1 << 24
_SMALLEST_NORMAL = "0x3810000000000000"
"""2 to the power of -126, as LLVM writes FP32 constants."""


def start_flushing(text: FunctionText, isa: Isa) -> str | None:
    """Enter the mode; returns what `stop_flushing` needs, None where there is no mode."""
    match isa:
        case Isa.AMX | Isa.AVX512_INTEL | Isa.AVX512_ZEN5 | Isa.AVX512 | Isa.AVX2:
            before = text.value("alloca i32, align 4")
            within = text.value("alloca i32, align 4")
            text.effect(f"call void @llvm.x86.sse.stmxcsr(ptr {before})")
            mode = text.value(f"load i32, ptr {before}, align 4")
            flushing = text.value(f"or i32 {mode}, {_X86_MODE}")
            text.effect(f"store i32 {flushing}, ptr {within}, align 4")
            text.effect(f"call void @llvm.x86.sse.ldmxcsr(ptr {within})")
            return before
        case Isa.NEON:
            before = text.value("call i64 @llvm.aarch64.get.fpcr()")
            flushing = text.value(f"or i64 {before}, {_ARM_MODE}")
            text.effect(f"call void @llvm.aarch64.set.fpcr(i64 {flushing})")
            return before
        case Isa.PLAIN:
            return None
        case _:
            assert_never(isa)


def stop_flushing(text: FunctionText, isa: Isa, before: str | None) -> None:
    """Leave the mode that `start_flushing` entered."""
    if before is None:
        return
    if isa is Isa.NEON:
        text.effect(f"call void @llvm.aarch64.set.fpcr(i64 {before})")
    else:
        text.effect(f"call void @llvm.x86.sse.ldmxcsr(ptr {before})")


def flushed(text: FunctionText, isa: Isa, numbers: str, count: int) -> str:
    """FP32 ``numbers``, subnormals replaced by zeros where the processor has no mode for it."""
    if isa is not Isa.PLAIN:
        return numbers
    kind = vector("float", count)
    size = text.value(f"call {kind} @llvm.fabs.v{count}f32({kind} {numbers})")
    limit = repeated("float", count, _SMALLEST_NORMAL)
    tiny = text.value(f"fcmp olt {kind} {size}, {limit}")
    return text.value(
        f"select {vector('i1', count)} {tiny}, {kind} zeroinitializer, {kind} {numbers}"
    )
