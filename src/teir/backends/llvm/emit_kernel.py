"""One kernel value to the text of its two LLVM functions, and the names they go by.

``@<symbol>`` is the body: operand pointers, then the arguments of the kernel's docstring as i64.
``@<symbol>_node`` has the signature every table node has and reads the arguments from the node's
record: word 0 is the function, word 1 + i is argument i. The same body follows in it: put there by
LLVM's inliner it takes a tenth longer to compile.
"""

from __future__ import annotations

from typing import assert_never

from teir.backends.llvm.emit_batch_block import BATCH_BLOCK_ARGUMENTS, emit_batch_block_body
from teir.backends.llvm.emit_begin_asking import BEGIN_ASKING_ARGUMENTS, emit_begin_asking_body
from teir.backends.llvm.emit_bring_lines import BRING_LINES_ARGUMENTS, emit_bring_lines_body
from teir.backends.llvm.emit_cell_copy import CELL_COPY_ARGUMENTS, emit_cell_copy_body
from teir.backends.llvm.emit_dot_rows import dot_rows_arguments, emit_dot_rows_body
from teir.backends.llvm.emit_elementwise import elementwise_arguments, emit_elementwise_body
from teir.backends.llvm.emit_fibre_parts import (
    FIBRE_PARTS_ARGUMENTS,
    FIBRE_PARTS_OPERANDS,
    emit_fibre_parts_body,
)
from teir.backends.llvm.emit_gemm import emit_gemm_body, emit_gemm_node
from teir.backends.llvm.emit_gemm_block import gemm_arguments
from teir.backends.llvm.emit_joined_dots import JOINED_DOTS_ARGUMENTS, emit_joined_dots_body
from teir.backends.llvm.emit_lane_block import LANE_BLOCK_ARGUMENTS, emit_lane_block_body
from teir.backends.llvm.emit_pair_block import PAIR_BLOCK_ARGUMENTS, emit_pair_block_body
from teir.backends.llvm.emit_panel import emit_panel_body, panel_arguments
from teir.backends.llvm.emit_part_copy import PART_COPY_ARGUMENTS, emit_part_copy_body
from teir.backends.llvm.emit_permute import PERMUTE_ARGUMENTS, RUN_ARGUMENTS, emit_permute_body
from teir.backends.llvm.emit_product_sum import emit_product_sum_body, product_sum_arguments
from teir.backends.llvm.emit_row_copy import ROW_COPY_ARGUMENTS, emit_row_copy_body
from teir.backends.llvm.emit_row_sweep import ROW_SWEEP_ARGUMENTS, emit_row_sweep_body
from teir.backends.llvm.emit_short_transpose import (
    SHORT_TRANSPOSE_ARGUMENTS,
    emit_short_transpose_body,
)
from teir.backends.llvm.emit_site_product import emit_site_product_body, site_product_arguments
from teir.backends.llvm.emit_stepped_copy import STEPPED_COPY_ARGUMENTS, emit_stepped_copy_body
from teir.backends.llvm.emit_stream_copy import STREAM_COPY_ARGUMENTS, emit_stream_copy_body
from teir.backends.llvm.emit_stream_rows import emit_stream_rows_body
from teir.backends.llvm.emit_stream_runs import STREAM_RUNS_ARGUMENTS, emit_stream_runs_body
from teir.backends.llvm.emit_tile_product import TILE_PRODUCT_ARGUMENTS, emit_tile_product_body
from teir.backends.llvm.emit_transpose import emit_transpose_body, transpose_arguments
from teir.backends.llvm.emit_transpose_columns import emit_transpose_columns_body
from teir.backends.llvm.emit_transpose_joined import (
    JOINED_TRANSPOSE_ARGUMENTS,
    emit_transpose_joined_body,
)
from teir.backends.llvm.emit_walked_dots import emit_walked_dots_body, walked_dots_arguments
from teir.backends.llvm.emit_walked_sampled_sum import (
    emit_walked_sampled_sum_body,
    walked_sampled_sum_arguments,
)
from teir.backends.llvm.emit_walked_scatter import (
    emit_walked_scatter_body,
    walked_scatter_arguments,
)
from teir.backends.llvm.emit_walked_sum import emit_walked_sum_body, walked_sum_arguments
from teir.backends.llvm.kernel_words import kernel_words
from teir.backends.llvm.layout import (
    NODE_PARAMETERS,
    REGISTER_OPERANDS,
    SLOTS_BYTES,
    WORD_BYTES,
    argument_bytes,
    operand_offset_bytes,
    operand_slot_bytes,
)
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
    WalkedDots,
    WalkedSampledSum,
    WalkedScatter,
    WalkedSum,
)
from teir.target import Isa


