"""Operations and bytes a program states."""

from __future__ import annotations

from itertools import product as product_of

from teir.ir.nodes import GuardKind, Program
from teir.ir.parsing import parse_program
from teir.lower.work import Work, program_work
from teir.passes.split_axes import split_axes
from teir.soak.draws import seeded
from teir.soak.programs import draw_program

PRODUCT = """teir 1 "product"
tensor in0: {type}
tensor in1: {type}
tensor out: {type}
axis m = 3: in0 {w}, out {w}
axis n = 5: in1 {w}, out {m}
axis k = 7: in0 {m}, in1 {n}
primitive zero = Zero(out; M=[m], N=[n])
primitive gemm = Contraction {type} (in0, in1 -> out; M=[m], N=[n], K=[])
sequential k over k
  z: zero if first(k)
  g: gemm
"""


def product(data_type: str, width: int) -> str:
    return PRODUCT.format(type=data_type, w=width, m=3 * width, n=5 * width)


def test_two_operations_a_product_and_distinct_bytes() -> None:
    work = program_work(parse_program(product("FP32", 4)))
    assert work == Work(flops=2 * 105, bytes_read=4 * (21 + 35), bytes_written=4 * 15)
    assert work.bytes_moved == 4 * (21 + 35 + 15)


def test_eight_operations_a_complex_product() -> None:
    assert program_work(parse_program(product("C64", 8))).flops == 8 * 105


def test_an_output_that_is_added_to_is_read_too() -> None:
    text = product("FP32", 4).replace("  z: zero if first(k)\n", "")
    assert program_work(parse_program(text)).bytes_read == 4 * (21 + 35 + 15)


def test_a_guard_lets_one_iteration_through() -> None:
    text = product("FP32", 4).replace("g: gemm", "g: gemm if last(k)")
    assert program_work(parse_program(text)).flops == 2 * 15


def test_element_wise_results_count_once_and_copies_not_at_all() -> None:
    text = """teir 1 "add"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
axis i = 6: in0 8, in1 8, out 8
primitive copy = Copy(in0 -> out; M=[i], N=[])
primitive add = Add(in0, in1 -> out; M=[i], N=[])
c: copy
a: add
"""
    assert program_work(parse_program(text)) == Work(flops=6, bytes_read=96, bytes_written=48)


def test_branches_count_together() -> None:
    whole = parse_program(product("FP32", 4))
    split = split_axes(whole, 2)
    assert split is not whole
    assert program_work(split) == program_work(whole)


SLIDING = """teir 1 "sliding sum"
tensor in0: FP32
tensor out: FP32
axis i = 10: in0 4, out 4
axis j = 3: in0 4
primitive add = Contraction(in0 -> out; M=[i], N=[], K=[])
sequential j over j
  a: add
"""


def test_elements_met_twice_count_once() -> None:
    work = program_work(parse_program(SLIDING))
    assert work.bytes_read == 4 * (12 + 10)


def test_only_what_a_guard_lets_through_is_read() -> None:
    work = program_work(parse_program(SLIDING.replace("a: add", "a: add if last(j)")))
    assert work.bytes_read == 4 * (10 + 10)


def test_elements_between_one_another_are_not_counted_twice() -> None:
    text = """teir 1 "zeros"
tensor out: FP32
axis i = 6: out 8
axis j = 4: out 12
primitive near = Zero(out; M=[i], N=[])
primitive far = Zero(out; M=[j], N=[])
n: near
f: far
"""
    assert program_work(parse_program(text)).bytes_written == 4 * 6


def test_random_programs_never_touch_less() -> None:
    exact = 0
    for seed in range(60):
        program = split_axes(draw_program(seeded(seed), 300).program, 3)
        work, (read, written) = program_work(program), touched_bytes(program)
        assert work.bytes_read <= read, seed
        assert work.bytes_written <= written, seed
        exact += (work.bytes_read, work.bytes_written) == (read, written)
    assert exact >= 50


def touched_bytes(program: Program) -> tuple[int, int]:
    """Bytes of the elements that are read, and written, one iteration after the other."""
    axes, primitives = program.axis_table(), program.primitive_table()
    width = {tensor.name: tensor.data_type.width for tensor in program.tensors}
    read: dict[str, set[int]] = {}
    written: dict[str, set[int]] = {}
    for path, leaf in program.invocations():
        primitive = primitives[leaf.primitive]
        walked = [axes[node.axis] for node in path] + [axes[name] for name in primitive.axes]
        guards = [term for node in (*path, leaf) for term in node.guard]
        asked = {
            term.axis: 0 if term.kind is GuardKind.FIRST else axes[term.axis].extent - 1
            for term in guards
        }
        steps = [(asked[a.name],) if a.name in asked else range(a.extent) for a in walked]
        touched = [(read, name) for name in primitive.reads if name not in written]
        for places, tensor in (*touched, (written, primitive.output)):
            begin = sum(axis.offsets[tensor] for axis in walked)
            found = places.setdefault(tensor, set())
            for indices in product_of(*steps):
                pairs = zip(walked, indices, strict=True)
                found.add(begin + sum(axis.strides[tensor] * index for axis, index in pairs))
    counts = (
        sum(width.get(name, 0) * len(found) for name, found in places.items())
        for places in (read, written)
    )
    return next(counts), next(counts)
