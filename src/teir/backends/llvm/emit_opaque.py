"""Values whose origin LLVM must not see, so that it neither folds them nor forms them anew."""

from __future__ import annotations

from teir.backends.llvm.emit_text import FunctionText


def opaque(text: FunctionText, kind: str, value: str | int) -> str:
    """``value`` in a register; LLVM knows nothing of what it was formed from."""
    return text.value(f'call {kind} asm "", "=r,0"({kind} {value})')