def kernel_symbol(kernel: Kernel, isa: Isa) -> str:
    """The name of the kernel's function: readable, equal for equal kernels only."""
    return f"teir_{isa.spelling}_{kernel_words(kernel)}"


def kernel_operands(kernel: Kernel) -> int:
    """Number of operand pointers, the output included."""
    match kernel:
        case GemmBlock():
            return 4 if kernel.asks else 3
        case PanelBlock() | PairBlock() | LaneBlock() | BatchBlock() | RowSweep() | SiteProduct():
            return 3
        case PermuteCopy() | RunCopy() | StreamCopy() | StreamRuns() | CellCopy() | BringLines():
            return 3
        case TileProduct():
            return 4
        case BeginAsking():
            return 3
        case ProductSum() | Elementwise():
            return len(kernel.accesses)
        case DotRows():
            return kernel.inputs + 1
        case JoinedDots():
            return len(kernel.spread) + 1
        case TransposeCopy() | JoinedTranspose() | ShortTranspose() | SteppedCopy():
            return 2
        case RowCopy() | StreamRows() | PartCopy():
            return 2
        case WalkedSum():
            return len(kernel.inputs) + kernel.index_arrays + 1
        case WalkedDots():
            above = 0 if kernel.rows is None else kernel.rows.index_arrays
            return above + 5 + int(kernel.scales)
        case WalkedSampledSum():
            above = 0 if kernel.rows is None else kernel.rows.index_arrays
            return above + 6 + int(kernel.scales)
        case WalkedScatter():
            return len(kernel.inputs) + kernel.index_arrays + 1
        case FibreParts():
            return FIBRE_PARTS_OPERANDS
        case _:
            assert_never(kernel)


def kernel_arguments(kernel: Kernel) -> tuple[str, ...]:
    """The names of the i64 arguments in order, as in the kernel's docstring."""
    match kernel:
        case GemmBlock():
            return gemm_arguments(kernel)
        case PanelBlock():
            return panel_arguments(kernel)
        case PairBlock():
            return PAIR_BLOCK_ARGUMENTS
        case PartCopy():
            return PART_COPY_ARGUMENTS
        case TileProduct():
            return TILE_PRODUCT_ARGUMENTS
        case ProductSum():
            return product_sum_arguments(kernel)
        case DotRows():
            return dot_rows_arguments(kernel)
        case JoinedDots():
            return JOINED_DOTS_ARGUMENTS
        case LaneBlock():
            return LANE_BLOCK_ARGUMENTS
        case SiteProduct():
            return site_product_arguments(kernel)
        case BatchBlock():
            return BATCH_BLOCK_ARGUMENTS
        case RowSweep():
            return ROW_SWEEP_ARGUMENTS
        case Elementwise():
            return elementwise_arguments(kernel)
        case WalkedSum():
            return walked_sum_arguments(kernel)
        case WalkedDots():
            return walked_dots_arguments(kernel)
        case WalkedSampledSum():
            return walked_sampled_sum_arguments(kernel)
        case WalkedScatter():
            return walked_scatter_arguments(kernel)
        case FibreParts():
            return FIBRE_PARTS_ARGUMENTS
        case TransposeCopy():
            return transpose_arguments(kernel)
        case JoinedTranspose():
            return JOINED_TRANSPOSE_ARGUMENTS
        case ShortTranspose():
            return SHORT_TRANSPOSE_ARGUMENTS
        case SteppedCopy():
            return STEPPED_COPY_ARGUMENTS
        case RowCopy() | StreamRows():
            return ROW_COPY_ARGUMENTS
        case PermuteCopy():
            return PERMUTE_ARGUMENTS
        case RunCopy():
            return RUN_ARGUMENTS
        case StreamCopy():
            return STREAM_COPY_ARGUMENTS
        case CellCopy():
            return CELL_COPY_ARGUMENTS
        case StreamRuns():
            return STREAM_RUNS_ARGUMENTS
        case BringLines():
            return BRING_LINES_ARGUMENTS
        case BeginAsking():
            return BEGIN_ASKING_ARGUMENTS
        case _:
            assert_never(kernel)


