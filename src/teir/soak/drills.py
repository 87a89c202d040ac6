"""Figure 13: what may happen to a process, rehearsed in forked children.

Every drill is a function without arguments that returns what went wrong, or the empty text. Each
runs in a child of its own, so that it may fork, be interrupted, or run out of memory.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import teir
from teir.runtime.object_cache import ObjectCache

Array = np.ndarray[Any, np.dtype[Any]]

LATENCY_SECONDS = 0.2
_SLACK_SECONDS = 2.0
"""One tile, and what a loaded machine may add."""


def many_threads() -> str:
    """Eight threads call one plan at once."""
    a, b = _operands(90)
    plan = teir.plan("ij,jk->ik", a, b)
    expected = plan(a, b)
    wrong: list[int] = []

    def call(number: int) -> None:
        for _ in range(20):
            if not np.array_equal(plan(a, b), expected):
                wrong.append(number)

    _in_threads(call, 8)
    return f"threads {wrong} got other bits" if wrong else ""


def many_plans() -> str:
    """Eight threads plan different contractions at once."""
    wrong: list[int] = []

    def call(number: int) -> None:
        for extent in range(3, 9):
            a = np.ones((extent + number, extent))
            if not np.array_equal(teir.einsum("ij,kj->ik", a, a), a @ a.T):
                wrong.append(number)

    _in_threads(call, 8)
    return f"threads {wrong} got wrong results" if wrong else ""


def fork_in_thread() -> str:
    """A child forked by a thread computes on two threads."""
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(_forked(_product_is_right)))
    thread.start()
    thread.join()
    return said[0]


def fork_after() -> str:
    """A child forked after a run on two threads computes on two threads."""
    return _product_is_right() or _forked(_product_is_right)


def fork_during() -> str:
    """Children forked while other threads run and compile."""
    stop = threading.Event()

    def work(number: int) -> None:
        extent = 20 + number
        while not stop.is_set():
            extent += 1
            a = np.ones((extent, 7))
            teir.einsum("ij,kj->ik", a, a, threads=2)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for worker in workers:
        worker.start()
    try:
        return next(filter(None, (_forked(_product_is_right) for _ in range(3))), "")
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def interrupt() -> str:
    """Ctrl-C ends a long run; the next call is right."""
    executable, operands = _long_run()
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    start = time.monotonic()
    try:
        timer.start()
        executable.run(operands)
    except KeyboardInterrupt:
        late = time.monotonic() - start - 0.1 - LATENCY_SECONDS
        return f"{late:.1f} s late" if late > _SLACK_SECONDS else _product_is_right()
    return "the run was not interrupted"


def timeout() -> str:
    """``timeout=`` ends a long run; the next call is right."""
    executable, operands = _long_run()
    start = time.monotonic()
    try:
        executable.run(operands, timeout=0.05)
    except TimeoutError:
        late = time.monotonic() - start - 0.05 - LATENCY_SECONDS
        return f"{late:.1f} s late" if late > _SLACK_SECONDS else _product_is_right()
    return "the run was not ended"


def alarm() -> str:
    """Signals that a Python handler takes leave results right."""
    count = 0

    def handle(*_: object) -> None:
        nonlocal count
        count += 1

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    wrong = next(filter(None, (_product_is_right() for _ in range(10))), "")
    signal.setitimer(signal.ITIMER_REAL, 0)
    return wrong


def little_memory() -> str:
    """Without room for a result: MemoryError; afterwards everything works."""
    a = np.ones((4, 3))
    teir.einsum("ij,kj->ik", a, a)
    limit = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (256 << 20), limit[1]))
    try:
        wide = np.broadcast_to(np.ones(1), (40_000,))
        teir.einsum("i,j->ij", wide, wide)
    except MemoryError:
        return _product_is_right()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    return "12 GB were allocated"


def memory_limit() -> str:
    """``memory_limit=`` is refused before work starts, with a limit that does."""
    shapes = ((300, 40), (40, 300), (300, 9))
    arrays = [np.ones(shape) for shape in shapes]
    expression = "[[i,k],[k,l]->[i,l]],[l,j]->[i,j]"
    out = np.full((300, 9), 7.0)
    try:
        teir.einsum(expression, *arrays, out=out, memory_limit=8)
    except teir.TeirError as error:
        expected = error.findings[0].expected
    else:
        return "eight bytes were enough"
    if not (out == 7).all():
        return "out was written before the refusal"
    smallest = int("".join(one for one in expected.split(" bytes")[0] if one.isdigit()))
    result = teir.einsum(expression, *arrays, out=out, memory_limit=smallest)
    return "" if (result == 12_000).all() else "a wrong result"


def full_disk() -> str:
    """A disk without room: nothing is kept, results are right, no half file is read later."""
    with tempfile.TemporaryDirectory() as folder:
        cache = ObjectCache(Path(folder) / "objects")
        size = resource.getrlimit(resource.RLIMIT_FSIZE)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, size[1]))
        try:
            kept = cache.store(b"key", bytes(100_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, size)
        if kept or cache.load(b"key") is not None:
            return "half a file counts as kept"
        if not cache.store(b"key", b"data") or cache.load(b"key") != b"data":
            return "the cache does not recover"
    return _product_is_right()


def bad_caches() -> str:
    """World-writable, linked and read-only cache directories are not used; results are right."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        good = ObjectCache(place / "good")
        if not good.store(b"key", b"data"):
            return "a private directory is not used"
        (place / "link").symlink_to(place / "good")
        if ObjectCache(place / "link").load(b"key") is not None:
            return "a linked directory was read"
        (place / "good").chmod(0o777)
        if good.load(b"key") is not None:
            return "a world-writable directory was read"
        (place / "good").chmod(stat.S_IRWXU)
        if good.load(b"key") != b"data":
            return "a private directory is not read again"
    return _product_is_right()


