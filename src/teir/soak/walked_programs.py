"""Sparse programs whose loops over stored elements become kernels, for figure 15.

Every form of the kernels that walk fibres: sums over one and two levels, rows one after the other,
sampled dots, products added to what a coordinate addresses. The width of the rows they add up is
the remainder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import assert_never

from msgspec import structs

from teir.arrays.levels import Format, Level
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.coordinate_parts import parted_nest, with_coordinates_at_once
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.moves import loopfuse
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of

_LEVELS = {"d": Level.DENSE, "s": Level.COMPRESSED}
_VALUES = (DataType.FP32, DataType.FP64, DataType.BF16)
_INDICES = (DataType.I32, DataType.I64)
_FAR = 150_000
"""Rows of which neighbours in a fibre lie far apart, so that they are asked for ahead."""
_FAR_DOTS = 60_000
_FAR_PAIRS = 25_000
"""The same for long rows."""

_AT_ONCE = 7
"""Coordinates of a part of a fibre."""

_SAMPLED = "A[i,j] = B[i,j] * C[i,k] * D[j,k]"
_SCALED = "A[i,l] = B[i,j] * C[i,k] * D[j,k] * E[j,l]"

_Statement = tuple[str, str, dict[str, int], dict[str, str], int | None]
"""(statement, order of loops, extents but that of the remainder, formats, fused factors)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A statement, its loops from the outermost in, the formats, and the index that is narrow.

    With ``fused_at`` factors of the statement, so many make a first product of their own; with
    ``at_once`` fibres are walked in parts of so many coordinates.
    """

    text: str
    order: str
    extents: Mapping[str, int]
    levels: Mapping[str, str]
    value: DataType
    index: DataType
    fused_at: int | None
    at_once: int | None = None

    def __str__(self) -> str:
        levels = " ".join(f"{name}:{word}" for name, word in self.levels.items())
        parts = "" if self.at_once is None else f"; {self.at_once} coordinates at once"
        return f"{self.text}; {levels}; {self.value.value} {self.index.value}{parts}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Rows of the output at a coordinate or a position: set to zero, then added to."""

    value: DataType
    index: DataType
    by_position: bool

    def __str__(self) -> str:
        place = "position" if self.by_position else "coordinate"
        return f"zeros and sums by {place}; {self.value.value} {self.index.value}"


def walks() -> tuple[Walk | Scatter, ...]:
    """All of them, in a fixed order."""
    scatters = product((DataType.FP32, DataType.FP64), _INDICES, (False, True))
    parted = _walks(_parted_statements(), (DataType.FP32, DataType.FP64))
    return (
        *_walks(_statements(), _VALUES),
        *(replace(one, at_once=_AT_ONCE) for one in parted),
        *(Scatter(value=value, index=index, by_position=by) for value, index, by in scatters),
    )


def _walks(statements: Iterable[_Statement], values: Sequence[DataType]) -> tuple[Walk, ...]:
    return tuple(
        Walk(
            text=text,
            order=order,
            extents=extents,
            levels=levels,
            value=value,
            index=index,
            fused_at=fused_at,
        )
        for (text, order, extents, levels, fused_at), value, index in product(
            statements, values, _INDICES
        )
    )


def long_walks() -> tuple[Walk, ...]:
    """Walks over rows of whole vectors, three and more, whatever the remainder.

    Their kernels have a form of their own for rows that begin inside a cache line.
    """
    return _walks(_long_rows(), (DataType.FP32, DataType.FP64))


def walk_program(walk: Walk | Scatter, remainder: int) -> Program:
    """The program of ``walk`` whose narrow indices have the extent ``remainder``."""
    match walk:
        case Walk():
            return _graph_program(walk, remainder)
        case Scatter():
            return parse_program(_scatter_text(walk, remainder))
        case _:
            assert_never(walk)


def _graph_program(walk: Walk, remainder: int) -> Program:
    formats = {
        name: Format(
            levels=tuple(_LEVELS[letter] for letter in word), mode_order=tuple(range(len(word)))
        )
        for name, word in walk.levels.items()
    }
    extents = {index: walk.extents.get(index, remainder) for index in walk.order}
    graph = linear(statement_of(parse_index_notation(walk.text), formats), tuple(walk.order))
    if walk.fused_at is not None:
        fused = loopfuse(graph, walk.fused_at, producer_in_left=True, path=())
        assert isinstance(fused, IterationGraph)
        graph = fused
    program = program_of(
        graph,
        extents,
        data_type=walk.value,
        index_type=walk.index,
        name="walk",
        shares="B" if "A" in walk.levels else None,
    )
    return program if walk.at_once is None else _in_parts(program, walk.at_once)


