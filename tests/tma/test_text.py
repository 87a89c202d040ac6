"""The text form: reading undoes printing, and mistakes are told with their line."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from teir.errors import TeirError, TextPlace
from teir.tma.case_form import transfer_of
from teir.tma.draw import draw_transfer
from teir.tma.text import parse_transfer, print_transfer

FOLDER = Path(__file__).parent

CANONICAL = """tma 1 "everything"
store f16 by tensor
shape 4, 8, 64
strides 512, 64, 1
contiguous yes, yes, yes
base 16
allocation: merge 0, 1; reorder 0 -> 1
broadcast 0
schedule: split 2 by 32; outer split 0 by 2; flatten 0 to 1; swizzle 0, 1; resize 0 by 1, 2
parallel: 0 BIDx, -1 Bulk
shared: split 1 by 4
unallocated 3, -1
swizzle 64
circular 4 warp-specialised
strong
threads 128
"""


def test_every_field() -> None:
    assert print_transfer(parse_transfer(CANONICAL)) == CANONICAL


@pytest.mark.parametrize("name", ["cases.json", "more_cases.json"])
def test_cases_survive(name: str) -> None:
    for case in json.loads((FOLDER / name).read_text())["cases"]:
        transfer = transfer_of(case, "$")
        text = print_transfer(transfer)
        assert parse_transfer(text) == transfer
        assert print_transfer(parse_transfer(text)) == text


@pytest.mark.parametrize("seed", range(40))
def test_drawn_transfers_survive(seed: int) -> None:
    transfer = replace(draw_transfer(random.Random(seed)), name='a "name" # and more')
    assert parse_transfer(print_transfer(transfer)) == transfer


def test_free_spacing_and_comments() -> None:
    text = """
        # a comment
        tma 1 "x"   # named
        load  f32 by tensor

        shape 64   # one axis
        schedule:  split 0 by 32 ;
        parallel: 1 Bulk
    """.replace("load  f32", "load f32")
    transfer = parse_transfer(text)
    assert transfer.shape == (64,)
    assert transfer.strides_elements == (1,)
    assert len(transfer.schedule) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("shape 3", 1),
        ('tma 1 "x"\nshape 3, x', 2),
        ('tma 1 "x"\nshape 3\nschedule: split 0', 3),
        ('tma 1 "x"\nshape 3\nschedule: reorder 0', 3),
        ('tma 1 "x"\nload f32', 2),
        ('tma 1 "x"\ncontiguous perhaps', 2),
        ('tma 1 "x"\nparallel: 0', 2),
        ('tma 1 "x"\ncircular 3 quickly', 2),
        ('tma 1 "x"\nshared', 2),
        ('tma 1 "x"\nbox 3', 2),
        ('tma 1 "\\x"', 1),
    ],
)
def test_mistakes_have_a_line(text: str, line: int) -> None:
    with pytest.raises(TeirError) as raised:
        parse_transfer(text)
    (finding,) = raised.value.findings
    assert finding.code == "TEIR904"
    assert isinstance(finding.place, TextPlace)
    assert finding.place.line == line


def test_values_are_judged_as_in_cases() -> None:
    with pytest.raises(TeirError, match=r"TEIR900 at \$\.shape"):
        parse_transfer('tma 1 "x"\nload f32 by tensor\nshape 0')
