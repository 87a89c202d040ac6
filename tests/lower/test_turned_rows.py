"""Rows that three copies leave once more behind the last, taken round, are found, no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import teir
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.parsing import parse_program
from teir.lower.kernel_program import Call, KernelNode, inner_nodes
from teir.lower.kernels import PanelBlock
from teir.lower.lower import lower
from teir.lower.turned_rows import TurnedRows
from teir.lower.turned_runs import turned_operands
from teir.target import ARRAY_START_BYTES, Isa

PACKED = """teir 1 "turned rows"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
scratch packed: FP64
axis e = 3: in0 8, packed 1920, out 2304
axis m = 24: in0 120, packed 8, out 8
axis late = 18: in0 120 + 720, packed 8 + 960
axis first = 6: in0 120, packed 8 + 1104
axis k = 5: in0 24, packed 192, in1 8
axis n = 12: in1 40, out 192
primitive whole = Copy(in0 -> packed; M=[e, m], N=[k])
primitive last = Copy(in0 -> packed; M=[e, late], N=[k])
primitive few = Copy(in0 -> packed; M=[e, first], N=[k])
primitive other = Copy(in0 -> packed; M=[e, first], N=[k])
primitive one_step = Copy(in0 -> packed; M=[e, first], N=[])
primitive zero = Zero(out; M=[m], N=[n])
primitive product = Contraction FP64 (packed, in1 -> out; M=[m], N=[n], K=[k]) with {"stream": true}
all_rows: whole
from_line: last
before_line: few
sequential rows over e
  start: zero
  sum: product
"""
"""Panels of five steps of 24 rows, then of rows 6 to 23 and 0 to 5."""


def panels_of(text: str) -> list[PanelBlock]:
    program = parse_program(text)
    assert check(program).ok, check(program)

    def kernels(nodes: Sequence[KernelNode]) -> Iterator[PanelBlock]:
        for node in nodes:
            if not isinstance(node, Call):
                yield from kernels(inner_nodes(node))
            elif isinstance(node.kernel, PanelBlock):
                yield node.kernel

    return list(kernels(lower(program, Isa.AVX512).roots))


def test_turned_rows_are_found() -> None:
    found = turned_operands(parse_program(PACKED))
    assert {
        name: (one.rows.name, one.others, one.first, one.distance_bytes)
        for name, one in found.items()
        if isinstance(one, TurnedRows)
    } == {"packed": ("m", {"e", "k"}, 6, 960)}
    panels = panels_of(PACKED)
    assert panels
    assert all(panel.turns for panel in panels)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first = 6: in0 120,", "first = 6: in0 120 + 8,"),
        ("late = 18: in0 120 + 720,", "late = 18: in0 120 + 712,"),
        ("late = 18: in0 120 + 720,", "late = 18: in0 112 + 720,"),
        ("packed 8 + 1104", "packed 8 + 1096"),
        ("packed 8 + 960", "packed 8 + 968"),
        ("first = 6:", "first = 5:"),
        ("e = 3: in0 8, packed 1920", "e = 3: in0 8, packed 1904"),
        ("before_line: few\n", "before_line: few\nonce_more: other\n"),
        ("before_line: few\n", "sequential alone over k\n  before_line: one_step\n"),
        ("before_line: few\n", ""),
        ("from_line: last\nbefore_line: few\n", "before_line: few\nfrom_line: last\n"),
    ],
    ids=[
        "other first rows",
        "other last rows",
        "other steps of the source",
        "first rows elsewhere",
        "last rows elsewhere",
        "too few",
        "panels in each other",
        "a fourth copy",
        "not side by side",
        "two copies",
        "another order",
    ],
)
def test_other_copies_are_not_taken_for_turned_rows(old: str, new: str) -> None:
    assert old in PACKED
    panels = panels_of(PACKED.replace(old, new))
    assert panels
    assert not any(panel.turns for panel in panels)


COPIES = "all_rows: whole\nfrom_line: last\nbefore_line: few\n"
INSIDE = "  all_rows: whole\n  from_line: last\n  before_line: few\n"


@pytest.mark.parametrize(
    ("shift", "changes"),
    [
        ("z = 1: packed 0 + 8", {"K=[k]) with": "K=[z, k]) with"}),
        ("z = 1: packed 0 + 8", {"  sum:": "  sequential shift over z\n    sum:"}),
        ("z = 1: packed 0 - 8", {COPIES: "sequential shift over z\n" + INSIDE}),
        ("z = 2: packed 8", {COPIES: "sequential shift over z\n" + INSIDE}),
        ("z = 1: in1 8", {"scratch packed": "tensor packed"}),
    ],
    ids=["in the sum", "around the sum", "around the copies", "copied again", "a caller's tensor"],
)
def test_rows_that_lie_elsewhere_are_not_turned(shift: str, changes: dict[str, str]) -> None:
    """Rows begin one later than those copied; are written over; hold what the caller had."""
    text = PACKED.replace("axis n =", f"axis {shift}\naxis n =")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    assert not any(panel.turns for panel in panels_of(text))
    same_as_evaluated(text)


def test_a_shift_of_all_turns_rows_all_the_same() -> None:
    text = PACKED.replace("axis n =", "axis z = 1: packed 0 + 8\naxis n =")
    text = text.replace("N=[n], K=[k])", "N=[n], K=[z, k])")
    text = text.replace(COPIES, "sequential shift over z\n" + INSIDE)
    assert all(panel.turns for panel in panels_of(text))
    same_as_evaluated(text)


def same_as_evaluated(text: str) -> None:
    """The native program gives the evaluator's bits where turned rows make whole lines."""
    program, draw = parse_program(text), np.random.default_rng(2)
    operands = {
        one.name: draw.integers(-3, 4, 900).astype(np.float64)
        for one in program.tensors
        if one.name != "out"
    }
    around = np.full(900, np.nan)
    start = (ARRAY_START_BYTES - around.ctypes.data) % 64 // 8
    out = around[start : start + 3 * 288]
    expected = out.copy()
    evaluate(program, {name: one.copy() for name, one in operands.items()} | {"out": expected})
    teir.run(program, operands | {"out": out}, threads=1)
    np.testing.assert_array_equal(out, expected)


def test_part_of_the_rows_is_no_block_to_go_round_in() -> None:
    part = "axis part = 16: packed 8, out 8\n"
    text = PACKED.replace("axis late", part + "axis late").replace("M=[m]", "M=[part]")
    panels = panels_of(text)
    assert panels
    assert not any(panel.turns for panel in panels)
