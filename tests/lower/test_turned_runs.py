"""Pairs of runs that four copies leave once more behind the last, taken round, and no others."""

from __future__ import annotations

import pytest

from lower.test_turned_rows import panels_of, same_as_evaluated
from teir.ir.parsing import parse_program
from teir.lower.turned_runs import TurnedRuns, turned_operands

PACKED = """teir 1 "turned runs"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
scratch packed: FP64
axis e = 3: in0 8, packed 1920, out 2304
axis r = 2: in0 1440, packed 96, out 1152
axis m = 12: in0 120, packed 8, out 8
axis ends = 2: in0 1440, packed 64
axis late = 6: in0 120 + 720, packed 8 + 960
axis first = 2: in0 120, packed 8 + 1008
axis halves = 2: in0 1440, packed 32
axis between = 4: in0 120 + 240, packed 8 + 1088
axis k = 5: in0 24, packed 192, in1 8
axis n = 12: in1 40, out 96
primitive whole = Copy(in0 -> packed; M=[e, r, m], N=[k])
primitive last = Copy(in0 -> packed; M=[e, ends, late], N=[k])
primitive few = Copy(in0 -> packed; M=[e, ends, first], N=[k])
primitive half = Copy(in0 -> packed; M=[e, halves, between], N=[k])
primitive other = Copy(in0 -> packed; M=[e, halves, between], N=[k])
primitive one_step = Copy(in0 -> packed; M=[e, halves, between], N=[])
primitive zero = Zero(out; M=[r, m], N=[n])
primitive product = Contraction FP64 (packed, in1 -> out; M=[r, m], N=[n], K=[k]) with HINTS
all_rows: whole
from_line: last
before_line: few
in_line: half
sequential rows over e
  start: zero
  sum: product
""".replace("HINTS", '{"stream": true}')
"""Panels of five steps of two runs of 12 rows: 6 to 11 and 0 and 1 of both, then 2 to 5 of both."""
COPIES = "all_rows: whole\nfrom_line: last\nbefore_line: few\nin_line: half\n"
INSIDE = "".join(f"  {line}\n" for line in COPIES.splitlines())


def changed(*changes: tuple[str, str]) -> str:
    text = PACKED
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def test_turned_runs_are_found() -> None:
    (turned,) = turned_operands(parse_program(PACKED)).values()
    assert isinstance(turned, TurnedRuns)
    assert (turned.rows.name, turned.runs.name, turned.others) == ("m", "r", {"e", "k"})
    assert (turned.offset_bytes, turned.distance_bytes) == (0, 960)
    panels = panels_of(PACKED)
    assert panels
    assert all(panel.turns and panel.runs == 2 for panel in panels)
    same_as_evaluated(PACKED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first = 2: in0 120,", "first = 2: in0 120 + 8,"),
        ("late = 6: in0 120 + 720,", "late = 6: in0 120 + 712,"),
        ("late = 6: in0 120 + 720,", "late = 6: in0 112 + 720,"),
        ("between = 4: in0 120 + 240,", "between = 4: in0 120 + 120,"),
        ("ends = 2: in0 1440,", "ends = 2: in0 720,"),
        ("halves = 2: in0 1440,", "halves = 2: in0 1440 + 120,"),
        ("packed 8 + 1008", "packed 8 + 1096"),
        ("halves = 2: in0 1440, packed 32", "halves = 2: in0 1440, packed 40"),
        ("first = 2:", "first = 1:"),
        ("e = 3: in0 8, packed 1920", "e = 3: in0 8, packed 1904"),
        ("in_line: half\n", "in_line: half\nonce_more: other\n"),
        ("in_line: half\n", "sequential alone over k\n  in_line: one_step\n"),
        ("in_line: half\n", ""),
        ("before_line: few\nin_line: half\n", "in_line: half\nbefore_line: few\n"),
    ],
    ids=[
        "other first rows",
        "other last rows",
        "other steps of the source",
        "other rows between",
        "other runs of the source",
        "runs that begin later",
        "first rows elsewhere",
        "halves apart",
        "too few",
        "panels in each other",
        "a fifth copy",
        "not side by side",
        "three copies",
        "another order",
    ],
)
def test_other_copies_are_not_taken_for_turned_runs(old: str, new: str) -> None:
    text = changed((old, new))
    panels = panels_of(text)
    assert panels
    assert not any(panel.turns for panel in panels)
    same_as_evaluated(text)


@pytest.mark.parametrize(
    ("shift", "changes"),
    [
        ("z = 1: packed 0 + 8", [("K=[k]) with", "K=[z, k]) with")]),
        ("z = 1: packed 0 + 8", [("  sum:", "  sequential shift over z\n    sum:")]),
        ("z = 1: packed 0 - 8", [(COPIES, "sequential shift over z\n" + INSIDE)]),
        ("z = 2: packed 8", [(COPIES, "sequential shift over z\n" + INSIDE)]),
        ("z = 1: in1 8", [("scratch packed", "tensor packed")]),
    ],
    ids=["in the sum", "around the sum", "around the copies", "copied again", "a caller's tensor"],
)
def test_runs_that_lie_elsewhere_are_not_turned(shift: str, changes: list[tuple[str, str]]) -> None:
    """Rows begin one later than those copied; are written over; hold what the caller had."""
    text = changed(("axis n =", f"axis {shift}\naxis n ="), *changes)
    assert not any(panel.turns for panel in panels_of(text))
    same_as_evaluated(text)


@pytest.mark.parametrize(
    "part",
    [
        [("axis n =", "axis part = 8: packed 8, out 8\naxis n ="), ("M=[r, m]", "M=[r, part]")],
        [("n = 12: in1 40, out 96", "n = 9: in1 40, out 96")],
        [("n = 12: in1 40, out 96", "n = 12: in1 40, out 192"), ("out 1152", "out 96")],
    ],
    ids=["some rows", "columns odd in number", "columns apart"],
)
def test_other_blocks_do_not_take_runs_round(part: list[tuple[str, str]]) -> None:
    text = changed(*part)
    panels = panels_of(text)
    assert not any(panel.turns and panel.columns % 2 for panel in panels)
    assert not any(panel.turns and not panel.dense_columns for panel in panels)
    assert not any(panel.turns and panel.rows != 24 for panel in panels)
    same_as_evaluated(text)


def test_a_shift_of_all_turns_runs_all_the_same() -> None:
    text = changed(
        ("axis n =", "axis z = 1: packed 0 + 8\naxis n ="),
        ("N=[n], K=[k])", "N=[n], K=[z, k])"),
        (COPIES, "sequential shift over z\n" + INSIDE),
    )
    assert all(panel.turns for panel in panels_of(text))
    same_as_evaluated(text)
