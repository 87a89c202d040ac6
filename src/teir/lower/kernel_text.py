"""A kernel in one line: shape of its block, types, how it reaches memory."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import assert_never

from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.asking_kernels import BeginAsking, BringLines
from teir.lower.copy_kernels import (
    CellCopy,
    JoinedTranspose,
    PermuteCopy,
    RowCopy,
    RunCopy,
    ShortTranspose,
    SteppedCopy,
    StreamCopy,
    StreamRows,
    StreamRuns,
    TransposeCopy,
    TurningCopy,
)
from teir.lower.kernels import (
    BatchBlock,
    DotRows,
    Elementwise,
    GemmBlock,
    JoinedDots,
    Kernel,
    LaneBlock,
    PairBlock,
    PanelBlock,
    PartCopy,
    ProductSum,
    RowSweep,
)
from teir.lower.site_kernels import SiteProduct
from teir.lower.tile_kernels import TileProduct
from teir.lower.walked_kernels import (
    FibreParts,
    WalkedDots,
    WalkedInput,
    WalkedRows,
    WalkedSampledSum,
    WalkedScatter,
    WalkedSum,
)
from teir.target import LINE_BYTES


def describe_kernel(kernel: Kernel) -> str:
    """``GemmBlock FP32 64×6 (4 vectors of 16 × 6 columns; A unit, C unit)`` and the like."""
    match kernel:
        case GemmBlock() | PanelBlock() | PairBlock() | TileProduct():
            return _register_block(kernel)
        case ProductSum() | DotRows() | JoinedDots() | RowSweep() | Elementwise():
            return _row_kernel(kernel)
        case BatchBlock() | LaneBlock() | SiteProduct():
            return _batch_kernel(kernel)
        case TransposeCopy() | JoinedTranspose() | ShortTranspose() | SteppedCopy():
            return _copy(kernel)
        case PermuteCopy() | RunCopy() | StreamCopy() | StreamRuns() | StreamRows() | CellCopy():
            return _copy(kernel)
        case RowCopy():
            return f"RowCopy of rows in pieces ({kernel.pieces} of {kernel.piece_bytes} bytes)"
        case PartCopy():
            return f"PartCopy {kernel.data_type.value} ({kernel.vectors} vectors of {kernel.lanes})"
        case WalkedSum() | WalkedDots() | WalkedSampledSum() | WalkedScatter():
            return _walk(kernel)
        case FibreParts():
            named = "numbers" if kernel.is_numbered else "coordinates"
            return f"FibreParts ({named}, the next coordinates of every fibre)"
        case BringLines():
            return "BringLines (asks for what is read soon)"
        case BeginAsking():
            return "BeginAsking (says what blocks ask for)"
        case _:
            assert_never(kernel)


def _register_block(kernel: GemmBlock | PanelBlock | PairBlock | TileProduct) -> str:
    match kernel:
        case GemmBlock():
            access = f"A {kernel.a_access.value}, C {kernel.c_access.value}"
            flags = _set(
                ("masked", kernel.masked),
                ("first rows kept", kernel.keeps),
                ("brings A", kernel.brings),
                ("A in parts", kernel.splits_numbers),
                ("A in panels", kernel.parts and not kernel.splits_numbers),
                ("asks", kernel.asks > 0),
            )
            return (
                f"GemmBlock {kernel.in_type.value} {_rows(kernel)}×{kernel.columns} "
                f"({kernel.vectors} vectors of {kernel.lanes} × {kernel.columns} columns; "
                f"{', '.join((access, *flags))})"
            )
        case PanelBlock():
            vectors = f"{kernel.vectors} vectors of {kernel.lanes}"
            vectors += " in runs" if kernel.runs > 1 else ""
            flags = _set(
                ("streams", kernel.streams),
                ("brings A", kernel.brings),
                ("brings B", kernel.brings_b),
                ("claims C", kernel.claims),
                ("reads B ahead", kernel.reads_ahead),
            )
            return (
                f"PanelBlock {kernel.data_type.value} {kernel.rows}×{kernel.columns} "
                f"({', '.join((vectors, *flags))})"
            )
        case PairBlock():
            vectors = f"{kernel.vectors} vectors of 16" + (" in runs" if kernel.runs > 1 else "")
            flags = _set(("claims C", kernel.claims), ("adds to C", kernel.accumulates))
            return (
                f"PairBlock {DataType.BF16.value} {kernel.rows}×{kernel.columns} "
                f"({', '.join((vectors, 'two steps at once', *flags))})"
            )
        case TileProduct():
            copied = ", columns of B copied" if kernel.copies else ""
            turned = copied if kernel.b_adjacent else ", columns of B turned"
            turned += ", rows of A turned" if kernel.a_adjacent else ""
            turned += ", rows of A kept" if kernel.keeps_rows else ""
            return (
                f"TileProduct {kernel.in_type.value} to {kernel.out_type.value} "
                f"(tiles of 16×16 sums, 32 steps at once{turned})"
            )
        case _:
            assert_never(kernel)


def _row_kernel(kernel: ProductSum | DotRows | JoinedDots | RowSweep | Elementwise) -> str:
    match kernel:
        case ProductSum():
            rows = "" if kernel.vectors is None else f"; rows of {kernel.vectors} vectors"
            return (
                f"ProductSum {kernel.in_type.value} of {kernel.inputs} "
                f"{'input' if kernel.inputs == 1 else 'inputs'} "
                f"({kernel.lanes} lanes; {_named(kernel.accesses)}{rows})"
            )
        case DotRows():
            return (
                f"DotRows {kernel.in_type.value} {_dots_at_once(kernel)} at once "
                f"({kernel.chains} chains in vectors of {kernel.lanes}; {_named(kernel.accesses)})"
            )
        case JoinedDots():
            return (
                f"JoinedDots {kernel.data_type.value}, rows of {kernel.columns} "
                f"({kernel.chains} chains in vectors of {kernel.lanes})"
            )
        case RowSweep():
            return f"RowSweep {kernel.data_type.value} {kernel.rows} rows ({kernel.lanes} lanes)"
        case Elementwise():
            types = kernel.out_type.value
            if kernel.in_type is not kernel.out_type:
                types = f"{kernel.in_type.value} to {types}"
            asks = "; asks ahead" if kernel.brings else ""
            aligns = "; from whole lines on" if kernel.aligns else ""
            short = "" if kernel.vectors is None else f"; rows of {kernel.vectors} vectors"
            lanes = f"{kernel.lanes} lanes; {_named(kernel.accesses)}{asks}{aligns}{short}"
            return f"{kernel.operation.value} {types} ({lanes})"
        case _:
            assert_never(kernel)


def _dots_at_once(kernel: DotRows) -> str:
    return str(kernel.rows) if kernel.columns == 1 else f"{kernel.rows}×{kernel.columns}"


def _batch_kernel(kernel: BatchBlock | LaneBlock | SiteProduct) -> str:
    match kernel:
        case BatchBlock():
            return (
                f"BatchBlock {kernel.in_type.value} "
                f"{_rows(kernel)}×{kernel.columns}×{kernel.depth} "
                f"({kernel.vectors} vectors of {kernel.lanes})"
            )
        case LaneBlock():
            return (
                f"LaneBlock {kernel.in_type.value} {kernel.rows}×{kernel.columns} "
                f"({kernel.lanes} lanes)"
            )
        case SiteProduct():
            columns, sums = prod(kernel.outer_columns), prod(kernel.outer_sums)
            return (
                f"SiteProduct {kernel.data_type.value} {columns * kernel.c_elements} from "
                f"{sums * kernel.a_elements} ({kernel.sites} sites in {kernel.lanes} lanes, "
                f"{sums * len(kernel.products())} products each)"
            )
        case _:
            assert_never(kernel)


def _steps(step: int) -> str:
    return f", one of {step} read" if step > 1 else ""


def _copy(kernel: TurningCopy) -> str:
    match kernel:
        case TransposeCopy():
            groups = f", rows in groups of {kernel.grouped}" if kernel.grouped > 1 else ""
            lines = ", to whole lines" if kernel.aligns else ""
            whole = f"{kernel.columns} at once in registers"
            square = whole if kernel.columns else _square(kernel.lanes)
            name, how = "TransposeCopy", square + groups + lines + _steps(kernel.step)
        case JoinedTranspose():
            name, how = "JoinedTranspose", f"{_square(kernel.lanes)}, short runs joined"
        case ShortTranspose():
            done = "put together" if kernel.joins else "taken apart"
            vectors = f"{kernel.side} vectors of {kernel.lanes} {done}"
            name, how = "ShortTranspose", vectors + _steps(kernel.step)
        case SteppedCopy():
            name, how = "SteppedCopy", f"one of {kernel.step}, vectors of {kernel.lanes}"
        case PermuteCopy():
            tiles = f"{_square(kernel.lanes)}, tiles written in lines"
            name, how = "PermuteCopy", tiles + _steps(kernel.step)
        case RunCopy():
            name, how = "RunCopy", f"vectors of {kernel.lanes}, tiles written in lines"
        case StreamCopy():
            square = _square(LINE_BYTES // kernel.element_bytes)
            name, how = "StreamCopy", f"{square}, rows read as streams, written in lines"
        case CellCopy():
            name, how = "CellCopy", "lines of both sides, through tables of offsets"
        case StreamRuns():
            name, how = "StreamRuns", "rows read as streams, written in lines"
        case StreamRows():
            name, how = "StreamRows", "rows one after another, written in lines"
        case _:
            assert_never(kernel)
    return f"{name} of {kernel.element_bytes}-byte elements ({how})"


def _square(lanes: int) -> str:
    return f"{lanes}×{lanes} in registers"


def _walk(kernel: WalkedSum | WalkedDots | WalkedSampledSum | WalkedScatter) -> str:
    match kernel:
        case WalkedSum():
            chains = (f"{kernel.chains} chains", kernel.chains is not None)
            lines = ("in whole lines", kernel.aligns is not None)
            notes = (_inputs(kernel.inputs), *_set(chains, lines))
            return (
                f"WalkedSum {kernel.in_type.value} over {_fibres(kernel.rows)}, "
                f"{kernel.vectors} vectors of {kernel.lanes} × {kernel.columns} "
                f"({', '.join(notes)})"
            )
        case WalkedDots():
            flags = _set(("scaled", kernel.scales), ("in whole lines", kernel.aligns))
            return (
                f"WalkedDots {kernel.data_type.value} over {_fibres(kernel.rows)}, "
                f"{kernel.vectors} vectors of {kernel.lanes} "
                f"({', '.join((f'{kernel.chains} chains', *flags))})"
            )
        case WalkedSampledSum():
            sums = f"sums of {kernel.vectors} vectors of {kernel.lanes}"
            return (
                f"WalkedSampledSum {kernel.data_type.value} over {_fibres(kernel.rows)}, dots of "
                f"{kernel.dot_vectors} and {', '.join((sums, *_set(('scaled', kernel.scales))))}"
            )
        case WalkedScatter():
            verb = "adds" if kernel.accumulates else "stores"
            rows = " over the fibre of every row" if kernel.has_rows else ""
            return (
                f"WalkedScatter {kernel.data_type.value}{rows} {verb} by {kernel.output.value}, "
                f"{kernel.vectors} vectors of {kernel.lanes} ({_inputs(kernel.inputs) or 'zeros'})"
            )
        case _:
            assert_never(kernel)


def _rows(kernel: GemmBlock | BatchBlock) -> str:
    """Rows of a block; ``32-`` where the last vector is not full."""
    return f"{kernel.vectors * kernel.lanes}" + ("-" if kernel.masked else "")


def _set(*flags: tuple[str, bool]) -> tuple[str, ...]:
    return tuple(word for word, is_set in flags if is_set)


def _named(accesses: Iterable[Access]) -> str:
    return ", ".join(access.value for access in accesses)


def _inputs(inputs: Iterable[WalkedInput]) -> str:
    return ", ".join(f"{one.access.value} by {one.follows.value}" for one in inputs)


def _fibres(rows: WalkedRows | None) -> str:
    return "a fibre" if rows is None else "the fibre of every row"
