"""The kernels a lowered program may call, as values.

A kernel value names one piece of code: everything in it is a constant of the generated code.
What varies from call to call (extents, strides, counts) is passed as `arguments`, signed 64-bit
integers in the order the kernel's docstring gives. Strides are bytes.

Numerical contract of every kernel that adds products: one fused multiply-add chain per output
element, starting from the value stored in the output (or from zero), over (outer batch, batch, k)
in increasing order; `DotRows` and `JoinedDots` keep as many chains as the program says. So no
choice made here (block sizes, lanes, access) changes a bit of the result.
"""

from __future__ import annotations

import msgspec

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.access import Access
from teir.lower.asking_kernels import BeginAsking, BringLines
from teir.lower.copy_kernels import RowCopy, TurningCopy
from teir.lower.site_kernels import SiteProduct
from teir.lower.tile_kernels import TileProduct
from teir.lower.walked_kernels import WalkedKernel

PAIR_ROWS = 16
"""Rows of a vector of sums whose products are taken two steps at a time."""


_MANY_SUMS = 16


class GemmBlock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """C[m, n] += sum over (outer, batch, k) of A[m, ...] * B[n, ...] on a register block.

    The block is ``vectors * lanes`` rows by ``columns`` columns; lanes run along m. With
    ``masked`` only the first ``last_lanes`` lanes of the last vector exist. For complex types a
    lane is one complex element.

    Operands: A, B, C. Arguments, in order:
    k, a_k, b_k, batch, a_batch, b_batch, outer, a_outer, b_outer, b_n, c_n,
    accumulate (1: start from C, 0: start from zero), last_lanes, a_m, c_m, b_ahead, c_ahead.
    ``a_m`` and ``c_m`` are read only where the access is STRIDED. ``b_ahead`` and ``c_ahead`` are
    how far beyond B and C a later call reads, so that it may be brought near; 0 for none. They
    change no value, and the addresses need not exist.

    ``flushes`` (factors that were BF16): factors and sums that are subnormal count as zero.
    ``b_adjacent``: ``b_k`` is one element. With ``repeats`` there is one argument more, blocks: so
    many blocks are formed, each ``columns`` columns beyond the one before. With ``brings`` it is
    a_ahead: A is asked for so many bytes beyond what is read. Where ``depth`` is given k is
    ``depth``, and batch and outer are 1. ``asks``: every pass asks for so many lines of what a
    cell says, the operand behind C, and moves that on (see `BeginAsking`). ``parts`` (complex
    types, vectors even in number; FP32, FP64): A lies as `PartCopy` writes it, whole vectors, the
    last one too.
    ``loads_ahead`` (FP32 and FP64, repeated blocks that start from C, UNIT): the first vector of C
    is loaded before the block before is stored. ``keeps`` (FP32 and FP64, all vectors whole): the
    first ``lanes`` - ``last_lanes`` rows of C stay as they are, which another block has formed.
    """

    in_type: DataType
    out_type: DataType
    lanes: int
    vectors: int
    columns: int
    a_access: Access
    c_access: Access
    masked: bool
    flushes: bool = False
    b_adjacent: bool = False
    repeats: bool = False
    brings: bool = False
    depth: int | None = None
    parts: bool = False
    asks: int = 0
    loads_ahead: bool = False
    keeps: bool = False

    @property
    def splits_numbers(self) -> bool:
        """True where real numbers lie in vectors of their own."""
        return self.parts and self.in_type.is_complex

    @property
    def usual_steps(self) -> int:
        """Steps of the sum in a pass of the loop where nothing else decides: of many sums two hide
        the loop's own instructions as well as four do."""
        return 2 if self.vectors * self.columns >= _MANY_SUMS else 4


class PartCopy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """room[...] = A[..., m], step by step; complex numbers in parts, FP32 and FP64 as they are.

    For every value of (outer, batch, k) in order ``vectors`` vectors of ``lanes`` elements,
    adjacent in A along m, are written one behind the other. Complex ones, whose vectors are even in
    number, become so many vectors of numbers, the first of each pair the real ones of both. With
    ``masked`` only the first ``last_lanes`` lanes of the last vector exist; what is written for the
    others is nothing anybody reads.

    Operands: A, room. Arguments, in order: k, a_k, batch, a_batch, outer, a_outer, last_lanes.
    """

    data_type: DataType
    lanes: int
    vectors: int
    masked: bool


PANEL_STEPS = 4
"""Steps of the sum that a `PanelBlock` does in a row, as long as so many are left."""


