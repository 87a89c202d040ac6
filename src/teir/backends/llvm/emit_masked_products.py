"""Multiply-adds whose second factor is part of a vector in memory, one instruction each.

A masked load takes a place among the arithmetic beside its multiply-add; LLVM 22 joins no masked
load with the instruction that uses it. Written out, the mask is that of the multiply-add: lanes
that do not exist keep their sums, and nothing is read for them.
"""

from __future__ import annotations

from teir.backends.llvm.emit_lanes import Lanes
from teir.backends.llvm.emit_products import Arithmetic
from teir.backends.llvm.emit_text import FunctionText
from teir.dtypes import DataType

_SUFFIXES = {DataType.FP64: "pd", DataType.FP32: "ps"}
"""Types whose elements are multiplied as they are stored."""


def multiplies_in_memory(kind: Arithmetic, lanes: Lanes) -> bool:
    """Whether `add_product_in_memory` can read these lanes."""
    is_full = kind.count * lanes.data_type.width == kind.isa.vector_bytes
    is_same = lanes.data_type is kind.data_type and kind.data_type in _SUFFIXES
    return kind.isa.has_masks and lanes.mask is not None and is_full and is_same


def add_product_in_memory(
    text: FunctionText, kind: Arithmetic, factor: str, lanes: Lanes, pointer: str, sum_: str
) -> str:
    """factor * the lanes at ``pointer`` + sum_, fused; ``sum_`` in lanes that do not exist."""
    bits = text.value(f"bitcast <{kind.count} x i1> {lanes.mask} to i{kind.count}")
    code = f"vfmadd231{_SUFFIXES[kind.data_type]} $2, $1, $0 {{$3}}"
    return text.value(
        f'call {kind.kind} asm "{code}", "=v,v,*m,^Yk,0"({kind.kind} {factor}, '
        f"ptr elementtype({kind.kind}) {pointer}, i{kind.count} {bits}, {kind.kind} {sum_})"
    )
