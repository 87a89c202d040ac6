"""The thread pool's code: share a job among threads, wait for work, wait for the end.

One 64-bit ticket says what is left of the job on offer: generation (32 bits), one past the last
chunk nobody has taken (16) and the first (16). A thread takes a chunk by a compare-and-swap of the
whole ticket, so what it read of the job before belongs to the generation it took the chunk from:
the job's fields change only after all chunks of the generation before are done. The caller and
every second worker take the first chunk, the others the last: so two threads meet the same memory
in every call, and in grid after grid, whichever is the faster.

Both sides spin shortly, then sleep on a futex, so a thread that lost its processor holds nobody
up: chunks it has not taken are taken by others. A spinning worker offers its processor now and
then: where all are busy, the system may have woken it on the caller's.

    byte 0    fork: i64 (ptr pool, ptr job, ptr node, ptr frame, i64 chunks, i64 threads)
    byte 8    the C library's `syscall`
    byte 16   the number of the futex system call
    byte 24   workers started
    byte 32   most threads that may take part, 0 for no limit
    byte 40   the number of the system call that yields the processor
    byte 48   one more than the processor that workers leave to the caller, else 0 (i32)
    byte 56   the C library's `sched_getcpu`
    byte 64   ticket
    byte 72   job, node, frame, threads
    byte 104  chunks not yet done (i32), whether the caller sleeps (i32), chunks
    byte 128  workers asleep (i32)
    byte 136  the number of the system call that says where a thread may run, that of a thread's own
    byte 192  1 while a caller uses the pool (i32)
    byte 256  the processors that workers may run on, a bit each
    byte 384  the system's number of every worker (i32), 0 until it runs

A system may wake a worker where its caller runs, or a caller where a worker does, and leave both
there although other processors are idle: some pack what seldom runs. So a caller that is not where
it was takes its own processor out of where workers may run.

What a worker needs lies in one cache line: moving lines between cores is all that a fork costs.
"""

from __future__ import annotations

from teir.backends.llvm.nest_grid import JOB_TYPE
from teir.thread_limits import MOST_THREADS

FORK = "teir_pool_fork"
WORKER = "teir_pool_worker"
POOL_SYMBOLS = (FORK, WORKER)

FORK_BYTES = 0
SYSCALL_BYTES = 8
FUTEX_NUMBER_BYTES = 16
WORKERS_BYTES = 24
LIMIT_BYTES = 32
YIELD_NUMBER_BYTES = 40
LEFT_TO_CALLER_BYTES = 48
GETCPU_BYTES = 56
TICKET_BYTES = 64
JOB_BYTES = 72
UNDONE_BYTES = 104
CALLER_SLEEPS_BYTES = 108
CHUNKS_BYTES = 112
SLEEPERS_BYTES = 128
AFFINITY_NUMBER_BYTES = 136
GETTID_NUMBER_BYTES = 144
BUSY_BYTES = 192
PROCESSORS_BYTES = 256
MOST_PROCESSORS = 1024
TIDS_BYTES = PROCESSORS_BYTES + MOST_PROCESSORS // 8
POOL_STRUCT_BYTES = TIDS_BYTES + 4 * MOST_THREADS

MOST_CHUNKS = 0xFFFF
"""A ticket counts chunks in 16 bits."""

_CALLER_SPINS = 1000
"""Looks at what is left before a caller sleeps: some 30 microseconds."""
_WORKER_SPINS = 5000
"""Looks at the ticket before a worker sleeps: some 150 microseconds, about what it takes to wake a
worker whose virtual core has gone idle."""
_SPINS_TO_YIELD = 32
"""Looks between which a worker offers its processor to others, a power of two: some microsecond."""

_MOST_TOLD = 16
"""Workers that are told to leave a processor: a microsecond each, in every call where callers on
different processors take turns."""

_SYSCALL_TYPE = "i64 (i64, ...)"
_FUTEX_WAIT_PRIVATE = 128
_FUTEX_WAKE_PRIVATE = 129