def emit_kernel(kernel: Kernel, isa: Isa) -> str:
    """The text of ``@<symbol>_node``."""
    symbol = kernel_symbol(kernel, isa)
    if isinstance(kernel, GemmBlock):
        return f"define void @{symbol}_node{_gemm_node(kernel, isa)}"
    head = f"define void @{symbol}_node({NODE_PARAMETERS}) nounwind {{\n"
    return head + _after_entry(_body_text(kernel, isa), _node_arguments(kernel)) + "\n}\n"


def emit_body(kernel: Kernel, isa: Isa, *, inlined: bool) -> str:
    """The text of ``@<symbol>`` alone: copied to where it is called, or called."""
    pointers = [f"ptr {name}" for name in _operand_names(kernel)]
    words = [f"i64 %{name}" for name in kernel_arguments(kernel)]
    head = f"define internal void @{kernel_symbol(kernel, isa)}({', '.join(pointers + words)})"
    inlining = "alwaysinline" if inlined else "noinline"
    return f"{head} {inlining} nounwind {{\n{_body_text(kernel, isa)}\n}}\n"


def _node_arguments(kernel: Kernel) -> list[str]:
    """Instructions that define the arguments of the body, and its operands where they are many."""
    lines = []
    for number, name in enumerate(kernel_arguments(kernel)):
        place = f"%{name}_word"
        lines.append(f"  {place} = getelementptr i8, ptr %node, i64 {argument_bytes(number)}")
        lines.append(f"  %{name} = load i64, ptr {place}, align 8")
    if kernel_operands(kernel) > REGISTER_OPERANDS:
        lines += _pointers_from_frame(kernel)
    return lines


def _after_entry(body: str, lines: list[str]) -> str:
    """The body with ``lines`` at the beginning of its first block, which has a label."""
    entry, rest = body.split("\n", 1)
    return "\n".join((entry, *lines, rest))


def _gemm_node(kernel: GemmBlock, isa: Isa) -> str:
    """Parameters and body of the node of a register block, which may read A, B and C itself."""
    body, parameters = emit_gemm_node(kernel, isa).text(), NODE_PARAMETERS
    if kernel.asks:
        parameters = "ptr %node, ptr %frame, ptr %first, ptr %second, ptr %third"
        body = _after_entry(body, _pointers_from_frame(kernel))
    return f"({parameters}) nounwind {{\n{body}\n}}\n"


def _operand_names(kernel: Kernel) -> tuple[str, ...]:
    """The operands' pointers in the body; in a node A, B and C are the registers' names."""
    count = kernel_operands(kernel)
    if count <= REGISTER_OPERANDS or isinstance(kernel, GemmBlock):
        return ("%A", "%B", "%C", "%D")[:count]
    return tuple(f"%operand{number}" for number in range(count))


