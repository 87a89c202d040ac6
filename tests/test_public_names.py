"""Every public name loads and says what it is; what public functions return is public too."""

from __future__ import annotations

import inspect
import typing

import pytest

import teir


@pytest.mark.parametrize("name", teir.__all__)
def test_a_public_name_and_its_members_say_what_they_are(name: str) -> None:
    value = getattr(teir, name)
    assert inspect.getdoc(value)
    if not inspect.isclass(value):
        return
    assert [
        member
        for member, one in vars(value).items()
        if not member.startswith("_")
        and (isinstance(one, property | classmethod | staticmethod) or inspect.isfunction(one))
        and not inspect.getdoc(one)
    ] == []


def test_what_plan_returns_is_public() -> None:
    from teir.pipeline.einsum import plan

    returned = typing.get_args(typing.get_type_hints(plan)["return"])
    assert set(returned) <= {getattr(teir, name) for name in teir.__all__}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'teir' has no attribute 'einsums'"):
        teir.einsums  # noqa: B018
