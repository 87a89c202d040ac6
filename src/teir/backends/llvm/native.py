"""A kernel program bound to machine code: run it on addresses, from any thread.

A run takes a context: frames for every thread and scratch arenas, kept between runs. Concurrent
runs have contexts of their own and share the table, which nothing writes.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from teir.backends.llvm import layout, nest
from teir.backends.llvm.library import CodeLibrary, code_library
from teir.backends.llvm.pool import ThreadPool, thread_pool
from teir.backends.llvm.table import build_table
from teir.backends.llvm.watch import run_watched
from teir.lower.estimate import estimate_seconds
from teir.lower.kernel_program import Call, KernelNode, KernelProgram, Storage
from teir.lower.kernels import Kernel
from teir.runtime import runtime
from teir.target import Isa

LONG_RUN_SECONDS = 0.02
"""Runs estimated longer execute in a thread of their own, so that Ctrl-C reaches the caller."""

_CACHE_LINE = 64
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class Root:
    """What a run calls: the root node of a table, or of a specialised function."""

    address: int
    index_cells: int
    owner: Any


@dataclass(frozen=True, slots=True)
class Context:
    """The memory of one run at a time."""

    memory: np.ndarray[Any, np.dtype[np.uint8]]
    cancel_address: int
    frame: int
    pointers: tuple[int, ...]
    """Of every slot; operands' are zero."""


@dataclass(frozen=True, slots=True)
class NativeProgram:
    """A kernel program as machine code. Immutable; all methods may be called at once."""

    program: KernelProgram
    isa: Isa
    threads: int
    root: Root
    seconds: float
    """Rough estimate of one run."""
    pool: ThreadPool | None
    _run_frame: Callable[[int], None]
    _operands: tuple[int, ...]
    _pack: struct.Struct
    _idle: list[Context] = field(default_factory=list)

    @property
    def operand_count(self) -> int:
        return len(self._operands)

    def run(self, addresses: tuple[int, ...], timeout: float | None = None) -> None:
        """Run on operands at ``addresses``, one per operand slot in order.

        The caller has proved that every byte the program touches exists and that outputs do not
        overlap inputs. Raises RunTimeoutError after ``timeout`` seconds, and KeyboardInterrupt in
        the main thread; the output's values are unspecified then.
        """
        if self.pool is not None:
            self.pool.ensure_running(self.threads - 1)
        context = self.take_context()
        self.place(context, addresses)
        if timeout is not None or (self.seconds > LONG_RUN_SECONDS and _in_main_thread()):
            flag = ctypes.c_int64.from_address(context.cancel_address)
            flag.value = 0
            run_watched(lambda: self.call(context), flag, timeout)
        else:
            self._run_frame(context.frame)
        self._idle.append(context)

    def place(self, context: Context, addresses: tuple[int, ...]) -> None:
        """Write every slot's pointer into the context's frame."""
        pointers = list(context.pointers)
        for slot, address in zip(self._operands, addresses, strict=True):
            pointers[slot] = address
        slots = context.frame + layout.SLOTS_BYTES
        ctypes.memmove(slots, self._pack.pack(*pointers), self._pack.size)

    def call(self, context: Context) -> None:
        """Run on what was placed in ``context``."""
        self._run_frame(context.frame)

    def take_context(self) -> Context:
        """An idle context or a new one, its cancel flag not set."""
        try:
            return self._idle.pop()
        except IndexError:
            pool = 0 if self.pool is None else self.pool.address
            return _context(self.program, self.root, self.threads, pool)


def bind_native(program: KernelProgram, isa: Isa, threads: int) -> NativeProgram:
    """``program`` as a table walked by precompiled functions; kernels compiled where missing."""
    library = code_library(runtime.current(), isa)
    kernels = library.leaves(program_kernels(program.roots))
    table = build_table(program, library.control(), kernels, threads)
    root = Root(table.address + table.root_bytes, table.index_cells, table)
    return native_program(program, isa, threads, root, library)


def native_program(
    program: KernelProgram, isa: Isa, threads: int, root: Root, library: CodeLibrary
) -> NativeProgram:
    """A program whose runs call ``root``."""
    slots = program.slots
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.control()[nest.RUN])
    return NativeProgram(
        program,
        isa,
        threads,
        root,
        estimate_seconds(program) / threads,
        thread_pool(runtime.current(), library) if threads > 1 else None,
        call,
        tuple(n for n, slot in enumerate(slots) if slot.storage is Storage.OPERAND),
        struct.Struct(f"{len(slots)}q"),
    )


def program_kernels(nodes: tuple[KernelNode, ...]) -> set[Kernel]:
    """Every kernel called below ``nodes``."""
    kernels: set[Kernel] = set()
    for node in nodes:
        if isinstance(node, Call):
            kernels.add(node.kernel)
        else:
            kernels |= program_kernels(node.body)
    return kernels


def _context(program: KernelProgram, root: Root, threads: int, pool: int) -> Context:
    frame_bytes = layout.frame_bytes(len(program.slots), root.index_cells)
    arena_stride = _round_up(program.thread_scratch_bytes, _PAGE)
    frames_at = _CACHE_LINE + frame_bytes
    run_arena_at = _round_up(frames_at + threads * frame_bytes, _CACHE_LINE)
    if program.run_scratch_bytes + arena_stride:
        run_arena_at = _round_up(run_arena_at, _PAGE)
    thread_arena_at = _round_up(run_arena_at + program.run_scratch_bytes, _CACHE_LINE)
    memory = np.empty(thread_arena_at + threads * arena_stride + _PAGE, np.uint8)
    unaligned = memory.ctypes.data
    base = _round_up(unaligned, _PAGE if program.run_scratch_bytes + arena_stride else _CACHE_LINE)
    starts = {
        Storage.OPERAND: 0,
        Storage.RUN: base + run_arena_at,
        Storage.THREAD: base + thread_arena_at,
    }
    pointers = tuple(starts[slot.storage] + slot.start_bytes for slot in program.slots)
    frame = base + _CACHE_LINE
    head = (ctypes.c_int64 * 8).from_address(frame)
    head[layout.CANCEL_BYTES // 8] = base
    head[layout.POOL_BYTES // 8] = pool
    head[layout.THREADS_BYTES // 8] = threads
    head[layout.THREAD_FRAMES_BYTES // 8] = base + frames_at
    head[layout.FRAME_STRIDE_BYTES // 8] = frame_bytes
    head[layout.ARENA_STRIDE_BYTES // 8] = arena_stride
    head[layout.IGNORED_INDEX_BYTES // 8] = 0
    head[layout.ROOT_BYTES // 8] = root.address
    ctypes.c_int64.from_address(base).value = 0
    return Context(memory, base, frame, pointers)


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
