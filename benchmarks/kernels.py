"""Kernels alone, operands hot in the first cache, as a share of the peak of this process.

    python benchmarks/kernels.py [avx512 | avx2 | plain]

Prints, for every tile, type and block, the share of the fused multiply-add peak (sums started
from zero and from C), the milliseconds each kernel takes to compile, and the bytes per second of
element-wise kernels and of transposes (beside NumPy's). Peak and kernel are measured alternately.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from teir.backends.llvm.compile_ir import (
    LoadedCode,
    compile_object,
    host_isa,
    load_object,
    module_text,
)
from teir.backends.llvm.emit_kernel import emit_kernel, kernel_symbol
from teir.backends.llvm.peak import measure_copy_bandwidth, measure_fma_peak
from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.access import Access
from teir.lower.block_shapes import block_shapes
from teir.lower.copy_kernels import TransposeCopy
from teir.lower.kernels import Elementwise, GemmBlock, Kernel
from teir.target import Isa

_REPEAT = """
define void @repeat_all(ptr %nodes, ptr %pointers, i64 %count, i64 %times) nounwind {
entry:
  br label %again
again:
  %left = phi i64 [ %times, %entry ], [ %fewer, %next ]
  br label %call
call:
  %i = phi i64 [ 0, %again ], [ %j, %call ]
  %node_at = getelementptr ptr, ptr %nodes, i64 %i
  %node = load ptr, ptr %node_at
  %f = load ptr, ptr %node
  %first = mul i64 %i, 24
  %place = getelementptr i8, ptr %pointers, i64 %first
  %A = load ptr, ptr %place
  %place_b = getelementptr i8, ptr %place, i64 8
  %B = load ptr, ptr %place_b
  %place_c = getelementptr i8, ptr %place, i64 16
  %C = load ptr, ptr %place_c
  call void %f(ptr %node, ptr null, ptr %A, ptr %B, ptr %C)
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %count
  br i1 %more, label %call, label %next
next:
  %fewer = sub i64 %left, 1
  %ended = icmp eq i64 %fewer, 0
  br i1 %ended, label %exit, label %again
exit:
  ret void
}
"""


@dataclass(frozen=True)
class Call:
    """One kernel call of a measured sequence."""

    kernel: Kernel
    arguments: tuple[int, ...]
    addresses: tuple[int, ...]


class KernelCalls:
    """Kernel calls in order, run from native code so that Python's overhead is not measured."""

    def __init__(self, calls: Sequence[Call], isa: Isa) -> None:
        kernels = list(dict.fromkeys(call.kernel for call in calls))
        symbols = (*(f"{kernel_symbol(kernel, isa)}_node" for kernel in kernels), "repeat_all")
        functions = [emit_kernel(kernel, isa) for kernel in kernels]
        start = time.perf_counter()
        data = compile_object(module_text([*functions, _REPEAT], isa), isa, symbols)
        self.compile_seconds = (time.perf_counter() - start) / len(kernels)
        self._code: LoadedCode = load_object(data, symbols)
        self._records = [
            (ctypes.c_int64 * (1 + len(call.arguments)))(
                self._code.addresses[f"{kernel_symbol(call.kernel, isa)}_node"], *call.arguments
            )
            for call in calls
        ]
        nodes = [ctypes.addressof(record) for record in self._records]
        self._nodes = (ctypes.c_int64 * len(nodes))(*nodes)
        pointers = [word for call in calls for word in (*call.addresses, 0, 0)[:3]]
        self._pointers = (ctypes.c_int64 * len(pointers))(*pointers)
        self._count = len(calls)

    def run(self, times: int) -> None:
        repeat = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(
            self._code.addresses["repeat_all"]
        )
        repeat(self._nodes, self._pointers, self._count, times)

    def seconds(self, between: Callable[[], None] = lambda: None) -> float:
        """The best time of one pass; ``between`` runs before every measurement."""
        times = 1
        while _elapsed(self.run, times) < 1e-3:
            times *= 2
        best = float("inf")
        for _ in range(8):
            between()
            best = min(best, _elapsed(self.run, times) / times)
        return best


def _elapsed(run: Callable[[int], None], times: int) -> float:
    start = time.perf_counter()
    run(times)
    return time.perf_counter() - start


def aligned(elements: int, dtype: np.dtype) -> np.ndarray:
    """Zeros that start at a multiple of 64 bytes."""
    memory = np.zeros(elements * dtype.itemsize + 64, np.uint8)
    skip = -memory.ctypes.data % 64
    return memory[skip : skip + elements * dtype.itemsize].view(dtype)


@dataclass(frozen=True)
class Tile:
    """C[n, m] += sum over k of A[k, m] B[n, k], cut into vectors x columns blocks."""

    data_type: DataType
    m: int
    n: int
    k: int
    vectors: int
    columns: int
    accumulate: int


