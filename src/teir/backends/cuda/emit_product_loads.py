"""The main loop of a product: steps of K on their way to shared memory while one is computed with.

for (step ...)                     // from as many before the first as there are stages ahead
  wait until the step has come; barrier
  copies of the step that lies ``STAGES - 1`` ahead
  products of this step

Copies pass by the registers, but where numbers are converted: those are stored at once, as the sums
leave no registers in which they could wait. Where K is one axis its place is a pointer that moves
on; else one thread per place decodes it into a table, a step ahead.
Rows beyond the edge read the tile's first row (`emit_product`); beyond K are zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.backends.cuda.emit_map import pointer_names
from teir.backends.cuda.product import ProductPlan
from teir.backends.cuda.product_lanes import Lanes, lanes_of
from teir.backends.cuda.product_sums import is_copied
from teir.backends.cuda.text import address, block, computed, decode
from teir.dtypes import DataType

_SMALL = 2**31
SIDES = (("left", "row_left"), ("right", "column_right"))
"""The names of an input's tiles, and of the table of its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """The stages of a plan: ``pitch`` elements of ``number`` per place along K."""

    plan: ProductPlan
    number: str
    pitch: int

    @property
    def stages(self) -> int:
        return 4 if self.plan.depth < 16 else 3

    @property
    def width(self) -> int:
        """Bytes of a number in the stages."""
        return self.plan.problem.operands[2].data_type.accumulator.width

    @property
    def shared_bytes(self) -> int:
        return 2 * self.stages * self.plan.depth * self.pitch * self.width

    @property
    def index(self) -> str:
        """The type of a number that counts along K."""
        return "int" if self.plan.summed + 5 * self.plan.depth < _SMALL else "i64"

    @property
    def place(self) -> str:
        """The type of a place along K that is taken apart: division is cheap without a sign."""
        return "u32" if self.index == "int" else "i64"

    @property
    def by_table(self) -> bool:
        return len(self.plan.digits) > 1

    def lanes(self, side: int) -> Lanes:
        name = SIDES[side][0]
        return lanes_of(self.plan, side, f"{name}_row", f"{name}_k")

    def stride(self, side: int) -> int:
        """Bytes from one place along K to the next, where it is one axis."""
        return self.plan.digits[0].strides[side] if self.plan.digits else 0


def declared(loads: Loads) -> list[str]:
    """The stages, and where in them a thread writes."""
    plan, depth = loads.plan, loads.plan.depth
    names = pointer_names(plan.problem.operands)
    lines = [
        "SHARED(shared);",
        f"{loads.number} (*left_stages)[{depth}][{loads.pitch}] ="
        f" ({loads.number} (*)[{depth}][{loads.pitch}])shared;",
        f"{loads.number} (*right_stages)[{depth}][{loads.pitch}] = left_stages + {loads.stages};",
    ]
    for side, (name, _) in enumerate(SIDES):
        lanes = loads.lanes(side)
        lines += lanes.lines
        if lanes.vector > 1:
            wide = lanes.vector * plan.problem.operands[side].data_type.width
            lines.append(f"const bool {name}_wide = (u64){names[side]} % {wide} == 0;")
        if loads.by_table:
            lines.append(f"__shared__ i64 {name}_sums[{loads.stages}][{depth}];")
    return lines


def first_sums(loads: Loads) -> list[str]:
    """The table's entries of the first steps, as many as there are stages."""
    if not loads.by_table:
        return []
    depth = loads.plan.depth
    return [
        f"if (threadIdx.x < {loads.stages * depth}) {{",
        f"  const u32 stage = threadIdx.x / {depth}, k = threadIdx.x % {depth};",
        f"  const {loads.place} sum = threadIdx.x;",
        *block(_entries(loads, "stage")),
        "}",
    ]


def _entries(loads: Loads, stage: str) -> list[str]:
    digits = loads.plan.digits
    lines = decode(
        "sum", {f"d{at}": one.extent for at, one in enumerate(digits)}, True, loads.place
    )
    for side, (name, _) in enumerate(SIDES):
        terms = [(f"d{at}", one.strides[side]) for at, one in enumerate(digits)]
        lines.append(f"{name}_sums[{stage}][k] = {address('(i64)0', 0, terms)};")
    return lines


