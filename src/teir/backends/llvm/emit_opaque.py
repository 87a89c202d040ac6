"""Values whose origin LLVM must not see, so that it neither folds them nor forms them anew."""

from __future__ import annotations

from teir.backends.llvm.emit_text import FunctionText


def opaque(text: FunctionText, kind: str, value: str | int) -> str:
    """``value`` in a register; LLVM knows nothing of what it was formed from."""
    return text.value(hidden(kind, value))


def hidden(kind: str, value: str | int) -> str:
    """The instruction that yields ``value``, its origin out of LLVM's sight."""
    return f'call {kind} asm "", "=r,0"({kind} {value})'
