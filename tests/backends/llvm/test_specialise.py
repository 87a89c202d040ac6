"""Specialised programs: the table's bits on every case and type, bounded code, kept on disk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import teir
from backends.llvm.small_programs import add, grid, loop, program, steps
from cases.case_file import Case, read_case
from teir.backends.llvm import specialise, specialise_ir
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.library import CodeLibrary
from teir.backends.llvm.native import NativeProgram, bind_native
from teir.backends.llvm.specialise import (
    assembly_text,
    bind_specialised,
    llvm_text,
    program_text,
)
from teir.backends.llvm.watch import RunTimeoutError
from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.lower.kernel_program import (
    Call,
    Grid,
    Guarded,
    IndexTest,
    KernelNode,
    KernelProgram,
    Storage,
)
from teir.lower.lower import lower
from teir.runtime.object_cache import ObjectCache
from teir.soak.draws import seeded
from teir.soak.kernel_programs import family_program, kernel_families
from teir.soak.operands import Image, draw_images
from teir.soak.programs import draw_program
from teir.soak.running import host_variants
from teir.target import Isa

Bind = Callable[[KernelProgram, Isa, int], NativeProgram]

CASE_FOLDER = Path(__file__).parents[2] / "cases"
CASES = sorted(path for path in CASE_FOLDER.iterdir() if path.suffix in (".teir", ".json"))
DRAWN = tuple(draw_program(seeded(seed), 2_000).program for seed in range(60))


def rounding_numbers(images: dict[str, Image]) -> None:
    """Fill the operands with numbers whose sums and products round."""
    for seed, image in enumerate(images.values()):
        elements = image.content.view(image.data_type.numpy_dtype())
        numbers = np.random.default_rng(seed).standard_normal((2, elements.size)) + 2
        is_complex = image.data_type.is_complex
        values = numbers[0] + 1j * numbers[1] if is_complex else numbers[0]
        elements[:] = values.astype(elements.dtype)


def bytes_after(
    bind: Bind, tensors: Program, kernels: KernelProgram, isa: Isa, threads: int
) -> dict[str, bytes]:
    """Every operand's memory after a run, the room around the program's own bytes included."""
    images = draw_images(tensors, 1, 3)
    rounding_numbers(images)
    addresses = (images[tensor.name] for tensor in tensors.tensors)
    native = bind(kernels, isa, threads)
    native.run(tuple(image.content.ctypes.data + image.base for image in addresses))
    return {name: image.content.tobytes() for name, image in images.items()}


def assert_same_bits(tensors: Program, isa: Isa, threads: int) -> None:
    kernels = lower(tensors, isa)
    table, specialised = (
        bytes_after(bind, tensors, kernels, isa, threads)
        for bind in (bind_native, bind_specialised)
    )
    assert table == specialised


@pytest.fixture(params=CASES, ids=lambda path: path.name, scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    return read_case(request.param)


@pytest.mark.parametrize("isa", host_variants())
@pytest.mark.parametrize("threads", [1, 2])
def test_cases_have_the_tables_bits(case: Case, isa: Isa, threads: int) -> None:
    assert_same_bits(case.program, isa, threads)


@pytest.mark.parametrize("number", range(len(DRAWN)))
def test_drawn_programs_have_the_tables_bits(number: int) -> None:
    variants = tuple(product(host_variants(), (1, 2)))
    assert_same_bits(DRAWN[number], *variants[number % len(variants)])


def nodes_of(nodes: tuple[KernelNode, ...]) -> Iterator[KernelNode]:
    for node in nodes:
        yield node
        if not isinstance(node, Call):
            yield from nodes_of(node.body)


def test_drawn_programs_hold_every_kind_of_node_and_memory() -> None:
    lowered = [lower(drawn, host_isa()) for drawn in DRAWN]
    kinds = {type(node) for kernels in lowered for node in nodes_of(kernels.roots)}
    assert {Grid, Guarded} <= kinds
    slots = [slot for kernels in lowered for slot in kernels.slots]
    assert {slot.storage for slot in slots} == set(Storage)
    floats = {kind for kind in DataType if not kind.is_index}
    assert {slot.data_type for slot in slots} == floats


NARROW = tuple(
    family
    for family in kernel_families()
    if family.types["out"].width == 2 and set(family.orders.values()) <= {"m", "mn", "mk", "nk", ""}
)


@pytest.mark.parametrize("remainder", [1, 2, 17])
def test_remainders_of_narrow_types_write_nothing_else(remainder: int) -> None:
    assert len(NARROW) > 8
    for family in NARROW:
        assert_same_bits(family_program(family, remainder), host_isa(), 1)


MANY = program(
    "a b out",
    loop(3, steps((0, 1), (2, 1)), *(add((0, 8 * i), (1, 4 * i), (2, 16 * i)) for i in range(900))),
)


def run_on(native: NativeProgram, count: int) -> bytes:
    arrays = [np.random.default_rng(n).standard_normal(count).astype(np.float32) for n in range(3)]
    native.run(tuple(array.ctypes.data for array in arrays))
    return arrays[2].tobytes()


def test_kernels_called_at_very_many_places_are_not_copied() -> None:
    text = llvm_text(MANY, host_isa(), 1)
    assert text.count("call void @teir_") == 900
    assert text.count("\n") < specialise.MOST_INLINED_LINES
    results = {run_on(bind(MANY, host_isa(), 1), 4000) for bind in (bind_native, bind_specialised)}
    assert len(results) == 1


def test_kernels_called_at_few_places_are_copied() -> None:
    few = program("a b out", add((0, 0), (1, 0), (2, 0)), add((0, 4), (1, 4), (2, 4)))
    assert "call void @teir_" in program_text(few, host_isa(), 1)
    assert "call void @teir_" not in llvm_text(few, host_isa(), 1)


def test_grids_become_functions_of_the_pool_and_guards_compare_counters() -> None:
    guarded = Guarded(tests=(IndexTest(index=0, value=3),), body=(add((0, 0), (1, 0), (2, 0)),))
    kernels = program("a b out", grid(guarded, axes=((5, steps((2, 1)), 0),)), cells=1)
    text = program_text(kernels, host_isa(), 2)
    assert "call void @teir_grid_fork(ptr @teir_grid0, ptr null, ptr %frame, i64 5)" in text
    assert re.search(r"define internal void @teir_grid0.*?icmp eq i64 %\w+, 3\n", text, re.DOTALL)
    results = {
        run_on(bind(kernels, host_isa(), threads), 16)
        for bind in (bind_native, bind_specialised)
        for threads in (1, 2)
    }
    assert len(results) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_a_time_limit_stops_loops_and_grids(threads: int) -> None:
    body = add((0, 0), (1, 0), (2, 0))
    endless = (
        program("a b out", loop(2**45, (), body)),
        program("a b out", loop(3, (), loop(2**45, (), body, body))),
        program("a b out", grid(body, axes=((2**45, (), None),))),
    )
    for kernels in endless:
        native = bind_specialised(kernels, host_isa(), threads)
        arrays = [np.ones(4, np.float32) for _ in range(3)]
        with pytest.raises(RunTimeoutError):
            native.run(tuple(array.ctypes.data for array in arrays), timeout=0.02)


KEPT_ON_THE_STACK = re.compile(r"%zmm\d+, -?\d*\(%rsp.*")


@pytest.mark.parametrize("rows", [37, 41, 64])
def test_accumulators_stay_in_registers(rows: int) -> None:
    """Blocks of 3 x 9, whole and with a last vector of few lanes."""
    shapes = (5, 6, 50, rows), (7, 45, 5, 50)
    made = teir.plan("trus,pqtu->pqrs", *shapes, dtype="float32", threads=1)
    text = assembly_text(lower(made.program, Isa.AVX512), Isa.AVX512, 1)
    assert re.search(r"vfmadd.*%zmm", text)
    assert KEPT_ON_THE_STACK.findall(text) == []


LARGE_BLOCKS = """teir 1 "large blocks"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis t = 2: in0 245760, in1 2560
axis r = 2: in0 12288, out 192
axis r_1 = 6: in0 2048, out 32, in0_packed 32
axis s = 8: in0 4, out 4, in0_packed 4
axis t_1 = 10: in0 24576, in1 256, in0_packed 12288
axis u = 64: in0 32, in1 4, in0_packed 192
axis rs = 48: out 4, in0_packed 4
axis pq = 96: in1 5120, out 384
primitive copy = Copy(in0 -> in0_packed; M=[r_1, s], N=[t_1, u])
primitive zero = Zero(out; M=[rs], N=[pq])
primitive product = Contraction FP32 (in0_packed, in1 -> out; M=[rs], N=[pq], K=[t_1, u]) HINTS
sequential loop_t over t
  sequential loop_r over r
    scratch in0_packed: FP32
    do_copy: copy
    do_zero: zero if first(t)
    do_product: product
