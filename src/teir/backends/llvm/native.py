"""A kernel program bound to machine code: run it on addresses, from any thread.

A run takes a context: frames for every thread and scratch arenas, kept between runs. Concurrent
runs have contexts of their own and share the table, of which one word may change: the function of
the root node, when specialised code takes the table's place.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from array import array
from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any, Protocol

import msgspec
import numpy as np

from teir.arrays.numpy_fields import address_of
from teir.backends.llvm import layout, nest
from teir.backends.llvm.library import CodeLibrary, code_library
from teir.backends.llvm.pool import ThreadPool, thread_pool
from teir.backends.llvm.run_memory import (
    FEWEST_SHARED_BYTES,
    MOST_SHARED_BYTES,
    EntryScratch,
    Memory,
    SpareMemory,
    entry_scratch,
    spare_memory,
)
from teir.backends.llvm.scratch_pages import scratch_memory
from teir.backends.llvm.specialise_ir import specialised_cells
from teir.backends.llvm.table import build_table
from teir.backends.llvm.watch import run_watched
from teir.lower.calls import calls_of
from teir.lower.estimate import estimate_seconds
from teir.lower.kernel_program import KernelProgram, Storage
from teir.runtime import runtime
from teir.target import LINE_BYTES, PAGE_BYTES, Isa

LONG_RUN_SECONDS = 0.02
"""Runs estimated longer execute in a thread of their own, so that Ctrl-C reaches the caller."""

_HEAD = range(0, layout.SLOTS_BYTES, layout.WORD_BYTES)
_WORDS = struct.Struct("16q")
"""The cache line of the cancel flag, then the head of the frame."""


_STORAGE = attrgetter("storage")
_KERNEL, _CALL = attrgetter("kernel"), itemgetter(0)

_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""The type of the function that runs a frame."""

_NEVER = -2
"""A count of runs left that never comes to zero."""


class Root(msgspec.Struct, frozen=True):
    """What a run calls: the root node of a table, or of a specialised function.

    ``place`` is the root's first word among ``words``. ``owners`` keep loaded what the words
    point to: the library, then specialised code once there is some.
    """

    words: array[int]
    place: int
    index_cells: int
    owners: list[Any]

    @property
    def address(self) -> int:
        return self.words.buffer_info()[0] + layout.WORD_BYTES * self.place


class Specialiser(Protocol):
    """Who makes specialised code of programs that run often."""

    @property
    def fewest_runs(self) -> int:
        """Runs before which it never pays: nobody asks `runs_before` earlier."""
        ...

    def runs_before(self, program: KernelProgram, seconds: float) -> int | None:
        """After how many runs that pays; None where it never does.

        A run takes ``seconds`` on one thread.
        """
        ...

    def ask(self, native: NativeProgram) -> None:
        """Call ``native.swap_root`` some time; return at once."""
        ...


class Context(msgspec.Struct, frozen=True):
    """The memory of one run at a time."""

    memory: Memory
    cancel_address: int
    frame: int
    slots: memoryview
    """The frame's slot pointers."""
    scratch: tuple[int, ...]
    """The pointers of the slots that are not operands."""
    is_used: array[int]
    """1 while a native entry point uses this memory."""


