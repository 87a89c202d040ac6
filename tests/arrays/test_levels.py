"""Storage formats as text."""

from __future__ import annotations

import pytest

from teir.arrays.levels import Level, dense_format, parse_format, usual_levels
from teir.errors import TeirError


@pytest.mark.parametrize(
    ("text", "order", "prefix", "printed"),
    [
        ("", (), 0, ""),
        ("dd", (0, 1), 0, "dd"),
        ("ds", (0, 1), 2, "ds"),
        ("dsd:2,0,1", (2, 0, 1), 2, "dsd:2,0,1"),
        ("sd:0,1", (0, 1), 1, "sd"),
    ],
)
def test_a_format_is_read_and_printed(
    text: str, order: tuple[int, ...], prefix: int, printed: str
) -> None:
    fmt = parse_format(text)
    assert (fmt.mode_order, fmt.sparse_prefix, str(fmt)) == (order, prefix, printed)
    assert fmt.is_sparse == (Level.COMPRESSED in fmt.levels)


@pytest.mark.parametrize(
    "text", ["dx", "ds:0", "ds:0,0", "ds:a,b", "ds:1,2", "ds:" + "9" * 5000 + ",0"]
)
def test_what_is_no_format_is_refused(text: str) -> None:
    with pytest.raises(TeirError) as caught:
        parse_format(text)
    assert caught.value.findings[0].code == "TEIR660"


def test_dense_is_all_letters_d() -> None:
    assert dense_format(3) == parse_format("ddd")


@pytest.mark.parametrize(
    ("extents", "stored", "letters"),
    [
        ((), 1, ""),
        ((2**60,), 1, "s"),
        ((2**20, 3), 0, "ds"),
        ((2**20 + 1, 3), 1, "ss"),
        ((2**22, 3, 4), 2**18, "dss"),
        ((2**22, 3, 4), 2**18 - 1, "sss"),
    ],
)
def test_rows_without_end_are_compressed(
    extents: tuple[int, ...], stored: int, letters: str
) -> None:
    assert usual_levels(extents, stored) == letters
