"""Random well-formed, race-free programs, and how large their values may be.

Four kinds: a contraction, an element-wise operation, and two stages joined by a temporary (packing,
a wide accumulator, a parallel reduction whose slices a second root adds up, a chain of products).
Inputs are small integers, so small that every partial sum is exact in every type that holds it:
results are compared with ``==``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from teir.dtypes import DataType
from teir.ir.nodes import (
    Axis,
    Bytes,
    IterationNode,
    Node,
    Operation,
    Policy,
    Program,
    Tensor,
)
from teir.soak.draws import DrawInt, chance, choose, shuffled, subset
from teir.soak.layouts import draw_extents, draw_offsets, lay_out, split
from teir.soak.nests import Placement, Sheet, Statement, write_nest

FLOATS = (
    DataType.FP32,
    DataType.FP64,
    DataType.BF16,
    DataType.FP16,
    DataType.TF32,
    DataType.C64,
    DataType.C128,
)
BINARY = (
    Operation.ADD,
    Operation.SUB,
    Operation.MUL,
    Operation.DIV,
    Operation.MIN,
    Operation.MAX,
)
SUMMED, FREE = "kluvw", "mnpqr"
"""Names of axes."""
ORDERED = (Operation.MIN, Operation.MAX, Operation.RELU)
"""Operations that complex numbers do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnProgram:
    """A program and the integers its operands may hold.

    ``largest`` bounds the absolute value of every operand element; ``divisors`` names the tensors
    that hold powers of two instead.
    """

    program: Program
    largest: int
    divisors: frozenset[str]


def draw_program(draw: DrawInt, work: int = 50_000) -> DrawnProgram:
    """A program of at most about ``work`` multiply-adds."""
    kind = choose(draw, (_contraction, _elementwise, _two_stages, _contraction, _two_stages))
    return kind(draw, work)


def exact_integers(data_type: DataType) -> int:
    """All integers up to this absolute value are exact in storage and as product inputs."""
    match data_type:
        case DataType.BF16:
            return 2**8
        case DataType.FP16 | DataType.TF32:
            return 2**11
        case DataType.FP32 | DataType.C64:
            return 2**24
        case DataType.FP64 | DataType.C128:
            return 2**53
        case DataType.I32 | DataType.I64:
            raise ValueError("index types take no part in arithmetic")


