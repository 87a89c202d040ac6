"""Element-wise results in the order of the output: vectors of up to 16 bytes, four in flight.

for (group ...)           items are vectors along the output's unit axis, a group THREADS * 4
  if all items exist      of them
    loads of four items
    results and stores of four items
  else                    the last group
    for (item ...) load, result, store
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from teir.backends.cuda.emit_number import combined
from teir.backends.cuda.kernel import CudaKernel, Family, TensorPointer
from teir.backends.cuda.problem import MapProblem, Operand
from teir.backends.cuda.text import address, block, decode, literal, whole_source
from teir.ir.nodes import Operation
from teir.lower.axes import TileAxis

THREADS = 256
IN_FLIGHT = 4
VECTOR_BYTES = 16
GROUP = THREADS * IN_FLIGHT
"""The items that a block has under way."""
BLOCKS_PER_MULTIPROCESSOR = 4
MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Items:
    """The vectors of a problem: ``axes`` count vectors, ``kind`` holds any item's number."""

    problem: MapProblem
    axes: tuple[TileAxis, ...]
    lanes: int

    @property
    def count(self) -> int:
        return prod(axis.extent for axis in self.axes)

    @property
    def kind(self) -> str:
        return "u32" if self.count < 2**31 - GROUP * 2 else "i64"

    @property
    def last(self) -> str:
        """The number of items, as a literal of their kind."""
        return literal(self.count, self.kind)


