"""Large permutations: the calls they are lowered to mean the same copy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.axes import TileAxis, fuse_any_order
from teir.lower.copy_kernels import (
    MOST_PERMUTED,
    PermuteCopy,
    RunCopy,
    StreamCopy,
    StreamRuns,
    permute_scratch_bytes,
)
from teir.lower.elementwise import lower_elementwise
from teir.lower.evaluate import evaluate_kernels
from teir.lower.explanation import count_calls
from teir.lower.kernel_program import Address, KernelNode, KernelProgram, Slot, Storage
from teir.lower.permutation import lower_permutation
from teir.lower.stream_room import STREAMED_COLUMNS, STREAMED_ROWS
from teir.target import Isa

ROOM = Address(slot=2, offset_bytes=0)
OPERANDS = (Address(slot=0, offset_bytes=0), Address(slot=1, offset_bytes=0))
TYPES = (DataType.FP16, DataType.FP32, DataType.FP64, DataType.C128)


def axes_of(extents: Sequence[int], order: Sequence[int], gap: int, width: int) -> list[TileAxis]:
    """Axes whose input is dense but for a gap after the first, the output in another order."""
    source, target = [0] * len(extents), [0] * len(extents)
    for strides, walk, space in ((source, range(len(extents)), gap), (target, order, 0)):
        reach = width
        for place, axis in enumerate(walk):
            strides[axis] = reach
            reach = reach * extents[axis] + (space * width if place == 0 else 0)
    return [TileAxis(*one) for one in zip(extents, zip(source, target, strict=True), strict=True)]


def copied(nodes: tuple[KernelNode, ...], axes: Sequence[TileAxis], width: int) -> bool:
    """True when running ``nodes`` copies every element along ``axes``."""
    data_type = next(one for one in TYPES if one.width == width)
    slots = tuple(
        Slot(tensor=name, data_type=data_type, storage=Storage.OPERAND) for name in ("in0", "out")
    )
    program = KernelProgram(
        slots=slots, roots=nodes, index_cells=0, run_scratch_bytes=0, thread_scratch_bytes=0
    )
    spans = [
        sum((axis.extent - 1) * axis.strides[operand] for axis in axes) + width
        for operand in range(2)
    ]
    source = np.random.default_rng(0).integers(0, 256, spans[0], np.uint8)
    target, wanted = (np.zeros(spans[1], np.uint8) for _ in range(2))
    element, shape = np.dtype(f"V{width}"), tuple(axis.extent for axis in axes)
    views = [
        np.ndarray(shape, element, memory.data, 0, tuple(axis.strides[operand] for axis in axes))
        for operand, memory in enumerate((source, wanted))
    ]
    views[1][...] = views[0]
    evaluate_kernels(program, {"in0": source, "out": target}, {})
    return bool(np.array_equal(target, wanted))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from((2, 3, 7, 13, 16, 24, 33, 64)), min_size=2, max_size=6),
    st.randoms(use_true_random=False),
    st.sampled_from((0, 0, 1, 5)),
    st.sampled_from(TYPES),
    st.booleans(),
    st.sampled_from((Isa.AVX512, Isa.AMX)),
)
def test_a_permutation_copies_every_element(extents, random, gap, data_type, stream, isa) -> None:
    while prod(extents) < 1 << 14:
        extents.append(16)
    while prod(extents) > 1 << 19:
        extents.pop()
    order = list(range(len(extents)))
    random.shuffle(order)
    axes = axes_of(extents, order, gap, data_type.width)
    moving = fuse_any_order(axes)
    width = data_type.width
    nodes = lower_permutation(moving, OPERANDS, width, stream, ROOM, isa, 1)
    if nodes is None:
        return
    assert copied(nodes, axes, width)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from((2, 3, 7, 13, 16, 24, 33, 64)), min_size=2, max_size=5),
    st.randoms(use_true_random=False),
    st.sampled_from((0, 1, 5)),
    st.sampled_from(TYPES[:3]),
    st.sampled_from((2, 3, 4)),
    st.booleans(),
)
def test_a_permutation_of_elements_apart_copies_each(
    extents, random, gap, data_type, step, stream
) -> None:
    while prod(extents) > 1 << 17:
        extents.pop()
    order = list(range(len(extents)))
    random.shuffle(order)
    width = data_type.width
    dense = axes_of(extents, order, gap, width)
    axes = [TileAxis(one.extent, (step * one.strides[0], one.strides[1])) for one in dense]
    moving = fuse_any_order(axes)
    nodes = lower_permutation(moving, OPERANDS, width, stream, ROOM, Isa.AVX512, step)
    if nodes is None:
        return
    assert copied(nodes, axes, width)


@pytest.mark.parametrize(
    "order", [(1, 0), (1, 0, 2), (0, 2, 1), (3, 2, 1, 0), (0, 3, 2, 1), (3, 0, 2, 1)]
)
@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("isa", [Isa.AVX512, Isa.AMX])
@pytest.mark.parametrize("streams", [False, True])
def test_tiles_fit_the_scratch(
    order: tuple[int, ...], data_type: DataType, isa: Isa, streams: bool
) -> None:
    width = data_type.width
    for extents in (
        (5000, 4100, 3, 2),
        (24, 5000, 7, 9),
        (216, 11, 65, 300),
        (40, 1400, 36, 64),
        (1020 // width, 3, 9, 2040 // width),
    ):
        axes = fuse_any_order(axes_of(extents[: len(order)], order, 0, width))
        nodes = lower_permutation(axes, OPERANDS, width, streams, ROOM, isa, 1)
        for call in calls_below(() if nodes is None else nodes):
            kernel, words = call.kernel, call.arguments
            if isinstance(kernel, StreamCopy):
                assert isa is Isa.AMX
                assert 1 <= prod(words[0:3]) <= STREAMED_ROWS
                assert 64 // width <= prod(words[6:9]) <= STREAMED_COLUMNS
                continue
            if isinstance(kernel, StreamRuns):
                assert isa is Isa.AMX
                assert prod(words[0:3]) <= STREAMED_ROWS
                assert prod(words[6:9]) <= STREAMED_COLUMNS
                continue
            assert isinstance(kernel, PermuteCopy | RunCopy)
            unit = words[22] if isinstance(kernel, RunCopy) else 1
            rows, columns = prod(words[0:3]), prod(words[6:9])
            tile_rows, tile_columns, group = words[18:21]
            height = 1 if isinstance(kernel, RunCopy) else kernel.lanes
            over = height + -(-64 // (unit * width))
            pitch = rows if group > 1 else tile_rows + over
            assert pitch * tile_columns * unit * width <= permute_scratch_bytes(isa)
            assert height <= tile_rows
            assert height <= rows <= 2048
            assert 1 <= tile_columns <= columns <= 2048
        assert nodes is None or count_calls(nodes)


@pytest.mark.parametrize(
    ("isa", "least", "most"),
    [
        (Isa.AVX2, 128, 256),
        (Isa.AVX512, 128, 256),
        (Isa.AVX512_ZEN5, 256, 640),
        (Isa.AMX, 768, 1536),
    ],
)
def test_more_of_far_rows_is_read_at_once_where_few_are_followed(isa, least, most) -> None:
    axes = axes_of((3464, 3464), (1, 0), 0, 4)
    nodes = lower_permutation(axes, OPERANDS, 4, False, ROOM, isa, 1)
    assert nodes is not None
    pieces = [4 * call.arguments[19] for call in calls_below(nodes)]
    assert all(least <= piece <= most for piece in pieces)


@pytest.mark.parametrize(("isa", "megabytes"), [(Isa.AVX512, 8), (Isa.AMX, 6)])
def test_outputs_go_past_the_caches_from_a_size_on(isa: Isa, megabytes: int) -> None:
    axes = axes_of((1200, 1250), (1, 0), 0, 4)
    types = (DataType.FP32, DataType.FP32)
    for output_bytes in (0, (megabytes << 20) - 4, megabytes << 20):
        nodes = lower_elementwise(
            Operation.COPY, axes, OPERANDS, types, isa, output_bytes, room=ROOM
        )
        streams = {
            isinstance(call.kernel, StreamCopy) or call.arguments[21] == 1
            for call in calls_below(nodes)
        }
        assert streams == {output_bytes >= megabytes << 20}


@pytest.mark.parametrize(
    ("extents", "data_type", "isa", "is_streamed"),
    [
        ((700, 600), DataType.FP32, Isa.AMX, True),
        ((700, 600), DataType.FP32, Isa.AVX512, False),
        ((350, 300), DataType.FP64, Isa.AMX, True),
        ((700, 300), DataType.FP32, Isa.AMX, False),
        ((200, 600), DataType.FP32, Isa.AMX, False),
        ((1400, 1200), DataType.FP16, Isa.AMX, False),
    ],
)
def test_long_rows_and_columns_are_read_as_streams(extents, data_type, isa, is_streamed) -> None:
    axes = axes_of(extents, (1, 0), 0, data_type.width)
    for stream in (False, True):
        nodes = lower_permutation(axes, OPERANDS, data_type.width, stream, ROOM, isa, 1)
        kinds = {isinstance(call.kernel, StreamCopy) for call in calls_below(nodes)}
        assert kinds == {is_streamed and stream}
        assert copied(nodes, axes, data_type.width)


@pytest.mark.parametrize(
    ("run", "data_type", "isa", "is_streamed"),
    [
        (16, DataType.FP32, Isa.AMX, True),
        (15, DataType.FP32, Isa.AMX, False),
        (2000, DataType.FP64, Isa.AMX, True),
        (16, DataType.FP32, Isa.AVX512, False),
        (40, DataType.FP16, Isa.AMX, True),
    ],
)
def test_runs_of_a_line_are_read_as_streams(run, data_type, isa, is_streamed) -> None:
    axes = axes_of((run, 24, 13, 7), (0, 2, 3, 1), 0, data_type.width)
    nodes = lower_permutation(axes, OPERANDS, data_type.width, True, ROOM, isa, 1)
    kinds = {isinstance(call.kernel, StreamRuns) for call in calls_below(nodes or ())}
    assert kinds == ({True} if is_streamed else {False})
    assert copied(nodes, axes, data_type.width)


@pytest.mark.parametrize("extents", [(1 << 20, 300, 40), (64, 70000, 9), (64, 9, 70000)])
def test_calls_that_stream_runs_end(extents: tuple[int, ...]) -> None:
    axes = axes_of(extents, (0, 2, 1), 0, 4)
    nodes = lower_permutation(axes, OPERANDS, 4, True, ROOM, Isa.AMX, 1)
    calls = list(calls_below(nodes))
    assert calls
    for call in calls:
        assert isinstance(call.kernel, StreamRuns)
        rows, columns = prod(call.arguments[0:3]), prod(call.arguments[6:9])
        assert rows <= STREAMED_ROWS
        assert columns <= STREAMED_COLUMNS
        assert rows * columns * call.arguments[-1] <= STREAMED_ROWS * STREAMED_COLUMNS


def test_an_axis_goes_to_the_side_that_is_short() -> None:
    axes = axes_of((232, 37, 1416), (2, 1, 0), 0, 4)
    nodes = lower_permutation(axes, OPERANDS, 4, True, ROOM, Isa.AMX, 1)
    assert nodes is not None
    for call in calls_below(nodes):
        assert isinstance(call.kernel, StreamCopy)
        assert prod(call.arguments[6:9]) >= 1416


@pytest.mark.parametrize(("isa", "is_joined"), [(Isa.AVX512, False), (Isa.AMX, True)])
def test_columns_of_half_a_kilobyte_are_joined_where_pieces_are_long(isa, is_joined) -> None:
    axes = axes_of((64, 57, 64, 52), (2, 0, 3, 1), 0, 8)
    nodes = lower_permutation(axes, OPERANDS, 8, True, ROOM, isa, 1)
    assert nodes is not None
    for call in calls_below(nodes):
        assert call.arguments[20] == (64 if is_joined else call.arguments[19])
        assert (prod(call.arguments[6:9]) > 64) == is_joined


@pytest.mark.parametrize(("isa", "columns"), [(Isa.AVX2, 12), (Isa.AMX, 24)])
def test_few_runs_are_copied_twice_where_pieces_are_long(isa: Isa, columns: int) -> None:
    axes = axes_of((10, 24, 12, 25, 12), (0, 3, 2, 4, 1), 0, 4)
    nodes = lower_permutation(axes, OPERANDS, 4, True, ROOM, isa, 1)
    assert nodes is not None
    assert {call.arguments[19] for call in calls_below(nodes)} == {columns}


def calls_below(nodes):
    for node in nodes:
        if hasattr(node, "kernel"):
            yield node
        else:
            yield from calls_below(node.body)


@pytest.mark.parametrize("streams", [False, True])
def test_smaller_tiles_are_permuted_where_the_output_goes_past_the_caches(streams: bool) -> None:
    axes = axes_of((16, 32, 64), (2, 1, 0), 0, 4)
    types = (DataType.FP32, DataType.FP32)
    nodes = lower_elementwise(
        Operation.COPY, axes, OPERANDS, types, Isa.AVX512, room=ROOM, streams=streams
    )
    permuted = [call.kernel for call in calls_below(nodes)]
    assert all(isinstance(kernel, PermuteCopy) == streams for kernel in permuted)
    assert copied(nodes, axes, 4)


@pytest.mark.parametrize(("following", "is_streamed"), [(2, False), (4, False), (7, True)])
def test_parts_of_lines_are_written_through_the_caches(following: int, is_streamed: bool) -> None:
    """Five rows and so many columns follow one another in the output, then another place does."""
    axes = axes_of((following, 40, 16, 5), (3, 0, 2, 1), 0, 4)
    nodes = lower_permutation(axes, OPERANDS, 4, True, ROOM, Isa.AVX512, 1)
    assert nodes is not None
    assert {call.arguments[21] for call in calls_below(nodes)} == {int(is_streamed)}
    assert copied(nodes, axes, 4)


def test_short_rows_of_several_axes_are_one_run_with_the_columns_that_follow() -> None:
    """``cdef->dfec``: rows c and e, columns f."""
    axes = axes_of((24, 3, 42, 6), (3, 1, 0, 2), 0, 4)
    nodes = lower_permutation(axes, OPERANDS, 4, True, ROOM, Isa.AVX512, 1)
    assert nodes is not None
    for call in calls_below(nodes):
        assert (prod(call.arguments[0:3]), prod(call.arguments[6:9])) == (18, 24)
        assert call.arguments[18] == 18
    assert copied(nodes, axes, 4)


def test_a_call_takes_as_many_of_many_planes_as_keep_it_short() -> None:
    axes = axes_of((24, 40, 4500), (1, 0, 2), 0, 2)
    nodes = lower_permutation(axes, OPERANDS, 2, True, ROOM, Isa.AVX512, 1)
    assert nodes is not None
    planes = [prod(call.arguments[12:14]) for call in calls_below(nodes)]
    assert all(1 << 20 <= 24 * 40 * count <= 1 << 22 for count in planes)
    assert copied(nodes, axes, 2)


def test_columns_leave_an_axis_to_short_rows() -> None:
    """``bdaec->cdeab``: e follows the columns c, and the rows a and b, which are 96 bytes."""
    axes = axes_of((418, 13, 6, 8, 4), (4, 2, 1, 3, 0), 0, 4)
    nodes = lower_permutation(axes, OPERANDS, 4, False, ROOM, Isa.AMX, 1)
    assert nodes is not None
    for call in calls_below(nodes):
        assert prod(call.arguments[0:3]) == 4 * 6 * 13
    assert copied(nodes, axes, 4)


def test_columns_that_would_be_few_keep_the_axis() -> None:
    axes = axes_of((3, 13, 6, 8, 4), (4, 2, 1, 3, 0), 0, 4)
    nodes = lower_permutation(axes, OPERANDS, 4, False, ROOM, Isa.AMX, 1)
    assert nodes is not None
    for call in calls_below(nodes):
        assert prod(call.arguments[0:3]) == 4 * 6


@pytest.mark.parametrize(
    ("rows", "isa", "is_streamed"),
    [(64, Isa.AMX, False), (80, Isa.AMX, True), (64, Isa.AVX512, True)],
)
def test_rows_of_few_lines_are_written_through_the_caches(rows, isa, is_streamed) -> None:
    """Each row of a tile lies elsewhere in the output."""
    axes = axes_of((40, 16, 100, rows), (3, 1, 2, 0), 0, 4)
    axes = [axes[0], axes[2], axes[3]]
    nodes = lower_permutation(axes, OPERANDS, 4, True, ROOM, isa, 1)
    assert nodes is not None
    assert {call.arguments[21] for call in calls_below(nodes)} == {int(is_streamed)}


@pytest.mark.parametrize("isa", [Isa.AMX, Isa.AVX512, Isa.AVX2, Isa.NEON])
@pytest.mark.parametrize(
    ("extents", "order", "width"),
    [
        ((5, 58, 26, 119, 8), (0, 3, 2, 4, 1), 2),
        ((6, 4, 2177, 2, 1627, 23), (0, 2, 5, 1, 3, 4), 2),
        ((8, 52, 5, 30, 2232, 7), (0, 4, 2, 1, 5, 3), 1),
    ],
)
def test_calls_of_short_runs_fit_their_tables(extents, order, width, isa) -> None:
    axes = axes_of(extents, order, 0, width)
    nodes = lower_permutation(axes, OPERANDS, width, True, ROOM, isa, 1)
    for call in calls_below(nodes or ()):
        assert prod(call.arguments[0:3]) <= MOST_PERMUTED
        assert prod(call.arguments[6:9]) <= MOST_PERMUTED


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_no_call_has_more_rows_or_columns_than_its_tables(data: st.DataObject) -> None:
    """Runs of some elements, which input and output share, along axes of many kinds of lengths."""
    count = data.draw(st.integers(3, 6))
    lengths = st.sampled_from((2, 3, 5, 8, 26, 119, 700, 2300))
    extents = (data.draw(st.integers(1, 9)), *(data.draw(lengths) for _ in range(count)))
    order = (0, *(1 + place for place in data.draw(st.permutations(range(count)))))
    width = data.draw(st.sampled_from((1, 2, 4, 8, 16)))
    isa = data.draw(st.sampled_from((Isa.AMX, Isa.AVX512, Isa.AVX2, Isa.NEON)))
    axes = axes_of(extents, order, 0, width)
    nodes = lower_permutation(axes, OPERANDS, width, data.draw(st.booleans()), ROOM, isa, 1)
    for call in calls_below(nodes or ()):
        streams = isinstance(call.kernel, StreamCopy | StreamRuns)
        most = (STREAMED_ROWS, STREAMED_COLUMNS) if streams else (MOST_PERMUTED, MOST_PERMUTED)
        assert prod(call.arguments[0:3]) <= most[0]
        assert prod(call.arguments[6:9]) <= most[1]
