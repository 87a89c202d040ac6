"""Sums of products whose sparse result is formed row by row, as one program.

    A[i,k] = B[i,j] C[j,k] + D[i,k] - E[i,k]

    ib { T; Zero T; i { j' { k' { T += B C } }; k'D { T += D }; k'E { T += scale E }
                        k'A { A = 0; A += T; T = 0 } } }

    A[i,k] = B[i,k] C[i,k]

    ib { X; Y; Zero X; Zero Y; i { k'B { X += B }; k'C { Y += C }; k'A { A = 0; A += X Y }
                                   k'B { X = 0 }; k'C { Y = 0 } } }

Every term adds into a dense row that the result is taken from; factors that intersect get a row
each, and the result is their product where it stores something. Rows are set to zero again through
what was stored, so that a row costs what its terms store. As in
`teir.search.sparse.cleared_rows` the result must store whatever a term reaches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from teir.arrays.levels import Level, dense_format
from teir.dtypes import DataType
from teir.expr.index_notation import Access
from teir.ir.nodes import (
    Axis,
    Bytes,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Segment,
    Tensor,
)
from teir.search.sparse.cleared_rows import BLOCKS
from teir.search.sparse.statement import Statement
from teir.search.sparse.stored_arrays import Array, arrays_of

SCALE = "scale"
"""The name of operands of one element that terms are multiplied by, with their number behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SumTerm:
    """A product added into the result, multiplied by the operand ``scale`` where it has one."""

    statement: Statement
    scale: int | None = None


def row_program(
    terms: Sequence[SumTerm],
    extents: Mapping[str, int],
    *,
    data_type: DataType,
    index_type: DataType,
    name: str,
) -> Program | None:
    """The program; None where a term does not go by rows of the result.

    Its operands are the arrays of every input of every term in order, then one number for each
    ``scale``, 0 first, then those of the result.
    """
    first = terms[0].statement
    output, fmt = first.output, first.formats[0]
    if len(fmt.levels) < 2 or fmt.levels[:-1] != (Level.DENSE,) * (len(fmt.levels) - 1):
        return None
    if fmt.levels[-1] is not Level.COMPRESSED:
        return None
    levels = first.level_indices(output.tensor)
    shapes = [_shape(term.statement, levels) for term in terms]
    if None in shapes or (_Shape.INTERSECTION in shapes and len(terms) > 1):
        return None
    building = _Building(terms, extents, data_type, index_type)
    return building.program(name)


class _Shape(Enum):
    """How a product makes a row of the result."""

    FIBRE = "one fibre"
    INTERSECTION = "several fibres"
    MATRICES = "a product of matrices"


def _shape(statement: Statement, levels: tuple[str, ...]) -> _Shape | None:
    names = [one.tensor for one in statement.inputs]
    sparse = [name for name in names if statement.compressed_indices(name)]
    own = [statement.level_indices(name) for name in sparse]
    ends = [
        statement.compressed_indices(name) == one[-1:]
        for name, one in zip(sparse, own, strict=True)
    ]
    if not sparse or not all(ends):
        return None
    dense = (one.indices for one in statement.inputs if one.tensor not in sparse)
    loose = {index for indices in dense for index in indices}
    if all(one == levels for one in own):
        fits = loose <= set(levels)
        several = _Shape.INTERSECTION if len(own) > 1 else _Shape.FIBRE
        return several if fits else None
    if len(own) != 2:
        return None
    left, right = own
    is_product = left[:-1] == levels[:-1] and right == (left[-1], levels[-1])
    fits = left[-1] not in levels and loose <= {*levels, left[-1]}
    return _Shape.MATRICES if is_product and fits else None


def _scales(terms: Sequence[SumTerm]) -> tuple[str, ...]:
    """A name for every number that terms are multiplied by."""
    numbers = {term.scale for term in terms} - {None}
    return tuple(f"{SCALE}{number}" for number in range(len(numbers)))


