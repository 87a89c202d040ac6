"""The name of a kernel: its fields in words."""

from __future__ import annotations

from typing import assert_never

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
    Follows,
    WalkedDots,
    WalkedRows,
    WalkedSampledSum,
    WalkedScatter,
    WalkedSum,
)

_ACCESS_LETTER = {Access.UNIT: "u", Access.STRIDED: "s", Access.BROADCAST: "b"}
_FOLLOWS_LETTER = {
    Follows.NOTHING: "n",
    Follows.POSITION: "p",
    Follows.COORDINATE: "c",
    Follows.OUTER_POSITION: "q",
    Follows.OUTER_COORDINATE: "d",
}


def kernel_words(kernel: Kernel) -> str:
    """Every field of the kernel, readable: equal for equal kernels only."""
    match kernel:
        case GemmBlock():
            access = _ACCESS_LETTER[kernel.a_access] + _ACCESS_LETTER[kernel.c_access]
            types = f"{kernel.in_type.value}_{kernel.out_type.value}".lower()
            mask = "_masked" if kernel.masked else ""
            shape = f"{kernel.vectors}x{kernel.columns}_lanes{kernel.lanes}"
            flush = "_flush" if kernel.flushes else ""
            adjacent = "_adjacent" if kernel.b_adjacent else ""
            repeats = ("_repeats" if kernel.repeats else "") + ("_brings" if kernel.brings else "")
            depth = "" if kernel.depth is None else f"_depth{kernel.depth}"
            depth += "_parts" if kernel.parts else ""
            depth += f"_asks{kernel.asks}" if kernel.asks else ""
            depth += "_ahead" if kernel.loads_ahead else ""
            depth += "_keeps" if kernel.keeps else ""
            return f"gemm_{types}_{shape}_{access}{mask}{flush}{adjacent}{repeats}{depth}"
        case PartCopy():
            mask = "_masked" if kernel.masked else ""
            shape = f"{kernel.vectors}_lanes{kernel.lanes}{mask}"
            return f"parts_{kernel.data_type.value}_{shape}".lower()
        case PanelBlock():
            return _panel_words(kernel)
        case PairBlock():
            adjacent = "_adjacent" if kernel.b_adjacent else ""
            claims = "_claims" if kernel.claims else ""
            adds = "_adds" if kernel.accumulates else ""
            shape = f"{kernel.vectors}x{kernel.columns}_runs{kernel.runs}"
            return f"pairs_bf16_{shape}{adjacent}{claims}{adds}"
        case TileProduct():
            types = f"{kernel.in_type.value}_{kernel.out_type.value}".lower()
            copied = "_copied" if kernel.b_adjacent and kernel.copies else ""
            rows = f"_rows_{kernel.rows.value}" if kernel.keeps_rows else ""
            rows += "_adjacent" if kernel.a_adjacent else ""
            rows += ("_pairs" if kernel.packs_pairs else "") + ("_asks" if kernel.asks else "")
            return f"tiles_{types}_{'adjacent' if kernel.b_adjacent else 'turned'}{copied}{rows}"
        case ProductSum():
            access = "".join(_ACCESS_LETTER[a] for a in kernel.accesses)
            types = f"{kernel.in_type.value}_{kernel.out_type.value}".lower()
            rows = "" if kernel.vectors is None else f"_rows{kernel.vectors}"
            return f"products{kernel.inputs}_{types}_lanes{kernel.lanes}_{access}{rows}"
        case DotRows():
            return _dot_rows_words(kernel)
        case JoinedDots():
            inputs = "".join("s" if spread else "r" for spread in kernel.spread)
            shape = f"{kernel.columns}_chains{kernel.chains}_lanes{kernel.lanes}_{inputs}"
            return f"joined_{kernel.data_type.value}_{shape}".lower()
        case LaneBlock():
            types = f"{kernel.in_type.value}_{kernel.out_type.value}".lower()
            loops = "_loop" if kernel.one_loop else ""
            return f"lanewise_{types}_{kernel.rows}x{kernel.columns}_lanes{kernel.lanes}{loops}"
        case SiteProduct():
            return _site_product_words(kernel)
        case BatchBlock():
            return _batch_block_words(kernel)
        case RowSweep():
            access = _ACCESS_LETTER[kernel.b_access]
            shape = f"{kernel.rows}_lanes{kernel.lanes}_{access}"
            return f"sweep_{kernel.data_type.value}_{shape}".lower()
        case Elementwise():
            access = "".join(_ACCESS_LETTER[a] for a in kernel.accesses)
            types = f"{kernel.in_type.value}_{kernel.out_type.value}".lower()
            words = ("_brings" if kernel.brings else "") + ("_aligns" if kernel.aligns else "")
            words += "" if kernel.vectors is None else f"_rows{kernel.vectors}"
            operation = kernel.operation.value.lower()
            return f"{operation}_{types}_lanes{kernel.lanes}_{access}{words}"
        case WalkedSum():
            return _walked_sum_words(kernel)
        case WalkedDots():
            types = (
                f"{kernel.data_type.value}_{kernel.pos_type.value}_{kernel.crd_type.value}".lower()
            )
            shape = f"{kernel.vectors}x{kernel.chains}_lanes{kernel.lanes}"
            flags = {"_masked": kernel.masked, "_scaled": kernel.scales, "_lines": kernel.aligns}
            rows = "" if kernel.rows is None else _rows_words(kernel.rows)
            rows += "" if kernel.ahead is None else f"_ahead{kernel.ahead}"
            words = "".join(word for word, on in flags.items() if on)
            return f"walked_dots_{types}_{shape}{words}{rows}".lower()
        case WalkedSampledSum():
            return _walked_sampled_words(kernel)
        case WalkedScatter():
            return _walked_scatter_words(kernel)
        case TransposeCopy():
            groups = f"_groups{kernel.grouped}" if kernel.grouped > 1 else ""
            lines = "_lines" if kernel.aligns else ""
            lines += f"_columns{kernel.columns}" if kernel.columns else ""
            lines += _step_words(kernel.step)
            return f"transpose_bytes{kernel.element_bytes}_lanes{kernel.lanes}{groups}{lines}"
        case JoinedTranspose():
            return f"joined_bytes{kernel.element_bytes}_lanes{kernel.lanes}"
        case ShortTranspose():
            done = "joined" if kernel.joins else "split"
            steps = _step_words(kernel.step)
            return f"{done}{kernel.side}_bytes{kernel.element_bytes}_lanes{kernel.lanes}{steps}"
        case SteppedCopy():
            return f"every{kernel.step}_bytes{kernel.element_bytes}_lanes{kernel.lanes}"
        case RowCopy():
            return f"rows_{kernel.pieces}x{kernel.piece_bytes}bytes"
        case PermuteCopy():
            steps = _step_words(kernel.step)
            return f"permute_bytes{kernel.element_bytes}_lanes{kernel.lanes}{steps}"
        case RunCopy():
            return f"runs_bytes{kernel.element_bytes}_lanes{kernel.lanes}"
        case StreamCopy():
            return f"streams_bytes{kernel.element_bytes}"
        case CellCopy():
            return f"cells_bytes{kernel.element_bytes}"
        case StreamRuns():
            return f"stream_runs_bytes{kernel.element_bytes}"
        case StreamRows():
            return f"stream_rows_bytes{kernel.element_bytes}"
        case FibreParts():
            words = "_".join(one.value for one in kernel.types)
            return f"fibre_parts_{words}{'_numbered' if kernel.is_numbered else ''}".lower()
        case BringLines():
            return "bring_lines"
        case BeginAsking():
            return "begin_asking"
        case _:
            assert_never(kernel)


