"""The meaning of `SiteProduct`."""

from __future__ import annotations

from teir.dtypes import DataType
from teir.lower.evaluate_memory import Memory, accumulate_products
from teir.lower.kernel_program import Call
from teir.lower.site_kernels import SiteProduct


def site_product(memory: Memory, kernel: SiteProduct, call: Call) -> None:
    """All results, as one product of tiles."""
    count, a_site, c_site, *words = call.arguments[:9]
    accumulate, *strides = call.arguments[9:]
    taken, kind = iter(strides), kernel.data_type
    dtype, width = kind.numpy_dtype(), kind.width
    # Of every axis its extent, and its strides on A, B and C; sums last.
    walks = [(words[at], words[at + 1], 0, words[at + 2]) for at in (3, 0)]
    walks.append((count, a_site // kernel.sites, 0, c_site // kernel.sites))
    outer_sums = [(extent, next(taken), next(taken), 0) for extent in kernel.outer_sums]
    walks += [(extent, 0, next(taken), next(taken)) for extent in kernel.outer_columns]
    walks += [(axis.extent, axis.a_step * width, 0, axis.c_step * width) for axis in kernel.rows]
    walks += [(axis.extent, 0, next(taken), axis.c_step * width) for axis in kernel.columns]
    sums = outer_sums
    sums += [(axis.extent, axis.a_step * width, next(taken), 0) for axis in kernel.sums]
    a, b = (
        memory.tile(call, operand, dtype, [(walk[0], walk[1 + operand]) for walk in walks + sums])
        for operand in (0, 1)
    )
    c = memory.tile(call, 2, dtype, [(walk[0], walk[3]) for walk in walks])
    flushes = kind is DataType.BF16
    accumulate_products(kind, kind, (a, b), c, accumulate, flushes=flushes)
