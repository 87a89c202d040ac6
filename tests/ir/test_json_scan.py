"""The pass before the JSON reader: what it refuses, and that the quick pass misses nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.any_programs import JSON

from teir.ir.json_scan import Scanned, end_without_fault, path_step, scan, scan_with_paths


def faults(text: str) -> list[tuple[str, str]]:
    return [(fault.rule.code, fault.path) for fault in scan(text).faults]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1, "a": 2}', [("TEIR106", "$.a")]),
        ('{"a": 1, "\\u0061": 2}', [("TEIR106", "$.a")]),
        ('{"x": [0, {"b c": 1, "b c": 2}]}', [("TEIR106", '$.x[1]["b c"]')]),
        ('{"x": {"a": 1}, "y": {"a": 1}}', []),
        ('["a", "a"]', []),
        ('{"a": "a"}', []),
        ('{"a": {"b": 1, "b": 2}, "a": 3}', [("TEIR106", "$.a.b"), ("TEIR106", "$.a")]),
        ("[" * 32 + "]" * 32, []),
        ("[1, " + "[" * 32 + "]" * 33, [("TEIR105", "$[1]" + "[0]" * 32)]),
        ("[1, -" + "1" * 32 + "]", [("TEIR107", "$[1]")]),
        ('{"a": ' + "1" * 32 + "}", []),
        ('"' + "1" * 99 + '"', []),
        ('["[[[", "{\\"a\\":1,\\"a\\":2}"]', []),
    ],
)
def test_faults(text: str, expected: list[tuple[str, str]]) -> None:
    assert faults(text) == expected


@pytest.mark.parametrize("rest", ["", " # comment", "}", ', "b": {"a": 1'])
def test_the_scan_ends_with_the_first_value(rest: str) -> None:
    assert scan('{"a": [{}, "}"]}' + rest) == Scanned(end=16, faults=())


@pytest.mark.parametrize(
    ("key", "step"), [("a", ".a"), ("a.b", '["a.b"]'), ("", '[""]'), ('"', '["\\""]')]
)
def test_path_steps(key: str, step: str) -> None:
    assert path_step(key) == step


@given(JSON, st.data())
def test_the_quick_pass_agrees_with_the_slow_one(value: object, data: st.DataObject) -> None:
    text = json.dumps([value, {"a": value}])
    assert end_without_fault(text) in (len(text), None)
    start = data.draw(st.integers(0, len(text)))
    piece = data.draw(st.sampled_from(["", '"', "{", "]", '"a":', ",", "\\", "1" * 40]))
    damaged = text[:start] + piece + text[start:]
    end = end_without_fault(damaged)
    if end is not None:
        assert scan_with_paths(damaged) == Scanned(end=end, faults=())
