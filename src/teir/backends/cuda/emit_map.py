"""Element-wise results in the order of the output: vectors of up to 16 bytes, four in flight.

for (item ...)            items are vectors along the output's unit axis
  loads of four items
  results and stores of four items
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from teir.backends.cuda.emit_number import combined
from teir.backends.cuda.kernel import CudaKernel, Family, TensorPointer
from teir.backends.cuda.problem import MapProblem, Operand
from teir.backends.cuda.text import address, block, decode, whole_source
from teir.ir.nodes import Operation
from teir.lower.axes import TileAxis

THREADS = 256
IN_FLIGHT = 4
VECTOR_BYTES = 16
MOST_BLOCKS = 2**31 - 1


def emit_map(problem: MapProblem, name: str) -> CudaKernel:
    """The kernel of an element-wise problem, any strides."""
    lanes = vector_lanes(problem)
    axes = _items(problem.axes, lanes)
    count = prod(axis.extent for axis in axes)
    kind = "u32" if count < 2**31 - THREADS * IN_FLIGHT * 2 else "i64"
    body = [
        f"const i64 first = (i64)blockIdx.x * {THREADS * IN_FLIGHT} + threadIdx.x;",
        f"for (i64 start = first; start < {count}ll; start += (i64)gridDim.x * "
        f"{THREADS * IN_FLIGHT}) {{",
        *block(_group(problem, axes, lanes, count, kind)),
        "}",
    ]
    pointers = pointer_names(problem.operands)
    signature = ", ".join(f"u8* {one}" for one in dict.fromkeys(pointers))
    text = [f"KERNEL({THREADS}) {name}({signature}) {{", *block(body), "}"]
    return CudaKernel(
        name=name,
        family=Family.MAP,
        source=whole_source("\n".join(text), tiles=False),
        parameters=tuple(
            TensorPointer(tensor=one)
            for one in dict.fromkeys(operand.tensor for operand in problem.operands)
        ),
        blocks=min(-(-count // (THREADS * IN_FLIGHT)), MOST_BLOCKS),
        threads=THREADS,
    )


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


def _items(axes: Sequence[TileAxis], lanes: int) -> list[TileAxis]:
    """The axes with vectors in place of elements."""
    if lanes == 1:
        return list(axes)
    inner = axes[-1]
    strides = tuple(stride * lanes for stride in inner.strides)
    return [*axes[:-1], TileAxis(inner.extent // lanes, strides)]


def _group(
    problem: MapProblem, axes: Sequence[TileAxis], lanes: int, count: int, kind: str
) -> list[str]:
    lines = [f"u8* to[{IN_FLIGHT}];"]
    for at, operand in enumerate(problem.operands[:-1]):
        lines.append(f"Pack<{_pack_bytes(problem, at, lanes)}> v{at}[{IN_FLIGHT}];")
        assert operand.data_type.width
    whole = f"start + {THREADS * (IN_FLIGHT - 1)} < {count}ll"
    return [
        *lines,
        f"if ({whole}) {{",
        *block(_moved(problem, axes, lanes, kind, [])),
        "  continue;",
        "}",
        *_moved(problem, axes, lanes, kind, [f"if (start + part * {THREADS} >= {count}ll) break;"]),
    ]


def _moved(
    problem: MapProblem, axes: Sequence[TileAxis], lanes: int, kind: str, test: Sequence[str]
) -> list[str]:
    """Loads of a group, then its results; without a test no branch comes between the loads."""
    names = {f"i{at}": axis.extent for at, axis in enumerate(axes)}
    loads = [
        *test,
        f"const {kind} item = ({kind})(start + part * {THREADS});",
        *decode("item", names, first_fastest=False, kind=kind),
    ]
    pointers = pointer_names(problem.operands)
    out = len(pointers) - 1
    for at, operand in enumerate(problem.operands):
        terms = [(f"i{n}", axis.strides[at]) for n, axis in enumerate(axes)]
        where = address(pointers[at], operand.offset, terms)
        if at == out:
            loads.append(f"to[part] = {where};")
        else:
            size = _pack_bytes(problem, at, lanes)
            loads.append(f"v{at}[part] = *(const Pack<{size}>*)({where});")
    head = f"for (int part = 0; part < {IN_FLIGHT}; ++part) {{"
    store = _pack_bytes(problem, out, lanes)
    stores = [
        *test,
        f"Pack<{store}> result;",
        *_results(problem, lanes),
        f"*(Pack<{store}>*)to[part] = result;",
    ]
    unrolled = '_Pragma("unroll")'
    return [unrolled, head, *block(loads), "}", unrolled, head, *block(stores), "}"]


def _pack_bytes(problem: MapProblem, at: int, lanes: int) -> int:
    moves = bool(problem.axes) and bool(problem.axes[-1].strides[at])
    return problem.operands[at].data_type.width * (lanes if moves else 1)


def _results(problem: MapProblem, lanes: int) -> list[str]:
    out = problem.operands[-1]
    if is_plain_copy(problem) and problem.axes and problem.axes[-1].strides[0]:
        return ["result = v0[part];"]
    lines = []
    for lane in range(lanes):
        values = []
        for at, operand in enumerate(problem.operands[:-1]):
            wide = _pack_bytes(problem, at, lanes) > operand.data_type.width
            byte = operand.data_type.width * lane if wide else 0
            values.append(f"load_{operand.data_type.value}(v{at}[part].bytes + {byte})")
        value = combined(problem.operation, values, out.data_type)
        to = f"result.bytes + {out.data_type.width * lane}"
        lines.append(f"store_{out.data_type.value}({to}, {value});")
    return lines