def main_loop(loads: Loads, sums: Sequence[str]) -> list[str]:
    """All steps; ``sums`` adds up one that lies in ``left_tile`` and ``right_tile``."""
    plan, ahead = loads.plan, loads.stages - 1
    return [
        *(line for side in (0, 1) for line in _starts(loads, side)),
        "u32 from = 1;",
        f"for ({loads.index} step = -{ahead}; step < {plan.steps}; ++step) {{",
        "  if (step >= 0) {",
        f"    copies_wait<{ahead - 1}>();",
        "    __syncthreads();",
        "  }",
        f"  const {loads.index} next = step + {ahead};",
        f"  const u32 into = from == 0 ? {ahead} : from - 1;",
        f"  if (next < {plan.steps}) {{",
        *block(block(_over(loads))),
        *(line for side in (0, 1) for line in block(block(_copies(loads, side)))),
        "  }",
        "  copies_commit();",
        "  if (step >= 0) {",
        *block(block(_next_sums(loads))),
        f"    const {loads.number} (*left_tile)[{loads.pitch}] = left_stages[from];",
        f"    const {loads.number} (*right_tile)[{loads.pitch}] = right_stages[from];",
        *block(block(sums)),
        "  }",
        f"  from = from == {ahead} ? 0 : from + 1;",
        "}",
    ]


def _over(loads: Loads) -> list[str]:
    """How much of K is left at a step."""
    plan = loads.plan
    if plan.summed % plan.depth == 0:
        return []
    return [f"const {loads.index} over = {plan.summed} - next * {plan.depth};"]


def _next_sums(loads: Loads) -> list[str]:
    if not loads.by_table:
        return []
    depth = loads.plan.depth
    return [
        f"if (threadIdx.x < {depth}) {{",
        "  const u32 k = threadIdx.x;",
        f"  const {loads.place} sum = (step + {loads.stages}) * {depth} + k;",
        *block(_entries(loads, "from")),
        "}",
    ]


def _starts(loads: Loads, side: int) -> list[str]:
    """Where a thread reads, as far as it is the same at every step."""
    (name, table), lanes = SIDES[side], loads.lanes(side)
    pointer = pointer_names(loads.plan.problem.operands)[side]
    terms = [] if loads.by_table else [(f"{name}_k", loads.stride(side))]
    if lanes.rows == 1:
        return [f"const u8* {name}_from = {address(f'{pointer} + {table}[{name}_row]', 0, terms)};"]
    if _is_read_again(loads, side):
        return [f"const u8* {name}_from = {address(pointer, 0, terms)};"]
    kind = "int" if _span(loads.plan, side) < _SMALL else "i64"
    return [
        f"const u8* {name}_from = {address(f'{pointer} + {table}[0]', 0, terms)};",
        *_places(loads, side, kind, f" - {table}[0]"),
    ]


def _is_read_again(loads: Loads, side: int) -> bool:
    """Are the rows' places read at every step? Registers hold those of one input."""
    return side == 1 and all(loads.lanes(one).rows > 1 for one in (0, 1))


def _places(loads: Loads, side: int, kind: str, less: str) -> list[str]:
    (name, table), lanes = SIDES[side], loads.lanes(side)
    return [
        f"{kind} {name}_places[{lanes.rows}];",
        '_Pragma("unroll")',
        f"for (u32 i = 0; i < {lanes.rows}; ++i)"
        f" {name}_places[i] = {table}[{name}_row + i * {lanes.row_step}]{less};",
    ]


def _span(plan: ProductPlan, side: int) -> int:
    """Bytes from the first row of a tile to its last."""
    return sum((box - 1) * plan.problem.axes[at].strides[side] for at, box in plan.boxed(side))


def _each_part(lanes: Lanes, inner: Sequence[str]) -> list[str]:
    head = f"for (u32 part = 0; part < {lanes.parts}; ++part) {{"
    places = f"const u32 i = part % {lanes.rows}, j = part / {lanes.rows};"
    return ['_Pragma("unroll")', head, *block([places, *inner]), "}"]


