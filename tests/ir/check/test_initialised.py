"""Scratch is written before it is read: what emitters write passes, and nothing wrong passes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest

from teir.dtypes import DataType
from teir.ir.check import check, prove_by_rules
from teir.ir.check.collision import Budget
from teir.ir.check.initialised import scratch_written_first
from teir.ir.check.plain import plain_needs
from teir.ir.check.resolved import resolve
from teir.ir.nodes import (
    Axis,
    Bytes,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Tensor,
)
from teir.ir.parsing import parse_program

HEAD = """teir 1 "scratch"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
"""
TILE = """axis m = 8: in0 4, out 4, t 4
axis n = 4: in1 64, out 32, t 32
axis k = 16: in0 32, in1 4
axis b = 3: in0 512, in1 256
primitive zero = Zero(t; M=[m], N=[n])
primitive gemm = Contraction(in0, in1 -> t; M=[m], N=[n], K=[k])
primitive give = Copy(t -> out; M=[m], N=[n])
"""

PIECES = """teir 1 "pieces of steps"
tensor in0: FP32
tensor out: FP32
scratch t: FP32
axis i = 3: out 64
axis j = 2: in0 32
axis m = 8: out 4, t 4
axis u = 1: in0 4
primitive zero = Zero(t; M=[m], N=[])
primitive give = Copy(t -> out; M=[m], N=[])
"""

ACCEPTED = {
    "zero of the whole tile first": HEAD
    + "scratch t: FP32\n"
    + TILE
    + "zero: zero\nsequential sum over b\n  add: gemm\ngive: give\n",
    "zero at the first iteration of the sum": HEAD
    + "scratch t: FP32\n"
    + TILE
    + "sequential sum over b\n  zero: zero if first(b)\n  add: gemm\n  give: give if last(b)\n",
    "zero at the first iteration, in pieces": HEAD
    + "scratch t: FP32\n"
    + TILE.replace(
        "primitive gemm",
        "axis h = 2: t 16, in0 16, out 16\naxis q = 4: in0 4, out 4, t 4\n"
        "primitive part = Zero(t; M=[q], N=[n])\nprimitive gemm",
    )
    + "sequential sum over b\n  sequential halves over h if first(b)\n    zero: part\n"
    + "  add: gemm\ngive: give\n",
    "zero at the last iteration, in pieces": HEAD
    + "scratch t: FP32\n"
    + TILE.replace(
        "primitive gemm",
        "axis h = 2: t 16\naxis q = 4: t 4\nprimitive part = Zero(t; M=[q], N=[n])\nprimitive gemm",
    )
    + "sequential sum over b\n  sequential halves over h\n    zero: part if last(b)\n"
    + "  give: give if last(b)\n",
    "packing tile by tile, read by another loop": """teir 1 "packing"
tensor in0: FP32
tensor out: FP32
scratch t: FP32
axis a = 4: in0 400, t 32
axis m = 8: in0 4, t 4
axis i = 16: t 8, out 8
axis q = 2: t 4, out 4
primitive pack = Copy(in0 -> t; M=[m], N=[])
primitive give = Copy(t -> out; M=[q], N=[])
sequential rows over a
  pack: pack
sequential pieces over i
  give: give
""",
    "packing with a remainder branch": """teir 1 "packing with remainder"
tensor in0: FP32
tensor out: FP32
scratch t: FP32
axis a = 4: in0 32, t 32
axis m = 8: in0 4, t 4
axis r = 3: in0 4 + 128, t 4 + 128
axis i = 35: t 4, out 4
primitive pack = Copy(in0 -> t; M=[m], N=[])
primitive rest = Copy(in0 -> t; M=[r], N=[])
primitive give = Copy(t -> out; M=[i], N=[])
sequential rows over a
  pack: pack
rest: rest
give: give
""",
    "column blocks with a remainder branch": """teir 1 "columns"
tensor in0: FP32
tensor out: FP32
scratch t: FP32
axis a = 4: in0 32, t 32
axis n = 5: in0 200, t 200
axis m = 8: in0 4, t 4
axis r = 3: in0 4 + 128, t 4 + 128
axis i = 35: t 4, out 4
axis j = 5: t 200, out 200
primitive pack = Copy(in0 -> t; M=[m], N=[n])
primitive rest = Copy(in0 -> t; M=[r], N=[n])
primitive give = Copy(t -> out; M=[i], N=[])
sequential rows over a
  pack: pack
rest: rest
sequential back over j
  give: give
