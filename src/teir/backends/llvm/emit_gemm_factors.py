"""Which elements of B a block's multiply-adds read from memory themselves.

A factor of a column read once and spread by a load of its own costs one micro-operation more than
one that every multiply-add of the column reads for itself; that costs as many loads as there are
vectors. Where two multiply-adds and two loads are done a cycle, blocks two vectors high have loads
to spare for some of their columns:

    column 0: multiply-adds that read (b)       and so for 2, 4, 6, ...
    column 1: one load from (b + b_n), spread

A multiply-add that reads by base and index is split in two again: columns read like that have a
pointer of their own for the whole block, from which the columns up to the next one are reached.
Measured on Golden Cove, operands in the first cache, sums of 5 to 512 products: blocks two vectors
high take 5 to 9 % less time, blocks of three 1 to 3 %. Where every vector of A lies in two lines,
as in most arrays of NumPy, each is two loads, and blocks of three took 6 to 15 % more from the
second cache: they read no factors, nor do higher ones. In `PanelBlock`, three vectors high, the
same took 3 to 13 % longer; two vectors high, of columns that lie side by side in B, 4 to 5 % less
(FP32, sums of 256 products).
"""

from __future__ import annotations

from teir.backends.llvm.emit_products import Arithmetic
from teir.backends.llvm.emit_text import FunctionText
from teir.dtypes import DataType
from teir.lower.kernels import GemmBlock, PanelBlock
from teir.target import Isa

COLUMNS_PER_BASE = 9
"""Columns 0 to 8 are one base plus 1, 2, 4 or 8 times an odd multiple of the column stride."""
_LOW_VECTORS = 2
_SUFFIXES = {DataType.FP64: "pd", DataType.FP32: "ps"}


def reads_factors(kernel: GemmBlock, isa: Isa) -> bool:
    """True for blocks whose columns with a pointer of their own are multiplied from memory."""
    return (
        isa.multiplies_twice_a_cycle
        and kernel.b_adjacent
        and kernel.depth is None
        and kernel.vectors == _LOW_VECTORS
        and kernel.in_type in _SUFFIXES
        and kernel.lanes * kernel.in_type.width == isa.vector_bytes
    )


def panel_reads_factors(kernel: PanelBlock, isa: Isa) -> bool:
    """True for panels two vectors high whose columns lie side by side: every second is read so."""
    return (
        isa.multiplies_twice_a_cycle
        and kernel.adjacent_columns
        and kernel.columns > 1
        and kernel.vectors == _LOW_VECTORS
        and not kernel.staggers
        and kernel.last_lanes == kernel.lanes
        and kernel.data_type in _SUFFIXES
        and kernel.lanes * kernel.data_type.width == isa.vector_bytes
    )


def columns_per_base(kernel: GemmBlock, isa: Isa) -> int:
    """Columns of B that are reached from one pointer."""
    return kernel.vectors if reads_factors(kernel, isa) else COLUMNS_PER_BASE


def add_product_of_element(
    text: FunctionText, kind: Arithmetic, factor: str, place: str, sum_: str
) -> str:
    """sum_ + factor * the element at ``place``, fused; LLVM would load it once for all uses."""
    code = f"vfmadd231{_SUFFIXES[kind.data_type]} $2{{1to{kind.count}}}, $1, $0"
    return text.value(
        f'call {kind.kind} asm "{code}", "=v,v,*m,0"({kind.kind} {factor}, '
        f"ptr elementtype({kind.element}) {place}, {kind.kind} {sum_})"
    )
