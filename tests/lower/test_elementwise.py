"""Vectors of element-wise kernels, and how a row of some length is walked."""

from __future__ import annotations

import pytest

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.access import Access
from teir.lower.axes import TileAxis
from teir.lower.copy_kernels import TransposeCopy
from teir.lower.elementwise import lower_elementwise
from teir.lower.kernel_program import Address, Call, Loop
from teir.lower.kernels import Elementwise
from teir.target import Isa


def kernel_of(elements: int, data_type: DataType, inputs: int, isa: Isa) -> Elementwise:
    operands = tuple(Address(slot=slot, offset_bytes=0) for slot in range(inputs + 1))
    operation = Operation.MUL if inputs == 2 else Operation.RELU
    axis = TileAxis(elements, (data_type.width,) * (inputs + 1))
    types = (data_type,) * (inputs + 1)
    (call,) = lower_elementwise(operation, [axis], operands, types, isa)
    assert isinstance(call, Call)
    assert isinstance(call.kernel, Elementwise)
    return call.kernel


def vector_bytes(elements: int, data_type: DataType, inputs: int, isa: Isa) -> int:
    return kernel_of(elements, data_type, inputs, isa).lanes * data_type.width


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_products_of_large_arrays_take_half_a_line_at_a_time(data_type: DataType) -> None:
    some = (1 << 20) // (3 * data_type.width)
    assert vector_bytes(some, data_type, 2, Isa.AVX512) == 64
    assert vector_bytes(some + 1, data_type, 2, Isa.AVX512) == 32
    assert vector_bytes(some + 1, data_type, 2, Isa.AVX2) == 32


def test_other_large_arrays_take_whole_lines() -> None:
    assert vector_bytes(1 << 22, DataType.BF16, 2, Isa.AVX512) == 64
    assert vector_bytes(1 << 22, DataType.FP32, 1, Isa.AVX512) == 64


@pytest.mark.parametrize("data_type", [DataType.BF16, DataType.FP16])
@pytest.mark.parametrize(
    ("elements", "lanes", "vectors"),
    [(3, 16, 1), (16, 16, 1), (20, 16, 2), (32, 32, None), (48, 16, 3), (64, 32, None)],
)
def test_short_rows_of_narrow_elements_fill_vectors(
    elements: int, lanes: int, vectors: int | None, data_type: DataType
) -> None:
    kernel = kernel_of(elements, data_type, 2, Isa.AVX512)
    assert (kernel.lanes, kernel.vectors) == (lanes, vectors)


@pytest.mark.parametrize(
    ("elements", "vectors", "aligns"),
    [
        (1, 1, False),
        (16, 1, False),
        (17, 2, False),
        (64, 4, False),
        (65, None, False),
        (127, None, False),
        (128, None, True),
        (5000, None, True),
    ],
)
def test_the_length_of_a_row_decides_how_it_is_walked(
    elements: int, vectors: int | None, aligns: bool
) -> None:
    kernel = kernel_of(elements, DataType.FP32, 2, Isa.AVX512)
    assert (kernel.vectors, kernel.aligns) == (vectors, aligns)
    for other in (
        kernel_of(elements, DataType.BF16, 1, Isa.AVX512),
        kernel_of(elements, DataType.FP32, 1, Isa.AVX512),
        kernel_of(elements, DataType.FP32, 2, Isa.AVX2),
    ):
        assert (other.vectors, other.aligns) == (None, False)


@pytest.mark.parametrize(("row_stride", "adjacent"), [(4, True), (20, False)])
def test_short_rows_are_not_scattered_where_they_lie_as_they_are_made(
    row_stride: int, adjacent: bool
) -> None:
    """Five elements in a row of the output; a vector takes 16 along the other axis."""
    many, row = TileAxis(40, (4, 0, 20)), TileAxis(5, (0, row_stride, 4))
    operands = tuple(Address(slot=slot, offset_bytes=0) for slot in range(3))
    types = (DataType.FP32,) * 3
    (call,) = lower_elementwise(Operation.MUL, [many, row], operands, types, Isa.AVX512)
    assert isinstance(call, Call)
    assert isinstance(call.kernel, Elementwise)
    assert (call.kernel.accesses[-1] is Access.UNIT) is adjacent


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_transposing_tiles_ask_for_the_next_turn_of_the_longest_loop(is_asked_for: bool) -> None:
    operands = (Address(slot=0, offset_bytes=8), Address(slot=1, offset_bytes=0))
    types = (DataType.FP32, DataType.FP32)
    axes = [
        TileAxis(2, (1 << 14, 1 << 16)),
        TileAxis(16, (4, 1 << 12)),
        TileAxis(30, (1 << 20, 128)),
        TileAxis(32, (256, 4)),
    ]
    nodes = lower_elementwise(
        Operation.COPY, axes, operands, types, Isa.AVX512, brings=is_asked_for
    )
    while isinstance(nodes[0], Loop):
        nodes = nodes[0].body
    *asking, turned = nodes
    assert isinstance(turned, Call)
    assert isinstance(turned.kernel, TransposeCopy)
    assert len(asking) == int(is_asked_for)
    for call in asking:
        assert isinstance(call, Call)
        assert call.operands[0] == Address(slot=0, offset_bytes=8 + (1 << 20))
        assert call.arguments == (2, 64, 32, 256, 1, 0)