def emit_pool(pause: str) -> str:
    """The definitions of the pool's functions.

    ``pause`` is the instruction by which a thread tells its processor that it spins.
    """
    text = "\n".join((_HELPERS_TEXT, _APART_TEXT, _TAKE_TEXT, _FORK_TEXT, _WORKER_TEXT))
    return text.replace("PAUSE", pause)


_HELPERS_TEXT = f"""
define internal void @teir_futex_wait(ptr %pool, ptr %word, i32 %seen) noinline nounwind {{
  %syscall_at = getelementptr i8, ptr %pool, i64 {SYSCALL_BYTES}
  %syscall = load ptr, ptr %syscall_at
  %number_at = getelementptr i8, ptr %pool, i64 {FUTEX_NUMBER_BYTES}
  %number = load i64, ptr %number_at
  %seen64 = zext i32 %seen to i64
  call {_SYSCALL_TYPE} %syscall(i64 %number, ptr %word, i64 {_FUTEX_WAIT_PRIVATE},
      i64 %seen64, ptr null, ptr null, i64 0)
  ret void
}}

define internal void @teir_futex_wake(ptr %pool, ptr %word, i64 %count) noinline nounwind {{
  %syscall_at = getelementptr i8, ptr %pool, i64 {SYSCALL_BYTES}
  %syscall = load ptr, ptr %syscall_at
  %number_at = getelementptr i8, ptr %pool, i64 {FUTEX_NUMBER_BYTES}
  %number = load i64, ptr %number_at
  call {_SYSCALL_TYPE} %syscall(i64 %number, ptr %word, i64 {_FUTEX_WAKE_PRIVATE},
      i64 %count, ptr null, ptr null, i64 0)
  ret void
}}

define internal void @teir_yield(ptr %pool) noinline nounwind {{
  %syscall_at = getelementptr i8, ptr %pool, i64 {SYSCALL_BYTES}
  %syscall = load ptr, ptr %syscall_at
  %number_at = getelementptr i8, ptr %pool, i64 {YIELD_NUMBER_BYTES}
  %number = load i64, ptr %number_at
  call {_SYSCALL_TYPE} %syscall(i64 %number)
  ret void
}}
"""

_APART_TEXT = f"""
define internal void @teir_keep_apart(ptr %pool, i32 %cpu) noinline nounwind {{
entry:
  %mask = alloca [{MOST_PROCESSORS // 64} x i64], align 64
  %is_known = icmp ult i32 %cpu, {MOST_PROCESSORS}
  br i1 %is_known, label %copy, label %exit
copy:
  %allowed_at = getelementptr i8, ptr %pool, i64 {PROCESSORS_BYTES}
  %allowed = load <{MOST_PROCESSORS // 64} x i64>, ptr %allowed_at, align 64
  store <{MOST_PROCESSORS // 64} x i64> %allowed, ptr %mask, align 64
  %cpu64 = zext i32 %cpu to i64
  %number = lshr i64 %cpu64, 6
  %word_at = getelementptr i64, ptr %mask, i64 %number
  %word = load i64, ptr %word_at
  %shift = and i64 %cpu64, 63
  %bit = shl i64 1, %shift
  %others = xor i64 %bit, -1
  %kept = and i64 %word, %others
  store i64 %kept, ptr %word_at
  %syscall_at = getelementptr i8, ptr %pool, i64 {SYSCALL_BYTES}
  %syscall = load ptr, ptr %syscall_at
  %affinity_at = getelementptr i8, ptr %pool, i64 {AFFINITY_NUMBER_BYTES}
  %affinity = load i64, ptr %affinity_at
  %workers_at = getelementptr i8, ptr %pool, i64 {WORKERS_BYTES}
  %started = load atomic i64, ptr %workers_at monotonic, align 8
  %workers = call i64 @llvm.umin.i64(i64 %started, i64 {_MOST_TOLD})
  br label %test
test:
  %worker = phi i64 [ 0, %copy ], [ %next, %following ]
  %more = icmp ult i64 %worker, %workers
  br i1 %more, label %look, label %exit
look:
  %tids = getelementptr i8, ptr %pool, i64 {TIDS_BYTES}
  %tid_at = getelementptr i32, ptr %tids, i64 %worker
  %tid = load atomic i32, ptr %tid_at monotonic, align 4
  %runs = icmp ne i32 %tid, 0
  br i1 %runs, label %tell, label %following
tell:
  %tid64 = zext i32 %tid to i64
  call {_SYSCALL_TYPE} %syscall(i64 %affinity, i64 %tid64, i64 {MOST_PROCESSORS // 8}, ptr %mask)
  br label %following
following:
  %next = add i64 %worker, 1
  br label %test
exit:
  ret void
}}
"""

