"""Linux' permission for a process to use the tile registers of its processor.

Tiles make the state of a thread 8 KiB larger, so Linux gives them to those that ask. The answer
holds for all threads and is inherited by forks. Source: Documentation/arch/x86/xstate.rst.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache

_ARCH_PRCTL = 158
_REQUEST_PERMISSION = 0x1023
_TILE_DATA = 18


@cache
def may_use_tiles() -> bool:
    """True where the system lets this process use them; asked once."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    try:
        system_call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    system_call.restype = ctypes.c_long
    numbers = (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)
    return bool(system_call(*map(ctypes.c_long, numbers)) == 0)
