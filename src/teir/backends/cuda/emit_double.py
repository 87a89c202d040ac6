"""Tiles of FP64 products on the tensor cores: fragments of eight warps.

A warp holds fragments of 16 rows x 8 columns, and a step of 16 is one instruction on each. Lanes
read the tiles in shared memory by eight rows and four steps; a pitch of 4 beyond a multiple of 16
puts what half a warp reads into all banks.
"""

from __future__ import annotations

from collections.abc import Callable

from teir.backends.cuda.product import THREADS, ProductPlan
from teir.backends.cuda.product_sums import DEPTH
from teir.backends.cuda.text import block

FRAGMENT_ROWS, FRAGMENT_COLUMNS, FRAGMENT_DEPTH = 16, 8, 16
DOUBLE_PITCH = 4
_WARPS = THREADS // 32

assert DEPTH == FRAGMENT_DEPTH


def _warp_rows(plan: ProductPlan) -> int:
    """How many warps stand below each other."""
    return min(4, plan.side // FRAGMENT_ROWS)


def _row_fragments(plan: ProductPlan) -> int:
    return plan.side // _warp_rows(plan) // FRAGMENT_ROWS


def _column_fragments(plan: ProductPlan) -> int:
    return plan.side * _warp_rows(plan) // _WARPS // FRAGMENT_COLUMNS


def double_places(plan: ProductPlan) -> list[str]:
    """Where in the tile a thread's fragments begin: its row, and its warp's column."""
    rows = _warp_rows(plan)
    return [
        "const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;",
        f"const u32 down = warp % {rows} * {plan.side // rows} + lane / 4;",
        f"const u32 across = warp / {rows} * {plan.side * rows // _WARPS};",
    ]


def double_declaration(plan: ProductPlan) -> str:
    return f"double sums[{_row_fragments(plan)}][{_column_fragments(plan)}][4] = {{}};"


def double_sums(plan: ProductPlan) -> list[str]:
    """One step of 16 on all fragments."""
    rows = _row_fragments(plan)
    return [
        f"double a[{rows}][8];",
        '_Pragma("unroll")',
        f"for (u32 i = 0; i < {rows}; ++i)",
        '  _Pragma("unroll")',
        "  for (u32 j = 0; j < 8; ++j)",
        "    a[i][j] = left_tile[lane % 4 + j / 2 * 4][down + i * 16 + j % 2 * 8];",
        '_Pragma("unroll")',
        f"for (u32 n = 0; n < {_column_fragments(plan)}; ++n) {{",
        "  double b[4];",
        '  _Pragma("unroll")',
        "  for (u32 j = 0; j < 4; ++j)",
        "    b[j] = right_tile[lane % 4 + j * 4][across + n * 8 + lane / 4];",
        '  _Pragma("unroll")',
        f"  for (u32 i = 0; i < {rows}; ++i) double_product(sums[i][n], a[i], b);",
        "}",
    ]


def double_results(plan: ProductPlan, stored: Callable[[ProductPlan, str], list[str]]) -> list[str]:
    """``stored`` gives the statements that store one sum at ``place + right``."""
    return [
        '_Pragma("unroll")',
        f"for (u32 i = 0; i < {_row_fragments(plan) * 2}; ++i) {{",
        "  const i64 place = row_out[down + i * 8];",
        "  if (place == NOWHERE) continue;",
        '  _Pragma("unroll")',
        f"  for (u32 j = 0; j < {_column_fragments(plan) * 2}; ++j) {{",
        "    const i64 right = column_out[across + j / 2 * 8 + lane % 4 * 2 + j % 2];",
        "    if (right == NOWHERE) continue;",
        *block(block(stored(plan, "sums[i / 2][j / 2][i % 2 * 2 + j % 2]"))),
        "  }",
        "}",
    ]