_TAKE_TEXT = f"""
define internal void @teir_take_chunks(ptr %pool, i64 %participant) nounwind {{
entry:
  %ticket_at = getelementptr i8, ptr %pool, i64 {TICKET_BYTES}
  %job_at = getelementptr i8, ptr %pool, i64 {JOB_BYTES}
  %node_at = getelementptr i8, ptr %pool, i64 {JOB_BYTES + 8}
  %frame_at = getelementptr i8, ptr %pool, i64 {JOB_BYTES + 16}
  %threads_at = getelementptr i8, ptr %pool, i64 {JOB_BYTES + 24}
  %chunks_at = getelementptr i8, ptr %pool, i64 {CHUNKS_BYTES}
  %undone_at = getelementptr i8, ptr %pool, i64 {UNDONE_BYTES}
  %sleeps_at = getelementptr i8, ptr %pool, i64 {CALLER_SLEEPS_BYTES}
  br label %look
look:
  %ticket = load atomic i64, ptr %ticket_at seq_cst, align 8
  %front = and i64 %ticket, 65535
  %shifted = lshr i64 %ticket, 16
  %end = and i64 %shifted, 65535
  %left = icmp ult i64 %front, %end
  br i1 %left, label %read, label %exit
read:
  %job_word = load atomic i64, ptr %job_at monotonic, align 8
  %node_word = load atomic i64, ptr %node_at monotonic, align 8
  %frame_word = load atomic i64, ptr %frame_at monotonic, align 8
  %threads = load atomic i64, ptr %threads_at monotonic, align 8
  %chunks = load atomic i64, ptr %chunks_at monotonic, align 8
  %invited = icmp ult i64 %participant, %threads
  br i1 %invited, label %take, label %exit
take:
  %side = and i64 %participant, 1
  %takes_front = icmp eq i64 %side, 0
  %last_left = sub i64 %end, 1
  %chunk = select i1 %takes_front, i64 %front, i64 %last_left
  %change = select i1 %takes_front, i64 1, i64 -65536
  %taken_ticket = add i64 %ticket, %change
  %swap = cmpxchg ptr %ticket_at, i64 %ticket, i64 %taken_ticket seq_cst seq_cst
  %taken = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %taken, label %work, label %look
work:
  %job = inttoptr i64 %job_word to ptr
  %node = inttoptr i64 %node_word to ptr
  %frame = inttoptr i64 %frame_word to ptr
  call {JOB_TYPE} %job(ptr %node, ptr %frame, i64 %participant, i64 %chunk, i64 %chunks)
  %before = atomicrmw sub ptr %undone_at, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  br i1 %last, label %finish, label %look
finish:
  %sleeps = load atomic i32, ptr %sleeps_at seq_cst, align 4
  %asleep = icmp ne i32 %sleeps, 0
  br i1 %asleep, label %wake, label %exit
wake:
  call void @teir_futex_wake(ptr %pool, ptr %undone_at, i64 1)
  br label %exit
exit:
  ret void
}}
"""