""".replace("HINTS", 'with {"prefetch": ["out"]}')


@pytest.mark.parametrize("isa", [isa for isa in Isa if isa.is_avx512])
def test_blocks_that_fill_the_registers_keep_their_sums_there(isa: Isa) -> None:
    """Inlined, a pass through the loop of such a block read and wrote sums on the stack."""
    kernels = lower(teir.loads(LARGE_BLOCKS), isa)
    assert KEPT_ON_THE_STACK.findall(assembly_text(kernels, isa, 1)) == []


def test_equal_programs_have_equal_texts() -> None:
    kernels = [lower(DRAWN[7], host_isa()) for _ in range(2)]
    assert program_text(kernels[0], host_isa(), 2) == program_text(kernels[1], host_isa(), 2)


def never() -> list[str]:
    raise AssertionError("the code was not taken from disk")


def test_code_is_kept_on_disk_for_its_program_only(tmp_path: Path) -> None:
    isa = host_isa()
    first, second = (program("a b out", add((0, 0), (1, 0), (2, 4 * at))) for at in (0, 1))
    texts = [specialise_ir.emit_program(kernels, isa, 1) for kernels in (first, second)]
    symbols = (specialise_ir.PROGRAM,)

    def library(generator: str) -> CodeLibrary:
        return CodeLibrary(isa, ObjectCache(tmp_path / "objects"), generator)

    made = library("g").program(symbols, texts[0], lambda: specialise.kernel_bodies(first, isa))
    again = library("g").program(symbols, texts[0], never)
    assert made.addresses.keys() == again.addresses.keys() == set(symbols)
    for other in (library("g"), library("another")):
        text = texts[1] if other.generator == "g" else texts[0]
        with pytest.raises(AssertionError, match="not taken from disk"):
            other.program(symbols, text, never)


NEVER_TRUE = """teir 1 "never true"
tensor P: I32
tensor C: I32
tensor B: FP32
tensor out: FP32
axis i = 4: P 4, out 4
axis j = 4: C 4, B 4; segment pos P crd C by_position [B]
primitive zero = Zero(out; M=[], N=[])
primitive sum = Contraction(B -> out; M=[], N=[], K=[])
parallel ni over i
  z: zero
  sequential nj over j if first(i) and last(i)
    v: sum
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_shares_are_taken_by_bounds_that_nothing_else_reads(threads: int) -> None:
    executable = teir.compile(teir.loads(NEVER_TRUE), threads=threads, form=teir.Form.SPECIALISED)
    bounds, columns = np.arange(5, dtype=np.int32), np.arange(4, dtype=np.int32)
    out = np.full(4, 7, np.float32)
    executable.run({"P": bounds, "C": columns, "B": np.ones(4, np.float32), "out": out})
    assert not out.any()
