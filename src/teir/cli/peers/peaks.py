"""The two peaks of one process: multiply-adds in registers, and ``numpy.copyto``."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from teir.backends.llvm import peak
from teir.backends.llvm.compile_ir import host_isa
from teir.cli.peers.operands import place_array
from teir.dtypes import DataType

_ROUNDS = 24
_CALLS = 3


def measure_peak(data_type: DataType, threads: int) -> float:
    """Operations per second of ``threads`` threads that all work the whole time.

    Of BF16 it is that of the instruction for its products, where the machine has one.
    """
    alone = _alone(data_type)
    if threads == 1:
        return alone
    return alone * threads * _peak_seconds(data_type, 1) / _peak_seconds(data_type, threads)


def _alone(data_type: DataType) -> float:
    if data_type is DataType.BF16:
        return peak.measure_bf16_peak(host_isa(), _ROUNDS)
    return peak.measure_fma_peak(host_isa(), data_type, _ROUNDS)


def _peak_seconds(data_type: DataType, threads: int) -> float:
    """The time until ``threads`` threads have each done the same work, the best of some."""
    with ThreadPoolExecutor(threads) as pool:

        def together() -> None:
            jobs = [pool.submit(_alone, data_type) for _ in range(threads)]
            wait(jobs)

        together()
        return min(seconds(together) for _ in range(_CALLS))


def make_copier(size_bytes: int, offset_bytes: int) -> Callable[[], float]:
    """A measurement: bytes read plus bytes written per second by ``numpy.copyto``, best of two."""
    double = np.dtype(np.float64)
    source = place_array((size_bytes // 8,), (0,), double, offset_bytes)
    target = place_array((size_bytes // 8,), (0,), double, offset_bytes)
    source[...], target[...] = 1.0, 0.0

    def measure() -> float:
        taken = min(seconds(lambda: np.copyto(target, source)) for _ in range(2))
        return 2 * source.nbytes / taken

    return measure


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
