"""Parts of kernels that write runs of the output past the caches: tables, pieces, the fence.

A piece of a run is written in whole lines; the elements before its first and after its last line
are written one by one, past the caches as well, since a line of which one part is stored in the
cache and one past it costs a write to memory each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_opaque import hidden
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, vector
from teir.lower.copy_kernels import PERMUTE_AXES
from teir.target import LINE_BYTES, Isa

PIECE_LINES = 16
"""Lines of one piece."""
_STORE_BYTES = 32
"""Two stores of half a line reach memory sooner than one of a whole line on Zen 4, as soon on
Zen 5, and need no 512-bit registers."""

PAST_CACHES = "!nontemporal"


@dataclass(frozen=True, slots=True)
class Stream:
    """What the pieces of one kernel have in common."""

    isa: Isa
    element_bytes: int

    @property
    def element(self) -> str:
        """The type an element is moved as."""
        return "<2 x i64>" if self.element_bytes == 16 else f"i{8 * self.element_bytes}"

    @property
    def store_bytes(self) -> int:
        return min(_STORE_BYTES, self.isa.vector_bytes)


def emit_offset_table(
    text: FunctionText, name: str, table: str, extent: str, stride: str, following: str
) -> None:
    """Fill ``table`` with the offsets of all combinations of the axes, the first one fastest.

    ``%<extent>0`` and so on are the axes' extents, ``%<stride>0`` their strides. Defines
    ``%<name>_count``, the number of entries, and continues at the block ``following``.
    """
    assert PERMUTE_AXES == 3
    before = f"{name}_fill"
    text.effect(f"br label %{before}")
    text.label(before)
    text.effect(f"%{name}_plane = mul i64 %{extent}0, %{extent}1")
    text.effect(f"%{name}_count = mul i64 %{name}_plane, %{extent}2")
    text.effect(f"br label %{name}_entry")
    text.label(f"{name}_entry")
    text.write(f"""
%{name}_n = phi i64 [ 0, %{before} ], [ %{name}_n_next, %{name}_entry ]
%{name}_i = phi i64 [ 0, %{before} ], [ %{name}_i_next, %{name}_entry ]
%{name}_j = phi i64 [ 0, %{before} ], [ %{name}_j_next, %{name}_entry ]
%{name}_k = phi i64 [ 0, %{before} ], [ %{name}_k_next, %{name}_entry ]
%{name}_x = mul i64 %{name}_i, %{stride}0
%{name}_y = mul i64 %{name}_j, %{stride}1
%{name}_z = mul i64 %{name}_k, %{stride}2
%{name}_xy = add i64 %{name}_x, %{name}_y
%{name}_offset = add i64 %{name}_xy, %{name}_z
%{name}_cell = getelementptr i64, ptr {table}, i64 %{name}_n
store i64 %{name}_offset, ptr %{name}_cell
%{name}_n_next = add i64 %{name}_n, 1
%{name}_i_up = add i64 %{name}_i, 1
%{name}_i_ends = icmp eq i64 %{name}_i_up, %{extent}0
%{name}_i_next = select i1 %{name}_i_ends, i64 0, i64 %{name}_i_up
%{name}_i_carry = zext i1 %{name}_i_ends to i64
%{name}_j_up = add i64 %{name}_j, %{name}_i_carry
%{name}_j_ends = icmp eq i64 %{name}_j_up, %{extent}1
%{name}_j_next = select i1 %{name}_j_ends, i64 0, i64 %{name}_j_up
%{name}_j_carry = zext i1 %{name}_j_ends to i64
%{name}_k_next = add i64 %{name}_k, %{name}_j_carry
%{name}_more = icmp slt i64 %{name}_n_next, %{name}_count
br i1 %{name}_more, label %{name}_entry, label %{following}
""")


def emit_stream_mode(text: FunctionText, element_bytes: int, strides: Sequence[str]) -> None:
    """Define %streaming and %aligned from %stream, %B and the output's strides.

    %streaming: elements are written past the caches, which their alignment must allow.
    %aligned: every run starts on a line.
    """
    met = text.value("ptrtoint ptr %B to i64")
    for stride in strides:
        met = text.value(f"or i64 {met}, {stride}")
    in_element = text.value(f"and i64 {met}, {element_bytes - 1}")
    text.effect(f"%whole = icmp eq i64 {in_element}, 0")
    in_line = text.value(f"and i64 {met}, {LINE_BYTES - 1}")
    text.effect(f"%aligned = icmp eq i64 {in_line}, 0")
    text.effect("%wanted = icmp ne i64 %stream, 0")
    text.effect("%streaming = and i1 %wanted, %whole")


def emit_pieces(text: FunctionText, stream: Stream) -> None:
    """Blocks %transposed to %block_done: the share of the last tile's pieces of one block.

    A piece is some lines of a row of the tile, or of the run that dense columns make. Where it
    begins is hidden: LLVM would look for a third of its time for one form of all loops' pointers.
    """
    width = stream.element_bytes
    per_piece = PIECE_LINES * LINE_BYTES // width
    text.write("""
