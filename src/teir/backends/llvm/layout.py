"""The memory layout of tables and frames, shared by everything that emits or fills them.

A table is an array of 64-bit words, read-only once built and shared by all threads. Every node is
a run of words in it whose word 0 is the address of a function

    void f(ptr node, ptr frame, ptr A, ptr B, ptr C)

so a node never tests what its children are. A kernel leaf holds the kernel's arguments from word
1 on, in the kernel's order. A leaf with more than three operands gets no pointers in A, B and C:
after its arguments follow, per operand, the operand's slot number and offset in bytes, and it
reads the slot's pointer from the frame.

A frame is private to one thread while a program runs:

    byte 0    pointer to the cancel flag, an i64 that is not zero once the run must stop
    byte 8    pointer to the pool, null where the run has one thread
    byte 16   number of threads
    byte 24   pointer to the frames of the threads that take part in a grid, one after another
    byte 32   bytes from one such frame to the next
    byte 40   bytes from one thread's scratch arena to the next
    byte 48   not used
    byte 56   pointer to the root node
    byte 64   the pointers of the slots, then the index cells
"""

from __future__ import annotations

NODE_TYPE = "void (ptr, ptr, ptr, ptr, ptr)"
"""The LLVM type of every node function."""

NODE_PARAMETERS = "ptr %node, ptr %frame, ptr %A, ptr %B, ptr %C"
"""The parameter list every node function is defined with."""

WORD_BYTES = 8

CANCEL_BYTES = 0
POOL_BYTES = 8
THREADS_BYTES = 16
THREAD_FRAMES_BYTES = 24
FRAME_STRIDE_BYTES = 32
ARENA_STRIDE_BYTES = 40
ROOT_BYTES = 56
SLOTS_BYTES = 64

FRAME_ALIGNMENT = 64
"""Frames of different threads never share a cache line."""

REGISTER_OPERANDS = 3
"""Operands a node passes in registers: A, B and C."""


def argument_bytes(number: int) -> int:
    """Where a leaf keeps its argument ``number``, in bytes from the node."""
    return WORD_BYTES * (1 + number)


def operand_slot_bytes(arguments: int, operand: int) -> int:
    """Where a leaf of more than three operands keeps an operand's slot number."""
    return WORD_BYTES * (1 + arguments + 2 * operand)


def operand_offset_bytes(arguments: int, operand: int) -> int:
    """Where a leaf of more than three operands keeps an operand's offset in bytes."""
    return operand_slot_bytes(arguments, operand) + WORD_BYTES


def slot_bytes(slot: int) -> int:
    """Where a frame keeps the pointer of ``slot``."""
    return SLOTS_BYTES + WORD_BYTES * slot


def index_bytes(slots: int, index: int) -> int:
    """Where the frame of a program with ``slots`` slots keeps index cell ``index``."""
    return SLOTS_BYTES + WORD_BYTES * (slots + index)


def frame_bytes(slots: int, index_cells: int) -> int:
    """The size of a frame, a multiple of its alignment."""
    size = SLOTS_BYTES + WORD_BYTES * (slots + index_cells)
    return -(-size // FRAME_ALIGNMENT) * FRAME_ALIGNMENT