_FORK_TEXT = f"""
define i64 @{FORK}(ptr %pool, ptr %job, ptr %node, ptr %frame,
                   i64 %chunks, i64 %threads) nounwind {{
entry:
  %busy_at = getelementptr i8, ptr %pool, i64 {BUSY_BYTES}
  %busy_swap = cmpxchg ptr %busy_at, i32 0, i32 1 seq_cst seq_cst
  %free = extractvalue {{ i32, i1 }} %busy_swap, 1
  br i1 %free, label %publish, label %refuse
refuse:
  ret i64 0
publish:
  %getcpu_at = getelementptr i8, ptr %pool, i64 {GETCPU_BYTES}
  %getcpu = load ptr, ptr %getcpu_at
  %cpu = call i32 %getcpu()
  %left_at = getelementptr i8, ptr %pool, i64 {LEFT_TO_CALLER_BYTES}
  %left = load atomic i32, ptr %left_at monotonic, align 4
  %here = add i32 %cpu, 1
  %has_moved = icmp ne i32 %here, %left
  br i1 %has_moved, label %apart, label %offer
apart:
  store atomic i32 %here, ptr %left_at monotonic, align 4
  call void @teir_keep_apart(ptr %pool, i32 %cpu)
  br label %offer
offer:
  %job_at = getelementptr i8, ptr %pool, i64 {JOB_BYTES}
  %job_word = ptrtoint ptr %job to i64
  store atomic i64 %job_word, ptr %job_at monotonic, align 8
  %node_at = getelementptr i8, ptr %pool, i64 {JOB_BYTES + 8}
  %node_word = ptrtoint ptr %node to i64
  store atomic i64 %node_word, ptr %node_at monotonic, align 8
  %frame_at = getelementptr i8, ptr %pool, i64 {JOB_BYTES + 16}
  %frame_word = ptrtoint ptr %frame to i64
  store atomic i64 %frame_word, ptr %frame_at monotonic, align 8
  %threads_at = getelementptr i8, ptr %pool, i64 {JOB_BYTES + 24}
  %limit_at = getelementptr i8, ptr %pool, i64 {LIMIT_BYTES}
  %limit = load atomic i64, ptr %limit_at monotonic, align 8
  %beyond = sub i64 %limit, 1
  %limited = icmp ult i64 %beyond, %threads
  %allowed = select i1 %limited, i64 %limit, i64 %threads
  store atomic i64 %allowed, ptr %threads_at monotonic, align 8
  %chunks_at = getelementptr i8, ptr %pool, i64 {CHUNKS_BYTES}
  store atomic i64 %chunks, ptr %chunks_at monotonic, align 8
  %undone_at = getelementptr i8, ptr %pool, i64 {UNDONE_BYTES}
  %chunks32 = trunc i64 %chunks to i32
  store atomic i32 %chunks32, ptr %undone_at monotonic, align 4
  %ticket_at = getelementptr i8, ptr %pool, i64 {TICKET_BYTES}
  %old_ticket = load atomic i64, ptr %ticket_at monotonic, align 8
  %old_generation = lshr i64 %old_ticket, 32
  %generation = add i64 %old_generation, 1
  %high = shl i64 %generation, 32
  %count = shl i64 %chunks, 16
  %ticket = or i64 %high, %count
  store atomic i64 %ticket, ptr %ticket_at seq_cst, align 8
  %sleepers_at = getelementptr i8, ptr %pool, i64 {SLEEPERS_BYTES}
  %sleepers = load atomic i32, ptr %sleepers_at seq_cst, align 4
  %nobody = icmp eq i32 %sleepers, 0
  br i1 %nobody, label %work, label %wake
wake:
  %generation_at = getelementptr i8, ptr %ticket_at, i64 4
  call void @teir_futex_wake(ptr %pool, ptr %generation_at, i64 2147483647)
  br label %work
work:
  call void @teir_take_chunks(ptr %pool, i64 0)
  br label %spin
spin:
  %spins = phi i64 [ 0, %work ], [ %spins_next, %pause ]
  %undone = load atomic i32, ptr %undone_at seq_cst, align 4
  %done = icmp eq i32 %undone, 0
  br i1 %done, label %release, label %count_spin
count_spin:
  %spins_next = add i64 %spins, 1
  %patient = icmp ult i64 %spins_next, {_CALLER_SPINS}
  br i1 %patient, label %pause, label %settle
pause:
  PAUSE
  br label %spin
settle:
  %sleeps_at = getelementptr i8, ptr %pool, i64 {CALLER_SLEEPS_BYTES}
  store atomic i32 1, ptr %sleeps_at seq_cst, align 4
  br label %recheck
recheck:
  %rest = load atomic i32, ptr %undone_at seq_cst, align 4
  %rest_done = icmp eq i32 %rest, 0
  br i1 %rest_done, label %awake, label %sleep
sleep:
  call void @teir_futex_wait(ptr %pool, ptr %undone_at, i32 %rest)
  br label %recheck
awake:
  store atomic i32 0, ptr %sleeps_at seq_cst, align 4
  br label %release
release:
  store atomic i32 0, ptr %busy_at seq_cst, align 4
  ret i64 1
}}
"""

