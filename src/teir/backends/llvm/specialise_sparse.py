"""The loops of a specialised program whose bounds come from index arrays."""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.backends.llvm.specialise_scope import (
    BodyWriter,
    Scope,
    branch_if_cancelled,
    labels,
    step_pointers,
)
from teir.lower.kernel_program import (
    BlockLoop,
    KernelNode,
    RowRunLoop,
    RunLoop,
    SparseLoop,
    Walk,
)


def write_sparse_loop(
    writer: BodyWriter, text: FunctionText, loop: SparseLoop, scope: Scope, cancel: str
) -> None:
    """One cursor per walk; a coordinate that one walk skips sends the first on to the next."""
    walks = [_bounds(text, walk, scope) for walk in loop.walks]
    before, head, look, run, latch, after = labels(text, 6)
    cursors = [text.fresh() for _ in walks]
    number, number_next, coordinate = text.fresh(), text.fresh(), text.fresh()
    text.effect(f"br label %{before}")
    text.label(before)
    text.effect(f"br label %{head}")
    later: list[tuple[str, str, list[str]]] = []
    text.label(look)
    branch_if_cancelled(text, cancel, after, run)
    text.define(coordinate, _loaded_call(text, walks[0], cursors[0]))
    met = [cursors[0]]
    for place, walk in enumerate(walks[1:], 1):
        met.append(_seek(text, walk, cursors[place], coordinate))
        compare, differ, agree = labels(text, 3)
        inside = text.value(f"icmp slt i64 {met[-1]}, {walk.end}")
        text.effect(f"br i1 {inside}, label %{compare}, label %{after}")
        text.label(compare)
        other = text.value(_loaded_call(text, walk, met[-1]))
        same = text.value(f"icmp eq i64 {other}, {coordinate}")
        text.effect(f"br i1 {same}, label %{agree}, label %{differ}")
        text.label(differ)
        first = _seek(text, walks[0], cursors[0], other)
        text.effect(f"br label %{head}")
        later.append((differ, number, [first, *met[1:], *cursors[place + 1 :]]))
        text.label(agree)
    pointers = dict(scope.pointers)
    below = writer.slots(loop.body)
    step_pointers(text, pointers, loop.steps, coordinate, below)
    for walk_node, position in zip(loop.walks, met, strict=True):
        step_pointers(text, pointers, walk_node.steps, position, below)
    following = [text.value(f"add i64 {position}, 1") for position in met]
    indices = dict(scope.indices)
    if loop.index is not None:
        indices[loop.index] = number
    if loop.last is not None:
        ended = text.value(f"icmp eq i64 {following[0]}, {walks[0].end}")
        indices[loop.last] = text.value(f"zext i1 {ended} to i64")
    writer.body(text, loop.body, Scope(pointers, indices), cancel)
    text.effect(f"br label %{latch}")
    text.label(latch)
    text.define(number_next, f"add i64 {number}, 1")
    text.effect(f"br label %{head}")
    sources = [
        (before, "0", [walk.begin for walk in walks]),
        *later,
        (latch, number_next, following),
    ]
    text.label(head)
    counted = ", ".join(f"[ {value}, %{source} ]" for source, value, _ in sources)
    text.define(number, f"phi i64 {counted}")
    for place, cursor in enumerate(cursors):
        came = ", ".join(f"[ {values[place]}, %{source} ]" for source, _, values in sources)
        text.define(cursor, f"phi i64 {came}")
    more = text.value(f"icmp slt i64 {cursors[0]}, {walks[0].end}")
    text.effect(f"br i1 {more}, label %{look}, label %{after}")
    text.label(after)