""",
    "zero in the first piece of the last step": PIECES
    + "sequential steps over i\n  sequential pieces over j\n"
    + "    zero: zero if last(i) and first(j)\n  give: give if last(i)\n",
    "zero at the last of one step": PIECES
    + "sequential steps over u\n  zero: zero if last(u)\n  give: give if first(u)\n",
    "slices of a parallel reduction": HEAD
    + "scratch t: FP32\n"
    + TILE.replace("in0 512, in1 256", "in0 512, in1 256, t 128").replace(
        "primitive give = Copy(t -> out; M=[m], N=[n])",
        "primitive give = Contraction(t -> out; M=[m], N=[n], K=[b])",
    )
    + "parallel sum over b\n  zero: zero\n  add: gemm\ngive: give\n",
    "private to each parallel iteration": HEAD
    + TILE.replace("in1 256\n", "in1 256\naxis p = 2: in0 2048, out 128\n")
    + "parallel blocks over p\n  scratch t: FP32\n  zero: zero\n  sequential sum over b\n"
    "    add: gemm\n  give: give\n",
    "a row temporary below a sparse axis": """teir 1 "SDDMM then SpMM"
tensor Bp: I32
tensor Bc: I32
tensor B: FP64
tensor C: FP64
tensor D: FP64
tensor E: FP64
tensor A: FP64
axis i = 4: Bp 4, C 64, A 64
axis j = 5: Bc 4, B 8, D 64, E 64; segment pos Bp crd Bc by_position [B]
axis k = 8: C 8, D 8
axis l = 8: E 8, A 8
primitive zero_row = Zero(A; M=[l], N=[])
primitive zero_one = Zero(t; M=[], N=[])
primitive dot = Contraction(B, C, D -> t; M=[], N=[], K=[k])
primitive spread = Contraction(t, E -> A; M=[l], N=[], K=[])
parallel rows over i
  zero_a: zero_row
  sequential row over j
    scratch t: FP64
    zero_t: zero_one
    add: dot
    give: spread