def _in_parts(program: Program, at_once: int) -> Program:
    """The program of one nest, its fibres walked in parts."""
    primitives = program.primitive_table()
    types = {name: one.data_type for name, one in program.tensor_table().items()}
    nest = parted_nest(program.roots[-1], program.axis_table(), primitives, types)
    assert nest is not None
    walked = primitives[nest.leaf.primitive]
    metadata = with_coordinates_at_once(at_once)
    made = (
        structs.replace(one, metadata=metadata) if one is walked else one
        for one in program.primitives
    )
    return structs.replace(program, primitives=tuple(made))


def _statements() -> Iterator[_Statement]:
    matrix = {"i": 40, "j": 9}
    yield "A[i,l] = B[i,j] * C[j,l]", "ijl", matrix, {"B": "ds"}, None
    yield "A[i,l] = B[i,j] * C[j,l]", "ijl", {"i": 40, "j": _FAR}, {"B": "ds"}, None
    yield "A[i] = B[i,j] * C[j]", "ij", {"i": 40}, {"B": "ds"}, None
    yield "A[j,l] = B[i,j] * C[i,l]", "ijl", matrix, {"B": "ds"}, None
    yield _SAMPLED, "ijk", matrix, {"B": "ds", "A": "ds"}, None
    far = {"i": 20, "j": _FAR_DOTS}
    yield _SAMPLED, "ijk", far, {"B": "ds", "A": "ds"}, None
    yield "A[i,k] = B[i,j] * C[j,k]", "ijk", matrix, {"B": "ds", "C": "ds"}, None
    yield "A[i,j] = C[i,k] * D[j,k] * B[i,j]", "ijk", matrix, {"B": "ds", "A": "ds"}, None
    cube = {"i": 5, "j": 9, "k": 30}
    yield "A[i,j,m] = B[i,j,k] * C[k,m] * D[j,m]", "ijkm", cube, {"B": "dss", "A": "dsd"}, None
    yield "A[i,j,m] = B[i,j,k] * C[k,m]", "ijkm", cube, {"B": "dss", "A": "dsd"}, None
    yield "A[i,m] = B[i,j,k] * C[k,m] * D[j,m]", "ijkm", cube, {"B": "dss"}, None
    yield "A[i,m] = B[i,j,k] * C[k,m] * D[j,m]", "ijkm", {**cube, "k": _FAR}, {"B": "sss"}, None
    yield "A[k,m] = B[i,j,k] * C[i,m] * D[j,m]", "ijkm", cube, {"B": "dss"}, None
    yield "A[i,l,m] = B[i,j,k] * C[j,l] * D[k,m]", "ijklm", cube, {"B": "dss"}, None
    yield "A[i] = B[i,j] * C[j]", "ij", {"i": 40}, {"B": "ds"}, None
    yield "A[i] = B[i,j,k] * C[j]", "ijk", {"i": 5, "j": 9}, {"B": "dss"}, None
    yield "A[j] = B[i,j] * C[i]", "ij", {"i": 9}, {"B": "ds"}, None
    wide = {"i": 40, "j": 900}
    yield _SCALED, "ijkl", wide, {"B": "ds"}, 3
    yield _SCALED, "ijkl", {"i": 20, "j": _FAR_PAIRS}, {"B": "ds"}, 3


def _parted_statements() -> Iterator[_Statement]:
    cube = {"i": 5, "j": 9, "k": 30}
    yield "A[i,m] = B[i,j,k] * C[k,m] * D[j,m]", "ijkm", cube, {"B": "dss"}, 2
    yield "A[i,m] = B[i,j,k] * C[k,m] * D[j,m]", "ijkm", cube, {"B": "dss"}, None
    yield "A[i,j,m] = B[i,j,k] * C[k,m]", "ijkm", cube, {"B": "dss", "A": "dsd"}, None


def _long_rows() -> Iterator[_Statement]:
    for rows, row, dot in product((900, _FAR_PAIRS), (24, 32, 48, 64), (24, 32, 48, 64)):
        extents = {"i": 40, "j": rows, "k": dot, "l": row}
        yield _SCALED, "ijkl", extents, {"B": "ds"}, 3
        if row == dot:
            extents = {"i": 40, "j": rows, "k": dot}
            yield _SAMPLED, "ijk", extents, {"B": "ds", "A": "ds"}, None


def _scatter_text(scatter: Scatter, remainder: int) -> str:
    kind, w, row = scatter.value.value, scatter.value.width, scatter.value.width * remainder
    moved = ["C", *(["T"] if scatter.by_position else [])]
    return f"""teir 1 "scatter"
tensor b: {kind}
tensor C: {kind}
tensor pos: {scatter.index.value}
tensor crd: {scatter.index.value}
tensor T: {kind}
axis k = 9: C {row}, crd {scatter.index.width}, T {row}; \
segment pos pos crd crd by_position [{", ".join(moved)}]
axis i = 3: b {w}, pos {scatter.index.width}, T {9 * row}
axis l = {remainder}: C {w}, T {w}
primitive add = Contraction {kind} (b, C -> T; M=[l], N=[], K=[])
primitive zero = Zero(T; M=[l], N=[])
sequential i over i
  sequential k over k
    zero: zero
    add: add
"""
