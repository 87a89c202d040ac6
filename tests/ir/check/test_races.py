"""What is said of a race: the two iterations, and the byte both touch."""

from __future__ import annotations

from itertools import product

import pytest

from teir.ir.check import check
from teir.ir.check.access import Access
from teir.ir.parsing import parse_program

TILES = """teir 1 "tiles of two elements, one element apart"
tensor in0: FP64
tensor out: FP64
axis i = 4: in0 16, out 8 + 32
axis m = 2: in0 8, out 8
primitive copy = Copy(in0 -> out; M=[m], N=[])
parallel tiles over i
  one: copy
"""


def found_of(text: str) -> str:
    (finding,) = check(parse_program(text)).findings
    assert finding.code == "TEIR403"
    return finding.found


def test_the_byte_is_the_one_both_iterations_write() -> None:
    assert found_of(TILES) == (
        "node one writing byte 40 of out at i=1 and node one writing it at i=0"
    )


def test_two_nodes_meet_at_a_byte_of_both() -> None:
    text = """teir 1 "an iteration reads what the next one writes"
tensor out: FP32
axis p = 4: out 4
axis m = 4: out 16
axis back = 1: out 0 - 4
primitive one = Zero(out; M=[m], N=[])
primitive clip = ReLU(out -> out; M=[m, back], N=[])
parallel columns over p
  zero: one
  relu: clip
"""
    assert found_of(text) == (
        "node zero writing byte 12 of out at p=3 and node relu writing it at p=0"
    )


@pytest.mark.parametrize(("offset", "is_race"), [(24, True), (40, True), (48, False)])
def test_what_the_last_step_writes_lies_where_it_ends(offset: int, is_race: bool) -> None:
    """Row p writes bytes 32 + 8 p, in the last of three steps, and 8 p from ``offset`` on."""
    text = f"""teir 1 "the last step of a row and what follows it"
tensor out: FP64
axis p = 2: out 8
axis i = 3: out 16
axis far = 1: out 0 + {offset}
primitive here = Zero(out; M=[], N=[])
primitive there = Zero(out; M=[far], N=[])
parallel rows over p
  sequential steps over i
    last: here if last(i)
  behind: there
"""
    found = [finding.code for finding in check(parse_program(text)).findings]
    assert found == ["TEIR403"] * is_race


def test_a_tile_clipped_in_place_may_overlap_itself() -> None:
    """What is written twice is the same both times."""
    text = """teir 1 "overlapping rows, clipped where they lie"
tensor out: FP32
axis m = 8: out 4
axis n = 4: out 16
primitive tile = ReLU(out -> out; M=[m], N=[n])
relu: tile
"""
    assert check(parse_program(text)).ok


def test_an_iteration_may_meet_a_later_one() -> None:
    text = """teir 1 "an iteration writes what the next one reads"
tensor out: FP32
axis p = 4: out 4
axis on = 1: out 0 + 4
primitive one = Zero(out; M=[on], N=[])
primitive clip = ReLU(out -> out; M=[], N=[])
parallel columns over p
  zero: one
  relu: clip
"""
    assert found_of(text) == (
        "node zero writing byte 4 of out at p=0 and node relu writing it at p=1"
    )


def test_the_first_two_nodes_that_meet_are_named() -> None:
    text = """teir 1 "three nodes write what the next iteration writes"
tensor out: FP32
axis p = 4: out 4
axis one = 1: out 0 + 4
axis two = 1: out 0 + 8
primitive here = Zero(out; M=[], N=[])
primitive next = Zero(out; M=[one], N=[])
primitive behind = Zero(out; M=[two], N=[])
parallel columns over p
  first: here
  second: next
  third: behind
"""
    assert found_of(text) == (
        "node first writing byte 4 of out at p=1 and node second writing it at p=0"
    )


@pytest.mark.parametrize("terms", [(), ((8, 3),), ((40, 2), (8, 3), (4, 1))])
def test_an_access_ends_at_its_highest_address(terms: tuple[tuple[int, int], ...]) -> None:
    access = Access(12, terms, (), 0, 0, frozenset())
    indices = product(*(range(extent) for _, extent in terms))
    reached = [12 + sum(s * i for (s, _), i in zip(terms, point, strict=True)) for point in indices]
    assert access.end == max(reached)


def test_two_walks_may_come_to_one_position() -> None:
    """Fibres of one level are apart, those of two levels need not be."""
    text = """teir 1 "two walks write at their positions"
tensor T: FP64
tensor pos: I32
tensor crd: I32
tensor more: I32
tensor other: I32
axis i = 3: pos 4, more 4
axis k = 9: crd 4, T 8; segment pos pos crd crd by_position [T]
axis l = 9: other 4, T 8; segment pos more crd other by_position [T]
primitive zero = Zero(T; M=[], N=[])
parallel rows over i
  sequential here over k
    first: zero
"""
    assert check(parse_program(text)).ok
    both = f"{text}  sequential there over l\n    second: zero\n"
    assert found_of(both) == (
        "node first writing what may be one byte of T at i=1 and node second writing it at i=0"
    )


HALVES = """teir 1 "halves of the rows at the positions of two walks"
tensor T: FP64
tensor pos: I32
tensor crd: I32
tensor more: I32
tensor other: I32
axis half = 2: T {half}
axis i = 3: pos 4, more 4
axis k = 9: crd 4, T {row}; segment pos pos crd crd by_position [T]
axis l = 9: other 4, T {row}; segment pos more crd other by_position [T]
axis m = 10: T 8
primitive zero = Zero(T; M=[m], N=[])
parallel halves over half
  sequential rows over i
    sequential here over k
      first: zero
    sequential there over l
      second: zero
"""


@pytest.mark.parametrize(
    ("half", "row", "is_apart"), [(80, 160, True), (80, 152, False), (72, 160, False)]
)
def test_parts_of_rows_lie_apart_whatever_walks_come_to_them(
    half: int, row: int, is_apart: bool
) -> None:
    """The last byte of a row's last part lies below the next row."""
    report = check(parse_program(HALVES.format(half=half, row=row)))
    assert report.ok is is_apart
    assert {finding.code for finding in report.findings} <= {"TEIR403"}


def test_rows_of_two_walks_have_one_length() -> None:
    text = HALVES.format(half=80, row=160).replace("other 4, T 160", "other 4, T 320")
    assert not check(parse_program(text)).ok


def test_the_byte_is_that_of_the_steps_guards_ask_for() -> None:
    text = """teir 1 "all rows of the last step write one element"
tensor out: FP64
axis i = 3: out 64
axis p = 2: out 0
primitive here = Zero(out; M=[], N=[])
sequential steps over i
  parallel rows over p
    last: here if last(i)
"""
    assert found_of(text) == (
        "node last writing byte 128 of out at p=1 and node last writing it at p=0"
    )


def test_the_last_iteration_may_meet_the_one_before() -> None:
    text = """teir 1 "the last iteration writes what the one before it writes"
tensor out: FP32
axis p = 4: out 4
axis back = 1: out 0 - 4
primitive here = Zero(out; M=[], N=[])
primitive before = Zero(out; M=[back], N=[])
parallel columns over p
  each: here
  end: before if last(p)
"""
    assert found_of(text) == (
        "node each writing byte 8 of out at p=2 and node end writing it at p=3"
    )