def turned_panels(
    isa: Isa,
    columns: int,
    depth: int,
    panels: int = 1,
    data_type: DataType = DataType.FP32,
    apart: int = 1,
) -> Call:
    """The copy of columns that are adjacent along the depth into panels [depth][columns].

    Rows of a panel lie ``apart`` times their length apart.
    """
    operands = tuple(Address(slot=slot, offset_bytes=0) for slot in range(2))
    width = data_type.width
    axes = [
        TileAxis(panels, (columns * depth * width, apart * columns * depth * width)),
        TileAxis(depth, (width, apart * columns * width)),
        TileAxis(columns, (depth * width, width)),
    ]
    room = Address(slot=2, offset_bytes=0)
    types = (data_type, data_type)
    nodes = lower_elementwise(Operation.COPY, axes, operands, types, isa, room=room)
    while isinstance(nodes[0], Loop):
        nodes = nodes[0].body
    (call,) = nodes
    assert isinstance(call, Call)
    return call


@pytest.mark.parametrize(
    ("isa", "columns", "depth", "whole"),
    [
        (Isa.AMX, 6, 256, 6),
        (Isa.AMX, 16, 32, 16),
        (Isa.AMX, 17, 256, 0),
        (Isa.AMX, 13, 31, 0),
        (Isa.AVX512, 13, 256, 0),
    ],
)
def test_few_columns_are_turned_whole_where_vectors_are_quick(
    isa: Isa, columns: int, depth: int, whole: int
) -> None:
    kernel = turned_panels(isa, columns, depth).kernel
    assert isinstance(kernel, TransposeCopy)
    assert kernel.columns == whole


@pytest.mark.parametrize(
    ("columns", "apart", "whole"),
    [(8, 20, 0), (8, 15, 8), (16, 8, 0), (10, 13, 10), (10, 103, 0), (7, 200, 7)],
    ids=["squares", "near", "lines", "parts of squares", "far", "rows of less than a square"],
)
def test_rows_apart_that_hold_squares_are_turned_in_squares(
    columns: int, apart: int, whole: int
) -> None:
    kernel = turned_panels(Isa.AMX, columns, 64, panels=1, apart=apart).kernel
    assert isinstance(kernel, TransposeCopy)
    assert kernel.columns == whole


def test_few_columns_of_a_large_copy_go_through_no_tile() -> None:
    """3 MB and more: squares of other permutations are put together in tiles."""
    kernel = turned_panels(Isa.AMX, 6, 1536, panels=200).kernel
    assert isinstance(kernel, TransposeCopy)
    assert not isinstance(turned_panels(Isa.AVX512, 6, 1536, panels=200).kernel, TransposeCopy)
    gaps = turned_panels(Isa.AMX, 6, 1536, panels=200, apart=2)
    assert not isinstance(gaps.kernel, TransposeCopy)


def test_narrow_elements_are_turned_in_squares() -> None:
    kernel = turned_panels(Isa.AMX, 13, 256, data_type=DataType.BF16).kernel
    assert isinstance(kernel, TransposeCopy)
    assert kernel.columns == 0


@pytest.mark.parametrize(
    ("row", "others", "lanes_along_rows"), [(2, 24, False), (2, 12, True), (4, 24, True)]
)
def test_a_copy_to_pairs_has_its_lanes_along_many_pairs(
    row: int, others: int, lanes_along_rows: bool
) -> None:
    rows, along = TileAxis(others, (4 * row, 8 * row)), TileAxis(row, (404, 4))
    operands = tuple(Address(slot=slot, offset_bytes=0) for slot in range(2))
    types = (DataType.FP32, DataType.FP32)
    (call,) = lower_elementwise(Operation.COPY, [rows, along], operands, types, Isa.AVX512)
    assert isinstance(call, Call)
    assert (call.arguments[0] == row) is lanes_along_rows