""",
}


NEVER_WRITTEN = """teir 1 "a scratch tensor that nothing wrote"
tensor out: FP32
scratch t: FP32
axis m = 8: t 4 + 16, out 4
primitive give = Copy(t -> out; M=[m], N=[])
copy: give
"""


def test_the_bytes_of_an_early_read_are_named() -> None:
    (finding,) = check(parse_program(NEVER_WRITTEN)).findings
    assert finding.found == "a read of bytes 16 to 47 not all written"


def test_what_the_last_step_writes_is_not_there_in_the_first() -> None:
    text = ACCEPTED["zero in the first piece of the last step"].replace("give if last(i)", "give")
    (finding,) = check(parse_program(text)).findings
    assert finding.code == "TEIR406"


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_emitters_write_passes(text: str) -> None:
    program = parse_program(text)
    assert prove_by_rules(program).report.findings == ()
    is_sparse = any(axis.segments for axis in program.axes)
    assert (plain_needs(program) is None) == is_sparse


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_without_the_first_write_it_is_refused(text: str) -> None:
    program = parse_program(text)
    scratch = {tensor.name for tensor in program.scratch} or {"t"}
    writers = {
        primitive.name
        for primitive in program.primitives
        if primitive.output in scratch and primitive.operation is not Operation.CONTRACTION
    }
    report = check(_without(program, writers))
    assert [finding.code for finding in report.findings] == ["TEIR406"]


def _without(program: Program, primitives: set[str]) -> Program:
    """The program without the invocations of ``primitives``."""
    return Program(
        name=program.name,
        tensors=program.tensors,
        axes=program.axes,
        primitives=program.primitives,
        roots=_kept(program.roots, primitives),
        scratch=program.scratch,
    )


def _kept(nodes: tuple[Node, ...], primitives: set[str]) -> tuple[Node, ...]:
    kept: list[Node] = []
    for node in nodes:
        if isinstance(node, InvocationNode):
            if node.primitive not in primitives:
                kept.append(node)
            continue
        children = _kept(node.children, primitives)
        if children:
            kept.append(
                IterationNode(
                    name=node.name,
                    axis=node.axis,
                    policy=node.policy,
                    children=children,
                    guard=node.guard,
                    scratch=node.scratch,
                )
            )
    return tuple(kept)


def _draw(seed: int) -> Program:
    """A small random program around one scratch tensor, right or wrong."""
    rng = random.Random(seed)
    names = [f"a{number}" for number in range(5)]
    axes = tuple(
        Axis(
            name=name,
            extent=rng.choice((1, 2, 2, 3)),
            strides=Bytes({"t": 4 * rng.choice((0, 0, 1, 1, 2, 3, 4, 6))}),
            offsets=Bytes({"t": 4 * rng.choice((0, 0, 0, 1))}),
        )
        for name in names
    )
    primitives: dict[str, Primitive] = {}
    count = iter(range(1_000))
    owner_at = rng.choice((-1, 0, 1))

    def leaf(path: list[str]) -> InvocationNode:
        number = next(count)
        free = [name for name in names if name not in path]
        consumed = tuple(rng.sample(free, rng.randint(0, min(2, len(free)))))
        name = f"p{number}"
        if rng.random() < 0.5:
            primitives[name] = Primitive(
                name=name, operation=Operation.ZERO, inputs=(), output="t", m=consumed
            )
        else:
            primitives[name] = Primitive(
                name=name, operation=Operation.CONTRACTION, inputs=("t",), output="out", k=consumed
            )
        return InvocationNode(name=f"n{number}", primitive=name, guard=guard(path))

    def guard(path: list[str]) -> tuple[GuardTerm, ...]:
        if not path or rng.random() < 0.6:
            return ()
        kind = rng.choice((GuardKind.FIRST, GuardKind.FIRST, GuardKind.LAST))
        return (GuardTerm(kind=kind, axis=rng.choice(path)),)

    def node(path: list[str], depth: int, outer: int) -> Node:
        free = [name for name in names if name not in path]
        if depth >= 3 or not free or rng.random() < 0.35:
            return leaf(path)
        axis = rng.choice(free)
        entry = guard(path)
        inner = [*path, axis]
        children = tuple(node(inner, depth + 1, outer) for _ in range(rng.randint(1, 3)))
        return IterationNode(
            name=f"l{next(count)}",
            axis=axis,
            policy=rng.choice((Policy.SEQUENTIAL, Policy.SEQUENTIAL, Policy.PARALLEL)),
            children=children,
            guard=entry,
            scratch=_t() if depth == outer else (),
        )

    roots: tuple[Node, ...]
    if owner_at == -1:
        roots = tuple(node([], 0, -1) for _ in range(rng.randint(1, 3)))
    else:
        roots = (node([], 0, owner_at),)
    return Program(
        name="drawn",
        tensors=(Tensor(name="out", data_type=DataType.FP32),),
        axes=axes,
        primitives=tuple(primitives.values()),
        roots=roots,
        scratch=_t() if owner_at == -1 else (),
    )


def _t() -> tuple[Tensor, ...]:
    return (Tensor(name="t", data_type=DataType.FP32),)


def _reads_early(program: Program, *, backwards: bool) -> bool:
    """Run the program on a set of written addresses, parallel loops forwards or backwards."""
    axes, primitives = program.axis_table(), program.primitive_table()
    written: set[int] = set()

    def addresses(at: dict[str, int], primitive: Primitive) -> Iterator[int]:
        consumed = [axes[name] for name in primitive.axes]
        base = sum(axes[a].offsets["t"] + axes[a].strides["t"] * i for a, i in at.items())
        base += sum(axis.offsets["t"] for axis in consumed)
        for point in product(*(range(axis.extent) for axis in consumed)):
            yield base + sum(axis.strides["t"] * i for axis, i in zip(consumed, point, strict=True))

    def enter(node: Node, at: dict[str, int]) -> bool:
        for term in node.guard:
            last = axes[term.axis].extent - 1
            if at[term.axis] != (0 if term.kind is GuardKind.FIRST else last):
                return False
        if isinstance(node, InvocationNode):
            primitive = primitives[node.primitive]
            touched = set(addresses(at, primitive))
            if primitive.operation is Operation.ZERO:
                written.update(touched)
                return False
            return not touched <= written
        order = list(range(axes[node.axis].extent))
        if backwards and node.policy is Policy.PARALLEL:
            order.reverse()
        early = False
        for index in order:
            if node.scratch:
                written.clear()
            for child in node.children:
                early |= enter(child, {**at, node.axis: index})
        return early

    return any(enter(root, {}) for root in program.roots)


def test_no_accepted_program_reads_early() -> None:
    accepted = refused = needless = 0
    for seed in range(6_000):
        program = _draw(seed)
        codes = {finding.code for finding in check(program).findings}
        if codes - {"TEIR406"}:
            continue
        early = _reads_early(program, backwards=False) or _reads_early(program, backwards=True)
        if not codes:
            accepted += 1
            assert not early, f"seed {seed}"
        else:
            refused += 1
            needless += not early
    assert accepted > 300
    assert refused > 300
    assert needless < refused / 5


def test_every_region_looked_at_is_work() -> None:
    """What is written in pieces is found within a budget of so many, and not within fewer."""
    pieces = "\n".join(f"axis p{number} = 1: t 0 + {4 * number}" for number in range(40))
    zeros = "\n".join(
        f"primitive zero{number} = Zero(t; M=[p{number}], N=[])" for number in range(40)
    )
    calls = "\n".join(f"z{number}: zero{number}" for number in range(40))
    text = f"""{HEAD}scratch t: FP32
axis m = 40: out 4, t 4
{pieces}
{zeros}
primitive give = Copy(t -> out; M=[m], N=[])
{calls}
give: give
"""
    resolved = resolve(parse_program(text))
    enough, scarce = Budget(1000), Budget(70)
    assert scratch_written_first(resolved, enough) == []
    assert enough.steps <= 1000 - 80
    (finding,) = scratch_written_first(resolved, scarce)
    assert "not decided within the work budget" in finding.found
