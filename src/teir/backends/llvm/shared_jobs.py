"""Jobs of compiled code that are no program: chunks that the thread pool's threads share."""

from __future__ import annotations

import ctypes

from teir.backends.llvm import pool_ir
from teir.backends.llvm.library import code_library
from teir.backends.llvm.pool import ForkFunction, JobFunction, thread_pool
from teir.runtime.runtime import current
from teir.target import Isa

_WORD = ctypes.c_int64


def share_job(isa: Isa, job: int, frame: int, chunks: int, threads: int) -> None:
    """Run ``job(node, frame, participant, chunk, chunks)`` for every chunk; other threads of Python
    run meanwhile.

    ``participant`` is below ``threads``. The caller does it alone where the pool is in use.
    """
    if threads > 1 and 1 < chunks <= pool_ir.MOST_CHUNKS:
        pool = thread_pool(current(), code_library(current(), isa))
        pool.ensure_running(threads - 1)
        fork = ForkFunction(_WORD.from_address(pool.address + pool_ir.FORK_BYTES).value)
        if fork(pool.address, job, None, frame, chunks, threads):
            return
    run = JobFunction(job)
    for chunk in range(chunks):
        run(None, frame, 0, chunk, chunks)