_WORKER_TEXT = f"""
define ptr @{WORKER}(ptr %start) nounwind {{
entry:
  %pool = load ptr, ptr %start
  %participant_at = getelementptr i8, ptr %start, i64 8
  %participant = load i64, ptr %participant_at
  %seen_at = getelementptr i8, ptr %start, i64 16
  %first_seen = load i64, ptr %seen_at
  %first_seen32 = trunc i64 %first_seen to i32
  %ticket_at = getelementptr i8, ptr %pool, i64 {TICKET_BYTES}
  %generation_at = getelementptr i8, ptr %ticket_at, i64 4
  %sleepers_at = getelementptr i8, ptr %pool, i64 {SLEEPERS_BYTES}
  %syscall_at = getelementptr i8, ptr %pool, i64 {SYSCALL_BYTES}
  %syscall = load ptr, ptr %syscall_at
  %gettid_at = getelementptr i8, ptr %pool, i64 {GETTID_NUMBER_BYTES}
  %gettid = load i64, ptr %gettid_at
  %tid64 = call {_SYSCALL_TYPE} %syscall(i64 %gettid)
  %tid = trunc i64 %tid64 to i32
  %tids = getelementptr i8, ptr %pool, i64 {TIDS_BYTES}
  %worker = sub i64 %participant, 1
  %tid_at = getelementptr i32, ptr %tids, i64 %worker
  store atomic i32 %tid, ptr %tid_at seq_cst, align 4
  %left_at = getelementptr i8, ptr %pool, i64 {LEFT_TO_CALLER_BYTES}
  store atomic i32 0, ptr %left_at seq_cst, align 4
  br label %wait
wait:
  %seen = phi i32 [ %first_seen32, %entry ], [ %generation, %done ]
  br label %spin
spin:
  %spins = phi i64 [ 0, %wait ], [ %spins_next, %pause ], [ %spins_next, %yield ],
                  [ 0, %slept ]
  %ticket = load atomic i64, ptr %ticket_at seq_cst, align 8
  %high = lshr i64 %ticket, 32
  %generation = trunc i64 %high to i32
  %new = icmp ne i32 %generation, %seen
  br i1 %new, label %work, label %count_spin
count_spin:
  %spins_next = add i64 %spins, 1
  %patient = icmp ult i64 %spins_next, {_WORKER_SPINS}
  br i1 %patient, label %wait_more, label %sleep
wait_more:
  %since_yield = and i64 %spins_next, {_SPINS_TO_YIELD - 1}
  %is_due = icmp eq i64 %since_yield, 0
  br i1 %is_due, label %yield, label %pause
pause:
  PAUSE
  br label %spin
yield:
  call void @teir_yield(ptr %pool)
  br label %spin
sleep:
  %s0 = atomicrmw add ptr %sleepers_at, i32 1 seq_cst
  call void @teir_futex_wait(ptr %pool, ptr %generation_at, i32 %seen)
  %s1 = atomicrmw sub ptr %sleepers_at, i32 1 seq_cst
  br label %slept
slept:
  br label %spin
work:
  call void @teir_take_chunks(ptr %pool, i64 %participant)
  br label %done
done:
  br label %wait
}}
"""
