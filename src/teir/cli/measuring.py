"""Run a program on arrays, time it, and take the machine's peak beside it in the same process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from teir.arrays.operand import bind_operand
from teir.backends.llvm.peak import measure_bf16_peak, measure_copy_bandwidth, measure_fma_peak
from teir.cli.timing import Speed, seconds_per_call, speed
from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.lower.work import program_work
from teir.pipeline.executable import default_isa
from teir.target import Isa, Peaks

if TYPE_CHECKING:
    from teir.pipeline.executable import Executable


def measure_peaks() -> Peaks:
    """The peaks of one core, about a tenth of a second."""
    isa = default_isa()
    return Peaks(
        fp32_flops_per_second=measure_fma_peak(isa, DataType.FP32),
        fp64_flops_per_second=measure_fma_peak(isa, DataType.FP64),
        copy_bytes_per_second=measure_copy_bandwidth(),
        tile_flops_per_second=measure_bf16_peak(isa) if isa is Isa.AMX else None,
    )


def measure_speed(
    program: Program, call: Callable[[], object], peaks: Peaks, threads: int
) -> Speed:
    """The best speed of ``call``, which runs ``program``, beside the peak of ``threads`` cores.

    The arithmetic peak is taken right before and right after, as the clock moves.
    """
    work = program_work(program)
    isa, data_type = default_isa(), accumulator(program)
    before = measure_fma_peak(isa, data_type)
    seconds = seconds_per_call(call)
    peak = max(before, measure_fma_peak(isa, data_type))
    return speed(work, seconds, threads * peak, peaks)


def bound_call(executable: Executable, operands: Mapping[str, Any]) -> Callable[[], None]:
    """A call that runs ``executable`` on these very operands, which are checked here, once.

    The call keeps the operands alive.
    """
    executable.run(operands)
    written = executable.written
    bound = [
        bind_operand(tensor.name, operands[tensor.name], tensor.data_type, tensor.name in written)
        for tensor in executable.program.tensors
    ]

    def call() -> None:
        executable.run_addresses(tuple(operand.address for operand in bound))

    return call


def accumulator(program: Program) -> DataType:
    """The widest type in which the program keeps its sums."""
    outputs = {primitive.output for primitive in program.primitives}
    types = [tensor.data_type.accumulator for tensor in program.tensors if tensor.name in outputs]
    return max(types, key=lambda data_type: data_type.width, default=DataType.FP32)