class PanelBlock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """C[m, n] += sum over k of A[m, k] * B[n, k] on a register block of FP32 or FP64.

    Every vector has ``lanes`` rows but the last, which has ``last_lanes``: a narrower vector, no
    mask. Rows are adjacent in A; in C they lie in ``runs`` runs of equal length, adjacent inside a
    run and ``c_run`` bytes from one to the next. With ``adjacent_columns`` columns are adjacent in
    B and ``b_n`` is not read; with ``dense_columns`` a run of one column follows that of the column
    before in C, so that ``c_n`` is the length of a run.

    ``streams``: C is written past the caches where its place allows. ``brings``: A is asked for
    ``a_ahead`` bytes beyond what is read, ``brings_b``: B ``b_ahead`` bytes. ``claims``: C is asked
    for ``c_ahead`` bytes beyond what is written, unless it is written past the caches. None of them
    changes a value, and the addresses need not exist. ``staggers``: the last steps are done for one
    column after the other, so that columns are stored while others are formed; k is at least 4.

    ``reads_ahead``: B is asked for a line ahead of what is read, where k is adjacent in it.

    With ``repeats`` there are three arguments more, blocks, b_block and c_block: so many blocks are
    formed with the same A, so many bytes apart. ``joins``: columns are dense, and a run of one
    block follows that of the block before in C. With ``spreads`` so many lines of the next
    tile are asked for beside every four steps, block after block, instead of what ``brings`` means:
    two arguments more, before those three, say that they lie in rows of ``a_row_bytes``, ``a_k``
    apart from ``a_ahead`` on, and how far away the rows end.

    ``turns``: one argument more, right behind c_ahead: so many bytes further on A's rows lie once
    more, taken round: from that on before which a vector but for `ARRAY_START_BYTES` has room. C is
    one run of whole vectors. Or two runs of one and a half vectors each, columns even in number and
    dense: then, in quarters of a vector of 0 to 5 of each run, quarters 3 4 5 0 of the first run,
    those of the second, quarters 1 2 of the first, those of the second.

    Operands: A, B, C. Arguments, in order:
    k, a_k, b_k, b_n, c_n, c_run, accumulate (1: start from C, 0: from zero), a_ahead, b_ahead,
    c_ahead.
    """

    data_type: DataType
    lanes: int
    last_lanes: int
    vectors: int
    columns: int
    runs: int
    adjacent_columns: bool
    dense_columns: bool
    streams: bool
    brings: bool
    brings_b: bool
    claims: bool
    staggers: bool = False
    repeats: bool = False
    joins: bool = False
    turns: bool = False
    reads_ahead: bool = False
    spreads: int = 0

    @property
    def rows(self) -> int:
        return (self.vectors - 1) * self.lanes + self.last_lanes


class PairBlock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """C[m, n] = sum over (batch, k) of A[m, ...] * B[n, ...] on a register block of BF16.

    With ``accumulates``, which needs one run, sums start from C, else from zero. Factors and sums
    that are subnormal count as zero. The block is ``vectors`` (an even number) of 16 rows by
    ``columns`` columns. Rows are adjacent in A; in C they lie in ``runs`` runs of equal length, a
    multiple of four rows, adjacent inside a run and ``c_run`` bytes from one to the next.
    ``b_adjacent``: k is adjacent in B and ``b_k`` is not read. ``claims``: C is asked for
    ``c_ahead`` bytes beyond what is written; that changes no value, and the addresses need not
    exist. ``blocks`` blocks are formed with the same A, so many bytes apart.

    Operands: A, B, C. Arguments, in order:
    k, a_k, b_k, batch, a_batch, b_batch, b_n, c_n, c_run, c_ahead, blocks, b_block, c_block.
    """

    vectors: int
    columns: int
    runs: int
    b_adjacent: bool
    claims: bool
    accumulates: bool

    @property
    def rows(self) -> int:
        return self.vectors * PAIR_ROWS