class NativeProgram(msgspec.Struct, frozen=True):
    """A kernel program as machine code. All methods may be called at once.

    Nothing of it changes but the function its root calls, which gives the same bits.
    """

    program: KernelProgram
    isa: Isa
    threads: int
    root: Root
    seconds: float
    """Rough estimate of one run."""
    pool: ThreadPool | None
    _run_frame: Callable[[int], None]
    operand_count: int
    _pack: struct.Struct
    specialiser: Specialiser | None
    runs_left: array[int]
    """Runs until specialised code may pay, and 1 once it is known when it does. Counts on below
    zero, and stays there where it never pays; the native entry point counts too."""
    sizes: _Sizes
    _idle: list[Context] = msgspec.field(default_factory=list)
    _unused: list[None] = msgspec.field(default_factory=[None].copy)
    """Empty once the program has run: later runs with little scratch have memory of their own."""

    def run(self, addresses: tuple[int, ...], timeout: float | None = None) -> None:
        """Run on operands at ``addresses``, one per operand slot in order.

        The caller has proved that every byte the program touches exists and that outputs do not
        overlap inputs. Raises RunTimeoutError after ``timeout`` seconds, and KeyboardInterrupt in
        the main thread; the output's values are unspecified then.
        """
        if self.pool is not None:
            self.pool.ensure_running(self.threads - 1)
        self._count_run()
        spare = self._spare()
        if spare is None:
            context = self.take_context()
        else:
            context = _context(self, spare.take(self.sizes.whole), None)
        self.place(context, addresses)
        if timeout is not None or (self.seconds > LONG_RUN_SECONDS and _in_main_thread()):
            flag = ctypes.c_int64.from_address(context.cancel_address)
            flag.value = 0
            run_watched(lambda: self.call(context), flag, timeout)
        else:
            self._run_frame(context.frame)
        if spare is None:
            self._idle.append(context)
        else:
            spare.give(context.memory)

    def _spare(self) -> SpareMemory | None:
        """Where a run has its memory from that has none of its own: the first one, and all with
        much scratch."""
        if self.shares_scratch:
            return spare_memory()
        try:
            self._unused.pop()
        except IndexError:
            return None
        return spare_memory()

    def place(self, context: Context, addresses: tuple[int, ...]) -> None:
        """Write every slot's pointer into the context's frame."""
        self._pack.pack_into(context.slots, 0, *addresses, *context.scratch)

    def call(self, context: Context) -> None:
        """Run on what was placed in ``context``."""
        self._run_frame(context.frame)

    @property
    def is_specialised(self) -> bool:
        """True once runs call specialised code."""
        return len(self.root.owners) > 1

    def swap_root(self, function: int, owner: Any) -> None:
        """Let every run from now on call ``function``, which ``owner`` keeps loaded.

        The function computes the same bits and needs no more index cells than the root has.
        """
        self.root.owners.append(owner)
        # One aligned word: a run that begins meanwhile reads the old function or the new one.
        self.root.words[self.root.place] = function

    def _count_run(self) -> None:
        left = self.runs_left[0] - 1
        self.runs_left[0] = left
        # The entry point leaves the run that brings the count to zero to this method.
        if left in (0, -1) and self.specialiser is not None and self._pays(self.specialiser):
            self.specialiser.ask(self)

    def _pays(self, specialiser: Specialiser) -> bool:
        """Whether specialised code pays now; the first time it is found out how long to wait."""
        if self.runs_left[1]:
            return True
        self.runs_left[1] = 1
        runs = specialiser.runs_before(self.program, self.seconds * self.threads)
        if runs is not None and runs <= specialiser.fewest_runs:
            return True
        self.runs_left[0] = _NEVER if runs is None else runs - specialiser.fewest_runs
        return False

    @property
    def shares_scratch(self) -> bool:
        """Whether runs take scratch that all programs have together."""
        return self.sizes.scratch >= FEWEST_SHARED_BYTES and self.sizes.whole <= MOST_SHARED_BYTES

    def take_context(self) -> Context:
        """An idle context or a new one, its cancel flag not set."""
        try:
            return self._idle.pop()
        except IndexError:
            return _context(self, scratch_memory(self.sizes.whole), None)

    def entry_context(self) -> Context:
        """For a native entry point, which claims it by its flag for each run."""
        if not self.shares_scratch:
            return self.take_context()
        return _context(self, np.empty(self.sizes.frames + LINE_BYTES, np.uint8), entry_scratch())


