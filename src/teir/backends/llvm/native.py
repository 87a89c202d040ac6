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
from typing import Any, Protocol

import msgspec
import numpy as np

from teir.backends.llvm import layout, nest
from teir.backends.llvm.library import CodeLibrary, code_library
from teir.backends.llvm.pool import ThreadPool, thread_pool
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


_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""The type of the function that runs a frame."""

_MOST_SPARE_BYTES = 32 << 20
"""Memory of contexts that is kept for the first runs of other programs.

On a virtual machine fresh pages for 14 to 16 MB of scratch took 8 to 49 ms.
"""

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

    memory: np.ndarray[Any, np.dtype[np.uint8]]
    cancel_address: int
    frame: int
    slots: memoryview
    """The frame's slot pointers."""
    scratch: tuple[int, ...]
    """The pointers of the slots that are not operands."""


class SpareMemory(msgspec.Struct, frozen=True):
    """Memory of a context that nobody uses now.

    The first run of a program takes it: fresh pages would cost more than planning, and most
    programs that run once do not run again. Lists give and take one item at a time.
    """

    _memory: list[np.ndarray[Any, np.dtype[np.uint8]]]

    def take(self, size_bytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """At least so many bytes, of any values."""
        try:
            memory = self._memory.pop()
        except IndexError:
            return scratch_memory(size_bytes)
        if memory.size >= size_bytes:
            return memory
        if size_bytes > _MOST_SPARE_BYTES:
            self.give(memory)
        return scratch_memory(size_bytes)

    def give(self, memory: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        """Keep this memory, which no run uses any more, or forget it."""
        if not self._memory and memory.size <= _MOST_SPARE_BYTES:
            self._memory.append(memory)


def spare_memory() -> SpareMemory:
    """The process's."""
    return runtime.current().once("spare memory", lambda: SpareMemory([]))


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
    _idle: list[Context] = msgspec.field(default_factory=list)
    _unused: list[None] = msgspec.field(default_factory=lambda: [None])
    """Empty once the program has run: later runs have memory of their own."""

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
        context = self.take_context() if spare is None else self._new_context(spare.take)
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
        """Where the first run has its memory from; None for all others."""
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

    def take_context(self) -> Context:
        """An idle context or a new one, its cancel flag not set."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._new_context(scratch_memory)

    def _new_context(self, memory: Memory) -> Context:
        pool = 0 if self.pool is None else self.pool.address
        return _context(self.program, self.root, self.threads, pool, memory)


def bind_native(
    program: KernelProgram, isa: Isa, threads: int, specialiser: Specialiser | None = None
) -> NativeProgram:
    """``program`` as a table walked by precompiled functions; kernels compiled where missing.

    ``specialiser`` is told when the program has run often; without one it stays a table.
    """
    library = code_library(runtime.current(), isa)
    calls = calls_of(program.roots)
    kernels = library.leaves({call.kernel for call, _ in calls})
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
    storages = [slot.storage for slot in slots]
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
    )


Memory = Callable[[int], "np.ndarray[Any, np.dtype[np.uint8]]"]
"""Gives at least so many bytes."""


def _context(program: KernelProgram, root: Root, threads: int, pool: int, give: Memory) -> Context:
    frame_bytes = layout.frame_bytes(len(program.slots), root.index_cells)
    arena_stride = _round_up(program.thread_scratch_bytes, PAGE_BYTES)
    frames_at = LINE_BYTES + frame_bytes
    run_arena_at = _round_up(frames_at + threads * frame_bytes, LINE_BYTES)
    if program.run_scratch_bytes + arena_stride:
        run_arena_at = _round_up(run_arena_at, PAGE_BYTES)
    thread_arena_at = _round_up(run_arena_at + program.run_scratch_bytes, LINE_BYTES)
    memory = give(thread_arena_at + threads * arena_stride + PAGE_BYTES)
    unaligned = memory.__array_interface__["data"][0]
    base = _round_up(
        unaligned, PAGE_BYTES if program.run_scratch_bytes + arena_stride else LINE_BYTES
    )
    starts = {
        Storage.RUN: base + run_arena_at,
        Storage.THREAD: base + thread_arena_at,
    }
    scratch = tuple(
        starts[slot.storage] + slot.start_bytes
        for slot in program.slots
        if slot.storage is not Storage.OPERAND
    )
    frame = base + LINE_BYTES
    slots_at = frame + layout.SLOTS_BYTES - unaligned
    slots = memory.data[slots_at : slots_at + 8 * len(program.slots)]
    head = {
        layout.CANCEL_BYTES: base,
        layout.POOL_BYTES: pool,
        layout.THREADS_BYTES: threads,
        layout.THREAD_FRAMES_BYTES: base + frames_at,
        layout.FRAME_STRIDE_BYTES: frame_bytes,
        layout.ARENA_STRIDE_BYTES: arena_stride,
        layout.ROOT_BYTES: root.address,
    }
    words = [head.get(at, 0) for at in _HEAD]
    _WORDS.pack_into(memory.data, base - unaligned, 0, *[0] * 7, *words)
    return Context(memory, base, frame, slots, scratch)


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