transposed:
%piece_reach = add i64 %piece, %share
%piece_end = call i64 @llvm.smin.i64(i64 %piece_reach, i64 %pieces)
%any_left = icmp slt i64 %piece, %piece_end
%any = and i1 %any_left, %has_last
br i1 %any, label %piece_start, label %block_done
""")
    text.write(f"""
piece_start:
%p = phi i64 [ %piece, %transposed ], [ %p_next, %piece_done ]
%s = phi i64 [ %segment, %transposed ], [ %s_next, %piece_done ]
%q = phi i64 [ %segment_piece, %transposed ], [ %q_next, %piece_done ]
%s_column = mul i64 %s, %group
%s_cell = getelementptr i64, ptr %last_column_table, i64 %s_column
%s_offset = load i64, ptr %s_cell
%s_out = getelementptr i8, ptr %last_out, i64 %s_offset
%q_elements = mul i64 %q, {per_piece}
%segment_from = select i1 %dense, i64 0, i64 %last_from
%segment_to = select i1 %dense, i64 %segment_elements, i64 %last_end
%from_boundary = add i64 %segment_from, %q_elements
%q_reach = add i64 %from_boundary, {per_piece}
%to_boundary = call i64 @llvm.smin.i64(i64 %q_reach, i64 %segment_to)
{_to_line("from", width)}
{_to_line("to", width)}
%is_first = icmp eq i64 %from_boundary, 0
%is_last = icmp sge i64 %to_boundary, %segment_elements
%from_some = select i1 %is_first, i64 0, i64 %from_line
%from_element = call i64 @llvm.smin.i64(i64 %from_some, i64 %segment_elements)
%to_some = select i1 %is_last, i64 %segment_elements, i64 %to_line
%to_element = call i64 @llvm.smin.i64(i64 %to_some, i64 %segment_elements)
%piece_elements = sub i64 %to_element, %from_element
%in_tile = sub i64 %from_element, %last_start
%in_tile_bytes = mul i64 %in_tile, {width}
%in_row_bytes = mul i64 %s_column, %pitch_bytes
%in_scratch = add i64 %in_tile_bytes, %in_row_bytes
%piece_read = getelementptr i8, ptr %read_at, i64 %in_scratch
%out_bytes = mul i64 %from_element, {width}
%piece_written = getelementptr i8, ptr %s_out, i64 %out_bytes
""")
    for name, kind, formed in (
        ("from", "ptr", "%piece_read"),
        ("to", "ptr", "%piece_written"),
        ("count", "i64", "%piece_elements"),
    ):
        text.define(f"%piece_{name}", hidden(kind, formed))
    emit_piece(text, stream, "piece_done")
    text.write("""
piece_done:
%p_next = add i64 %p, 1
%q_up = add i64 %q, 1
%q_ends = icmp eq i64 %q_up, %segment_pieces
%q_next = select i1 %q_ends, i64 0, i64 %q_up
%q_carry = zext i1 %q_ends to i64
%s_next = add i64 %s, %q_carry
%more_pieces = icmp slt i64 %p_next, %piece_end
br i1 %more_pieces, label %piece_start, label %block_done
""")
    text.write("""
block_done:
%piece_now = phi i64 [ %piece, %transposed ], [ %p_next, %piece_done ]
%segment_now = phi i64 [ %segment, %transposed ], [ %s_next, %piece_done ]
%segment_piece_now = phi i64 [ %segment_piece, %transposed ], [ %q_next, %piece_done ]
%column_block_up = add i64 %column_block, 1
%column_block_ends = icmp eq i64 %column_block_up, %column_blocks
%column_block_next = select i1 %column_block_ends, i64 0, i64 %column_block_up
%row_carry = zext i1 %column_block_ends to i64
%row_block_next = add i64 %row_block, %row_carry
%b_next = add i64 %b, 1
%more_blocks = icmp slt i64 %b_next, %blocks
br i1 %more_blocks, label %block, label %tile_done
""")


def _to_line(end: str, width: int) -> str:
    """``%<end>_line``: the first element from the boundary on that starts a line."""
    return f"""%{end}_bytes = mul i64 %{end}_boundary, {width}
