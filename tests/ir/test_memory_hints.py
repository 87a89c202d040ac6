"""Advice about memory is read where it is written as documented, and ignored elsewhere."""

from __future__ import annotations

import pytest

from teir.ir.memory_hints import NO_HINTS, MemoryHints, memory_hints
from teir.ir.nodes import Operation, Primitive


def contraction(metadata: tuple[tuple[str, str], ...]) -> Primitive:
    return Primitive(
        name="gemm",
        operation=Operation.CONTRACTION,
        inputs=("in0", "in1"),
        output="out",
        metadata=metadata,
    )


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("names", [(), ("in0",), ("out", "in0")])
def test_advice_reads_as_it_was_written(streams: bool, names: tuple[str, ...]) -> None:
    hints = MemoryHints(streams=streams, prefetched=frozenset(names))
    assert memory_hints(contraction(hints.metadata())) == hints
    assert list(hints.metadata()) == sorted(hints.metadata())


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("lanes", "32"),),
        (("prefetch", '"in0"'),),
        (("prefetch", "[1, 2]"),),
        (("prefetch", "[broken"),),
        (("stream", "1"),),
    ],
)
def test_anything_else_is_no_advice(metadata: tuple[tuple[str, str], ...]) -> None:
    assert memory_hints(contraction(metadata)) == NO_HINTS