def write_runs(
    writer: BodyWriter, text: FunctionText, loop: RunLoop, scope: Scope, cancel: str
) -> None:
    """The positions of a fibre, so many at a time; the first run may have a body of its own."""
    width = loop.pos_type.width
    pos = shift_pointer(text, scope.pointers[loop.pos.slot], loop.pos.offset_bytes)
    begin = text.value(f"call i64 @teir_load_index(ptr {pos}, i64 {width})")
    beyond = shift_pointer(text, pos, width)
    end = text.value(f"call i64 @teir_load_index(ptr {beyond}, i64 {width})")
    bounds = shift_pointer(text, scope.pointers[loop.bounds.slot], loop.bounds.offset_bytes)
    before, head, run, latch, after = labels(text, 5)
    first, following = text.fresh(), text.fresh()
    if loop.first:
        stop = _run(writer, text, loop, (begin, end, bounds), loop.first, scope, cancel)
        begin = stop
    text.effect(f"br label %{before}")
    text.label(before)
    text.effect(f"br label %{head}")
    text.label(head)
    text.define(first, f"phi i64 [ {begin}, %{before} ], [ {following}, %{latch} ]")
    more = text.value(f"icmp slt i64 {first}, {end}")
    text.effect(f"br i1 {more}, label %{run}, label %{after}")
    text.label(run)
    stop = _run(writer, text, loop, (first, end, bounds), loop.body, scope, cancel)
    text.effect(f"br label %{latch}")
    text.label(latch)
    text.define(following, f"add i64 {stop}, 0")
    text.effect(f"br label %{head}")
    text.label(after)


def write_row_runs(
    writer: BodyWriter, text: FunctionText, loop: RowRunLoop, scope: Scope, cancel: str
) -> None:
    """As many rows at a time as hold no more than ``size`` positions together; else one row."""
    width = loop.pos_type.width
    pos = shift_pointer(text, scope.pointers[loop.pos.slot], loop.pos.offset_bytes)
    bounds = shift_pointer(text, scope.pointers[loop.bounds.slot], loop.bounds.offset_bytes)
    before, head, look, grow, trial, fits, grown = labels(text, 7)
    one, after_one, run, after_run, after = labels(text, 5)
    row, stop, stop_next = text.fresh(), text.fresh(), text.fresh()
    row_after_one, row_after_run = text.fresh(), text.fresh()
    text.effect(f"br label %{before}")
    text.label(before)
    text.effect(f"br label %{head}")
    text.label(head)
    text.define(
        row,
        f"phi i64 [ 0, %{before} ], [ {row_after_one}, %{after_one} ], "
        f"[ {row_after_run}, %{after_run} ]",
    )
    more = text.value(f"icmp slt i64 {row}, {loop.extent}")
    text.effect(f"br i1 {more}, label %{look}, label %{after}")
    text.label(look)
    start = shift_pointer(text, pos, text.value(f"mul i64 {row}, {loop.pos_row}"))
    first = text.value(f"call i64 @teir_load_index(ptr {start}, i64 {width})")
    text.effect(f"br label %{grow}")
    text.label(grow)
    text.define(stop, f"phi i64 [ {row}, %{look} ], [ {stop_next}, %{fits} ]")
    left = text.value(f"icmp slt i64 {stop}, {loop.extent}")
    text.effect(f"br i1 {left}, label %{trial}, label %{grown}")
    text.label(trial)
    byte = text.value(f"mul i64 {stop}, {loop.pos_row}")
    at = shift_pointer(text, shift_pointer(text, pos, byte), width)
    end = text.value(f"call i64 @teir_load_index(ptr {at}, i64 {width})")
    length = text.value(f"sub i64 {end}, {first}")
    is_room = text.value(f"icmp sle i64 {length}, {loop.size}")
    text.effect(f"br i1 {is_room}, label %{fits}, label %{grown}")
    text.label(fits)
    text.define(stop_next, f"add i64 {stop}, 1")
    text.effect(f"br label %{grow}")
    text.label(grown)
    pointers = dict(scope.pointers)
    step_pointers(text, pointers, loop.rows, row, writer.slots((loop,)))
    none = text.value(f"icmp eq i64 {stop}, {row}")
    text.effect(f"br i1 {none}, label %{one}, label %{run}")
    text.label(one)
    writer.body(text, loop.single, Scope(pointers, scope.indices), cancel)
    text.effect(f"br label %{after_one}")
    text.label(after_one)
    text.define(row_after_one, f"add i64 {row}, 1")
    text.effect(f"br label %{head}")
    text.label(run)
    count = text.value(f"sub i64 {stop}, {row}")
    text.effect(f"store i64 0, ptr {bounds}")
    text.effect(f"store i64 {count}, ptr {shift_pointer(text, bounds, 8)}")
    inside, back = dict(pointers), text.value(f"sub i64 0, {first}")
    step_pointers(text, inside, loop.steps, back, writer.slots(loop.body))
    writer.body(text, loop.body, Scope(inside, scope.indices), cancel)
    text.effect(f"br label %{after_run}")
    text.label(after_run)
    text.define(row_after_run, f"add i64 {stop}, 0")
    text.effect(f"br label %{head}")
    text.label(after)