def _pointers_from_frame(kernel: Kernel) -> list[str]:
    """Instructions that define the operands of a kernel that has too many for registers."""
    lines = []
    arguments = len(kernel_arguments(kernel))
    for number, name in enumerate(_operand_names(kernel)):
        lines += [
            f"  {name}_slot_at = getelementptr i8, ptr %node, "
            f"i64 {operand_slot_bytes(arguments, number)}",
            f"  {name}_slot = load i64, ptr {name}_slot_at, align 8",
            f"  {name}_offset_at = getelementptr i8, ptr %node, "
            f"i64 {operand_offset_bytes(arguments, number)}",
            f"  {name}_offset = load i64, ptr {name}_offset_at, align 8",
            f"  {name}_word = mul i64 {name}_slot, {WORD_BYTES}",
            f"  {name}_cell = add i64 {name}_word, {SLOTS_BYTES}",
            f"  {name}_cell_at = getelementptr i8, ptr %frame, i64 {name}_cell",
            f"  {name}_start = load ptr, ptr {name}_cell_at, align 8",
            f"  {name} = getelementptr i8, ptr {name}_start, i64 {name}_offset",
        ]
    return lines


def _body_text(kernel: Kernel, isa: Isa) -> str:
    match kernel:
        case GemmBlock():
            return emit_gemm_body(kernel, isa).text()
        case PanelBlock():
            return emit_panel_body(kernel, isa).text()
        case PairBlock():
            return emit_pair_block_body(kernel, isa).text()
        case PartCopy():
            return emit_part_copy_body(kernel, isa).text()
        case TileProduct():
            return emit_tile_product_body(kernel, isa, _operand_names(kernel)).text()
        case ProductSum():
            return emit_product_sum_body(kernel, isa, _operand_names(kernel)).text()
        case DotRows():
            return emit_dot_rows_body(kernel, isa, _operand_names(kernel)).text()
        case JoinedDots():
            return emit_joined_dots_body(kernel, isa, _operand_names(kernel)).text()
        case LaneBlock():
            return emit_lane_block_body(kernel, isa).text()
        case SiteProduct():
            return emit_site_product_body(kernel, isa).text()
        case BatchBlock():
            return emit_batch_block_body(kernel, isa).text()
        case RowSweep():
            return emit_row_sweep_body(kernel, isa).text()
        case Elementwise():
            return emit_elementwise_body(kernel, isa, _operand_names(kernel)).text()
        case WalkedSum():
            return emit_walked_sum_body(kernel, isa, _operand_names(kernel)).text()
        case WalkedDots():
            return emit_walked_dots_body(kernel, isa, _operand_names(kernel)).text()
        case WalkedSampledSum():
            return emit_walked_sampled_sum_body(kernel, isa, _operand_names(kernel)).text()
        case WalkedScatter():
            return emit_walked_scatter_body(kernel, isa, _operand_names(kernel)).text()
        case FibreParts():
            return emit_fibre_parts_body(kernel, _operand_names(kernel)).text()
        case TransposeCopy():
            if kernel.columns:
                return emit_transpose_columns_body(kernel).text()
            return emit_transpose_body(kernel, isa).text()
        case JoinedTranspose():
            return emit_transpose_joined_body(kernel, isa).text()
        case ShortTranspose():
            return emit_short_transpose_body(kernel, isa).text()
        case SteppedCopy():
            return emit_stepped_copy_body(kernel).text()
        case RowCopy():
            return emit_row_copy_body(kernel).text()
        case PermuteCopy() | RunCopy():
            return emit_permute_body(kernel, isa).text()
        case StreamCopy():
            return emit_stream_copy_body(kernel).text()
        case CellCopy():
            return emit_cell_copy_body(kernel).text()
        case StreamRuns():
            return emit_stream_runs_body(kernel).text()
        case StreamRows():
            return emit_stream_rows_body(kernel, isa).text()
        case BringLines():
            return emit_bring_lines_body(isa).text()
        case BeginAsking():
            return emit_begin_asking_body().text()
        case _:
            assert_never(kernel)