def bind_native(
    program: KernelProgram, isa: Isa, threads: int, specialiser: Specialiser | None = None
) -> NativeProgram:
    """``program`` as a table walked by precompiled functions; kernels compiled where missing.

    ``specialiser`` is told when the program has run often; without one it stays a table.
    """
    library = code_library(runtime.current(), isa)
    calls = calls_of(program.roots)
    kernels = library.leaves(map(_KERNEL, map(_CALL, calls)))
    table = build_table(program, library.control(), kernels, threads)
    cells = max(table.index_cells, specialised_cells(program))
    root = Root(table.words, table.root_bytes // layout.WORD_BYTES, cells, [library])
    seconds = estimate_seconds(calls)
    return native_program(program, isa, threads, root, library, seconds, specialiser)


def native_program(
    program: KernelProgram,
    isa: Isa,
    threads: int,
    root: Root,
    library: CodeLibrary,
    seconds: float,
    specialiser: Specialiser | None,
) -> NativeProgram:
    """A program whose runs call ``root`` and take about ``seconds`` on one thread.

    Operands are its first slots.
    """
    slots = program.slots
    storages = list(map(_STORAGE, slots))
    operand_count = storages.count(Storage.OPERAND)
    assert storages[:operand_count].count(Storage.OPERAND) == operand_count
    call = _RUN(library.control()[nest.RUN])
    return NativeProgram(
        program,
        isa,
        threads,
        root,
        seconds / threads,
        thread_pool(runtime.current(), library) if threads > 1 else None,
        call,
        operand_count,
        struct.Struct(f"{len(slots)}q"),
        specialiser,
        array("q", [_NEVER if specialiser is None else specialiser.fewest_runs, 0]),
        _sizes(program, root, threads),
    )


class _Sizes(msgspec.Struct, frozen=True):
    """What runs of a program need, in bytes: frames, then scratch of the run and of each thread."""

    frame: int
    frames: int
    run_scratch: int
    thread_scratch: int
    scratch: int

    @property
    def whole(self) -> int:
        """Frames and scratch in one piece, wherever that begins."""
        return self.frames + self.scratch + 2 * PAGE_BYTES


def _sizes(program: KernelProgram, root: Root, threads: int) -> _Sizes:
    frame = layout.frame_bytes(len(program.slots), root.index_cells)
    run_scratch = _round_up(program.run_scratch_bytes, LINE_BYTES)
    thread_scratch = _round_up(program.thread_scratch_bytes, PAGE_BYTES)
    frames = LINE_BYTES + (1 + threads) * frame
    scratch = run_scratch + threads * thread_scratch
    return _Sizes(frame, frames, run_scratch, thread_scratch, scratch)


def _context(native: NativeProgram, memory: Memory, shared: EntryScratch | None) -> Context:
    """Frames in ``memory``, and scratch behind them unless it is shared."""
    sizes, slots = native.sizes, native.program.slots
    unaligned = address_of(memory)
    base = _round_up(unaligned, PAGE_BYTES if shared is None and sizes.scratch else LINE_BYTES)
    if shared is None:
        scratch_at = _round_up(base + sizes.frames, PAGE_BYTES if sizes.scratch else LINE_BYTES)
    else:
        scratch_at = address_of(shared.memory)
    starts = {Storage.RUN: scratch_at, Storage.THREAD: scratch_at + sizes.run_scratch}
    scratch = tuple(
        starts[slot.storage] + slot.start_bytes
        for slot in slots
        if slot.storage is not Storage.OPERAND
    )
    frame = base + LINE_BYTES
    slots_at = frame + layout.SLOTS_BYTES - unaligned
    head = {
        layout.CANCEL_BYTES: base,
        layout.POOL_BYTES: 0 if native.pool is None else native.pool.address,
        layout.THREADS_BYTES: native.threads,
        layout.THREAD_FRAMES_BYTES: frame + sizes.frame,
        layout.FRAME_STRIDE_BYTES: sizes.frame,
        layout.ARENA_STRIDE_BYTES: sizes.thread_scratch,
        layout.ROOT_BYTES: native.root.address,
    }
    words = [head.get(at, 0) for at in _HEAD]
    _WORDS.pack_into(memory.data, base - unaligned, 0, *[0] * 7, *words)
    is_used = array("q", [0]) if shared is None else shared.is_used
    return Context(
        memory, base, frame, memory.data[slots_at : slots_at + 8 * len(slots)], scratch, is_used
    )


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
