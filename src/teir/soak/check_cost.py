"""Figure 10: what the check costs, and that a bound plan never pays it again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import teir
from teir.backends.llvm.compile_ir import compile_object, load_object, module_text
from teir.backends.llvm.emit_kernel import emit_kernel
from teir.backends.llvm.library import leaf_symbol
from teir.ir.check import prove
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.calls import kernels_of
from teir.lower.lower import lower
from teir.pipeline.executable import default_isa

TEN_NODES = """teir 1 "ten nodes"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis p = 4: in1 768, out 576
axis r = 3: in0 512, out 32
axis t = 2: in0 1536, in1 64
axis s = 8: in0 4, out 4
axis q = 6: in1 128, out 96
axis u = 16: in0 32, in1 4
primitive zero_sq = Zero(out; M=[s], N=[q])
primitive gemm_squ = Contraction FP32 (in0, in1 -> out; M=[s], N=[q], K=[u])
primitive relu_sq = ReLU(out -> out; M=[s], N=[q])
parallel p over p
  parallel r over r
    zero: zero_sq
    sequential t over t
      gemm: gemm_squ
    relu: relu_sq
sequential again_p over p
  sequential again_r over r
    again_zero: zero_sq
    again_relu: relu_sq
"""
"""Five loops and five leaves over three tensors and six axes."""

BAR_MICROSECONDS = 50.0
BAR_SHARE = 0.01
_ROUNDS = 400


def cost_one(item: int) -> dict[str, Any]:
    """The median microseconds of a check, its share of compiling, and the checks of a call."""
    del item
    program = parse_program(TEN_NODES)
    check = _median_seconds(lambda: prove(program), _ROUNDS)
    compiling = _median_seconds(lambda: _compile(program), 5)
    calls = _checks_of_a_call()
    wrong = [] if calls == 0 else [f"a bound plan called the checker {calls} times"]
    if check > BAR_SHARE * (check + compiling):
        wrong.append(f"the check takes {check / (check + compiling):.2%} of compiling")
    measured = {"microseconds": check * 1e6, "share": check / (check + compiling)}
    return {"wrong": wrong, "runs": _ROUNDS, "measured": measured}


def _compile(program: Program) -> None:
    """What a compilation does after the check: lower, emit, optimise, link; no cache."""
    isa = default_isa()
    kernels = kernels_of(lower(program, isa).roots)
    symbols = tuple(sorted(leaf_symbol(kernel, isa) for kernel in kernels))
    texts = [emit_kernel(kernel, isa) for kernel in kernels]
    load_object(compile_object(module_text(texts, isa), isa, symbols), symbols)


def _checks_of_a_call() -> int:
    """How many functions of the checker a call of a plan enters."""
    a, b = np.ones((9, 8)), np.ones((8, 7))
    out = np.empty((9, 7))
    plan = teir.plan("ij,jk->ik", a, b)
    plan(a, b, out=out)
    entered: list[str] = []

    def watch(frame: Any, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("teir.ir.check"):
            entered.append(name)

    sys.setprofile(watch)
    try:
        for _ in range(3):
            plan(a, b, out=out)
            plan(a, b)
    finally:
        sys.setprofile(None)
    return len(entered)


def _median_seconds(work: Callable[[], Any], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return median(seconds)
