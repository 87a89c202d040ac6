"""The passes in their order: programs that mean the same end the same."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files

import pytest

from passes.sample_programs import product
from teir.ir.check import check
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.ir.printing import print_program
from teir.passes.facts import Facts
from teir.passes.optimise import optimise, pass_list

ONE_CORE = Facts(vector_bytes=64, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20, threads=1)
SIX_AXES = """teir 1 "product"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis m0 = 64: in0 100, out 100
axis m1 = 25: in0 4, out 4
axis n0 = 64: in1 160000, out 160000
axis n1 = 25: in1 6400, out 6400
axis k0 = 64: in0 160000, in1 100
axis k1 = 25: in0 6400, in1 4
primitive zero_scalar = Zero FP32 (out; M=[], N=[])
primitive product_scalar = Contraction FP32 (in0, in1 -> out; M=[], N=[], K=[])
"""


def six_axes(order: str) -> Program:
    rows = [
        f"{'  ' * depth}sequential {axis} over {axis}" for depth, axis in enumerate(order.split())
    ]
    leaves = ("zero: zero_scalar if first(k0) and first(k1)", "product: product_scalar")
    rows += [f"{'  ' * 6}{leaf}" for leaf in leaves]
    return parse_program(SIX_AXES + "\n".join(rows) + "\n")


def without_names(program: Program) -> str:
    """The text with axes, nodes and primitives numbered in the order they appear in the tree."""
    text = print_program(program).text
    tables, tree = [], []
    for line in text.splitlines()[1:]:
        (tables if re.match(r"(tensor|axis|primitive) ", line) else tree).append(line)
    tensors = {"in0", "in1", "out", "in0_packed", "in1_packed"}
    words = {"sequential", "parallel", "over", "if", "first", "last", "and", "scratch", "axis"}
    words |= {"FP32", "Zero", "Copy", "Contraction", "M", "N", "K", "primitive", "tensor"}
    known: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        name = match[0]
        return name if name in tensors | words else known.setdefault(name, f"x{len(known)}")

    pattern = re.compile(r"[A-Za-z_]\w*")
    shown = [pattern.sub(number, line) for line in tree]
    primitives = {line.split()[1]: line for line in tables if line.startswith("primitive")}
    axes = {line.split()[1]: line for line in tables if line.startswith("axis")}
    for name in list(known):
        if name in primitives:
            shown.append(pattern.sub(number, primitives[name]))
    for name in list(known):
        if name in axes:
            shown.append(pattern.sub(number, axes[name]))
    return "\n".join(shown)


@pytest.mark.parametrize("order", ["m0 m1 n0 n1 k0 k1", "m0 n0 k0 m1 n1 k1", "k0 k1 n1 m1 n0 m0"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("max_kernel_size", [None, 100])
def test_six_axes_end_as_three(order: str, threads: int, max_kernel_size: int | None) -> None:
    facts = replace(ONE_CORE, threads=threads, max_kernel_size=max_kernel_size)
    three = optimise(parse_program(product(1600, 1600, 1600, finish=False)), facts)
    six = optimise(six_axes(order), facts)
    assert without_names(six[-1][1]) == without_names(three[-1][1])
    assert len(six[1][1].axes) == 3


def test_the_product_is_blocked_and_packed() -> None:
    result = optimise(parse_program(product(1600, 1600, 1600)), ONE_CORE)[-1][1]
    text = print_program(result).text
    assert "scratch in0_packed: FP32" in text
    assert "zero_1: zero_scalar_1_1 if first(k_1)" in text
    assert "relu_1: relu_scalar_1_1 if last(k_1)" in text


def test_there_are_at_most_ten_passes() -> None:
    assert len(pass_list(ONE_CORE)) <= 10


def test_a_finished_program_stays_the_same_object() -> None:
    program = parse_program(product(8, 8, 8))
    once = optimise(program, ONE_CORE)[-1][1]
    assert once is not program
    assert optimise(once, ONE_CORE)[-1][1] is once


@pytest.mark.parametrize("name", ["backend-1-gemm", "backend-2-brgemm"])
def test_short_rows_are_copied_where_the_third_cache_is_far(name: str) -> None:
    text = files("teir").joinpath("examples", f"{name}.teir").read_text(encoding="utf-8")
    program = parse_program(text)
    server = replace(ONE_CORE, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20)
    for facts, is_packed in ((server, True), (replace(server, l3_bytes=64 << 20), False)):
        made = optimise(program, facts)[-1][1]
        assert check(made).ok
        assert any("in0_packed" in one.inputs for one in made.primitives) is is_packed
