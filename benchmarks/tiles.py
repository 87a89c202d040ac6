"""Tiles of a matrix product beside LIBXSMM: 200 seeded shapes, operands hot in the caches.

    python benchmarks/tiles.py [shapes]

One thread, FP32 and FP64, M, N and K from 1 to 128, column-major tiles without gaps; one half of
the shapes adds to C, the other starts from zero. Ours is the whole call of a one-tile program in
both forms, the table walked by precompiled blocks and the specialised function; LIBXSMM's is the
function `libxsmm_dispatch_gemm` made for the shape (from the shared library of the etops package).
Both are called from the same native loop, in turn; a time is the median of the rounds. Every
result is compared with NumPy's on whole numbers. Writes ``results/tiles.json``; exits 1 where a
result is wrong.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import exp, log
from pathlib import Path

import numpy as np
from record import write

import teir
from teir.backends.llvm.compile_ir import compile_object, host_isa, load_object, module_text
from teir.backends.llvm.library import code_library
from teir.backends.llvm.nest import RUN
from teir.backends.llvm.peak import measure_fma_peak
from teir.dtypes import DataType
from teir.ir.nodes import Axis, Bytes, InvocationNode, Operation, Primitive, Program, Tensor
from teir.runtime import runtime

SEED = 1
LARGEST = 128
GEOMEAN_DUE, WORST_DUE = 0.97, 0.85
_ROUNDS = 7
_ROUND_SECONDS = 2e-4
_DATATYPES = {DataType.FP64: 0, DataType.FP32: 1}
"""LIBXSMM's numbers of the types."""
_FROM_ZERO = 4
"""LIBXSMM_GEMM_FLAG_BETA_0."""
_PARAMETER_BYTES, _A_BYTES, _B_BYTES, _C_BYTES = 176, 32, 80, 128
"""struct libxsmm_gemm_param: four pointers, then six for each of A, B and C."""

_REPEAT = """
define void @repeat(ptr %f, ptr %argument, i64 %times) nounwind {
entry:
  br label %again
again:
  %left = phi i64 [ %times, %entry ], [ %fewer, %again ]
  call void %f(ptr %argument)
  %fewer = sub i64 %left, 1
  %ended = icmp eq i64 %fewer, 0
  br i1 %ended, label %exit, label %again
exit:
  ret void
}
"""


