"""Rows that two copies leave once more behind the last are found, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from teir.ir.check import check
from teir.ir.parsing import parse_program
from teir.lower.kernel_program import Call, KernelNode, inner_nodes
from teir.lower.kernels import PanelBlock
from teir.lower.lower import lower
from teir.lower.repeated_rows import repeated_rows
from teir.target import Isa

PACKED = """teir 1 "rows again"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
scratch packed: FP64
axis e = 3: in0 8, packed 1280, out 2304
axis m = 24: in0 120, packed 8 + 16, out 8
axis first = 6: in0 120, packed 8 + 208
axis k = 5: in0 24, packed 256, in1 8
axis n = 12: in1 40, out 192
primitive whole = Copy(in0 -> packed; M=[e, m], N=[k])
primitive few = Copy(in0 -> packed; M=[e, first], N=[k])
primitive other = Copy(in0 -> packed; M=[e, first], N=[k])
primitive one_step = Copy(in0 -> packed; M=[e, first], N=[])
primitive zero = Zero(out; M=[m], N=[n])
primitive product = Contraction FP64 (packed, in1 -> out; M=[m], N=[n], K=[k]) with {"stream": true}
all_rows: whole
again: few
sequential rows over e
  start: zero
  sum: product
"""
"""Panels of 24 rows and 6 again, 32 places apart from one step to the next."""


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


def test_rows_again_are_found() -> None:
    found = repeated_rows(parse_program(PACKED))
    assert {name: (one.rows.name, one.others, one.again) for name, one in found.items()} == {
        "packed": ("m", {"e", "k"}, 6)
    }
    panels = panels_of(PACKED)
    assert panels
    assert all(panel.wraps for panel in panels)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first = 6: in0 120, packed 8 + 208", "first = 6: in0 120 + 8, packed 8 + 208"),
        ("first = 6: in0 120, packed 8 + 208", "first = 6: in0 112, packed 8 + 208"),
        ("first = 6: in0 120, packed 8 + 208", "first = 6: in0 120, packed 8 + 200"),
        ("first = 6: in0 120, packed 8 + 208", "first = 5: in0 120, packed 8 + 208"),
        ("e = 3: in0 8, packed 1280", "e = 3: in0 8, packed 1232"),
        ("again: few\n", "again: few\nonce_more: other\n"),
        ("again: few\n", "sequential alone over k\n  again: one_step\n"),
        ("again: few\n", ""),
        ("all_rows: whole\nagain: few\n", "again: few\nall_rows: whole\n"),
    ],
    ids=[
        "other rows",
        "other steps of the source",
        "other places",
        "too few",
        "panels in each other",
        "a third copy",
        "not side by side",
        "no second copy",
        "first the few",
    ],
)
def test_other_copies_are_not_taken_for_rows_again(old: str, new: str) -> None:
    assert old in PACKED
    panels = panels_of(PACKED.replace(old, new))
    assert panels
    assert not any(panel.wraps for panel in panels)


def test_part_of_the_rows_is_no_block_to_go_round_in() -> None:
    part = "axis part = 16: packed 8 + 16, out 8\n"
    text = PACKED.replace("axis first", part + "axis first").replace("M=[m]", "M=[part]")
    panels = panels_of(text)
    assert panels
    assert not any(panel.wraps for panel in panels)