class ProductSum(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[m] += sum over (batch, k) of the product of all inputs at (m, batch, k).

    The general contraction kernel: any number of inputs, any strides. Products are formed left to
    right, each rounded, and the last multiplication is the fused one (one input: a plain add).
    ``accesses`` has one entry per operand: the inputs in order, then the output. With ``vectors``
    so many, two or more, make a row, the last one perhaps in part: rows of adjacent elements,
    summed as they come.

    Operands: the inputs, then the output. Arguments, in order:
    m, k, batch, accumulate (1 or 0), then the m stride of every operand, then the k stride of
    every input, then the batch stride of every input.
    """

    in_type: DataType
    out_type: DataType
    inputs: int
    lanes: int
    accesses: tuple[Access, ...]
    vectors: int | None = None


class DotRows(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[m] += sum over the reductions of the product of all inputs, lanes along the last one.

    A sum is formed in ``chains`` chains, as `teir.ir.lanes` says, whatever the ``lanes`` of one
    vector (a divisor of ``chains``) and the ``rows`` formed at once. Products are formed left to
    right, the last multiplication fused (one input: a plain add). Per input, ``accesses`` says how
    it lies along the last reduction, and ``shared`` is True where it does not move along m.

    With ``columns`` above 1 there are more outputs, along n: the input that does not move along m
    does, the other one not, and so many are formed at once.

    Operands: the inputs, then the output. Arguments, in order:
    m, accumulate (1 or 0), the extents of the reductions, outermost first, the m stride of every
    operand, then for every reduction the stride of every input; with columns n, and the n stride of
    every operand.
    """

    in_type: DataType
    out_type: DataType
    inputs: int
    reductions: int
    chains: int
    lanes: int
    rows: int
    accesses: tuple[Access, ...]
    shared: tuple[bool, ...]
    out_access: Access
    columns: int = 1


class JoinedDots(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[m] += sum over k of the product of one or two inputs, in short rows without gaps.

    ``columns`` is how many m there are. Rows of an input lie one behind the other, m adjacent, and
    vectors run across their ends; with ``spread`` it has one element for all of a row, adjacent
    along k. A sum is formed in ``chains`` chains, as `teir.ir.lanes` says; ``lanes`` divides them.
    The type is FP32 or FP64.

    Operands: the inputs, then the output, m adjacent. Arguments, in order: k, accumulate (1 or 0).
    """

    data_type: DataType
    columns: int
    chains: int
    lanes: int
    spread: tuple[bool, ...]


class LaneBlock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """C[r, c, m] += sum over (outer, batch, k) of A[r, ..., m] * B[c, ..., m], lanes along m.

    ``rows`` by ``columns`` accumulators for every vector of ``lanes``; along m the elements of all
    three operands are adjacent.

    Operands: A, B, C. Arguments, in order:
    m, k, a_k, b_k, batch, a_batch, b_batch, outer, a_outer, b_outer, a_row, b_column, c_row,
    c_column, accumulate (1: start from C, 0: start from zero).

    With ``one_loop`` batch and outer are 1.
    """

    in_type: DataType
    out_type: DataType
    lanes: int
    rows: int
    columns: int
    one_loop: bool = False


class BatchBlock(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """C[b, n, m] += sum over k of A[b, k, m] * B[b, n, k] for every b: small products in a row.

    Lanes run along m, where A and C are adjacent: ``vectors`` vectors of ``lanes``, with ``masked``
    the last one partly. The strides ``a_k``, ``b_k``, ``b_n`` and ``c_n`` are bytes.
    ``columns_at_once`` is how many columns have accumulators at the same time. With ``from_zero``
    C counts as zero.

    Operands: A, B, C. Arguments, in order: batch, a_batch, b_batch, c_batch, last_lanes.
    """

    in_type: DataType
    out_type: DataType
    lanes: int
    vectors: int
    masked: bool
    columns: int
    columns_at_once: int
    depth: int
    a_k: int
    b_k: int
    b_n: int
    c_n: int
    from_zero: bool


class RowSweep(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """C[m] += sum over k of A[k, m] * B[k, m], ``rows`` values of k at a time along all of m.

    Lanes run along m, where A and C are adjacent, and B is too (UNIT) or does not move (BROADCAST).
    The type is stored as it is computed with.

    Operands: A, B, C. Arguments, in order: m, k, a_k, b_k, accumulate (1: start from C, 0: start
    from zero).
    """

    data_type: DataType
    lanes: int
    rows: int
    b_access: Access


class Elementwise(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """out[m, n] = operation(inputs[m, n]) for Zero, Copy, ReLU, Add, Sub, Mul, Div, Min, Max.

    Copy converts ``in_type`` to ``out_type`` (round to nearest even); the other operations have
    equal types. Lanes run along m. ``accesses`` has one entry per operand, the output last.
    ``brings``: inputs with UNIT access are asked for some lines beyond what is read. It changes no
    value, and the addresses need not exist. ``aligns``: a row begins with the elements in front of
    the output's first whole vector, so that stores cross no lines; no access is STRIDED.
    ``vectors``: m is more than ``vectors`` - 1 and at most ``vectors`` times ``lanes``, and no
    access is STRIDED; None for rows of any length.

    Operands: the inputs, then the output. Arguments, in order:
    m, n, then the m stride of every operand, then the n stride of every operand.
    """

    operation: Operation
    in_type: DataType
    out_type: DataType
    lanes: int
    accesses: tuple[Access, ...]
    brings: bool = False
    aligns: bool = False
    vectors: int | None = None


Kernel = (
    GemmBlock
    | PartCopy
    | PanelBlock
    | PairBlock
    | TileProduct
    | ProductSum
    | DotRows
    | JoinedDots
    | LaneBlock
    | SiteProduct
    | BatchBlock
    | RowSweep
    | Elementwise
    | TurningCopy
    | RowCopy
    | BringLines
    | BeginAsking
    | WalkedKernel
)
