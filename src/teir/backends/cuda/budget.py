"""What a block may use, checked before anything is compiled: the assembler accepts more."""

from __future__ import annotations

from teir.backends.cuda.kernel import SHARED_LIMIT_BYTES, CudaKernel
from teir.backends.cuda.rules import SHARED_BUDGET
from teir.errors import TeirError, refuse
from teir.tma.rules import REGISTERS
from teir.tma.wgmma import check_registers


def check_budget(kernel: CudaKernel) -> None:
    """Raises TeirError: TEIR725 for shared memory, TEIR979 for registers."""
    if kernel.shared_bytes > SHARED_LIMIT_BYTES:
        expected = f"at most {SHARED_LIMIT_BYTES} bytes"
        refuse(SHARED_BUDGET, kernel.name, expected, f"{kernel.shared_bytes} bytes")
    finding = check_registers(kernel.threads_and_registers)
    if finding is not None:
        raise TeirError((finding,))


def check_launch(kernel: CudaKernel, registers: int) -> None:
    """Does a launch with so many ``registers`` per thread hold what its roles ask for later?

    A role waits for registers that others of the block give back; those no thread was launched with
    never come. ``registers`` of 0 are unknown. Raises TeirError (TEIR979).
    """
    wanted = sum(threads * count for threads, count in kernel.threads_and_registers)
    launched = kernel.threads * registers
    if registers and launched < wanted:
        refuse(REGISTERS, kernel.name, f"{wanted} registers at launch", f"{launched}")