DRILLS: tuple[Callable[[], str], ...] = (
    many_threads,
    many_plans,
    fork_in_thread,
    fork_after,
    fork_during,
    interrupt,
    timeout,
    alarm,
    little_memory,
    memory_limit,
    full_disk,
    bad_caches,
)


def drill_one(item: int) -> dict[str, Any]:
    """Drill ``item`` modulo their number, in a child of this one."""
    drill = DRILLS[item % len(DRILLS)]
    # Python cannot fork while a thread imports: what drills import is imported by now.
    _product_is_right()
    wrong = _forked(drill)
    return {"wrong": [f"{drill.__name__}: {wrong}"] if wrong else [], "named": {drill.__name__: 1}}


def _operands(extent: int) -> tuple[Array, Array]:
    numbers = np.random.default_rng(extent)
    return numbers.standard_normal((extent, extent)), numbers.standard_normal((extent, extent))


def _product_is_right() -> str:
    a = np.arange(120.0 * 90).reshape(120, 90) % 7
    good = np.array_equal(teir.einsum("ij,kj->ik", a, a, threads=2), a @ a.T)
    return "" if good else "a wrong product"


def _in_threads(call: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _long_run() -> tuple[Any, dict[str, Array]]:
    """A program of minutes: the same small product over and over."""
    text = """teir 1 "long"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis r = 100000000: in0 0
axis m = 64: in0 4, out 4
axis n = 64: in1 256, out 256
axis k = 64: in0 256, in1 4
primitive gemm = Contraction FP32 (in0, in1 -> out; M=[m], N=[n], K=[k])
sequential r over r
  gemm: gemm
"""
    program = teir.loads(text.encode())
    arrays = {name: np.zeros(64 * 64, np.float32) for name in ("in0", "in1", "out")}
    return teir.compile(program, threads=1), arrays


def _forked(work: Callable[[], str]) -> str:
    """What ``work`` returns in a forked child; how the child died, if it did."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            text = work()
        except BaseException as error:
            text = repr(error)
        os.write(writer, text.encode()[:4000])
        os._exit(0)
    os.close(writer)
    said = b""
    while piece := _read(reader):
        said += piece
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)}"
    return said.decode()


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 4096)
    except OSError as error:
        if error.errno != errno.EINTR:
            raise
        return _read(pipe)
