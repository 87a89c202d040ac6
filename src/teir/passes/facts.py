"""The facts of a machine that passes look at, and what the user asks of kernel sizes."""

from __future__ import annotations

from dataclasses import dataclass

from teir.passes.cache_blocks import Worth, is_third_cache_far, panel_rows
from teir.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Vector width and cache sizes of one core in bytes, and the threads a program may use.

    ``vector_registers`` is how many vectors of sums and factors a core holds.
    A second thread is used where there are at least ``threaded_work`` products or elements.
    ``reduction_block`` is the number of products after which a sum is cut; None leaves it to the
    type of the output (`teir.passes.cache_blocks`).
    A stride of ``far_bytes`` touches a new page or cache set at every step. Operands of fewer than
    ``packed_elements`` elements, or read by fewer than ``packed_readers`` rows or columns, are not
    worth a copy.
    ``only_short_rows``: operands of FP32 and FP64 are packed where short rows of them fill the
    second cache and the third is far, and for no other reason.
    ``min_kernel_size`` and ``max_kernel_size`` are those of sections 5.5.2 to 5.5.4; None leaves
    the choice to the blocks for the caches.
    """

    vector_bytes: int
    vector_registers: int = 32
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    threads: int
    threaded_work: int = 1 << 18
    reduction_block: int | None = None
    far_bytes: int = 2048
    packed_elements: int = 64
    packed_readers: int = 64
    only_short_rows: bool = False
    min_kernel_size: int | None = None
    max_kernel_size: int | None = None

    @property
    def packing(self) -> Worth:
        """From where on operands are packed."""
        return Worth(
            far_bytes=self.far_bytes,
            elements=self.packed_elements,
            readers=self.packed_readers,
        )

    @property
    def has_far_third_cache(self) -> bool:
        """True where the third cache is slow for one core (`teir.passes.cache_blocks`)."""
        return is_third_cache_far(self.l2_bytes, self.l3_bytes)

    def panel_rows(self, width: int) -> int:
        """Rows of a packed panel of accumulators ``width`` bytes wide."""
        return panel_rows(self.vector_bytes, self.vector_registers, width)


def facts_of(
    target: Target,
    *,
    threads: int | None = None,
    min_kernel_size: int | None = None,
    max_kernel_size: int | None = None,
) -> Facts:
    """The facts of ``target``; ``threads`` when other than all of its cores."""
    return Facts(
        vector_bytes=target.isa.vector_bytes,
        vector_registers=target.isa.vector_registers,
        l1_bytes=target.caches.l1_bytes,
        l2_bytes=target.caches.l2_bytes,
        l3_bytes=target.caches.l3_bytes,
        threads=target.threads if threads is None else threads,
        min_kernel_size=min_kernel_size,
        max_kernel_size=max_kernel_size,
    )
