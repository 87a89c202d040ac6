"""The text form read: free spacing, comments, and every mistake at its line and column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.any_programs import any_programs
from tests.strategies.programs import programs

from teir.errors import TeirError, TextPlace
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.ir.printing import print_program
from teir.soak.programs import DrawnProgram

TEXT = """\
teir 1 "copy"
tensor in0: FP32
tensor out: FP32
axis a = 4: in0 32, out 32
axis b = 8: in0 4, out 4
primitive move = Copy FP32 (in0 -> out; M=[b], N=[]) with {"lanes": 4}
sequential a over a
  move: move if first(a)
"""


def faults(text: str) -> list[tuple[str, int, int]]:
    """(code, line, column) of every finding."""
    with pytest.raises(TeirError) as caught:
        parse_program(text)
    places = []
    for finding in caught.value.findings:
        assert isinstance(finding.place, TextPlace)
        places.append((finding.code, finding.place.line, finding.place.column))
    return places


def test_spacing_and_comments_are_free() -> None:
    loose = TEXT.replace(" ", "   ").replace(",", " , ").replace(":", " :\t").replace("(", " ( ")
    loose = loose.replace("\n", '  # a comment, with "quotes" and {\n\n# another\n')
    assert parse_program(loose) == parse_program(TEXT)
    tight = TEXT.replace(": ", ":").replace(", ", ",").replace(" = ", "=").replace("; ", ";")
    assert parse_program(tight) == parse_program(TEXT)


def test_a_hash_in_quotes_is_no_comment() -> None:
    program = parse_program(TEXT.replace('"copy"', '"copy # 2"').replace('"lanes"', '"la#nes"'))
    assert program.name == "copy # 2"
    assert program.primitives[0].metadata == (("la#nes", "4"),)


def test_words_may_be_names() -> None:
    text = """\
teir 1 "words"
tensor tensor: FP32
tensor axis: FP32
axis over = 2: tensor 4
axis if = 2: axis 4
primitive primitive = Copy(tensor -> axis; M=[over], N=[if])
primitive over = Zero(axis; M=[over], N=[if])
parallel parallel over over
  sequential: primitive if first(over)
  scratch: primitive
tensor: over
axis: primitive
"""
    assert print_program(parse_program(text)).text == text


def test_metadata_may_be_followed_by_a_comment() -> None:
    text = TEXT.replace('"lanes": 4}', '"b": "x", "a": [1, {"c": 2}]}# {')
    entries = (("a", '[1,{"c":2}]'), ("b", '"x"'))
    assert parse_program(text).primitives[0].metadata == entries


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("teir 1", "teir ^one", "TEIR114"),
        (' "copy"', "^", "TEIR113"),
        ("tensor in0: FP32", "tensor in0 ^FP32", "TEIR113"),
        ("tensor in0", "tensor ^0in", "TEIR113"),
        ("tensor in0", 'tensor ^"in0', "TEIR113"),
        ("tensor in0", 'tensor ^"\\x"', "TEIR113"),
        ("tensor in0", 'tensor ^"\\ud800"', "TEIR113"),
        ("FP32\naxis", "^fp32\naxis", "TEIR144"),
        ("a = 4:", "a = 4^.0:", "TEIR113"),
        ("a = 4:", "a = ^:", "TEIR113"),
        ("a = 4:", "a = ^four:", "TEIR113"),
        ("in0 32,", "in0 32 + ^,", "TEIR113"),
        ("in0 32,", "in0 3^\x0b2,", "TEIR113"),
        ("in0 32, ", "in0 32; ^", "TEIR113"),
        ("in0 4, out 4", "in0 4, ^é 4", "TEIR113"),
        ("in0 4, out 4", "in0 4, ^, out 4", "TEIR113"),
        ("in0 -> out", "in0 ^> out", "TEIR113"),
        ("in0 -> out", "in0, out^", "TEIR113"),
        ("M=[b], N", "M=[b], ^M=[], N", "TEIR113"),
        ("M=[b]", "M=[b ^a]", "TEIR113"),
        ("M=[b], N=[]", "M=[b, N^=[]", "TEIR113"),
        (" (in0 -> out; M", "(in0 -> out^, M", "TEIR113"),
        ('{"lanes": 4}', "^[4]", "TEIR113"),
        ('{"lanes": 4}', "^{4}", "TEIR113"),
        (' {"lanes": 4}', "^", "TEIR113"),
        ('{"lanes": 4}', '{"lanes": 4} ^5', "TEIR113"),
        ("first(a)", "first ^a", "TEIR113"),
        ("first(a)", "first(a) ^or last(a)", "TEIR113"),
        ("first(a)", "^not(a)", "TEIR157"),
        (" first(a)", "^", "TEIR157"),
        ("  move: move if", "  move ^if", "TEIR113"),
        ("sequential a over a", "sequential a ^in a", "TEIR113"),
        ("sequential a over a", "^serial a over a", "TEIR113"),
        ("over a", "over ^c", "TEIR135"),
    ],
)
def test_a_mistake_is_found_where_it_is(old: str, new: str, code: str) -> None:
    """The mark ^ stands where the finding must point."""
    assert TEXT.count(old) == 1
    marked = TEXT.replace(old, new)
    before = marked[: marked.index("^")]
    place = (before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert faults(marked.replace("^", "")) == [(code, *place)]


def test_guards_are_joined_by_and() -> None:
    with pytest.raises(TeirError, match="expected `and`, or the end of the line, found `or`"):
        parse_program(TEXT.replace("first(a)", "first(a) or last(a)"))


def test_all_mistakes_are_found_at_once() -> None:
    text = (
        TEXT.replace("FP32\naxis", "FP33\naxis").replace("b = 8", "b 8").replace("over a", "in a")
    )
    assert [(code, line) for code, line, _ in faults(text)] == [
        ("TEIR144", 3),
        ("TEIR113", 5),
        ("TEIR113", 7),
    ]


def test_an_empty_text_has_no_header() -> None:
    for text in ("", "\n", "# only a comment"):
        assert [code for code, _, _ in faults(text)] == ["TEIR114"]


@pytest.mark.parametrize("below", ["  ", "   ", "        "])
def test_any_depth_of_indentation_will_do(below: str) -> None:
    assert parse_program(TEXT.replace("  move", f"{below}move")) == parse_program(TEXT)


def test_scratch_stands_below_an_iteration_node() -> None:
    good = TEXT.replace("  move", "  scratch t: FP32\n  move")
    assert parse_program(good).tensor_table()["t"].name == "t"
    for bad in (TEXT + "  scratch t: FP32\n", TEXT.replace("  move", "scratch t: FP32\n  move")):
        assert [code for code, _, _ in faults(bad)] == ["TEIR115"]


@given(any_programs(), st.data())
def test_a_damaged_text_never_crashes(program: Program, data: st.DataObject) -> None:
    text = print_program(program).text
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 5)))
    piece = data.draw(
        st.sampled_from(["", " ", "\n", '"', "#", "[", "}", "-", "7" * 40, "\\", "é"])
    )
    try:
        damaged = parse_program(text[:start] + piece + text[end:])
    except TeirError:
        return
    assert parse_program(print_program(damaged).text) == damaged


@given(programs())
def test_meaningful_programs_round_trip(drawn: DrawnProgram) -> None:
    program = drawn.program
    assert parse_program(print_program(program).text) == program
