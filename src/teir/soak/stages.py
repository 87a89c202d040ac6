"""Random programs of two stages joined by a temporary.

Packing, a wide accumulator, a parallel reduction whose slices a second root adds up, a chain of
products: ``T`` from one statement, ``out`` from a second one that reads it, some loops shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import (
    Axis,
    Bytes,
    IterationNode,
    Node,
    Operation,
    Policy,
    Tensor,
)
from teir.soak.draws import DrawInt, chance, choose, shuffled, subset
from teir.soak.layouts import lay_out, split
from teir.soak.nests import Placement, Sheet, Statement, write_nest
from teir.soak.parts import (
    FLOATS,
    DrawnProgram,
    draw_axes,
    exact_integers,
    finished,
    largest_input,
    output_layout,
    placed_axes,
    sum_type,
)


def draw_stages(draw: DrawInt, work: int) -> DrawnProgram:
    """``T`` from one statement, ``out`` from a second one that reads it, some loops shared."""
    data_type = choose(draw, FLOATS)
    first = choose(draw, (Operation.COPY, Operation.CONTRACTION, Operation.ADD, Operation.MUL))
    second = choose(draw, (Operation.CONTRACTION, Operation.COPY, Operation.ADD))
    middle = _middle_type(draw, data_type, first)
    others = ("in2",) if second is Operation.ADD or chance(draw, 60) else ()
    if second is Operation.COPY:
        others = ()
    out_type = sum_type(draw, middle) if second is Operation.CONTRACTION else middle
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
        extents, summed = draw_axes(draw, work // 2, min(narrow // 4, work // 2))
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
                layouts[tensor] = output_layout(draw, named, data_type)
            else:
                layouts[tensor] = lay_out(draw, named, data_type.width, shared_bytes=True)
        axes = placed_axes(draw, extents, layouts, self.types)
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
        for name, stride in output_layout(draw, strided, self.middle).items():
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
        return finished(
            sheet, types, scratch, nodes, largest_input(factors, terms, self.types["in0"], narrow)
        )


def _middle_type(draw: DrawInt, data_type: DataType, first: Operation) -> DataType:
    if first is Operation.CONTRACTION:
        return sum_type(draw, data_type)
    if first is Operation.COPY and not data_type.is_complex and chance(draw, 30):
        return choose(draw, (DataType.FP32, DataType.FP64, DataType.BF16, DataType.FP16))
    return data_type


def _stem(name: str) -> str:
    return name.split("_")[0]
