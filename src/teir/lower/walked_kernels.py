"""Kernels that walk the stored elements of a fibre, as values.

What `teir.lower.kernels` says of kernel values holds here: everything in one is a constant of the
generated code, arguments are signed 64-bit integers, strides are bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from teir.dtypes import DataType
from teir.lower.access import Access


class Follows(Enum):
    """What moves an input from one stored element of a fibre to the next."""

    NOTHING = "nothing"
    POSITION = "position"
    COORDINATE = "coordinate"
    OUTER_POSITION = "outer position"
    OUTER_COORDINATE = "outer coordinate"


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedInput:
    """One input of a `WalkedSum`: how its lanes lie, what moves it, whether columns do."""

    access: Access
    follows: Follows
    has_columns: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedRows:
    """The rows a kernel forms one after the other, each from a fibre of its own.

    With ``bounds``, a type, the rows are positions of a level above: from bounds[0] to bounds[1],
    row q with the coordinate crd[q] where ``crd`` is a type; without, they are numbered from 0 to
    the argument rows. ``inputs`` says for every input what of a row moves it, ``output`` for the
    output: POSITION its number, COORDINATE its coordinate. Up to ``together`` adjacent rows whose
    fibres hold the same coordinates share what their inputs share; that changes no value. Where it
    ``asks`` the next row of the output is asked for before one of a short fibre is formed alone.

    Operands, before all others: bounds and crd, as far as there are such. Arguments, after all
    others: rows (read without bounds), pos_row (from a row's pos to the next row's), c_row, then
    per input what one row or coordinate adds.
    """

    bounds: DataType | None
    crd: DataType | None
    inputs: tuple[Follows, ...]
    output: Follows
    together: int
    asks: bool = False

    @property
    def index_arrays(self) -> int:
        """Operands before all others."""
        return int(self.bounds is not None) + int(self.crd is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedSum:
    """out[n, m] += sum over a fibre's positions of the product of all inputs at (position, n, m).

    The fibre holds the positions from pos[0] to pos[1], their coordinates lie in crd, adjacent.
    The block is ``vectors * lanes`` rows by ``columns`` columns, rows adjacent in the output and in
    every UNIT input; with ``masked`` only the first ``last_lanes`` lanes of the last vector exist.
    Products are formed left to right, the last multiplication fused. ``aligns`` is the number of
    the input whose rows are read in whole cache lines, the first and last under masks, where they
    begin inside one (rows are whole vectors, a multiple of 64 bytes apart); None for none.

    With ``outer``, the types of pos and crd of a level above, the sum runs over all fibres of one
    fibre of that level: fibre q has its bounds at pos + pos_step * q. With ``rows`` one sum after
    the other is formed; pos, or with ``outer`` the pos of the level above, moves by the row's
    number. Rows of the output lie apart. Where ``ahead`` is given, rows that UNIT inputs have at
    coordinates so many positions further on are brought near, but for rows formed together; that
    changes no value. Then bounds of neighbouring fibres lie next to one another.

    ``adjacent`` tells for every input whether the next index means the next element. With
    ``chains`` the block is one number, and the products of every fibre are summed in so many chains
    by their place in it, as `teir.ir.lanes` says; without, only what the position moves is told
    apart.

    Operands: pos and crd of the level above with ``outer``, pos, crd, the inputs, the output.
    Arguments, in order: last_lanes, accumulate (1: start from the output, 0: from zero), c_n,
    pos_step (read with ``outer``), then per input its stride from one index to the next, then per
    input its stride from one column to the next.
    """

    in_type: DataType
    out_type: DataType
    pos_type: DataType
    crd_type: DataType
    lanes: int
    vectors: int
    columns: int
    masked: bool
    inputs: tuple[WalkedInput, ...]
    aligns: int | None
    outer: tuple[DataType, DataType] | None
    adjacent: tuple[bool, ...]
    rows: WalkedRows | None = None
    ahead: int | None = None
    chains: int | None = None

    @property
    def index_arrays(self) -> int:
        """Operands before the inputs."""
        above = 0 if self.rows is None else self.rows.index_arrays
        return above + (2 if self.outer is None else 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedDots:
    """out[p] += scale[p] * (sum over k of A[k] * B[crd[p], k]) for the positions p of a fibre.

    A row of ``vectors * chains`` elements, adjacent in A and B; with ``masked`` only the first
    ``last_lanes`` of the last ``chains`` exist. Sums are formed in ``chains`` chains as
    `teir.ir.lanes` says, from zero; without ``scales`` there is no scale. Elements of scale and out
    are adjacent. ``aligns``: as in `WalkedSum`, for B. With ``rows``, whose inputs are A and B, one
    row A after the other, each with a fibre of its own; B, scale and out stay where they are.
    ``ahead``: as in `WalkedSum`, for B; rows A that are numbered are brought near before their
    turn, too, long ones formed together without it.

    Operands: pos, crd, A, B, scale (with ``scales``), out. Arguments, in order: last_lanes,
    accumulate (1 or 0), b_stride.
    """

    data_type: DataType
    pos_type: DataType
    crd_type: DataType
    lanes: int
    chains: int
    vectors: int
    masked: bool
    scales: bool
    aligns: bool
    rows: WalkedRows | None = None
    ahead: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedSampledSum:
    """out[m] += sum over p of scale[p] * (sum over k of A[k] * B[crd[p], k]) * D[crd[p], m].

    The positions p are those of a fibre. What stands in brackets is a dot product as in
    `WalkedDots`, in ``lanes`` chains, of ``dot_vectors`` vectors; with ``dot_masked`` only the
    first ``dot_last_lanes`` lanes of the last exist. ``vectors`` and ``masked`` say the same of D
    and out. The scale and the dot product are multiplied first; without ``scales`` there is no
    scale. All operands are of one type. With ``rows``, whose only input is A, one row of the output
    after the other. ``ahead``: as in `WalkedSum`, for B and D; with ``in_pairs`` every second line
    is asked for, as caches bring the one beside it. Long rows A that are numbered are brought near
    before their turn, too.

    Operands: pos, crd, A, B, D, scale (with ``scales``), out. Arguments, in order: dot_last_lanes,
    last_lanes, accumulate (1: start from the output, 0: from zero), b_stride, d_stride.
    """

    data_type: DataType
    pos_type: DataType
    crd_type: DataType
    lanes: int
    dot_vectors: int
    dot_masked: bool
    vectors: int
    masked: bool
    scales: bool
    rows: WalkedRows | None = None
    ahead: int | None = None
    in_pairs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedScatter:
    """out[position or coordinate] += product of all inputs, for the stored elements of a fibre.

    Fibres, rows and inputs as in `WalkedSum` (no columns), all of one type; ``output`` says what
    moves the row of the output. ``adjacent``: for which of the inputs, and of the output at the
    end, the next index means the next element. Without ``accumulates`` the products are stored
    instead, zeros where there is no input. With ``outer`` the fibres of a fibre above; ``fibre``
    says whether its positions or its coordinates are the numbers q of theirs. With ``has_rows`` the
    fibres of rows 0 to rows - 1, in order; what follows the outer position follows the row.

    Operands: pos and crd of the level above with ``outer``, pos, crd, the inputs, the output.
    Arguments, in order: last_lanes, pos_step (read with ``outer`` or ``has_rows``), then per input,
    and for the output, its stride from one index to the next; with ``has_rows`` rows.
    """

    data_type: DataType
    pos_type: DataType
    crd_type: DataType
    lanes: int
    vectors: int
    masked: bool
    inputs: tuple[WalkedInput, ...]
    output: Follows
    adjacent: tuple[bool, ...]
    accumulates: bool
    outer: tuple[DataType, DataType] | None
    fibre: Follows = Follows.OUTER_POSITION
    has_rows: bool = False

    @property
    def index_arrays(self) -> int:
        """Operands before the inputs."""
        return 2 if self.outer is None else 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FibreParts:
    """The parts of all fibres whose coordinates lie below a limit, of each what is left of it.

    There are ``rows`` rows of fibres: those of row i have the numbers pos1[i] to pos1[i + 1], their
    coordinates lie in crd1; fibre f holds positions pos2[f] to pos2[f + 1], coordinates in crd2.
    Every call takes the next ``size`` coordinates, the ``first`` one begins with 0. Part q gets
    bounds[2 q] and bounds[2 q + 1], and fibres[q], the coordinate of its fibre or, where it
    ``is_numbered``, its number; the parts of row i are numbered from rows[i] to rows[i + 1]. Empty
    parts are left out, in a first call that ``keeps`` they are not. What cursors and limit hold
    when a call begins is what the one before left there.

    Operands: pos1, crd1, pos2, crd2, limit (one I64), cursors (of the type of pos2, as bounds),
    rows (of the type of pos1), fibres (of the type of crd1), bounds. Elements of each are adjacent;
    cursors, fibres and half of bounds have a place for every fibre there may be. Arguments, in
    order: rows, size, first (1 or 0), keeps (1 or 0).
    """

    types: tuple[DataType, DataType, DataType, DataType]
    """Of pos1, crd1, pos2 and crd2."""
    is_numbered: bool


WalkedKernel = WalkedSum | WalkedDots | WalkedSampledSum | WalkedScatter | FibreParts