def emit_map(problem: MapProblem, name: str) -> CudaKernel:
    """The kernel of an element-wise problem, any strides."""
    lanes = vector_lanes(problem)
    items = _Items(problem=problem, axes=_vectors(problem.axes, lanes), lanes=lanes)
    kind = items.kind
    body = [
        f"for ({kind} group = ({kind})blockIdx.x * {GROUP}; group < {items.last}; "
        f"group += ({kind})gridDim.x * {GROUP}) {{",
        f"  const {kind} first = group + threadIdx.x;",
        *block(_groups(items)),
        "}",
    ]
    pointers = pointer_names(problem.operands)
    signature = ", ".join(f"u8* {one}" for one in dict.fromkeys(pointers))
    text = [f"{_head(items)} {name}({signature}) {{", *block(body), "}"]
    return CudaKernel(
        name=name,
        family=Family.MAP,
        source=whole_source("\n".join(text), tiles=False),
        parameters=tuple(
            TensorPointer(tensor=one)
            for one in dict.fromkeys(operand.tensor for operand in problem.operands)
        ),
        blocks=min(-(-items.count // GROUP), MOST_BLOCKS),
        threads=THREADS,
    )


def _head(items: _Items) -> str:
    """Few registers where they suffice, so that many loads are under way on a multiprocessor."""
    inputs = range(len(items.problem.operands) - 1)
    held = IN_FLIGHT * sum(_pack_bytes(items.problem, at, items.lanes) for at in inputs)
    if held > IN_FLIGHT * VECTOR_BYTES or not is_plain_copy(items.problem):
        return f"KERNEL({THREADS})"
    return f"KERNEL_BLOCKS({THREADS}, {BLOCKS_PER_MULTIPROCESSOR})"


def pointer_names(operands: Sequence[Operand]) -> list[str]:
    """One C++ name per operand, the same where the tensor is the same."""
    tensors = list(dict.fromkeys(operand.tensor for operand in operands))
    return [f"t{tensors.index(operand.tensor)}" for operand in operands]


def is_plain_copy(problem: MapProblem) -> bool:
    """True where bytes are moved as they are."""
    stored = {operand.data_type.numpy_dtype() for operand in problem.operands}
    return problem.operation is Operation.COPY and len(stored) == 1


def vector_lanes(problem: MapProblem) -> int:
    """Elements along the output's unit axis that one access of every operand may cover."""
    if not problem.axes:
        return 1
    inner, out = problem.axes[-1], problem.operands[-1]
    if inner.strides[-1] != out.data_type.width:
        return 1
    lanes = 1
    while _fits(problem, lanes * 2):
        lanes *= 2
    return lanes


def _fits(problem: MapProblem, lanes: int) -> bool:
    inner = problem.axes[-1]
    if inner.extent % lanes:
        return False
    for at, operand in enumerate(problem.operands):
        width = operand.data_type.width
        if not inner.strides[at]:
            continue
        if inner.strides[at] != width or lanes * width > VECTOR_BYTES:
            return False
        steps = (operand.offset, *(axis.strides[at] for axis in problem.axes[:-1]))
        if any(step % (lanes * width) for step in steps):
            return False
    return True


def alignments(problem: MapProblem) -> dict[str, int]:
    """What the address of every tensor has to be a multiple of."""
    lanes = vector_lanes(problem)
    needed: dict[str, int] = {}
    for at, operand in enumerate(problem.operands):
        moves = bool(problem.axes) and bool(problem.axes[-1].strides[at])
        wide = operand.data_type.width * (lanes if moves else 1)
        needed[operand.tensor] = max(wide, needed.get(operand.tensor, 1))
    return needed


def _vectors(axes: Sequence[TileAxis], lanes: int) -> tuple[TileAxis, ...]:
    """The axes with vectors in place of elements."""
    if lanes == 1:
        return tuple(axes)
    inner = axes[-1]
    strides = tuple(stride * lanes for stride in inner.strides)
    return (*axes[:-1], TileAxis(inner.extent // lanes, strides))


def _groups(items: _Items) -> list[str]:
    """A group: without a test where all of its items exist, which a block decides as one."""
    whole = block(_whole_group(items))
    if items.count % GROUP == 0:
        return ["{", *whole, "}"]
    if items.count < GROUP:
        return _tested_group(items)
    inside = f"if (group <= {items.last} - {GROUP}) {{"
    return [inside, *whole, "} else {", *block(_tested_group(items)), "}"]


def _whole_group(items: _Items) -> list[str]:
    """Every load before any store; between them no branch, so that loads wait together."""
    loads, stores = [], []
    for part in range(IN_FLIGHT):
        names = {f"i{at}_{part}": axis.extent for at, axis in enumerate(items.axes)}
        loads.append(f"const {items.kind} item{part} = first + {part * THREADS};")
        loads += decode(f"item{part}", names, first_fastest=False, kind=items.kind)
        loads += _loads(items, str(part), f"item{part}", list(names))
        to = _place(items, len(items.problem.operands) - 1, f"item{part}", list(names))
        stores += ["{", *block(_store(items, str(part), to)), "}"]
    return [*loads, *stores]


def _tested_group(items: _Items) -> list[str]:
    names = {f"i{at}": axis.extent for at, axis in enumerate(items.axes)}
    lines = [
        *decode("item", names, first_fastest=False, kind=items.kind),
        *_loads(items, "", "item", list(names)),
        *_store(items, "", _place(items, len(items.problem.operands) - 1, "item", list(names))),
    ]
    head = f"for ({items.kind} item = first; item < {items.last} && item < group + {GROUP}; "
    return ["NO_UNROLL", f"{head}item += {THREADS}) {{", *block(lines), "}"]


def _loads(items: _Items, part: str, item: str, names: Sequence[str]) -> list[str]:
    lines = []
    for at in range(len(items.problem.operands) - 1):
        pack = f"Pack<{_pack_bytes(items.problem, at, items.lanes)}>"
        place = _place(items, at, item, names)
        lines.append(f"const {pack} v{at}_{part} = *(const {pack}*)({place});")
    return lines


def _store(items: _Items, part: str, to: str) -> list[str]:
    problem, out = items.problem, len(items.problem.operands) - 1
    pack = f"Pack<{_pack_bytes(problem, out, items.lanes)}>"
    if is_plain_copy(problem) and problem.axes and problem.axes[-1].strides[0]:
        return [f"*({pack}*)({to}) = v0_{part};"]
    results = _results(problem, items.lanes, part)
    return [f"{pack} result;", *results, f"*({pack}*)({to}) = result;"]


def _place(items: _Items, at: int, item: str, names: Sequence[str]) -> str:
    """Where an operand's vector lies; counted with 32 bits where they hold the whole operand.

    Where the vectors follow each other as their numbers do, the number says it all, and a thread's
    four vectors lie a constant apart.
    """
    operand = items.problem.operands[at]
    pointer = pointer_names(items.problem.operands)[at]
    strides = [axis.strides[at] for axis in items.axes]
    if strides and _is_dense(items, at):
        return address(pointer, operand.offset, [(item, strides[-1])])
    reach = sum(axis.strides[at] * (axis.extent - 1) for axis in items.axes)
    if items.kind == "u32" and min(strides, default=0) >= 0 and reach < 2**32:
        terms = [f"{n} * {stride}u" for n, stride in zip(names, strides, strict=True) if stride]
        return f"{address(pointer, operand.offset, [])} + ({' + '.join(terms) or '0'})"
    return address(pointer, operand.offset, list(zip(names, strides, strict=True)))


def _is_dense(items: _Items, at: int) -> bool:
    step = items.axes[-1].strides[at]
    for axis in reversed(items.axes):
        if axis.strides[at] != step:
            return False
        step *= axis.extent
    return True


def _pack_bytes(problem: MapProblem, at: int, lanes: int) -> int:
    moves = bool(problem.axes) and bool(problem.axes[-1].strides[at])
    return problem.operands[at].data_type.width * (lanes if moves else 1)


def _results(problem: MapProblem, lanes: int, part: str) -> list[str]:
    out = problem.operands[-1]
    lines = []
    for lane in range(lanes):
        values = []
        for at, operand in enumerate(problem.operands[:-1]):
            wide = _pack_bytes(problem, at, lanes) > operand.data_type.width
            byte = operand.data_type.width * lane if wide else 0
            values.append(f"load_{operand.data_type.value}(v{at}_{part}.bytes + {byte})")
        value = combined(problem.operation, values, out.data_type)
        to = f"result.bytes + {out.data_type.width * lane}"
        lines.append(f"store_{out.data_type.value}({to}, {value});")
    return lines