def write_blocks(
    writer: BodyWriter, text: FunctionText, loop: BlockLoop, scope: Scope, cancel: str
) -> None:
    """The positions of adjacent fibres, so many at a time, then one by one."""
    width = loop.pos_type.width
    pos = shift_pointer(text, scope.pointers[loop.pos.slot], loop.pos.offset_bytes)
    begin = text.value(f"call i64 @teir_load_index(ptr {pos}, i64 {width})")
    beyond = shift_pointer(text, pos, loop.fibres * width)
    end = text.value(f"call i64 @teir_load_index(ptr {beyond}, i64 {width})")
    for size, body in ((loop.size, loop.body), (1, loop.rest)):
        before, head, run, go_on, latch, after = labels(text, 6)
        first, following = text.fresh(), text.fresh()
        text.effect(f"br label %{before}")
        text.label(before)
        text.effect(f"br label %{head}")
        text.label(head)
        text.define(first, f"phi i64 [ {begin}, %{before} ], [ {following}, %{latch} ]")
        stop = text.value(f"add i64 {first}, {size}")
        fits = text.value(f"icmp sle i64 {stop}, {end}")
        text.effect(f"br i1 {fits}, label %{run}, label %{after}")
        text.label(run)
        branch_if_cancelled(text, cancel, after, go_on)
        pointers = dict(scope.pointers)
        step_pointers(text, pointers, loop.steps, first, writer.slots(body))
        writer.body(text, body, Scope(pointers, scope.indices), cancel)
        text.effect(f"br label %{latch}")
        text.label(latch)
        text.define(following, f"add i64 {stop}, 0")
        text.effect(f"br label %{head}")
        text.label(after)
        begin = first


def _run(
    writer: BodyWriter,
    text: FunctionText,
    loop: RunLoop,
    places: tuple[str, str, str],
    body: tuple[KernelNode, ...],
    scope: Scope,
    cancel: str,
) -> str:
    """One run from the first of ``places`` (first, end, bounds); returns where it stops."""
    first, end, bounds = places
    beyond = text.value(f"add i64 {first}, {loop.size}")
    over = text.value(f"icmp sgt i64 {beyond}, {end}")
    stop = text.value(f"select i1 {over}, i64 {end}, i64 {beyond}")
    text.effect(f"store i64 {first}, ptr {bounds}")
    text.effect(f"store i64 {stop}, ptr {shift_pointer(text, bounds, 8)}")
    back = text.value(f"sub i64 0, {first}")
    pointers = dict(scope.pointers)
    step_pointers(text, pointers, loop.steps, back, writer.slots(body))
    writer.body(text, body, Scope(pointers, scope.indices), cancel)
    return stop


@dataclass(frozen=True, slots=True)
class _WalkBounds:
    """The positions of one walk, and where its coordinates lie."""

    begin: str
    end: str
    crd: str
    width: int
    stride: int


def _bounds(text: FunctionText, walk: Walk, scope: Scope) -> _WalkBounds:
    width = walk.pos_type.width
    pos = shift_pointer(text, scope.pointers[walk.pos.slot], walk.pos.offset_bytes)
    begin = text.value(f"call i64 @teir_load_index(ptr {pos}, i64 {width})")
    beyond = shift_pointer(text, pos, width)
    end = text.value(f"call i64 @teir_load_index(ptr {beyond}, i64 {width})")
    crd = shift_pointer(text, scope.pointers[walk.crd.slot], walk.crd.offset_bytes)
    return _WalkBounds(begin, end, crd, walk.crd_type.width, walk.crd_stride_bytes)


def _loaded_call(text: FunctionText, walk: _WalkBounds, position: str) -> str:
    """The call that yields the coordinate at a position."""
    byte = text.value(f"mul i64 {position}, {walk.stride}")
    at = shift_pointer(text, walk.crd, byte)
    return f"call i64 @teir_load_index(ptr {at}, i64 {walk.width})"


def _seek(text: FunctionText, walk: _WalkBounds, position: str, target: str) -> str:
    """The first position from ``position`` on whose coordinate is at least ``target``."""
    return text.value(
        f"call i64 @teir_seek(ptr {walk.crd}, i64 {walk.width}, i64 {walk.stride}, "
        f"i64 {position}, i64 {walk.end}, i64 {target})"
    )
