"""Configurations of etops: the flat form in other words."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from teir.errors import TeirError
from teir.ir.load import loads
from teir.ir.nodes import Policy, Program

CONFIG: dict[str, Any] = {
    "backend": "tpp",
    "data_type": "float32",
    "prim_first": "zero",
    "prim_main": "gemm",
    "prim_last": "none",
    "dim_types": ["n", "k", "m", "n", "k"],
    "exec_types": ["shared", "seq", "prim", "prim", "prim"],
    "dim_sizes": [4, 2, 8, 6, 16],
    "strides": [[[0, 128, 1, 0, 8], [192, 16, 0, 32, 1], [48, 0, 1, 8, 0]]],
}
FLAT: dict[str, Any] = {
    "teir_flat": 1,
    "data_type": "FP32",
    "prim_first": "Zero",
    "prim_main": "GEMM",
    "prim_last": "None",
    "dim_types": ["N", "K", "M", "N", "K"],
    "exec_types": ["parallel", "seq", "prim", "prim", "prim"],
    "dim_sizes": [4, 2, 8, 6, 16],
    "strides": CONFIG["strides"][0],
}


def load(**changes: object) -> Program:
    return loads(json.dumps(CONFIG | changes))


def faults(**changes: object) -> list[tuple[str, str]]:
    with pytest.raises(TeirError) as caught:
        load(**changes)
    return [(finding.code, str(finding.place)) for finding in caught.value.findings]


def test_it_is_the_flat_form_in_other_words() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load() == loads(json.dumps(FLAT))


def test_the_backend_is_ignored() -> None:
    without = {key: value for key, value in CONFIG.items() if key != "backend"}
    assert loads(json.dumps(without)) == load(backend="other") == load()


def test_a_curve_is_parallel() -> None:
    program = load(exec_types=["sfc", "seq", "prim", "prim", "prim"])
    assert program == load()
    assert program.roots[0].policy is Policy.PARALLEL  # type: ignore[union-attr]


def test_further_levels_are_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="2 levels"):
        assert load(strides=CONFIG["strides"] * 2) == load()


def test_zero_alone() -> None:
    program = load(
        prim_first="none",
        prim_main="zero",
        dim_types=["c", "c"],
        exec_types=["seq", "prim"],
        dim_sizes=[4, 8],
        strides=[[[0, 0], [8, 1]]],
    )
    (zero,) = program.primitives
    assert (zero.inputs, zero.output, zero.m) == ((), "out", ("c1",))


def test_words_of_the_flat_form_are_not_words_of_etops() -> None:
    assert faults(data_type="FP32", prim_main="GEMM", dim_types=["N", "k", "m", "n", "k"]) == [
        ("TEIR201", "$.data_type"),
        ("TEIR203", "$.prim_main"),
        ("TEIR205", "$.dim_types[0]"),
    ]
    assert faults(exec_types=["parallel", "seq", "prim", "prim", "prim"]) == [
        ("TEIR206", "$.exec_types[0]")
    ]


def test_findings_quote_the_level() -> None:
    strides = [[[0, 128, 1, 0, 8], [192, 16, 0, -32, 1], [48, 0, 1, 8, 7]]]
    assert faults(strides=strides) == [
        ("TEIR210", "$.strides[0][1][3]"),
        ("TEIR212", "$.strides[0][2][4]"),
    ]
    assert faults(strides=[[1]]) == [("TEIR140", "$.strides[0][0]")]