def tile_calls(tile: Tile, isa: Isa) -> tuple[list[Call], list[np.ndarray]]:
    data_type, width = tile.data_type, tile.data_type.width
    lanes = max(1, isa.vector_bytes // data_type.accumulator.width)
    dtype = data_type.numpy_dtype()
    a, b = aligned(tile.k * tile.m, dtype), aligned(tile.n * tile.k, dtype)
    c = aligned(tile.n * tile.m, dtype)
    calls = []
    for column in range(0, tile.n, tile.columns):
        for row in range(0, tile.m, tile.vectors * lanes):
            rows = min(tile.vectors * lanes, tile.m - row)
            vectors = -(-rows // lanes)
            last = rows - (vectors - 1) * lanes
            kernel = GemmBlock(
                in_type=data_type,
                out_type=data_type,
                lanes=lanes,
                vectors=vectors,
                columns=min(tile.columns, tile.n - column),
                a_access=Access.UNIT,
                c_access=Access.UNIT,
                masked=last < lanes,
            )
            arguments = (
                *(tile.k, tile.m * width, width, 1, 0, 0, 1, 0, 0),
                *(tile.k * width, tile.m * width, tile.accumulate, last, width, width, 0, 0),
            )
            addresses = (
                a.ctypes.data + row * width,
                b.ctypes.data + column * tile.k * width,
                c.ctypes.data + (column * tile.m + row) * width,
            )
            calls.append(Call(kernel, arguments, addresses))
    return calls, [a, b, c]


def share_of_peak(tile: Tile, isa: Isa) -> tuple[float, float]:
    """Share of the peak, and compile milliseconds a kernel."""
    calls, arrays = tile_calls(tile, isa)
    sequence = KernelCalls(calls, isa)
    peaks: list[float] = []

    def measure_peak() -> None:
        peaks.append(measure_fma_peak(isa, tile.data_type, 2))

    seconds = sequence.seconds(measure_peak)
    del arrays
    operations = 2 * tile.m * tile.n * tile.k * (4 if tile.data_type.is_complex else 1)
    return operations / seconds / max(peaks), 1e3 * sequence.compile_seconds


def print_gemm(isa: Isa) -> None:
    for data_type in (DataType.FP32, DataType.FP64):
        peak = measure_fma_peak(isa, data_type) / 1e9
        print(f"{data_type.value}: peak {peak:.1f} GFLOP/s; per cent from zero / from C, ms")
        for m, n, k in ((32, 32, 32), (64, 48, 64), (64, 64, 64), (33, 33, 33), (8, 8, 8)):
            cells = []
            for vectors, columns in widest_blocks(isa, data_type):
                shares = [
                    share_of_peak(Tile(data_type, m, n, k, vectors, columns, accumulate), isa)
                    for accumulate in (0, 1)
                ]
                percent = " / ".join(f"{100 * share:.0f}" for share, _ in shares)
                cells.append(f"{vectors}x{columns} {percent} ({shares[0][1]:.0f} ms)")
            print(f"  {m}x{n}x{k}: " + "; ".join(cells))
    for data_type in (DataType.TF32, DataType.BF16, DataType.FP16, DataType.C64, DataType.C128):
        cells = []
        for vectors, columns in widest_blocks(isa, data_type):
            share, _ = share_of_peak(Tile(data_type, 64, 48, 64, vectors, columns, 0), isa)
            cells.append(f"{vectors}x{columns} {100 * share:.0f}")
        print(f"{data_type.value} 64x48x64, per cent of the peak: " + "; ".join(cells))


def widest_blocks(isa: Isa, data_type: DataType) -> list[tuple[int, int]]:
    """The widest block for every number of vectors, and 2 x 11 where it exists."""
    shapes = block_shapes(isa, data_type, data_type)
    chosen = list(dict(shapes).items())
    return [*chosen, (2, 11)] if (2, 11) in shapes and (2, 11) not in chosen else chosen


def print_bandwidth(isa: Isa) -> None:
    print(f"copy of 64 MiB {measure_copy_bandwidth() / 1e9:.0f} GB/s (read and write)")
    for element_bytes in (2, 4, 8, 16):
        lanes = max(1, isa.vector_bytes // element_bytes)
        side = 192 // element_bytes
        source = aligned(side * side * element_bytes, np.dtype(np.uint8))
        target = aligned(side * side * element_bytes, np.dtype(np.uint8))
        kernel = TransposeCopy(element_bytes=element_bytes, lanes=lanes)
        step = side * element_bytes
        call = Call(kernel, (side, side, step, step), (source.ctypes.data, target.ctypes.data))
        rate = 2 * source.nbytes / KernelCalls([call], isa).seconds() / 1e9
        peer = numpy_transpose_rate(source, target, element_bytes, side)
        print(
            f"transpose {side}x{side} of {element_bytes} bytes: {rate:.0f} GB/s, NumPy {peer:.0f}"
        )
    for operation, operands in ((Operation.ZERO, 1), (Operation.COPY, 2), (Operation.ADD, 3)):
        arrays = [aligned(1024, np.dtype(np.float32)) for _ in range(operands)]
        kernel = Elementwise(
            operation=operation,
            in_type=DataType.FP32,
            out_type=DataType.FP32,
            lanes=isa.vector_bytes // 4,
            accesses=(Access.UNIT,) * operands,
        )
        arguments = (1024, 1, *(4,) * operands, *(0,) * operands)
        addresses = tuple(array.ctypes.data for array in arrays)
        seconds = KernelCalls([Call(kernel, arguments, addresses)], isa).seconds()
        print(f"{operation.value} of 1024 FP32: {operands * 4096 / seconds / 1e9:.0f} GB/s")


def numpy_transpose_rate(
    source: np.ndarray, target: np.ndarray, element_bytes: int, side: int
) -> float:
    rows = source.view(f"V{element_bytes}").reshape(side, side)
    flipped = target.view(f"V{element_bytes}").reshape(side, side)

    def copy(times: int) -> None:
        for _ in range(times):
            np.copyto(flipped, rows.T)

    return 2 * source.nbytes / min(_elapsed(copy, 20) / 20 for _ in range(10)) / 1e9


def main() -> None:
    isa = Isa(sys.argv[1]) if len(sys.argv) > 1 else host_isa()
    print_gemm(isa)
    print_bandwidth(isa)


if __name__ == "__main__":
    main()
