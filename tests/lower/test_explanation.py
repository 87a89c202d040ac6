"""What a lowered program is in words, how often it calls each kernel, and how long that takes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.ir.parsing import parse_program
from teir.lower.access import Access
from teir.lower.calls import calls_of
from teir.lower.copy_kernels import (
    JoinedTranspose,
    RowCopy,
    ShortTranspose,
    SteppedCopy,
    TransposeCopy,
)
from teir.lower.estimate import estimate_seconds
from teir.lower.explanation import count_calls, explain_lowering
from teir.lower.kernel_program import (
    Address,
    Call,
    Grid,
    GridAxis,
    Guarded,
    IndexTest,
    KernelNode,
    Loop,
)
from teir.lower.kernel_text import describe_kernel
from teir.lower.kernels import Elementwise, GemmBlock, Kernel, ProductSum
from teir.lower.lower import lower
from teir.target import Isa

BLOCK = GemmBlock(
    in_type=DataType.FP32,
    out_type=DataType.FP32,
    lanes=16,
    vectors=2,
    columns=11,
    a_access=Access.UNIT,
    c_access=Access.UNIT,
    masked=False,
)
ZERO = Elementwise(
    operation=Operation.ZERO,
    in_type=DataType.FP32,
    out_type=DataType.FP32,
    lanes=16,
    accesses=(Access.UNIT,),
)
TURN = TransposeCopy(element_bytes=4, lanes=16)
SUM = ProductSum(
    in_type=DataType.FP64,
    out_type=DataType.FP64,
    inputs=1,
    lanes=8,
    accesses=(Access.STRIDED, Access.UNIT),
)
ARGUMENTS = {
    BLOCK: (32, 128, 4, 1, 0, 0, 1, 0, 0, 128, 128, 0, 16, 4, 4, 0, 0),
    ZERO: (16, 4, 4, 64),
    TURN: (16, 16, 64, 64),
    SUM: (8, 10, 1, 0, 64, 8, 8, 0),
}


def call(kernel: Kernel) -> Call:
    operands = {BLOCK: 3, ZERO: 1, TURN: 2, SUM: 2}[kernel]
    return Call(
        kernel=kernel,
        operands=tuple(Address(slot=slot, offset_bytes=0) for slot in range(operands)),
        arguments=ARGUMENTS[kernel],
    )


def loop(extent: int, *body: KernelNode, index: int | None = None) -> Loop:
    return Loop(extent=extent, steps=(), index=index, body=body)


def grid(extents: tuple[int, ...], *body: KernelNode) -> Grid:
    axes = tuple(GridAxis(extent=extent, steps=(), index=None) for extent in extents)
    return Grid(axes=axes, body=body)


def at(index: int, *body: KernelNode) -> Guarded:
    return Guarded(tests=(IndexTest(index=index, value=0),), body=body)


def seconds(*roots: KernelNode) -> float:
    return estimate_seconds(calls_of(roots))


def test_a_guard_lets_one_index_of_its_axis_through() -> None:
    nest = grid((3, 4), loop(5, at(0, call(ZERO)), call(BLOCK), index=0))
    assert count_calls((nest, call(BLOCK))) == {BLOCK: 61, ZERO: 12}


def test_a_loop_inside_a_guard_counts_fully() -> None:
    assert count_calls((loop(5, at(0, loop(7, call(ZERO))), index=0),)) == {ZERO: 7}


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (BLOCK, "GemmBlock FP32 32×11 (2 vectors of 16 × 11 columns; A unit, C unit)"),
        (SUM, "ProductSum FP64 of 1 input (8 lanes; strided, unit)"),
        (
            replace(SUM, accesses=(Access.UNIT, Access.UNIT), vectors=3),
            "ProductSum FP64 of 1 input (8 lanes; unit, unit; rows of 3 vectors)",
        ),
        (ZERO, "Zero FP32 (16 lanes; unit)"),
        (TURN, "TransposeCopy of 4-byte elements (16×16 in registers)"),
        (
            replace(TURN, aligns=True),
            "TransposeCopy of 4-byte elements (16×16 in registers, to whole lines)",
        ),
        (
            replace(TURN, columns=6),
            "TransposeCopy of 4-byte elements (6 at once in registers)",
        ),
        (
            replace(TURN, grouped=2),
            "TransposeCopy of 4-byte elements (16×16 in registers, rows in groups of 2)",
        ),
        (
            JoinedTranspose(element_bytes=2, lanes=32),
            "JoinedTranspose of 2-byte elements (32×32 in registers, short runs joined)",
        ),
        (
            ShortTranspose(element_bytes=8, side=3, lanes=4, joins=True),
            "ShortTranspose of 8-byte elements (3 vectors of 4 put together)",
        ),
        (
            ShortTranspose(element_bytes=4, side=2, lanes=16, joins=False),
            "ShortTranspose of 4-byte elements (2 vectors of 16 taken apart)",
        ),
        (
            SteppedCopy(element_bytes=4, step=3, lanes=16),
            "SteppedCopy of 4-byte elements (one of 3, vectors of 16)",
        ),
        (RowCopy(piece_bytes=64, pieces=3), "RowCopy of rows in pieces (3 of 64 bytes)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_kernel_in_one_line(kernel: Kernel, words: str) -> None:
    assert describe_kernel(kernel) == words


def test_a_conversion_and_a_partial_block_say_so() -> None:
    convert = Elementwise(
        operation=Operation.COPY,
        in_type=DataType.BF16,
        out_type=DataType.FP32,
        lanes=16,
        accesses=(Access.UNIT, Access.UNIT),
    )
    assert describe_kernel(convert) == "Copy BF16 to FP32 (16 lanes; unit, unit)"
    partial = GemmBlock(
        in_type=DataType.FP32,
        out_type=DataType.FP32,
        lanes=16,
        vectors=1,
        columns=3,
        a_access=Access.STRIDED,
        c_access=Access.UNIT,
        masked=True,
    )
    assert describe_kernel(partial) == (
        "GemmBlock FP32 16-×3 (1 vectors of 16 × 3 columns; A strided, C unit, masked)"
    )


PACKED = """teir 1 "packed product"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis p = 3: in0 2048, out 512
axis m = 16: in0 128, t 4, out 4
axis k = 32: in0 4, t 64, in1 4
axis n = 8: in1 128, out 64
primitive pack = Copy(in0 -> t; M=[m], N=[k])
primitive zero = Zero(out; M=[m], N=[n])
primitive gemm = Contraction FP32 (t, in1 -> out; M=[m], N=[n], K=[k])
parallel p over p
  scratch t: FP32
  pack: pack
  zero: zero
  gemm: gemm
