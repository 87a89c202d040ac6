"""Are index arrays what a compressed level is? Compiled code that says yes or no, in one pass each.

Coordinates must ascend within every fibre. Every place where one does not exceed the one before it
is counted, a vector at a time; so are, fibre by fibre, the first coordinates of fibres that do not
exceed the one before. Fibres ascend where both counts are equal. Fibres that begin at the first
coordinate, or behind the last one, have nothing before them, or nothing at all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from teir.backends.llvm.cached_code import cached_function
from teir.backends.llvm.index_check_ir import check_function
from teir.runtime.runtime import current
from teir.target import Isa

Check = Callable[[int, int, int, int, int], int]
"""``check(pos, fibres, crd, stored, extent)``: 0 where all holds, 1 where something does not."""

CheckedCopy = Callable[[int, int, int, int, int, int, int], int]
"""``copy(pos, fibres, crd, stored, extent, own pos, own crd)``: as `Check`, writes the last two."""


def index_check(isa: Isa, width: int) -> Check:
    """The check for index arrays of ``width`` bytes (4 or 8); it takes addresses.

    ``pos`` has ``fibres + 1`` entries, ``crd`` has ``stored``; nothing else is read.
    """
    return current().once(
        f"index check {isa.value} {width}", lambda: _bound(isa, width, copies=False)
    )


def checked_copy(isa: Isa, width: int) -> CheckedCopy:
    """The check that copies what it has looked at on the way."""
    return current().once(
        f"checked index copy {isa.value} {width}", lambda: _bound(isa, width, copies=True)
    )


def _bound(isa: Isa, width: int, *, copies: bool) -> Callable[..., int]:
    symbol = f"teir_index_{'copy' if copies else 'check'}_{8 * width}"
    text = check_function(symbol, isa, width, copies=copies)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kinds = (pointer, number, pointer, number, number, *([pointer] * 2 if copies else ()))
    return cached_function("index check", isa, symbol, text, number, *kinds)
