"""Results in arrays of any library, zeros among them: written where the caller's elements lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import teir
from teir.errors import TeirError


class Interface:
    """An array known by the array interface alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.__array_interface__ = array.__array_interface__


class Struct:
    """An array known by the structure of the array interface alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.__array_struct__ = array.__array_struct__


class Capsule:
    """An array known by DLPack alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)


@pytest.mark.parametrize("wrap", [Interface, Struct, Capsule])
@pytest.mark.parametrize("depth", [0, 2])
def test_out_known_by_a_protocol(wrap: Callable[..., Any], depth: int) -> None:
    result = np.full((4, 3), 7.0).T
    out = wrap(result)
    for _ in range(3):
        made = teir.einsum("ij,jk->ik", np.ones((3, depth)), np.ones((depth, 4)), out=out)
        assert made is out
    np.testing.assert_array_equal(result, np.full((3, 4), depth))


class TestTorch:
    torch = pytest.importorskip("torch")

    @pytest.mark.parametrize("name", ["float32", "bfloat16", "int64"])
    def test_tensors_of_inference_are_filled(self, name: str) -> None:
        torch = self.torch
        kind = getattr(torch, name)
        with torch.inference_mode():
            out = torch.ones(4, 3, dtype=kind).t()
        a, b = torch.ones(3, 0, dtype=kind), torch.ones(0, 4, dtype=kind)
        assert teir.einsum("ij,jk->ik", a, b, out=out) is out
        assert out.tolist() == [[0] * 4] * 3

    @pytest.mark.parametrize("name", ["float32", "bfloat16", "int64"])
    def test_elements_by_turns_share_no_byte(self, name: str) -> None:
        torch = self.torch
        b = torch.arange(8).to(getattr(torch, name))
        teir.einsum("i->i", b[::2], out=b[1::2])
        assert b.tolist() == [0, 0, 2, 2, 4, 4, 6, 6]
        with pytest.raises(TeirError, match="TEIR635"):
            teir.einsum("i->i", b[:4], out=b[3:7])
