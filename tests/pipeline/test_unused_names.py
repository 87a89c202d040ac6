"""A name of its own for everything."""

from __future__ import annotations

from teir.pipeline.unused_names import unused_name


def test_a_wish_is_kept_where_it_is_free() -> None:
    assert unused_name("A", {"B"}) == "A"


def test_the_first_free_number_follows() -> None:
    assert unused_name("A", {"A"}) == "A_2"
    assert unused_name("A", {"A", "A_2", "A_4"}) == "A_3"