"""


def test_work_tables_calls_grids_and_scratch() -> None:
    program = parse_program(PACKED)
    lines = explain_lowering(program, lower(program, Isa.AVX512)).splitlines()
    # 3 tiles of 16 x 8 x 32; in0 whole, in1 once, out once.
    assert lines[:2] == [
        "work",
        "  24,576 floating-point operations, 7,168 bytes read, 1,536 bytes written",
    ]
    assert lines[2].startswith("contractions")
    assert [line.split("×", 1)[0].strip() for line in lines[5:7]] == ["3", "3"]
    assert sorted(line.split("× ")[1].split(" ")[0] for line in lines[5:7]) == [
        "GemmBlock",
        "TransposeCopy",
    ]
    assert lines[-2:] == [
        "  parallel grid of 3 tasks",
        "scratch: 0 bytes, and 2,048 bytes for every thread",
    ]


def test_a_copy_has_no_contraction_and_no_scratch() -> None:
    text = """teir 1 "copy"
tensor in0: FP64
tensor out: FP64
axis i = 6: in0 8, out 8
primitive copy = Copy(in0 -> out; M=[i], N=[])
c: copy
"""
    program = parse_program(text)
    words = explain_lowering(program, lower(program, Isa.PLAIN))
    assert words.splitlines()[2] == "kernel calls"
    assert "scratch" not in words
    assert "grid" not in words


@pytest.mark.parametrize("kernel", [BLOCK, ZERO, TURN, SUM], ids=lambda one: type(one).__name__)
def test_repeating_a_call_multiplies_its_time(kernel: Kernel) -> None:
    once = seconds(call(kernel))
    assert once > 0
    assert seconds(loop(6, call(kernel))) == pytest.approx(6 * once)
    assert seconds(grid((3, 4), call(kernel))) == pytest.approx(12 * once)
    assert seconds(call(kernel), at(0, call(kernel))) == pytest.approx(2 * once)


def test_a_deeper_block_takes_longer() -> None:
    deep = Call(
        kernel=BLOCK,
        operands=call(BLOCK).operands,
        arguments=(3200, *ARGUMENTS[BLOCK][1:]),
    )
    assert seconds(deep) > 50 * seconds(call(BLOCK))