def _copies(loads: Loads, side: int) -> list[str]:
    """One step of an input: copies, or loads into registers that convert.

    The table is read before the first copy: no read of shared memory is moved over one.
    """
    (name, _), lanes = SIDES[side], loads.lanes(side)
    before, along, after = _along_sums(loads, side, lanes)
    if _is_read_again(loads, side):
        before += _places(loads, side, "i64", "")
    row = f" + {name}_places[i]" if lanes.rows > 1 else ""
    inner = [f"const u8* at = {name}_now{row}{along};"]
    ragged = loads.plan.summed % loads.plan.depth
    tested = f"{name}_k + j * {lanes.k_step} < over" if ragged else ""
    if is_copied(loads.plan.problem, side):
        return [*before, *_each_part(lanes, [*inner, *_copied(loads, side, tested)]), *after]
    inner += _loaded(loads, side, tested)
    return [
        *before,
        f"{loads.number} {name}_next[{lanes.parts}];",
        *_each_part(lanes, inner),
        *_each_part(lanes, [f"{_place(name, lanes)} = {name}_next[part];"]),
        *after,
    ]


def _along_sums(loads: Loads, side: int, lanes: Lanes) -> tuple[list[str], str, list[str]]:
    """Where a step lies: what comes before its parts, what is added to each, what comes after."""
    name = SIDES[side][0]
    stride = _stride(loads.plan, side, lanes)
    along = f" + (i64)j * {stride}ll" if stride else ""
    if not loads.by_table:
        moved = loads.plan.depth * loads.stride(side)
        return [f"const u8* {name}_now = {name}_from;"], along, [f"{name}_from += {moved}ll;"]
    table = f"{name}_sums[into][{name}_k"
    if stride is not None:
        return [f"const u8* {name}_now = {name}_from + {table}];"], along, []
    count = lanes.parts // lanes.rows
    before = [
        f"const u8* {name}_now = {name}_from;",
        f"i64 {name}_along[{count}];",
        '_Pragma("unroll")',
        f"for (u32 j = 0; j < {count}; ++j) {name}_along[j] = {table} + j * {lanes.k_step}];",
    ]
    return before, f" + {name}_along[j]", []


def _stride(plan: ProductPlan, side: int, lanes: Lanes) -> int | None:
    """Bytes between a thread's places along K; None where they are not the same at every step."""
    if not plan.digits:
        return 0
    first, *others = plan.digits
    if not others or first.extent % plan.depth == 0:
        return lanes.k_step * first.strides[side]
    if first.extent * others[0].extent != plan.depth:
        return None
    if lanes.k_step % first.extent == 0:
        return lanes.k_step // first.extent * others[0].strides[side]
    return first.strides[side] if lanes.k_step * lanes.parts // lanes.rows == first.extent else None


def _copied(loads: Loads, side: int, tested: str) -> list[str]:
    name, lanes = SIDES[side][0], loads.lanes(side)
    width = loads.width
    more = f", {tested}" if tested else ""
    single = f"copy_async<{width}>(to + v, at + v * {width}{more});"
    lines = [f"{loads.number}* to = &{_place(name, lanes)};"]
    if lanes.vector == 1:
        return [*lines, f"copy_async<{width}>(to, at{more});"]
    return [
        *lines,
        f"if ({name}_wide) copy_async<{width * lanes.vector}>(to, at{more});",
        "else",
        '  _Pragma("unroll")',
        f"  for (u32 v = 0; v < {lanes.vector}; ++v) {single}",
    ]


def _loaded(loads: Loads, side: int, tested: str) -> list[str]:
    name, data_type = SIDES[side][0], loads.plan.problem.operands[side].data_type
    value = f"load_{data_type.value}(at)"
    if data_type is DataType.TF32:
        value = f"tf32({value})"
    if not tested:
        return [f"{name}_next[part] = {value};"]
    return [
        f"{name}_next[part] = {computed(data_type)}{{}};",
        f"if ({tested}) {name}_next[part] = {value};",
    ]


def _place(name: str, lanes: Lanes) -> str:
    across = f"{name}_row + i * {lanes.row_step}" if lanes.rows > 1 else f"{name}_row"
    return f"{name}_stages[into][{name}_k + j * {lanes.k_step}][{across}]"