class _Building:
    """The tables of the program that is being made."""

    def __init__(
        self,
        terms: Sequence[SumTerm],
        extents: Mapping[str, int],
        data_type: DataType,
        index_type: DataType,
    ) -> None:
        self._extents = extents
        self._data_type = data_type
        self._index_type = index_type
        output = terms[0].statement.output
        self._levels = terms[0].statement.level_indices(output.tensor)
        self._scales = _scales(terms)
        self._used = {output.tensor, *self._scales}
        self._terms = [self._renamed(term) for term in terms]
        self._arrays: dict[str, tuple[Array, ...]] = {}
        for term in self._terms:
            statement = term.statement
            for access, fmt in zip(statement.accesses, statement.formats, strict=True):
                self._arrays[access.tensor] = arrays_of(access, fmt, extents, data_type, index_type)
        self._output = output.tensor
        self._axes: dict[str, Axis] = {}
        self._primitives: dict[str, Primitive] = {}
        self._names: set[str] = set()

    def _renamed(self, term: SumTerm) -> SumTerm:
        """With a name of its own for every input of every term."""
        inputs = []
        for access in term.statement.inputs:
            wish, number = access.tensor, 1
            while wish in self._used:
                number += 1
                wish = f"{access.tensor}_{number}"
            self._used.add(wish)
            inputs.append(replace(access, tensor=wish))
        return replace(term, statement=replace(term.statement, inputs=tuple(inputs)))

    def program(self, name: str) -> Program:
        rows = -(-self._extents[self._levels[0]] // BLOCKS)
        whole, left = divmod(self._extents[self._levels[0]], rows)
        roots = [self._block(whole, rows, 0)]
        if left:
            roots.append(self._block(1, left, whole * rows))
        inputs = [access.tensor for term in self._terms for access in term.statement.inputs]
        tensors = [array.tensor for tensor in inputs for array in self._arrays[tensor]]
        tensors += [Tensor(name=one, data_type=self._data_type) for one in self._scales]
        tensors += [array.tensor for array in self._arrays[self._output]]
        return Program(
            name=name,
            tensors=tuple(tensors),
            axes=tuple(self._axes.values()),
            primitives=tuple(self._primitives.values()),
            roots=tuple(roots),
        )

    def _block(self, count: int, rows: int, first: int) -> IterationNode:
        """``count`` blocks of ``rows`` rows from row ``first`` on."""
        outermost = self._levels[0]
        one = self._terms[0]
        if _shape(one.statement, self._levels) is _Shape.INTERSECTION:
            body, scratch = self._intersection(one)
        else:
            scratch = [self._temporary("T")]
            body = [self._term(term, scratch[0]) for term in self._terms]
            body.append(self._taken(scratch[0]))
        for index in reversed(self._levels[1:-1]):
            axis = self._dense(index, self._extents[index], 1, 0)
            body = [self._loop(axis, body)]
        row = self._dense(outermost, rows, 1, 0)
        block = self._dense(outermost, count, rows, first)
        zeros: list[Node] = [self._zero(one.name, (self._row_axis(one.name),)) for one in scratch]
        return IterationNode(
            name=self._fresh(block.name),
            axis=block.name,
            policy=Policy.PARALLEL,
            children=(*zeros, self._loop(row, body)),
            scratch=tuple(scratch),
        )

    def _temporary(self, wish: str) -> Tensor:
        """A dense row of the result."""
        name, number = wish, 1
        while name in self._used:
            number += 1
            name = f"{wish}{number}"
        self._used.add(name)
        index = self._levels[-1]
        access = Access(tensor=name, indices=(index,))
        made = arrays_of(access, dense_format(1), self._extents, self._data_type, self._index_type)
        self._arrays[name] = made
        return made[0].tensor

    def _term(self, term: SumTerm, total: Tensor) -> Node:
        """A term added into the row."""
        statement = term.statement
        names = [one.tensor for one in statement.inputs]
        sparse = [name for name in names if statement.compressed_indices(name)]
        scale = () if term.scale is None else (self._scales[term.scale],)
        *above, last = sparse
        inputs = (*scale, *(name for name in names if name != last), last)
        axis = self._walk(last, (*inputs, total.name))
        node: Node = self._loop(axis, [self._add(inputs, total.name)])
        for name in above:
            node = self._loop(self._walk(name, inputs), [node])
        return node

    def _intersection(self, term: SumTerm) -> tuple[list[Node], list[Tensor]]:
        """The row of a result whose factors all store it, and a row of every one."""
        statement = term.statement
        names = [one.tensor for one in statement.inputs]
        sparse = [name for name in names if statement.compressed_indices(name)]
        kept = {name: self._temporary(f"{name}.row") for name in sparse}
        before, after = [], []
        for name, row in kept.items():
            axis = self._walk(name, (name, row.name))
            before.append(self._loop(axis, [self._add((name,), row.name)]))
            after.append(self._loop(axis, [self._zero(row.name, ())]))
        scale = () if term.scale is None else (self._scales[term.scale],)
        inputs = (*scale, *(kept[name].name if name in kept else name for name in names))
        axis = self._walk(self._output, (self._output, *inputs))
        taken = [self._zero(self._output, ()), self._add(inputs, self._output)]
        return [*before, self._loop(axis, taken), *after], list(kept.values())

    def _taken(self, total: Tensor) -> Node:
        """The row of the result, and the temporary as it was."""
        axis = self._walk(self._output, (self._output, total.name))
        first = self._zero(self._output, ())
        added = self._add((total.name,), self._output)
        return self._loop(axis, [first, added, self._zero(total.name, ())])

    def _walk(self, tensor: str, touched: Sequence[str]) -> Axis:
        """The stored coordinates of a tensor's last level, for the tensors of a leaf."""
        arrays = self._arrays[tensor]
        pos, crd = arrays[1].tensor.name, arrays[2].tensor.name
        index = arrays[0].by_position
        assert index is not None
        strides = {
            array.tensor.name: array.strides[index]
            for name in {tensor: None, **dict.fromkeys(touched)}
            for array in self._arrays.get(name, ())
            if index in array.strides and (array.by_position != index or name == tensor)
        }
        axis = Axis(
            name=self._fresh(f"{index}.{tensor}"),
            extent=self._extents[index],
            strides=Bytes(strides),
            segments=(Segment(pos=pos, crd=crd, by_position=(tensor,)),),
        )
        self._axes[axis.name] = axis
        return axis

    def _dense(self, index: str, extent: int, step: int, first: int) -> Axis:
        """``extent`` steps of ``step`` along a dense index of everything."""
        moved = {
            array.tensor.name: array.strides[index]
            for arrays in self._arrays.values()
            for array in arrays
            if index in array.strides and array.by_position != index
        }
        axis = Axis(
            name=self._fresh(index),
            extent=extent,
            strides=Bytes({name: step * stride for name, stride in moved.items()}),
            offsets=Bytes({name: first * stride for name, stride in moved.items()}),
        )
        self._axes[axis.name] = axis
        return axis

    def _row_axis(self, temporary: str) -> str:
        """All of a temporary."""
        index = self._levels[-1]
        axis = Axis(
            name=self._fresh(index),
            extent=self._extents[index],
            strides=Bytes({temporary: self._data_type.width}),
        )
        self._axes[axis.name] = axis
        return axis.name

    def _loop(self, axis: Axis, children: Sequence[Node]) -> IterationNode:
        return IterationNode(
            name=self._fresh(axis.name),
            axis=axis.name,
            policy=Policy.SEQUENTIAL,
            children=tuple(children),
        )

    def _add(self, inputs: Sequence[str], output: str) -> InvocationNode:
        primitive = Primitive(
            name=self._fresh(f"add_{output}"),
            operation=Operation.CONTRACTION,
            inputs=tuple(inputs),
            output=output,
            data_type=self._data_type,
        )
        self._primitives[primitive.name] = primitive
        return InvocationNode(name=self._fresh(output), primitive=primitive.name)

    def _zero(self, tensor: str, axes: tuple[str, ...]) -> InvocationNode:
        primitive = Primitive(
            name=self._fresh(f"zero_{tensor}"),
            operation=Operation.ZERO,
            inputs=(),
            output=tensor,
            m=axes,
        )
        self._primitives[primitive.name] = primitive
        return InvocationNode(name=self._fresh(f"clear_{tensor}"), primitive=primitive.name)

    def _fresh(self, wish: str) -> str:
        name, number = wish, 1
        while name in self._names or name in self._used:
            number += 1
            name = f"{wish}_{number}"
        self._names.add(name)
        return name