def _batch_block_words(kernel: BatchBlock) -> str:
    types = f"{kernel.in_type.value}_{kernel.out_type.value}".lower()
    columns = f"{kernel.columns}by{kernel.columns_at_once}"
    shape = f"{kernel.vectors}x{columns}x{kernel.depth}_lanes{kernel.lanes}"
    strides = f"{kernel.a_k}_{kernel.b_k}_{kernel.b_n}_{kernel.c_n}"
    ends = ("_masked" if kernel.masked else "") + ("_zero" if kernel.from_zero else "")
    return f"batch_{types}_{shape}_strides{strides}{ends}"


def _walked_sum_words(kernel: WalkedSum) -> str:
    types = (kernel.in_type, kernel.out_type, kernel.pos_type, kernel.crd_type)
    shape = f"{kernel.vectors}x{kernel.columns}_lanes{kernel.lanes}"
    inputs = "_".join(
        _ACCESS_LETTER[one.access] + _FOLLOWS_LETTER[one.follows] + ("n" if one.has_columns else "")
        for one in kernel.inputs
    )
    lines = "" if kernel.aligns is None else f"_lines{kernel.aligns}"
    if kernel.outer is not None:
        lines += "_outer_" + "_".join(data_type.value for data_type in kernel.outer)
    if kernel.rows is not None:
        lines += _rows_words(kernel.rows)
    if kernel.ahead is not None:
        lines += f"_ahead{kernel.ahead}"
    near = "".join("a" if adjacent else "s" for adjacent in kernel.adjacent)
    if kernel.chains is not None:
        lines += f"_chains{kernel.chains}_{near}"
    elif not all(kernel.adjacent):
        lines += f"_apart_{near}"
    mask = "_masked" if kernel.masked else ""
    words = "_".join(data_type.value for data_type in types)
    return f"walked_sum_{words}_{shape}_{inputs}{mask}{lines}".lower()