%{end}_at = getelementptr i8, ptr %s_out, i64 %{end}_bytes
%{end}_address = ptrtoint ptr %{end}_at to i64
%{end}_negative = sub i64 0, %{end}_address
%{end}_line_bytes = and i64 %{end}_negative, {LINE_BYTES - 1}
%{end}_line_some = udiv i64 %{end}_line_bytes, {width}
%{end}_line_elements = select i1 %streaming, i64 %{end}_line_some, i64 0
%{end}_line = add i64 %{end}_boundary, %{end}_line_elements"""


def emit_piece(text: FunctionText, stream: Stream, following: str) -> None:
    """Write ``%piece_count`` elements at ``%piece_from`` to ``%piece_to``.

    Goes on in the block that is open, ends with a branch to ``following``. A count of 0 or less
    writes nothing. May stand once in a function.
    """
    text.effect("br i1 %streaming, label %head_enter, label %plain_enter")
    text.label("head_enter")
    text.effect("br label %head")
    text.label("head")
    _emit_walk(text, "head", ("head_enter", "%piece_from", "%piece_to", "%piece_count"))
    text.effect("%head_at = ptrtoint ptr %head_to to i64")
    text.effect(f"%head_in_line = and i64 %head_at, {LINE_BYTES - 1}")
    text.effect("%head_is_inside = icmp ne i64 %head_in_line, 0")
    text.effect("%head_some = icmp sgt i64 %head_left, 0")
    text.effect("%head_goes_on = and i1 %head_is_inside, %head_some")
    text.effect("br i1 %head_goes_on, label %head_step, label %line_enter")
    _emit_step(text, stream, "head", stream.element, stream.element_bytes, 1, past_caches=True)
    text.label("line_enter")
    text.effect("br label %line")
    text.label("line")
    per_line = LINE_BYTES // stream.element_bytes
    _emit_walk(text, "line", ("line_enter", "%head_from", "%head_to", "%head_left"))
    text.effect(f"%line_goes_on = icmp sge i64 %line_left, {per_line}")
    text.effect("br i1 %line_goes_on, label %line_step, label %tail_enter")
    half = vector("i8", stream.store_bytes)
    _emit_step(text, stream, "line", half, stream.store_bytes, per_line, past_caches=True)
    text.label("tail_enter")
    text.effect("br label %tail")
    text.label("tail")
    _emit_walk(text, "tail", ("tail_enter", "%line_from", "%line_to", "%line_left"))
    text.effect("%tail_goes_on = icmp sgt i64 %tail_left, 0")
    text.effect(f"br i1 %tail_goes_on, label %tail_step, label %{following}")
    _emit_step(text, stream, "tail", stream.element, stream.element_bytes, 1, past_caches=True)
    text.label("plain_enter")
    text.effect("br label %plain")
    text.label("plain")
    lanes = stream.isa.vector_bytes // stream.element_bytes
    whole = vector("i8", stream.isa.vector_bytes)
    _emit_walk(text, "plain", ("plain_enter", "%piece_from", "%piece_to", "%piece_count"))
    text.effect(f"%plain_goes_on = icmp sge i64 %plain_left, {lanes}")
    text.effect("br i1 %plain_goes_on, label %plain_step, label %rest_enter")
    _emit_step(text, stream, "plain", whole, stream.isa.vector_bytes, lanes, past_caches=False)
    text.label("rest_enter")
    text.effect("br label %rest")
    text.label("rest")
    _emit_walk(text, "rest", ("rest_enter", "%plain_from", "%plain_to", "%plain_left"))
    text.effect("%rest_goes_on = icmp sgt i64 %rest_left, 0")
    text.effect(f"br i1 %rest_goes_on, label %rest_step, label %{following}")
    _emit_step(text, stream, "rest", stream.element, stream.element_bytes, 1, past_caches=False)


def emit_fence(text: FunctionText) -> None:
    """Stores past the caches are seen by other threads before anything that follows."""
    text.effect("fence seq_cst")


def _emit_walk(text: FunctionText, name: str, start: tuple[str, str, str, str]) -> None:
    """The pointers and the count of a loop that begins with the values of ``start``."""
    before, source, target, count = start
    for part, kind, first in (
        ("from", "ptr", source),
        ("to", "ptr", target),
        ("left", "i64", count),
    ):
        step = f"[ %{name}_{part}_next, %{name}_step ]"
        text.effect(f"%{name}_{part} = phi {kind} [ {first}, %{before} ], {step}")


def _emit_step(
    text: FunctionText,
    stream: Stream,
    name: str,
    kind: str,
    kind_bytes: int,
    elements: int,
    *,
    past_caches: bool,
) -> None:
    """One iteration of a loop: move ``elements`` elements as values of ``kind``."""
    width = stream.element_bytes
    text.label(f"{name}_step")
    size = elements * width
    places = range(0, size, kind_bytes)
    moved = []
    for place in places:
        at = shift_pointer(text, f"%{name}_from", place)
        moved.append(text.value(f"load {kind}, ptr {at}, align 1"))
    for place, value in zip(places, moved, strict=True):
        at = shift_pointer(text, f"%{name}_to", place)
        how = f"align {kind_bytes}, {PAST_CACHES} !{{i32 1}}" if past_caches else "align 1"
        text.effect(f"store {kind} {value}, ptr {at}, {how}")
    text.effect(f"%{name}_from_next = getelementptr i8, ptr %{name}_from, i64 {size}")
    text.effect(f"%{name}_to_next = getelementptr i8, ptr %{name}_to, i64 {size}")
    text.effect(f"%{name}_left_next = sub i64 %{name}_left, {elements}")
    text.effect(f"br label %{name}")
