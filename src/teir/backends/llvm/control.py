"""The module of control code every plan needs, whatever its kernels: nest, pool, entry point."""

from __future__ import annotations

from teir.backends.llvm import call_ir, entry_ir, nest, new_result_ir, pool_ir
from teir.backends.llvm.compile_ir import machine_for
from teir.target import Isa

CONTROL_SYMBOLS = (
    *nest.CONTROL_SYMBOLS,
    *pool_ir.POOL_SYMBOLS,
    *entry_ir.ENTRY_SYMBOLS,
    call_ir.CALL,
    new_result_ir.KNOWN,
)


def emit_control(isa: Isa) -> str:
    """The definitions of all control functions."""
    parts = (
        nest.emit_nest(),
        pool_ir.emit_pool(_pause(isa)),
        entry_ir.emit_entry(),
        call_ir.emit_call(),
        new_result_ir.emit_new_result(),
    )
    return "\n".join(parts)


def _pause(isa: Isa) -> str:
    """The instruction that tells the processor a thread is spinning."""
    word = "pause" if machine_for(isa).triple.startswith("x86_64") else "yield"
    return f'call void asm sideeffect "{word}", ""()'
