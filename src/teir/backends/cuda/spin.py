"""A kernel that does nothing for a while: what is measured is put on the stream behind it."""

from __future__ import annotations

from collections.abc import Callable

from teir.backends.cuda import driver as cuda
from teir.backends.cuda.compiler import compile_source
from teir.backends.cuda.text import whole_source

SPIN_NS = 2_000_000
"""Several times what this process takes to put a program on a stream (0.2 to 0.5 ms measured)."""
_NAME = "spin"
_BODY = f"""KERNEL(1) {_NAME}(u64 wait) {{
  const u64 begin = nanoseconds();
  while (nanoseconds() - begin < wait) {{
  }}
}}"""


def load_spin(driver: cuda.Driver, stream: int) -> Callable[[], None]:
    """What keeps the device busy for `SPIN_NS`, for the current context."""
    compiled = compile_source(whole_source(_BODY, tiles=True), _NAME)
    function = cuda.load_function(driver, compiled.cubin, _NAME, 0)
    wait = (SPIN_NS.to_bytes(8, "little"),)
    return lambda: cuda.launch(driver, function, 1, 1, 1, 0, stream, wait)
