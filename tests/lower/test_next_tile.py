"""Tests of how far operands move to the next tile, and of what is not asked for there."""

from __future__ import annotations

from teir.dtypes import DataType
from teir.ir.memory_hints import MemoryHints
from teir.ir.nodes import Axis, Bytes, Operation, Primitive
from teir.lower.next_tile import distances_to_next_tile
from teir.target import Isa


def axis(name: str, extent: int, **strides: int) -> Axis:
    return Axis(name=name, extent=extent, strides=Bytes(strides))


def product(*prefetched: str) -> Primitive:
    return Primitive(
        name="gemm",
        operation=Operation.CONTRACTION,
        data_type=DataType.FP64,
        inputs=("in0", "in1"),
        output="out",
        m=("m",),
        n=("n",),
        k=("k",),
        metadata=MemoryHints(streams=False, prefetched=frozenset(prefetched)).metadata(),
    )


def distances(tiles: int, depth: int, isa: Isa, *prefetched: str) -> tuple[int, ...]:
    """Of tiles of 32 rows and 8 columns, the columns of in1 one after the other."""
    consumed = [
        axis("m", 32, in0=8, out=8),
        axis("n", 8, in1=8 * depth, out=256),
        axis("k", depth, in0=256, in1=8),
    ]
    loops = [axis("j", tiles, in1=64 * depth, out=2048)]
    return distances_to_next_tile(product(*prefetched), loops, consumed, 8, isa)


def test_an_input_that_streams_by_itself_is_not_asked_for() -> None:
    """512 columns of 256 numbers are 1 MB, 8192 of them 16 MB."""
    assert distances(64, 256, Isa.AVX512) == (0, 0, 2048)
    assert distances(64, 256, Isa.AVX512_INTEL) == (0, 64 * 256, 2048)
    assert distances(1024, 256, Isa.AVX512) == (0, 64 * 256, 2048)


def test_short_streams_are_asked_for() -> None:
    assert distances(64, 16, Isa.AVX512) == (0, 64 * 16, 2048)


def test_what_the_program_names_is_asked_for() -> None:
    assert distances(64, 256, Isa.AVX512, "in1") == (0, 64 * 256, 2048)


def test_the_only_tile_has_none_behind_it() -> None:
    assert distances_to_next_tile(product(), (), (), 8, Isa.AVX512) == (0, 0, 0)
