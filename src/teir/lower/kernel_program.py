"""The kernel program: what lowering makes of a TEIR program, loops around kernel calls.

It is read by the table-driven nest and by the emitter of the specialised function, so there is
one meaning. Every address is a slot's pointer plus what the enclosing loops add plus a constant.

    Loop i < 32 (in0 += 8192, out += 32768)
      Call GemmBlock(in0 + 0, in1 + 0, out + 0; k=32, ...)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import msgspec

from teir.dtypes import DataType
from teir.lower.kernels import Kernel

LONGEST_CALL = 1 << 26
"""Products of one call, which nothing can interrupt."""


class Storage(Enum):
    """Where the bytes of a slot live."""

    OPERAND = "operand"
    """The caller's buffer."""
    RUN = "run"
    """Scratch shared by the whole run."""
    THREAD = "thread"
    """Scratch private to the executing thread."""

    __hash__ = object.__hash__


class Slot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One pointer of the running program.

    OPERAND: the pointer starts at the operand's base. RUN and THREAD: it starts ``start_bytes``
    after the beginning of that arena.
    """

    tensor: str
    data_type: DataType
    storage: Storage
    start_bytes: int = 0


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one iteration of a loop adds to a slot's pointer."""

    slot: int
    stride_bytes: int


class Loop(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Run ``body`` ``extent`` times in increasing order.

    ``index`` is the number of the index cell that holds the current iteration, None where no
    guard below asks for it. ``steps`` names each slot at most once, zero strides left out.
    """

    extent: int
    steps: tuple[Step, ...]
    index: int | None
    body: tuple[KernelNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One compressed level a sparse loop walks: positions from load(pos) to
    load(pos + width).

    The coordinate of position p lies at ``crd + crd_stride_bytes * p``. ``steps`` is what one
    position adds to the slots that are addressed by position. Coordinates ascend.
    """

    pos: Address
    pos_type: DataType
    crd: Address
    crd_type: DataType
    crd_stride_bytes: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseLoop:
    """Run ``body`` for every coordinate that all ``walks`` hold, in ascending order.

    ``steps`` is what one coordinate adds to all other slots. ``index`` is the number of the cell
    that holds the number of the visit, ``last`` of the one that holds 1 at the last visit and 0
    before (with one walk only); None where no guard below asks.
    """

    extent: int
    walks: tuple[Walk, ...]
    steps: tuple[Step, ...]
    index: int | None
    last: int | None
    body: tuple[KernelNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLoop:
    """Run ``body`` for runs of at most ``size`` positions of a compressed level, in order.

    ``bounds`` is where the first position of the run and the one after its last are put, two I64.
    ``steps`` is what one position adds to slots that keep one run only: during a run they lie as if
    they began with position 0. The first run, which may be empty and is there for an empty level
    too, has a body of its own where ``first`` holds one.
    """

    pos: Address
    pos_type: DataType
    size: int
    bounds: Address
    steps: tuple[Step, ...]
    body: tuple[KernelNode, ...]
    first: tuple[KernelNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRunLoop:
    """Run ``body`` for runs of rows 0 to ``extent`` - 1 with at most ``size`` positions together.

    Fibres of adjacent rows lie after one another; their bounds are ``pos_row`` bytes apart. A run
    has as many rows as fit; what ``bounds`` gets is 0 and their number, two I64. ``rows`` is what
    one row adds to slots, ``steps`` what one position adds to slots that keep one run only: during
    a run they lie as if they began with row 0 and position 0. ``single`` is run for a row that does
    not fit, with the slots at that row.
    """

    extent: int
    pos: Address
    pos_type: DataType
    pos_row: int
    size: int
    bounds: Address
    rows: tuple[Step, ...]
    steps: tuple[Step, ...]
    body: tuple[KernelNode, ...]
    single: tuple[KernelNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLoop:
    """Run ``body`` for every ``size`` positions of ``fibres`` fibres, ``rest`` for each one left.

    The fibres lie after one another: positions from load(pos) to load(pos + fibres * width), in
    order. ``steps`` is what one position adds to slots; ``body`` runs at the first of its block.
    """

    pos: Address
    pos_type: DataType
    fibres: int
    size: int
    steps: tuple[Step, ...]
    body: tuple[KernelNode, ...]
    rest: tuple[KernelNode, ...]


class GridAxis(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One axis of a grid, fields as in `Loop`."""

    extent: int
    steps: tuple[Step, ...]
    index: int | None


class Balance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How much the points of a grid of one axis have to do: the stored elements below them.

    Point p begins at entry pos[p], ``stride_bytes`` from one to the next, the last one ends at
    pos[points]: all of them lie inside what the body reads. Every point counts ``rows`` times a few
    elements more.
    """

    pos: Address
    pos_type: DataType
    stride_bytes: int
    rows: int


class Grid(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Run ``body`` for every point of the grid, in any order, on several threads.

    With ``balance`` threads take shares of about as many stored elements, without of points.
    """

    axes: tuple[GridAxis, ...]
    body: tuple[KernelNode, ...]
    balance: Balance | None = None


class IndexTest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """True when the index cell holds ``value``."""

    index: int
    value: int


class Guarded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Run ``body`` when all tests hold."""

    tests: tuple[IndexTest, ...]
    body: tuple[KernelNode, ...]


class Address(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A slot's pointer plus a constant."""

    slot: int
    offset_bytes: int


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Call a kernel: operands in the kernel's order, arguments in the kernel's order."""

    kernel: Kernel
    operands: tuple[Address, ...]
    arguments: tuple[int, ...]


KernelNode = Loop | SparseLoop | RunLoop | RowRunLoop | BlockLoop | Grid | Guarded | Call


def inner_nodes(node: KernelNode) -> tuple[KernelNode, ...]:
    """The nodes a node holds, none for a call."""
    match node:
        case Call():
            return ()
        case RunLoop():
            return (*node.body, *node.first)
        case RowRunLoop():
            return (*node.body, *node.single)
        case BlockLoop():
            return (*node.body, *node.rest)
        case _:
            return node.body


class KernelProgram(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A lowered program. Grids never contain grids."""

    slots: tuple[Slot, ...]
    roots: tuple[KernelNode, ...]
    index_cells: int
    run_scratch_bytes: int
    thread_scratch_bytes: int
