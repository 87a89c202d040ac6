"""What a finding looks like to the person who reads it."""

from __future__ import annotations

import pytest

import teir


@pytest.mark.parametrize(
    ("text", "code"), [("i" * 100_000, "TEIR607"), ("A[i] = " + "9" * 5_000 + " * B[i]", "TEIR650")]
)
def test_a_finding_is_short_whatever_the_input(text: str, code: str) -> None:
    with pytest.raises(teir.TeirError) as caught:
        teir.einsum(text, [1.0, 2.0])
    (finding,) = caught.value.findings
    assert finding.code == code
    assert len(finding.found) > 5_000
    assert len(str(finding)) < 1_500
    assert f"… ({len(finding.found)} characters)" in str(finding)


def test_what_was_found_is_whole_where_it_is_short() -> None:
    with pytest.raises(teir.TeirError, match=r"expected 2 operands, .* found 1\n"):
        teir.einsum("i,i->", [1.0, 2.0])
