"""A rough estimate of how long a kernel program runs, from counts alone.

It decides between ways to run that cost nothing when it is wrong by a factor of ten: keep the
interpreter's lock, watch for Ctrl-C, share a grid.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import assert_never

from teir.lower.asking_kernels import BeginAsking, BringLines
from teir.lower.calls import USUAL_FIBRE
from teir.lower.copy_kernels import (
    CELL_AXES,
    WALK_AXES,
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
from teir.lower.kernel_program import Call
from teir.lower.kernels import (
    BatchBlock,
    DotRows,
    Elementwise,
    GemmBlock,
    JoinedDots,
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
    WalkedRows,
    WalkedSampledSum,
    WalkedScatter,
    WalkedSum,
)
from teir.target import LINE_BYTES

_SECONDS_PER_STEP = 0.3e-9
"""One vector multiply-add, or one vector loaded and stored, with some waiting for memory."""

_SECONDS_PER_CALL = 5e-9

_TILE_LANES = 16


def estimate_seconds(calls: Iterable[tuple[Call, int]]) -> float:
    """Seconds that ``calls`` take on one thread, each as often as it says."""
    seconds = 0.0
    for call, times in calls:
        seconds += times * (_SECONDS_PER_CALL + _SECONDS_PER_STEP * _steps(call))
    return seconds


def _rows(rows: WalkedRows, call: Call) -> int:
    if rows.bounds is not None:
        return USUAL_FIBRE
    return call.arguments[-3 - len(rows.inputs)]


def _steps(call: Call) -> float:
    """Vector instructions a kernel call executes.

    The most frequent kernels come first: a case that does not fit costs as much as a formula.
    """
    kernel = call.kernel
    match kernel:
        case Elementwise():
            rows, columns = call.arguments[:2]
            return len(kernel.accesses) * columns * (1 + rows / kernel.lanes)
        case JoinedTranspose():
            m, n0, n1, *_, outer, _, _ = call.arguments
            return 4 * (1 + outer * m * n0 * n1 / kernel.lanes)
        case ShortTranspose():
            n, _, outer, _, _ = call.arguments
            return outer * kernel.side * (3 + kernel.step) * (1 + n / kernel.lanes)
        case SteppedCopy():
            n, rows, _, _ = call.arguments
            return 2 * rows * kernel.step * (1 + n / kernel.lanes)
        case RowCopy():
            return 2 * kernel.pieces * call.arguments[1] * call.arguments[4]
        case StreamRows():
            row_bytes, rows, _, _, outer, _, _ = call.arguments
            return outer * rows * (4 + row_bytes / LINE_BYTES)
        case TransposeCopy():
            rows, columns = call.arguments[:2]
            return (3 + kernel.step) * (1 + rows * columns / kernel.lanes)
        case PanelBlock():
            blocks = call.arguments[-3] if kernel.repeats else 1
            return blocks * kernel.vectors * kernel.columns * (2 + call.arguments[0])
        case GemmBlock():
            depth, batch, outer = call.arguments[0], call.arguments[3], call.arguments[6]
            blocks = call.arguments[-1] if kernel.repeats else 1
            return blocks * kernel.vectors * kernel.columns * (2 + depth * batch * outer)
        case PairBlock():
            pairs = (call.arguments[0] + 1) // 2 * call.arguments[3]
            return call.arguments[-3] * kernel.vectors * kernel.columns * (2 + pairs)
        case PartCopy():
            return 2 * kernel.vectors * prod(call.arguments[:5:2])
        case TileProduct():
            results = prod(call.arguments[:2]) * call.arguments[16] * call.arguments[19]
            return results * (4 + prod(call.arguments[2:11:3]) / 4) / _TILE_LANES
        case ProductSum():
            rows, depth, batch = call.arguments[:3]
            return kernel.inputs * (2 + rows * depth * batch / kernel.lanes)
        case DotRows():
            rows, extents = call.arguments[0], call.arguments[2 : 2 + kernel.reductions]
            rows *= call.arguments[-kernel.inputs - 2] if kernel.columns > 1 else 1
            return kernel.inputs * rows * (4 + prod(extents) / kernel.lanes)
        case JoinedDots():
            return 2 * kernel.columns * (4 + call.arguments[0] / kernel.lanes)
        case RowSweep():
            return 2 * call.arguments[0] * call.arguments[1] / kernel.lanes
        case BatchBlock():
            return call.arguments[0] * kernel.vectors * kernel.columns * (2 + kernel.depth)
        case LaneBlock():
            lanes, depth = call.arguments[0], prod(call.arguments[1:10:3])
            return kernel.rows * kernel.columns * (1 + lanes / kernel.lanes) * (2 + depth)
        case SiteProduct():
            vectors = (1 + call.arguments[0] / kernel.sites) * prod(call.arguments[3:9:3])
            products = prod(kernel.outer_sums) * len(kernel.products())
            return prod(kernel.outer_columns) * (4 + vectors) * (1 + products)
        case BringLines():
            return prod(call.arguments[::2])
        case BeginAsking():
            return 1
        case WalkedSum():
            steps = USUAL_FIBRE * kernel.vectors * kernel.columns * len(kernel.inputs)
            return steps if kernel.rows is None else steps * _rows(kernel.rows, call)
        case WalkedSampledSum():
            steps = USUAL_FIBRE * (4 + 2 * kernel.dot_vectors + 2 * kernel.vectors)
            return steps if kernel.rows is None else steps * _rows(kernel.rows, call)
        case WalkedScatter():
            rows = call.arguments[-1] if kernel.has_rows else 1
            return USUAL_FIBRE * (1 + kernel.vectors) * rows
        case FibreParts():
            return USUAL_FIBRE * call.arguments[0]
        case WalkedDots():
            steps = USUAL_FIBRE * (4 + 2 * kernel.vectors)
            return steps if kernel.rows is None else steps * _rows(kernel.rows, call)
        case PermuteCopy() | RunCopy():
            elements = (
                (call.arguments[-1] if isinstance(kernel, RunCopy) else 1)
                * prod(call.arguments[0:3])
                * prod(call.arguments[6:9])
            )
            return 4 * (1 + elements * prod(call.arguments[12:14]) / kernel.lanes)
        case StreamCopy():
            elements = prod((*call.arguments[0:3], *call.arguments[6:9], *call.arguments[12:14]))
            return 2 * (1 + elements * kernel.element_bytes / LINE_BYTES)
        case CellCopy():
            extents = (*call.arguments[:CELL_AXES], *call.arguments[3 * CELL_AXES :][:WALK_AXES])
            return 4 * (1 + prod(extents))
        case StreamRuns():
            runs = prod((*call.arguments[0:3], *call.arguments[6:9], *call.arguments[12:14]))
            return 2 * (1 + runs * (1 + call.arguments[-1] * kernel.element_bytes / LINE_BYTES))
        case _:
            assert_never(kernel)
