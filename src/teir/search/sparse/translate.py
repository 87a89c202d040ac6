"""An iteration graph as a TEIR program.

A branch is an iteration node per common loop with three children: Zero of the temporary, which is
scratch of the innermost common loop, the producer, the consumer. A nest is an iteration node per
loop around one Contraction, which consumes the dense loops that come last.

    tensors of B with levels "dss": B (its values), B.pos1, B.crd1, B.pos2, B.crd2
    axis "j": dense;  axis "j.B": the stored coordinates of B's level j;  "j.B.S": of B and S both
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from teir.arrays.levels import dense_format
from teir.dtypes import DataType
from teir.expr.index_notation import Access
from teir.ir.lanes import dot_chains, fibre_chains
from teir.ir.nodes import (
    Axis,
    Bytes,
    InvocationNode,
    IterationNode,
    Operation,
    Policy,
    Primitive,
    Program,
    Segment,
    Tensor,
)
from teir.ir.nodes import Node as TreeNode
from teir.search.sparse.factoring import factored
from teir.search.sparse.graph import (
    Branch,
    IterationGraph,
    Nest,
    Node,
    branches,
    output_of,
    sparse_loops,
)
from teir.search.sparse.stored_arrays import arrays_of

_VALUES_VECTORS = 4
"""Vectors of chains of sums over stored values alone: so many additions at once."""


def program_of(
    graph: IterationGraph,
    extents: Mapping[str, int],
    *,
    data_type: DataType,
    index_type: DataType,
    name: str,
    shares: str | None = None,
) -> Program:
    """The program of a schedule. Its operands are the arrays of `arrays_of`, inputs first.

    The output is set to zero first; the pattern of a sparse one is an operand. The outermost loops
    are parallel where they give every iteration its own part of what is written. ``shares`` names
    an input whose index arrays are those of the sparse output too: the output has values only.
    """
    return _Translation(factored(graph), extents, data_type, index_type, shares).program(name)


class _Translation:
    """The tables of the program that is being made."""

    def __init__(
        self,
        graph: IterationGraph,
        extents: Mapping[str, int],
        data_type: DataType,
        index_type: DataType,
        shares: str | None,
    ) -> None:
        self._shares = shares
        self._graph = graph
        self._statement = graph.statement
        self._extents = extents
        self._data_type = data_type
        stored = zip(self._statement.accesses, self._statement.formats, strict=True)
        self._arrays = {
            access.tensor: arrays_of(access, fmt, extents, data_type, index_type)
            for access, fmt in stored
        }
        if shares is not None:
            output = self._statement.output.tensor
            self._arrays[output] = self._arrays[output][:1]
        for branch in branches(graph.root):
            made = branch.temporary
            fmt = dense_format(len(made.indices))
            self._arrays[made.tensor] = arrays_of(made, fmt, extents, data_type, index_type)
        self._axes: dict[str, Axis] = {}
        self._primitives: dict[str, Primitive] = {}
        self._used: dict[str, int] = {}

    def program(self, name: str) -> Program:
        root = self._graph.root
        own = self._own_loops(root)
        roots, scratch = self._tree(root, own, is_outermost=True)
        inputs = (access.tensor for access in self._statement.inputs)
        operands = (*inputs, self._statement.output.tensor)
        return Program(
            name=name,
            tensors=tuple(array.tensor for tensor in operands for array in self._arrays[tensor]),
            axes=tuple(self._axes.values()),
            primitives=tuple(self._primitives.values()),
            roots=roots,
            scratch=scratch,
        )

    def _own_loops(self, root: Node) -> tuple[str, ...]:
        """The outermost loops that move the output alone: it is set to zero below them.

        Dense ones where the output is dense. Where it has the index arrays of an input, all of its
        compressed levels, for the walk over that input then meets every stored element. None where
        loops set columns of the output to zero and add single elements: all of it lies together.
        """
        if isinstance(root, Branch) and not root.loops:
            return self._own_loops(root.consumer)
        walked = sparse_loops(self._statement, root)
        levels = self._statement.level_indices(self._statement.output.tensor)
        fmt = self._statement.format_of(self._statement.output.tensor)
        prefix = 0 if fmt is None else fmt.sparse_prefix
        loops = root.loops if isinstance(root, Branch) else root.loops[: self._iterated(root)]
        if prefix:
            is_own = self._shares is not None and loops[:prefix] == levels[:prefix]
            is_own = is_own and self._walks_shared(walked, levels[:prefix])
            return loops[:prefix] if is_own else ()
        count = 0
        while count < len(loops) and loops[count] in self._statement.output.indices:
            if loops[count] in walked:
                break
            count += 1
        is_element = isinstance(root, Nest) and len(loops) == len(root.loops)
        has_columns = levels[-1:] != () and levels[-1] in loops[:count] and count < len(levels)
        return () if is_element and has_columns else loops[:count]

    def _walks_shared(self, walked: Mapping[str, tuple[str, ...]], levels: tuple[str, ...]) -> bool:
        """True when the walk over the levels is that of the shared index arrays and no other."""
        output = self._statement.output.tensor
        others = {one for level in levels for one in walked.get(level, ()) if one != output}
        return others == {self._shares}

    def _tree(
        self, node: Node, zeroed: tuple[str, ...] | None, *, is_outermost: bool
    ) -> tuple[tuple[TreeNode, ...], tuple[Tensor, ...]]:
        """The nodes of a subtree, and the temporaries that a loop above it has to own.

        ``zeroed``: the loops below which the output is set to zero, none for all of it at once;
        None where the subtree is not what writes the output last.
        """
        nodes, scratch = self._below(node, zeroed, is_outermost=is_outermost)
        is_passed_on = isinstance(node, Branch) and not node.loops
        if zeroed is None or zeroed or is_passed_on:
            return nodes, scratch
        return (self._zero_all(), *nodes), scratch

    def _below(
        self, node: Node, zeroed: tuple[str, ...] | None, *, is_outermost: bool
    ) -> tuple[tuple[TreeNode, ...], tuple[Tensor, ...]]:
        match node:
            case Nest():
                kept = self._iterated(node)
                children: tuple[TreeNode, ...] = (self._contraction(node, node.loops[kept:]),)
                scratch: tuple[Tensor, ...] = ()
                loops = node.loops[:kept]
            case Branch():
                inner = is_outermost and not node.loops
                first, below = self._tree(node.producer, None, is_outermost=inner)
                below_this = None if node.loops else zeroed
                then, after = self._tree(node.consumer, below_this, is_outermost=inner)
                if zeroed and zeroed == node.loops:
                    # Right before the statements that add into it, which may then start from zero.
                    then = (self._zero(output_of(node), zeroed), *then)
                children = (self._zero(node.temporary), *first, *then)
                own = Tensor(name=node.temporary.tensor, data_type=self._data_type)
                scratch = (own, *below, *after)
                loops = node.loops
            case _:
                assert_never(node)
        if not loops:
            return children, scratch
        outermost = zeroed or ()
        nodes = self._loops(node, loops, children, scratch, outermost, is_outermost=is_outermost)
        return nodes, ()

    def _loops(
        self,
        node: Node,
        loops: tuple[str, ...],
        children: tuple[TreeNode, ...],
        scratch: tuple[Tensor, ...],
        zeroed: tuple[str, ...],
        *,
        is_outermost: bool,
    ) -> tuple[TreeNode, ...]:
        walked = sparse_loops(self._statement, node)
        for place in range(len(loops) - 1, -1, -1):
            index = loops[place]
            is_done = isinstance(node, Branch) and zeroed == loops
            if zeroed and place == len(zeroed) - 1 and not is_done:
                children = (self._zero(output_of(node), loops[: place + 1]), *children)
            axis = self._axis(index, walked.get(index, ()))
            target = self._arrays[output_of(node).tensor][0]
            moves = axis.strides[target.tensor.name] != 0 or (index in zeroed and place == 0)
            is_own = moves and not axis.is_sparse
            is_parallel = is_outermost and place == 0 and is_own
            iteration = IterationNode(
                name=self._name(axis.name),
                axis=axis.name,
                policy=Policy.PARALLEL if is_parallel else Policy.SEQUENTIAL,
                children=children,
                scratch=scratch,
            )
            children, scratch = (iteration,), ()
        return children

    def _iterated(self, nest: Nest) -> int:
        """How many loops of a nest are iterated: down to the last sparse one."""
        walked = sparse_loops(self._statement, nest)
        kept = len(nest.loops)
        while kept and nest.loops[kept - 1] not in walked:
            kept -= 1
        return kept

    def _contraction(self, nest: Nest, loops: tuple[str, ...]) -> InvocationNode:
        roles: dict[str, list[str]] = {"c": [], "m": [], "n": [], "k": []}
        for index in loops:
            roles[_role(nest, index)].append(self._axis(index, ()).name)
        primitive = Primitive(
            name=self._name(f"add_{nest.output.tensor}"),
            operation=Operation.CONTRACTION,
            inputs=tuple(access.tensor for access in nest.inputs),
            output=nest.output.tensor,
            c=tuple(roles["c"]),
            m=tuple(roles["m"]),
            n=tuple(roles["n"]),
            k=tuple(roles["k"]),
            data_type=self._data_type,
            metadata=self._chains(nest, loops),
        )
        self._primitives[primitive.name] = primitive
        return InvocationNode(name=self._name(nest.output.tensor), primitive=primitive.name)

    def _chains(self, nest: Nest, loops: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        """Dots of adjacent elements and sums of fibres have as many chains as a vector has."""
        if not loops and nest.loops:
            last = nest.loops[-1]
            walked = sparse_loops(self._statement, nest).get(last, ())
            is_sum = len(walked) == 1 and last not in nest.output.indices
            return fibre_chains(self._data_type) if is_sum else ()
        is_dot = len(loops) == 1 and not nest.output.indices
        if not is_dot or any(access.indices[-1:] != loops for access in nest.inputs):
            return ()
        if not any(fmt.is_sparse for fmt in self._statement.formats):
            return dot_chains(self._data_type, _VALUES_VECTORS)
        return dot_chains(self._data_type) if len(nest.inputs) == 2 else ()

    def _zero(self, access: Access, done: tuple[str, ...] = ()) -> InvocationNode:
        """Zero over all indices but those of the loops around it."""
        left = tuple(index for index in access.indices if index not in done)
        axes = tuple(self._axis(index, ()).name for index in left)
        primitive = Primitive(
            name=self._name(f"zero_{access.tensor}"),
            operation=Operation.ZERO,
            inputs=(),
            output=access.tensor,
            m=axes,
        )
        self._primitives[primitive.name] = primitive
        return InvocationNode(name=self._name(f"clear_{access.tensor}"), primitive=primitive.name)

    def _zero_all(self) -> TreeNode:
        """Every stored element of the output: its levels down to the last compressed one."""
        output = self._statement.output
        compressed = self._statement.compressed_indices(output.tensor)
        levels = self._statement.level_indices(output.tensor)
        fmt = self._statement.format_of(output.tensor)
        assert fmt is not None
        prefix = levels[: fmt.sparse_prefix]
        node: TreeNode = self._zero(output, prefix)
        for index in reversed(prefix):
            walked = (self._shares or output.tensor,) if index in compressed else ()
            axis = self._axis(index, walked)
            node = IterationNode(
                name=self._name(axis.name),
                axis=axis.name,
                policy=Policy.SEQUENTIAL,
                children=(node,),
            )
        return node

    def _axis(self, index: str, walked: tuple[str, ...]) -> Axis:
        """The axis over ``index``, or over the coordinates that all tensors of ``walked`` store."""
        if self._shares is not None:
            output = self._statement.output.tensor
            shared = (self._shares if one == output else one for one in walked)
            walked = tuple(dict.fromkeys(shared))
        name = ".".join((index, *walked))
        if name not in self._axes:
            segments, positions = [], {}
            for tensor in walked:
                segment = self._segment(tensor, index)
                segments.append(segment)
                positions.update(dict.fromkeys((segment.crd, *segment.by_position)))
            strides = {
                array.tensor.name: array.strides[index]
                for arrays in self._arrays.values()
                for array in arrays
                if index in array.strides
                and (array.by_position != index or array.tensor.name in positions)
            }
            self._axes[name] = Axis(
                name=name,
                extent=self._extents[index],
                strides=Bytes(strides),
                segments=tuple(segments),
            )
        return self._axes[name]

    def _segment(self, tensor: str, index: str) -> Segment:
        place = self._statement.level_indices(tensor).index(index)
        pos, crd = f"{tensor}.pos{place}", f"{tensor}.crd{place}"
        moved = self._arrays[tensor]
        if tensor == self._shares:
            moved = (*moved, *self._arrays[self._statement.output.tensor])
        by_position = tuple(
            array.tensor.name
            for array in moved
            if array.by_position == index and array.tensor.name != crd
        )
        return Segment(pos=pos, crd=crd, by_position=by_position)

    def _name(self, wish: str) -> str:
        number = self._used[wish] = self._used.get(wish, 0) + 1
        return wish if number == 1 else self._name(f"{wish}_{number}")


def _role(nest: Nest, index: str) -> str:
    """Roles of a product of two: C in all, M and N in one input and the output, K in no output.

    With any other number of inputs K, or M for what moves the output.
    """
    if index not in nest.output.indices:
        return "k"
    if len(nest.inputs) != 2:
        return "m"
    in_left, in_right = (index in access.indices for access in nest.inputs)
    if in_left and in_right:
        return "c"
    return "m" if in_left else "n"