def _contraction(draw: DrawInt, work: int) -> DrawnProgram:
    inputs = _input_names(choose(draw, (2, 2, 1, 3, 4, 2)))
    data_type = choose(draw, FLOATS)
    out_type = _sum_type(draw, data_type)
    room = exact_integers(data_type) if data_type is out_type else 2**20
    extents, reduced = _draw_axes(draw, work, min(room // 4, work))
    free = tuple(name for name in extents if name not in reduced)
    holders = {name: _holders(draw, inputs, name in reduced) for name in extents}
    layouts = {
        tensor: _input_layout(draw, extents, holders, tensor, data_type) for tensor in inputs
    }
    layouts["out"] = _output_layout(draw, {name: extents[name] for name in free}, out_type)
    types = dict.fromkeys(inputs, data_type) | {"out": out_type}
    axes = _axes(draw, extents, layouts, types)
    named = (inputs[0], inputs[0]) if len(inputs) == 2 and chance(draw, 4) else inputs
    statement = Statement(
        operation=Operation.CONTRACTION,
        inputs=named,
        output="out",
        axes=axes,
        data_type=_declared(draw, data_type),
        zero=choose(draw, tuple(Placement)),
        relu=_finish(draw, out_type),
        complete=chance(draw, 70),
    )
    terms = 1
    for name in reduced:
        terms *= extents[name]
    largest = _largest(len(inputs), terms, data_type, min(room, exact_integers(out_type)))
    sheet = Sheet()
    roots = write_nest(draw, sheet, statement)
    return _finished(sheet, types, (), roots, largest)


def _elementwise(draw: DrawInt, work: int) -> DrawnProgram:
    operation = choose(draw, (Operation.COPY, Operation.RELU, Operation.ZERO, *BINARY))
    data_type = choose(draw, FLOATS)
    if data_type.is_complex and operation in ORDERED:
        data_type = DataType.FP32
    out_type = choose(draw, FLOATS) if operation is Operation.COPY else data_type
    if data_type.is_complex and not out_type.is_complex:
        out_type = data_type
    arity = 2 if operation in BINARY else 0 if operation is Operation.ZERO else 1
    inputs = _input_names(arity)
    names = "abcdef"[: draw(0, 6)]
    extents = dict(zip(names, draw_extents(draw, len(names), work), strict=True))
    layouts = {
        tensor: lay_out(draw, extents, data_type.width, shared_bytes=True) for tensor in inputs
    }
    in_place = operation is Operation.RELU and chance(draw, 30)
    written = dict(extents)
    if in_place or operation is Operation.ZERO:
        written = {name: extent for name, extent in extents.items() if not chance(draw, 15)}
    layouts["out"] = _output_layout(draw, written, out_type)
    types = dict.fromkeys(inputs, data_type) | {"out": out_type}
    statement = Statement(
        operation=operation,
        inputs=("out",) if in_place else inputs,
        output="out",
        axes=_axes(draw, extents, layouts, types),
        data_type=_declared(draw, data_type) if data_type is out_type else None,
        complete=chance(draw, 70),
    )
    divisors = frozenset({"in1"}) if operation is Operation.DIV else frozenset[str]()
    sheet = Sheet()
    return _finished(sheet, types, (), write_nest(draw, sheet, statement), 7, divisors)


def _two_stages(draw: DrawInt, work: int) -> DrawnProgram:
    """``T`` from one statement, ``out`` from a second one that reads it, some loops shared."""
    data_type = choose(draw, FLOATS)
    first = choose(draw, (Operation.COPY, Operation.CONTRACTION, Operation.ADD, Operation.MUL))
    second = choose(draw, (Operation.CONTRACTION, Operation.COPY, Operation.ADD))
    middle = _middle_type(draw, data_type, first)
    others = ("in2",) if second is Operation.ADD or chance(draw, 60) else ()
    if second is Operation.COPY:
        others = ()
    out_type = _sum_type(draw, middle) if second is Operation.CONTRACTION else middle
    if second is Operation.COPY:
        out_type = middle if middle.is_complex else choose(draw, (data_type, middle))
    types = {"in0": data_type, "out": out_type}
    if first in (Operation.CONTRACTION, Operation.ADD, Operation.MUL):
        types["in1"] = data_type
    types.update(dict.fromkeys(others, middle))
    return _TwoStages(
        draw=draw, first=first, second=second, others=others, types=types, middle=middle
    ).drawn(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TwoStages:
    """The choices of a two-stage program: operations, tensors and their types."""

    draw: DrawInt
    first: Operation
    second: Operation
    others: tuple[str, ...]
    types: Mapping[str, DataType]
    middle: DataType

    def drawn(self, work: int) -> DrawnProgram:
        draw = self.draw
        narrow = min(exact_integers(kind) for kind in (*self.types.values(), self.middle))
        extents, summed = _draw_axes(draw, work // 2, min(narrow // 4, work // 2))
        order = tuple(extents)
        inner = summed if self.first is Operation.CONTRACTION else ()
        late: tuple[str, ...] = ()
        if self.second is Operation.CONTRACTION:
            late = subset(draw, summed, 50) if inner else summed
            inner = tuple(name for name in inner if name not in late)
        extra = subset(draw, [n for n in order if n not in summed], 30) if self.others else ()
        if self.second is not Operation.CONTRACTION:
            extra = ()
        held = tuple(name for name in order if name not in inner and name not in extra)
        axes = self._operand_axes(extents, inner, late, extra, held)
        return self._written(axes, inner, extra, held)

    def _operand_axes(
        self,
        extents: Mapping[str, int],
        inner: tuple[str, ...],
        late: tuple[str, ...],
        extra: tuple[str, ...],
        held: tuple[str, ...],
    ) -> dict[str, Axis]:
        """The logical axes with their layout on every tensor but ``T``."""
        draw = self.draw
        stage_one = tuple(name for name in extents if name in held or name in inner)
        stage_two = tuple(name for name in extents if name in held or name in extra)
        free = tuple(name for name in stage_two if name not in late)
        layouts = {}
        for tensor, data_type in self.types.items():
            names = free if tensor == "out" else stage_two if tensor in self.others else stage_one
            named = {name: extents[name] for name in names}
            if tensor == "out":
                layouts[tensor] = _output_layout(draw, named, data_type)
            else:
                layouts[tensor] = lay_out(draw, named, data_type.width, shared_bytes=True)
        axes = _axes(draw, extents, layouts, self.types)
        return {axis.name: axis for axis in axes}

    def _written(
        self,
        axes: dict[str, Axis],
        inner: tuple[str, ...],
        extra: tuple[str, ...],
        held: tuple[str, ...],
    ) -> DrawnProgram:
        draw = self.draw
        shared, axes = self._share(axes, [*held, *extra])
        ours = {name: axis for name, axis in axes.items() if name not in shared}
        owner = draw(-1, len(shared) - 1)
        is_operand = owner == -1 and chance(draw, 30)
        below = shared[owner + 1 :]
        strided = {
            name: axes[name].extent
            for name in axes
            if (name in ours or name in below) and _stem(name) in held
        }
        for name, stride in _output_layout(draw, strided, self.middle).items():
            axes[name] = replace(axes[name], strides=Bytes({**axes[name].strides, "T": stride}))
        rest = [axes[name] for name in axes if name not in shared]
        stage_one = tuple(axis for axis in rest if _stem(axis.name) not in extra)
        stage_two = tuple(axis for axis in rest if _stem(axis.name) not in inner)
        sheet = Sheet()
        return self._assembled(
            sheet,
            tuple(axes[name] for name in shared),
            owner,
            is_operand,
            self._first(stage_one, is_operand),
            self._second(stage_two, tuple(axes[name] for name in shared)),
            axes,
        )

    def _share(
        self, axes: dict[str, Axis], names: list[str]
    ) -> tuple[tuple[str, ...], dict[str, Axis]]:
        """Some axes, whole or their outer part, become loops around both stages."""
        draw = self.draw
        shared: list[str] = []
        table = dict(axes)
        points = 1
        for name in shuffled(draw, names):
            axis = axes[name]
            if points * axis.extent > 40 or not chance(draw, 45):
                continue
            points *= axis.extent
            tiles = [tile for tile in range(2, axis.extent) if axis.extent % tile == 0]
            if not tiles or not chance(draw, 40):
                shared.append(name)
                continue
            outer, within, _ = split(axis, choose(draw, tiles), (f"{name}_o", f"{name}_i", ""))
            del table[name]
            table[outer.name], table[within.name] = outer, within
            shared.append(outer.name)
        return tuple(shared), table

    def _first(self, axes: tuple[Axis, ...], is_operand: bool) -> Statement:
        inputs = ("in0", "in1") if "in1" in self.types else ("in0",)
        return Statement(
            operation=self.first,
            inputs=inputs,
            output="T",
            axes=axes,
            zero=Placement.BESIDE if self.first is Operation.CONTRACTION else Placement.NONE,
            complete=not is_operand or chance(self.draw, 70),
        )

    def _second(self, axes: tuple[Axis, ...], shared: tuple[Axis, ...]) -> Statement:
        sums = self.second is Operation.CONTRACTION
        placements = [Placement.NONE, Placement.GUARDED]
        if all(axis.strides["out"] != 0 for axis in shared):
            placements.append(Placement.BESIDE)
        inputs = ("T", *self.others)
        return Statement(
            operation=self.second,
            inputs=shuffled(self.draw, inputs) if sums else inputs,
            output="out",
            axes=axes,
            zero=choose(self.draw, placements) if sums else Placement.NONE,
            complete=chance(self.draw, 70),
        )

    def _assembled(
        self,
        sheet: Sheet,
        shared: tuple[Axis, ...],
        owner: int,
        is_operand: bool,
        first: Statement,
        second: Statement,
        axes: Mapping[str, Axis],
    ) -> DrawnProgram:
        draw = self.draw
        nodes: tuple[Node, ...] = (
            *write_nest(draw, sheet, first, shared),
            *write_nest(draw, sheet, second, shared),
        )
        temporary = Tensor(name="T", data_type=self.middle)
        for position in reversed(range(len(shared))):
            axis = shared[position]
            private = owner >= position or axis.strides["T"] != 0
            safe = private and axis.strides["out"] != 0
            sheet.axes[axis.name] = axis
            node = IterationNode(
                name=sheet.name("n"),
                axis=axis.name,
                policy=Policy.PARALLEL if safe and chance(draw, 60) else Policy.SEQUENTIAL,
                children=nodes,
                scratch=(temporary,) if owner == position else (),
            )
            nodes = (node,)
        types = dict(self.types) | ({"T": self.middle} if is_operand else {})
        scratch = (temporary,) if owner == -1 and not is_operand else ()
        terms = 1
        for axis in axes.values():
            terms *= axis.extent if axis.strides["out"] == 0 else 1
        narrow = min(exact_integers(kind) for kind in (*types.values(), self.middle))
        factors = len(first.inputs) + len(self.others)
        return _finished(
            sheet, types, scratch, nodes, _largest(factors, terms, self.types["in0"], narrow)
        )


def _draw_axes(draw: DrawInt, work: int, sum_budget: int) -> tuple[dict[str, int], tuple[str, ...]]:
    """Extents by name in a random order, and the names of the axes that are summed over."""
    sums = draw_extents(draw, choose(draw, (1, 0, 2, 1, 3, 4, 5)), sum_budget)
    product = 1
    for extent in sums:
        product *= extent
    frees = draw_extents(draw, choose(draw, (2, 1, 0, 3, 2, 4, 5)), max(1, work // product))
    named = {
        **dict(zip(SUMMED, sums, strict=False)),
        **dict(zip(FREE, frees, strict=False)),
    }
    return {name: named[name] for name in shuffled(draw, tuple(named))}, tuple(SUMMED[: len(sums)])


def _holders(draw: DrawInt, inputs: tuple[str, ...], is_reduced: bool) -> tuple[str, ...]:
    """The inputs that an axis addresses: at least one, all of two for a usual reduction."""
    if is_reduced and chance(draw, 90):
        return inputs
    return subset(draw, inputs, 50) or (choose(draw, inputs),)


def _input_layout(
    draw: DrawInt,
    extents: Mapping[str, int],
    holders: Mapping[str, tuple[str, ...]],
    tensor: str,
    data_type: DataType,
) -> dict[str, int]:
    held = {name: extent for name, extent in extents.items() if tensor in holders[name]}
    return lay_out(draw, held, data_type.width, shared_bytes=True)


def _output_layout(
    draw: DrawInt, extents: Mapping[str, int], data_type: DataType
) -> dict[str, int]:
    return lay_out(draw, extents, data_type.width, shared_bytes=False)


def _axes(
    draw: DrawInt,
    extents: Mapping[str, int],
    layouts: Mapping[str, Mapping[str, int]],
    types: Mapping[str, DataType],
) -> tuple[Axis, ...]:
    """The axes; a tensor may have an offset on an axis that it holds."""
    axes = []
    for name, extent in extents.items():
        moved = [
            (tensor, data_type.width)
            for tensor, data_type in types.items()
            if name in layouts[tensor]
        ]
        strides = {tensor: layout.get(name, 0) for tensor, layout in layouts.items()}
        offsets = draw_offsets(draw, moved)
        axes.append(Axis(name=name, extent=extent, strides=Bytes(strides), offsets=Bytes(offsets)))
    return tuple(axes)


def _sum_type(draw: DrawInt, data_type: DataType) -> DataType:
    if data_type in (DataType.BF16, DataType.FP16) and chance(draw, 40):
        return DataType.FP32
    return data_type


def _middle_type(draw: DrawInt, data_type: DataType, first: Operation) -> DataType:
    if first is Operation.CONTRACTION:
        return _sum_type(draw, data_type)
    if first is Operation.COPY and not data_type.is_complex and chance(draw, 30):
        return choose(draw, (DataType.FP32, DataType.FP64, DataType.BF16, DataType.FP16))
    return data_type


def _finish(draw: DrawInt, data_type: DataType) -> Placement:
    if data_type.is_complex or not chance(draw, 40):
        return Placement.NONE
    return choose(draw, (Placement.BESIDE, Placement.GUARDED))


def _declared(draw: DrawInt, data_type: DataType) -> DataType | None:
    return data_type if chance(draw, 50) else None


def _largest(factors: int, terms: int, data_type: DataType, room: int) -> int:
    """The largest absolute value of an input with which no sum leaves the exact integers."""
    growth = 2 ** (factors - 1) if data_type.is_complex else 1
    for largest in (5, 3, 2):
        if 2 * growth * terms * largest**factors + largest <= room:
            return largest
    return 1


def _input_names(count: int) -> tuple[str, ...]:
    return tuple(f"in{number}" for number in range(count))


def _stem(name: str) -> str:
    return name.split("_")[0]


def _finished(
    sheet: Sheet,
    types: Mapping[str, DataType],
    scratch: tuple[Tensor, ...],
    roots: tuple[Node, ...],
    largest: int,
    divisors: frozenset[str] = frozenset(),
) -> DrawnProgram:
    program = Program(
        name="drawn",
        tensors=tuple(Tensor(name=name, data_type=kind) for name, kind in types.items()),
        axes=tuple(sheet.axes.values()),
        primitives=tuple(
            replace(primitive, name=name) for primitive, name in sheet.primitives.items()
        ),
        roots=roots,
        scratch=scratch,
    )
    return DrawnProgram(program=program, largest=largest, divisors=divisors)
