"""The kernel that runs any dense root: a block per point of the grid, the schedule as written.

The chain of parallel nodes at the top is the grid; below it the threads of a block walk loops and
guards together and share the elements of every invocation, one thread an element, with a barrier
after each. A root that is nothing but such a chain over one invocation is cut over the elements
too.

    for (point ...)                      parallel p over p
      zero: elements by threads            zero: ...
      __syncthreads()
      for (i1 = 0; i1 < 8; ++i1)           sequential t over t
        gemm: elements by threads            gemm: ...
        __syncthreads()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import assert_never

from teir.backends.cuda.emit_number import element_result
from teir.backends.cuda.kernel import (
    MULTIPROCESSORS,
    Arena,
    ArenaPointer,
    CudaKernel,
    Family,
    Parameter,
    TensorPointer,
)
from teir.backends.cuda.text import address, block, decode, whole_source
from teir.ir.check.collision import is_injective
from teir.ir.nodes import (
    Axis,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
)
from teir.lower.kernel_program import Slot, Storage
from teir.lower.slots import SlotTable

THREADS = 256
BLOCKS = 8 * MULTIPROCESSORS
ARENA_LIMIT_BYTES = 1 << 30
"""Blocks are fewer where their arenas would need more together."""
_ELEMENTS_PER_THREAD = 4


@dataclass(frozen=True, slots=True)
class Places:
    """Where every tensor of a kernel lives: C++ names, and what constants addresses start at."""

    slots: dict[str, Slot]
    pointers: dict[str, str]

    def base(self, tensor: str) -> tuple[str, int]:
        return self.pointers[tensor], self.slots[tensor].start_bytes


@dataclass(frozen=True, slots=True)
class _Context:
    program: Program
    axes: dict[str, Axis]
    primitives: dict[str, Primitive]
    places: Places
    split: int
    """Into how many parts the elements of the only invocation are cut; 1 for other roots."""


def emit_generic(program: Program, root: Node, slots: SlotTable, name: str) -> CudaKernel:
    """The kernel of one root of a dense, checked program."""
    chain, body = parallel_chain(root)
    axes = program.axis_table()
    primitives = program.primitive_table()
    places, parameters = _places(program, root, slots)
    points = prod(axes[link.axis].extent for link in chain)
    split = _split(body, axes, primitives)
    context = _Context(program, axes, primitives, places, split)
    names = {_index(context, link.axis): axes[link.axis].extent for link in chain}
    lines = [f"for (i64 point = blockIdx.x; point < {points * split}ll; point += gridDim.x) {{"]
    if split > 1:
        lines += [f"  const i64 part = point % {split};", f"  const i64 grid = point / {split};"]
    else:
        lines += ["  const i64 grid = point;"]
    lines += block(decode("grid", names, first_fastest=False, kind="i64"))
    lines += block(_siblings(body, tuple(axes[link.axis] for link in chain), context))
    lines += ["}"]
    own = slots.thread_scratch_bytes if ArenaPointer(arena=Arena.BLOCK) in parameters else 0
    blocks = min(points * split, BLOCKS, max(1, ARENA_LIMIT_BYTES // own) if own else BLOCKS)
    signature = ", ".join(f"u8* {_pointer_name(one, places)}" for one in parameters)
    prologue = [f"block_arena += (i64)blockIdx.x * {own}ll;"] if own else []
    text = [f"KERNEL({THREADS}) {name}({signature}) {{", *block([*prologue, *lines]), "}"]
    return CudaKernel(
        name=name,
        family=Family.GENERIC,
        source=whole_source("\n".join(text), tiles=False),
        parameters=parameters,
        blocks=blocks,
        threads=THREADS,
        block_arena_bytes=own,
    )


def parallel_chain(root: Node) -> tuple[tuple[IterationNode, ...], tuple[Node, ...]]:
    """The parallel nodes that make the grid, and what runs at each point."""
    chain: list[IterationNode] = []
    body: tuple[Node, ...] = (root,)
    while len(body) == 1:
        node = body[0]
        if not isinstance(node, IterationNode) or node.policy is not Policy.PARALLEL or node.guard:
            break
        chain.append(node)
        body = node.children
    return tuple(chain), body


def tensors_of(root: Node, primitives: dict[str, Primitive]) -> tuple[str, ...]:
    """The tensors the leaves below ``root`` touch, in the order they are met."""
    found: dict[str, None] = {}
    stack: list[Node] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, IterationNode):
            stack.extend(reversed(node.children))
        else:
            found.update(dict.fromkeys(touched(primitives[node.primitive])))
    return tuple(found)


def touched(primitive: Primitive) -> tuple[str, ...]:
    """The operands an operation reads or writes: a Zero reads nothing."""
    if primitive.operation is Operation.ZERO:
        return (primitive.output,)
    return primitive.operands


def _places(program: Program, root: Node, slots: SlotTable) -> tuple[Places, tuple[Parameter, ...]]:
    used = tensors_of(root, program.primitive_table())
    by_name = {name: slots.slots[slots.number[name]] for name in used}
    pointers: dict[str, str] = {}
    parameters: dict[Parameter, None] = {}
    for number, (name, slot) in enumerate(by_name.items()):
        match slot.storage:
            case Storage.OPERAND:
                pointers[name] = f"t{number}"
                parameters[TensorPointer(tensor=name)] = None
            case Storage.RUN:
                pointers[name] = "run_arena"
                parameters[ArenaPointer(arena=Arena.RUN)] = None
            case Storage.THREAD:
                pointers[name] = "block_arena"
                parameters[ArenaPointer(arena=Arena.BLOCK)] = None
            case _:
                assert_never(slot.storage)
    return Places(by_name, pointers), tuple(parameters)


def _pointer_name(parameter: Parameter, places: Places) -> str:
    match parameter:
        case TensorPointer(tensor=tensor):
            return places.pointers[tensor]
        case ArenaPointer(arena=arena):
            return f"{arena.value}_arena"
        case _:
            raise AssertionError("the generic kernel takes addresses only")


def _split(body: Sequence[Node], axes: dict[str, Axis], primitives: dict[str, Primitive]) -> int:
    if len(body) != 1 or not isinstance(body[0], InvocationNode) or body[0].guard:
        return 1
    primitive = primitives[body[0].primitive]
    free = _free(primitive, axes)
    if not _is_apart(primitive, free):
        return 1
    return -(-prod(axis.extent for axis in free) // (THREADS * _ELEMENTS_PER_THREAD))


def _free(primitive: Primitive, axes: dict[str, Axis]) -> list[Axis]:
    """The axes along which the output moves."""
    consumed = [axes[name] for name in primitive.axes]
    return [axis for axis in consumed if axis.strides[primitive.output] and axis.extent > 1]


def _is_apart(primitive: Primitive, free: Sequence[Axis]) -> bool:
    """True where no two elements of the tile share their place."""
    return is_injective([(axis.strides[primitive.output], axis.extent) for axis in free])


def _index(context: _Context, axis: str) -> str:
    return f"i{list(context.axes).index(axis)}"


def _siblings(nodes: Sequence[Node], path: tuple[Axis, ...], context: _Context) -> list[str]:
    lines: list[str] = []
    for node in nodes:
        match node:
            case InvocationNode():
                inner = _invocation(node, path, context)
            case IterationNode():
                inner = _loop(node, path, context)
            case _:
                assert_never(node)
        lines += _guarded(node.guard, inner, context)
    return lines


def _guarded(guard: Sequence[GuardTerm], lines: list[str], context: _Context) -> list[str]:
    tests = []
    for term in guard:
        last = context.axes[term.axis].extent - 1
        value = 0 if term.kind is GuardKind.FIRST else last
        tests.append(f"{_index(context, term.axis)} == {value}ll")
    return [f"if ({' && '.join(tests)}) {{", *block(lines), "}"] if tests else lines


def _loop(node: IterationNode, path: tuple[Axis, ...], context: _Context) -> list[str]:
    axis = context.axes[node.axis]
    index = _index(context, node.axis)
    body = _siblings(node.children, (*path, axis), context)
    head = f"for (i64 {index} = 0; {index} < {axis.extent}ll; ++{index}) {{"
    return ["NO_UNROLL", head, *block(body), "}"] if len(body) else []


def _invocation(node: InvocationNode, path: tuple[Axis, ...], context: _Context) -> list[str]:
    primitive = context.primitives[node.primitive]
    free = _free(primitive, context.axes)
    count = prod(axis.extent for axis in free)
    start, step = "threadIdx.x", f"{THREADS}"
    if context.split > 1:
        start, step = f"part * {THREADS} + threadIdx.x", f"{context.split * THREADS}ll"
    names = {_index(context, axis.name): axis.extent for axis in free}
    inner = [
        *decode("element", names, first_fastest=False, kind="i64"),
        *_element(primitive, path, free, context),
    ]
    head = f"for (i64 element = {start}; element < {count}ll; element += {step}) {{"
    lines = [head, *block(inner), "}"]
    if not _is_apart(primitive, free):
        head = f"for (i64 element = 0; element < {count}ll; ++element) {{"
        lines = ["if (threadIdx.x == 0)", f"  {head}", *block(block(inner)), "  }"]
    return [
        f"{{  // {node.name}: {primitive.operation.value}",
        *block(lines),
        "}",
        "__syncthreads();",
    ]


def _element(
    primitive: Primitive, path: tuple[Axis, ...], free: list[Axis], context: _Context
) -> list[str]:
    consumed = [context.axes[name] for name in primitive.axes]
    reduced = [axis for axis in consumed if axis not in free and axis.extent > 1]
    if primitive.operation is not Operation.CONTRACTION:
        reduced = []
    types = [context.places.slots[name].data_type for name in touched(primitive)]
    lines = []
    for at, name in enumerate(touched(primitive)):
        pointer, start = context.places.base(name)
        constant = start + sum(axis.offsets[name] for axis in (*path, *consumed))
        terms = [(_index(context, a.name), a.strides[name]) for a in (*path, *free)]
        lines.append(f"u8* p{at} = {address(pointer, constant, terms)};")
    loops = [(_index(context, axis.name), axis.extent) for axis in reduced]
    moves = [
        [(_index(context, axis.name), axis.strides[name]) for axis in reduced]
        for name in primitive.inputs
    ]
    return [*lines, *element_result(primitive, types, loops, moves)]
