"""Copies of cells through tables of offsets: all elements of a cell, then the next cell.

    for every cell of the walk:
      for every element of the cell: out[walk_out + cell_out] = in[walk_in + cell_in]

A table is made axis by axis: each index of an axis repeats what is there, one stride further.
"""

from __future__ import annotations

from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.backends.llvm.layout import WORD_BYTES
from teir.lower.copy_kernels import (
    CELL_AXES,
    CELL_GROUP,
    MOST_CELLS,
    MOST_IN_CELL,
    WALK_AXES,
    CellCopy,
)

_SIDES = ("in", "out")
CELL_COPY_ARGUMENTS = tuple(
    f"{name}{axis}"
    for table, axes in (("cell", CELL_AXES), ("walk", WALK_AXES))
    for name in (f"{table}_extent", *(f"{table}_{side}_stride" for side in _SIDES))
    for axis in range(axes)
)


def emit_cell_copy_body(kernel: CellCopy) -> FunctionText:
    """The body for operands %A, %B and %C; arguments as the kernel's docstring names them."""
    text = FunctionText()
    text.label("entry")
    start = 0
    for table, most in (("cell", MOST_IN_CELL + CELL_GROUP), ("walk", MOST_CELLS)):
        for side in _SIDES:
            text.effect(f"%{table}_{side} = getelementptr i8, ptr %C, i64 {start}")
            start += most * WORD_BYTES
    _emit_table(text, "cell", CELL_AXES, "entry")
    _emit_table(text, "walk", WALK_AXES, f"cell_filled{CELL_AXES - 1}")
    _emit_rest(text, f"walk_filled{WALK_AXES - 1}")
    _emit_cells(text, kernel.element_bytes)
    return text


def _emit_table(text: FunctionText, table: str, axes: int, before: str) -> None:
    """Blocks up to %<table>_filled<axes - 1>; defines %<table>_count<axes>."""
    text.effect(f"%{table}_count0 = add i64 1, 0")
    for side in _SIDES:
        text.effect(f"store i64 0, ptr %{table}_{side}")
    for axis in range(axes):
        name = f"{table}{axis}"
        text.write(f"""
%{table}_count{axis + 1} = mul i64 %{table}_count{axis}, %{table}_extent{axis}
%{name}_any = icmp slt i64 %{table}_count{axis}, %{table}_count{axis + 1}
br i1 %{name}_any, label %{name}_fill, label %{table}_filled{axis}
{name}_fill:
%{name}_k = phi i64 [ %{table}_count{axis}, %{before} ], [ %{name}_next, %{name}_fill ]
%{name}_like = sub i64 %{name}_k, %{table}_count{axis}
""")
        for side in _SIDES:
            like = text.value(f"getelementptr i64, ptr %{table}_{side}, i64 %{name}_like")
            offset = text.value(f"load i64, ptr {like}")
            further = text.value(f"add i64 {offset}, %{table}_{side}_stride{axis}")
            cell = text.value(f"getelementptr i64, ptr %{table}_{side}, i64 %{name}_k")
            text.effect(f"store i64 {further}, ptr {cell}")
        text.write(f"""
%{name}_next = add i64 %{name}_k, 1
%{name}_more = icmp slt i64 %{name}_next, %{table}_count{axis + 1}
br i1 %{name}_more, label %{name}_fill, label %{table}_filled{axis}
{table}_filled{axis}:
""")
        before = f"{table}_filled{axis}"


def _emit_rest(text: FunctionText, before: str) -> None:
    """The last element of a cell again, until a whole group of elements is full."""
    count = f"%cell_count{CELL_AXES}"
    text.effect(f"%cell_last = sub i64 {count}, 1")
    text.effect(f"%cell_up = add i64 {count}, {CELL_GROUP - 1}")
    text.effect(f"%cell_end = and i64 %cell_up, {-CELL_GROUP}")
    text.effect(f"%cell_any_rest = icmp slt i64 {count}, %cell_end")
    text.effect("br i1 %cell_any_rest, label %cell_rest, label %cells")
    text.label("cell_rest")
    text.effect(f"%rest_k = phi i64 [ {count}, %{before} ], [ %rest_next, %cell_rest ]")
    for side in _SIDES:
        last = text.value(f"getelementptr i64, ptr %cell_{side}, i64 %cell_last")
        offset = text.value(f"load i64, ptr {last}")
        cell = text.value(f"getelementptr i64, ptr %cell_{side}, i64 %rest_k")
        text.effect(f"store i64 {offset}, ptr {cell}")
    text.write("""
%rest_next = add i64 %rest_k, 1
%rest_more = icmp slt i64 %rest_next, %cell_end
br i1 %rest_more, label %cell_rest, label %cells
cells:
br label %next_cell
""")


def _emit_cells(text: FunctionText, width: int) -> None:
    """Blocks %next_cell and %some: the cells of the walk, some elements at a time."""
    element = "<2 x i64>" if width == 16 else f"i{8 * width}"
    text.label("next_cell")
    text.effect("%w = phi i64 [ 0, %cells ], [ %w_next, %cell_over ]")
    for side, operand in zip(_SIDES, ("%A", "%B"), strict=True):
        cell = text.value(f"getelementptr i64, ptr %walk_{side}, i64 %w")
        offset = text.value(f"load i64, ptr {cell}")
        text.effect(f"%at_{side} = getelementptr i8, ptr {operand}, i64 {offset}")
    text.effect("br label %some")
    text.label("some")
    text.effect("%e = phi i64 [ 0, %next_cell ], [ %e_next, %some ]")
    places: dict[str, list[str]] = {}
    for side in _SIDES:
        table = text.value(f"getelementptr i64, ptr %cell_{side}, i64 %e")
        places[side] = []
        for number in range(CELL_GROUP):
            offset = text.value(f"load i64, ptr {shift_pointer(text, table, number * WORD_BYTES)}")
            places[side].append(text.value(f"getelementptr i8, ptr %at_{side}, i64 {offset}"))
    values = [text.value(f"load {element}, ptr {place}, align 1") for place in places["in"]]
    for value, place in zip(values, places["out"], strict=True):
        text.effect(f"store {element} {value}, ptr {place}, align 1")
    text.write(f"""
%e_next = add i64 %e, {CELL_GROUP}
%e_more = icmp slt i64 %e_next, %cell_end
br i1 %e_more, label %some, label %cell_over
cell_over:
%w_next = add i64 %w, 1
%w_more = icmp slt i64 %w_next, %walk_count{WALK_AXES}
br i1 %w_more, label %next_cell, label %finish
finish:
ret void
""")
