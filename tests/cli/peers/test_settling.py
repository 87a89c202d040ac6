"""After settling, a plan runs the code that is made for calls made often."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import teir
from teir.backends.llvm import background
from teir.backends.llvm.background import background_specialiser
from teir.cli.peers.settling import settle
from teir.runtime.runtime import current


def test_specialised_code_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_CODE_SECONDS", 1e-5)
    first, second = np.random.default_rng(5).integers(-3, 4, (2, 512, 8, 8)).astype(np.float64)
    out = np.empty_like(first)
    plan = teir.plan("bik,bjk->bij", first, second, threads=1)
    settle(partial(plan, first, second, out=out), 0.05)
    assert plan.executable is not None
    assert plan.executable.native.is_specialised == background_specialiser(current()).is_on
    np.testing.assert_array_equal(out, first @ second.transpose(0, 2, 1))