class GemmShape(ctypes.Structure):
    """struct libxsmm_gemm_shape."""

    _fields_ = tuple(
        (name, ctypes.c_int)
        for name in ("m", "n", "k", "lda", "ldb", "ldc", "a_type", "b_type", "c_type", "compute")
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """C[n, m] (+)= sum over k of A[k, m] B[n, k]."""

    data_type: DataType
    m: int
    n: int
    k: int
    accumulate: bool


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A function of one pointer, and what must stay alive while it is called."""

    function: int
    argument: int
    owner: object


@dataclass(slots=True)
class Case:
    shape: Shape
    calls: dict[str, NativeCall]
    is_right: bool
    seconds: dict[str, list[float]] = field(default_factory=dict)
    peaks: list[float] = field(default_factory=list)

    def ratio(self, form: str) -> float:
        """LIBXSMM's time divided by ours."""
        return statistics.median(
            peer / ours
            for peer, ours in zip(self.seconds["libxsmm"], self.seconds[form], strict=True)
        )


def shapes(count: int) -> list[Shape]:
    draw = np.random.default_rng(SEED)
    sizes = draw.integers(1, LARGEST + 1, (count, 3)).tolist()
    starts = draw.integers(2, size=count).tolist()
    return [
        Shape(data_type, m, n, k, bool(start))
        for data_type in _DATATYPES
        for (m, n, k), start in zip(sizes, starts, strict=True)
    ]


def libxsmm() -> ctypes.CDLL:
    spec = find_spec("etops")
    if spec is None or spec.origin is None:
        sys.exit("expected the package etops, whose shared library holds LIBXSMM")
    library = ctypes.CDLL(str(Path(spec.origin).parent / "libeinsum_ir.so"))
    library.libxsmm_init()
    library.libxsmm_dispatch_gemm.argtypes = (GemmShape, ctypes.c_uint, ctypes.c_uint)
    library.libxsmm_dispatch_gemm.restype = ctypes.c_void_p
    return library


def peer_call(library: ctypes.CDLL, shape: Shape, operands: list[np.ndarray]) -> NativeCall:
    kind = _DATATYPES[shape.data_type]
    described = GemmShape(
        shape.m, shape.n, shape.k, shape.m, shape.k, shape.m, kind, kind, kind, kind
    )
    flags = 0 if shape.accumulate else _FROM_ZERO
    function = library.libxsmm_dispatch_gemm(described, flags, 0)
    parameter = (ctypes.c_char * _PARAMETER_BYTES)()
    for at, operand in zip((_A_BYTES, _B_BYTES, _C_BYTES), operands, strict=True):
        ctypes.c_void_p.from_buffer(parameter, at).value = operand.ctypes.data
    return NativeCall(function, ctypes.addressof(parameter), parameter)


def program_of(shape: Shape) -> Program:
    width = shape.data_type.width
    product = Primitive(
        name="product",
        operation=Operation.CONTRACTION,
        inputs=("in0", "in1"),
        output="out",
        m=("m",),
        n=("n",),
        k=("k",),
    )
    zero = Primitive(
        name="zero", operation=Operation.ZERO, inputs=(), output="out", m=("m",), n=("n",)
    )
    primitives = (product,) if shape.accumulate else (zero, product)
    return Program(
        name="tile",
        tensors=tuple(Tensor(name=n, data_type=shape.data_type) for n in ("in0", "in1", "out")),
        axes=(
            Axis(name="m", extent=shape.m, strides=Bytes({"in0": width, "out": width})),
            Axis(
                name="n",
                extent=shape.n,
                strides=Bytes({"in1": width * shape.k, "out": width * shape.m}),
            ),
            Axis(name="k", extent=shape.k, strides=Bytes({"in0": width * shape.m, "in1": width})),
        ),
        primitives=primitives,
        roots=tuple(InvocationNode(name=one.name, primitive=one.name) for one in primitives),
    )


def our_call(executable: teir.Executable, operands: list[np.ndarray]) -> NativeCall:
    native = executable.native
    context = native.take_context()
    native.place(context, tuple(operand.ctypes.data for operand in operands))
    function = code_library(runtime.current(), executable.isa).control()[RUN]
    return NativeCall(function, context.frame, (native, context))


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Zeros that start at a multiple of 64 bytes."""
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size + 64, np.uint8)
    skip = -memory.ctypes.data % 64
    return memory[skip : skip + size].view(dtype).reshape(shape)


def make_case(library: ctypes.CDLL, shape: Shape, repeat: Callable[[int, int, int], None]) -> Case:
    draw = np.random.default_rng(SEED)
    dtype = shape.data_type.numpy_dtype()
    operands = [
        aligned(extents, dtype)
        for extents in ((shape.k, shape.m), (shape.n, shape.k), (shape.n, shape.m))
    ]
    for operand in operands:
        operand[...] = draw.integers(-3, 4, operand.shape)
    start = operands[2].copy()
    expected = operands[1] @ operands[0] + (start if shape.accumulate else 0)
    table = teir.compile(program_of(shape), threads=1)
    calls = {
        "table": our_call(table, operands),
        "specialised": our_call(table.specialised(), operands),
        "libxsmm": peer_call(library, shape, operands),
    }
    is_right = True
    for call in calls.values():
        operands[2][...] = start
        repeat(call.function, call.argument, 1)
        is_right &= np.array_equal(operands[2], expected)
    operands[0][...] = 0
    operands[2][...] = 0
    calls["libxsmm"] = NativeCall(
        calls["libxsmm"].function, calls["libxsmm"].argument, (calls["libxsmm"].owner, operands)
    )
    return Case(shape, calls, is_right)


def measure(case: Case, repeat: Callable[[int, int, int], None]) -> None:
    """Rounds of every call in turn, each long enough for the clock."""
    times = {name: _times(call, repeat) for name, call in case.calls.items()}
    for _ in range(_ROUNDS):
        case.peaks.append(measure_fma_peak(host_isa(), case.shape.data_type, 1))
        for name, call in case.calls.items():
            seconds = _seconds(call, repeat, times[name]) / times[name]
            case.seconds.setdefault(name, []).append(seconds)


def _times(call: NativeCall, repeat: Callable[[int, int, int], None]) -> int:
    times = 1
    while _seconds(call, repeat, times) < _ROUND_SECONDS:
        times *= 2
    return times


def _seconds(call: NativeCall, repeat: Callable[[int, int, int], None], times: int) -> float:
    start = time.perf_counter()
    repeat(call.function, call.argument, times)
    return time.perf_counter() - start


def as_record(case: Case) -> dict[str, object]:
    shape = case.shape
    flops = 2 * shape.m * shape.n * shape.k
    peak = statistics.median(case.peaks)
    return {
        "data_type": shape.data_type.value,
        "m": shape.m,
        "n": shape.n,
        "k": shape.k,
        "accumulate": shape.accumulate,
        "peak_flops_per_second": peak,
        "shares": {
            name: flops / statistics.median(times) / peak for name, times in case.seconds.items()
        },
        "table_over_libxsmm": case.ratio("table"),
        "specialised_over_libxsmm": case.ratio("specialised"),
    }


def print_summary(cases: list[Case]) -> None:
    for data_type in _DATATYPES:
        chosen = [case for case in cases if case.shape.data_type is data_type]
        for form in ("table", "specialised"):
            ratios = sorted((case.ratio(form), case.shape) for case in chosen)
            mean = exp(statistics.fmean(log(ratio) for ratio, _ in ratios))
            print(
                f"{data_type.value} {form}: {mean:.3f} of LIBXSMM in geometric mean (due "
                f"{GEOMEAN_DUE}), {sum(r < WORST_DUE for r, _ in ratios)} below {WORST_DUE}; worst:"
            )
            for ratio, shape in ratios[:8]:
                print(f"    {ratio:.2f}  {shape.m} x {shape.n} x {shape.k} += {shape.accumulate}")


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    isa = host_isa()
    code = load_object(compile_object(module_text([_REPEAT], isa), isa, ("repeat",)), ("repeat",))
    repeat = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        code.addresses["repeat"]
    )
    library = libxsmm()
    cases = [make_case(library, shape, repeat) for shape in shapes(count)]
    for case in cases:
        measure(case, repeat)
    print_summary(cases)
    wrong = [case.shape for case in cases if not case.is_right]
    for shape in wrong:
        print(f"{shape}: WRONG RESULT")
    print(f"written: {write('tiles', [as_record(case) for case in cases])}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