def _rows_words(rows: WalkedRows) -> str:
    types = "_".join(one.value for one in (rows.bounds, rows.crd) if one is not None)
    moves = "".join(_FOLLOWS_LETTER[one] for one in (*rows.inputs, rows.output))
    asks = "_asks" if rows.asks else ""
    return f"_rows{rows.together}_{types}_{moves}{asks}"


def _step_words(step: int) -> str:
    return f"_every{step}" if step > 1 else ""


def _walked_sampled_words(kernel: WalkedSampledSum) -> str:
    types = "_".join(one.value for one in (kernel.data_type, kernel.pos_type, kernel.crd_type))
    shape = f"{kernel.dot_vectors}_{kernel.vectors}_lanes{kernel.lanes}"
    flags = {
        "_dotmasked": kernel.dot_masked,
        "_masked": kernel.masked,
        "_scaled": kernel.scales,
    }
    words = "".join(word for word, on in flags.items() if on)
    rows = "" if kernel.rows is None else _rows_words(kernel.rows)
    rows += "" if kernel.ahead is None else f"_ahead{kernel.ahead}"
    rows += "_pairs" if kernel.in_pairs else ""
    return f"walked_sampled_sum_{types}_{shape}{words}{rows}".lower()


def _walked_scatter_words(kernel: WalkedScatter) -> str:
    types = (kernel.data_type, kernel.pos_type, kernel.crd_type, *(kernel.outer or ()))
    words = "_".join(data_type.value for data_type in types)
    inputs = "_".join(
        _ACCESS_LETTER[one.access] + _FOLLOWS_LETTER[one.follows] for one in kernel.inputs
    )
    near = "".join("a" if adjacent else "s" for adjacent in kernel.adjacent)
    shape = f"{kernel.vectors}_lanes{kernel.lanes}{'_masked' if kernel.masked else ''}"
    verb = "adds" if kernel.accumulates else "stores"
    named = "_named" if kernel.fibre is Follows.OUTER_COORDINATE else ""
    named += "_rows" if kernel.has_rows else ""
    to = _FOLLOWS_LETTER[kernel.output]
    return f"walked_{verb}_{words}_{shape}_{inputs}_to_{to}_{near}{named}".lower()


def _panel_words(kernel: PanelBlock) -> str:
    vectors = f"{kernel.vectors}x{kernel.columns}_lanes{kernel.lanes}_{kernel.last_lanes}"
    flags = {
        "_adjacent": kernel.adjacent_columns,
        "_dense": kernel.dense_columns,
        "_streams": kernel.streams,
        "_brings": kernel.brings,
        "_bringsb": kernel.brings_b,
        "_claims": kernel.claims,
        "_ahead": kernel.reads_ahead,
        "_staggers": kernel.staggers,
        "_repeats": kernel.repeats,
        "_joins": kernel.joins,
        "_turns": kernel.turns,
    }
    asked = "".join(word for word, is_set in flags.items() if is_set)
    asked += f"_spreads{kernel.spreads}" if kernel.spreads else ""
    return f"panel_{kernel.data_type.value}_{vectors}_runs{kernel.runs}{asked}".lower()


def _dot_rows_words(kernel: DotRows) -> str:
    types = f"{kernel.in_type.value}_{kernel.out_type.value}".lower()
    access = "".join(
        _ACCESS_LETTER[access] + ("" if is_shared else "m")
        for access, is_shared in zip(kernel.accesses, kernel.shared, strict=True)
    )
    shape = f"{kernel.rows}x{kernel.chains}_lanes{kernel.lanes}_k{kernel.reductions}"
    shape += f"_columns{kernel.columns}" if kernel.columns > 1 else ""
    return f"dots_{types}_{shape}_{access}_{_ACCESS_LETTER[kernel.out_access]}"


def _site_product_words(kernel: SiteProduct) -> str:
    axes = "_".join(
        f"{letter}{axis.extent}.{axis.a_step}.{axis.c_step}"
        for letter, part in zip("mnk", (kernel.rows, kernel.columns, kernel.sums), strict=True)
        for axis in part
    )
    outer = "_".join(
        "x".join(map(str, extents)) or "1" for extents in (kernel.outer_columns, kernel.outer_sums)
    )
    lanes = f"{kernel.sites}in{kernel.lanes}"
    return f"sites_{kernel.data_type.value}_{lanes}_{axes}_outer{outer}".lower()
