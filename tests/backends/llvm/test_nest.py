"""Tables and specialised functions mean what the kernel program means."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from backends.llvm.small_programs import (
    ENDLESS,
    add,
    elementwise,
    grid,
    loop,
    product,
    program,
    slot,
    steps,
)
from strategies.programs import programs
from teir.backends.llvm import nest
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.library import code_library
from teir.backends.llvm.native import NativeProgram, bind_native
from teir.backends.llvm.specialise import assembly_text, bind_specialised, llvm_text
from teir.backends.llvm.table import build_table
from teir.ir.nodes import Operation
from teir.lower.calls import kernels_of
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernel_program import Guarded, IndexTest, KernelProgram, Storage
from teir.lower.lower import lower
from teir.runtime import runtime
from teir.soak.operands import Image, draw_images
from teir.soak.programs import DrawnProgram

N = 48
BINDINGS = [bind_native, bind_specialised]

CASES = {
    "one kernel": program("a b out", add((0, 4), (1, 8), (2, 12), count=5)),
    "a loop in registers": program(
        "a b out", loop(7, steps((0, 2), (1, 1), (2, 3)), add((0, 0), (1, 4), (2, 8)))
    ),
    "operands in another order than the loop's": program(
        "a b out",
        loop(
            5,
            steps((0, 1), (2, 1)),
            add((0, 0), (1, 0), (2, 0)),
            add((2, 0), (0, 8), (2, 0)),
            elementwise(Operation.COPY, (2, 0), (1, 4)),
        ),
    ),
    "one slot twice": program("a out", loop(6, steps((0, 1), (1, 1)), add((0, 0), (0, 4), (1, 0)))),
    "more slots than registers": program(
        "a b c d out",
        loop(
            3,
            steps((0, 2), (3, 1), (4, 4)),
            add((0, 0), (1, 0), (4, 0)),
            loop(2, steps((2, 1), (4, 1)), add((2, 0), (3, 0), (4, 4))),
        ),
        add((0, 0), (3, 0), (4, 100)),
    ),
    "more operands than registers": program(
        "a b c out", loop(4, steps((0, 1), (2, 2), (3, 1)), product((0, 0), (1, 4), (2, 8), (3, 0)))
    ),
    "more operands than registers, few slots": program(
        "a out", loop(4, steps((0, 1), (1, 1)), product((0, 0), (0, 4), (0, 8), (1, 0)))
    ),
    "guards": program(
        "a b out",
        loop(
            4,
            steps((2, 4)),
            loop(
                3,
                steps((2, 1)),
                Guarded(
                    tests=(IndexTest(index=0, value=3), IndexTest(index=1, value=0)),
                    body=(add((0, 0), (1, 0), (2, 0)), add((0, 4), (1, 0), (2, 80))),
                ),
                Guarded(tests=(IndexTest(index=1, value=2),), body=(add((0, 0), (0, 0), (2, 0)),)),
                index=1,
            ),
            index=0,
        ),
        cells=2,
    ),
    "guards in the frame": program(
        "a b c out",
        loop(
            3,
            steps((3, 2)),
            Guarded(
                tests=(IndexTest(index=0, value=1),),
                body=(product((0, 0), (1, 0), (2, 0), (3, 0)), add((0, 0), (1, 0), (3, 4))),
            ),
            index=0,
        ),
        cells=1,
    ),
    "a grid": program(
        "a b out",
        grid(
            add((0, 0), (1, 0), (2, 0)),
            axes=((3, steps((0, 3), (2, 12)), None), (4, steps((1, 1), (2, 3)), None)),
        ),
    ),
    "a grid in a loop, guards inside and outside": program(
        "a b out",
        loop(
            2,
            steps((2, 20)),
            grid(
                Guarded(
                    tests=(IndexTest(index=0, value=1), IndexTest(index=1, value=4)),
                    body=(add((0, 0), (1, 0), (2, 15)),),
                ),
                loop(2, steps((2, 10)), add((0, 0), (1, 4), (2, 4))),
                axes=((5, steps((0, 1), (2, 1)), 1),),
            ),
            index=0,
        ),
        cells=2,
    ),
    "scratch of the run and of the threads": program(
        "a out",
        elementwise(Operation.COPY, (0, 0), (2, 16), count=16),
        grid(
            elementwise(Operation.COPY, (2, 16), (3, 0), count=2),
            add((3, 4), (3, 0), (1, 0)),
            axes=((15, steps((2, 1), (1, 1)), None),),
        ),
        scratch=(slot("run", Storage.RUN, 64), slot("own", Storage.THREAD, 128)),
    ),
    "nothing": program("a out"),
    "an empty body": program("a out", loop(3, (), Guarded(tests=(), body=()))),
}


def run(native: NativeProgram, arrays: list[np.ndarray]) -> None:
    native.run(tuple(array.ctypes.data for array in arrays))


def drawn_arrays(kernel_program: KernelProgram) -> list[np.ndarray]:
    numbers = np.random.default_rng(5)
    operands = [s for s in kernel_program.slots if s.storage is Storage.OPERAND]
    return [numbers.integers(-40, 40, N).astype(np.float32) for _ in operands]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("bind", BINDINGS)
@pytest.mark.parametrize("name", CASES)
def test_programs_by_hand(name: str, bind: type, threads: int) -> None:
    kernel_program = CASES[name]
    expected = drawn_arrays(kernel_program)
    tensors = [s.tensor for s in kernel_program.slots if s.storage is Storage.OPERAND]
    evaluate_kernels(kernel_program, dict(zip(tensors, expected, strict=True)), {})
    native = bind(kernel_program, host_isa(), threads)
    for _ in range(3):
        ours = drawn_arrays(kernel_program)
        run(native, ours)
        for left, right in zip(ours, expected, strict=True):
            np.testing.assert_array_equal(left, right)


def _random_bytes(image: Image) -> Image:
    """The same memory with numbers whose sums round."""
    copied = image.copy()
    elements = copied.content.view(image.data_type.numpy_dtype())
    numbers = np.random.default_rng(elements.size).standard_normal(elements.size) + 3
    elements[:] = numbers.astype(elements.dtype)
    return copied


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(work=1_500))
def test_the_specialised_form_has_the_tables_bits(drawn: DrawnProgram) -> None:
    if any(axis.is_sparse for axis in drawn.program.axes):
        return
    kernel_program = lower(drawn.program, host_isa())
    images = draw_images(drawn.program, 1, drawn.largest, drawn.divisors)
    images = {name: _random_bytes(image) for name, image in images.items()}
    left, right = ({name: image.copy() for name, image in images.items()} for _ in range(2))
    for bind, ours in ((bind_native, left), (bind_specialised, right)):
        bases = [ours[tensor.name] for tensor in drawn.program.tensors]
        addresses = tuple(image.content.ctypes.data + image.base for image in bases)
        bind(kernel_program, host_isa(), 2).run(addresses)
    for name, image in left.items():
        assert image.content.tobytes() == right[name].content.tobytes()


def test_a_loop_of_one_kernel_needs_three_nodes() -> None:
    kernel_program = CASES["a loop in registers"]
    library = code_library(runtime.current(), host_isa())
    control = library.control()
    kernels = library.leaves(kernels_of(kernel_program.roots))
    table = build_table(kernel_program, control, kernels, 1)
    leaf_words = 1 + len(kernel_program.roots[0].body[0].arguments)
    walk, enter = leaf_words, leaf_words + 6
    assert table.words[0] in kernels.values()
    assert list(table.words[walk : walk + 6]) == [control[nest.WALK], -8 * walk, 7, 8, 4, 12]
    assert list(table.words[enter:]) == [control[nest.ENTER], -48, 64, 0, 72, 4, 80, 8]
    assert table.root_bytes == 8 * enter


@pytest.mark.parametrize("bind", BINDINGS)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_kind_of_loop_stops_at_the_flag(bind: type, threads: int) -> None:
    forms = [
        ENDLESS,
        program("a b c out", loop(2**45, (), product((0, 0), (1, 0), (2, 0), (3, 0)))),
        program("a b out", grid(add((0, 0), (1, 0), (2, 0)), axes=((2**45, (), None),))),
        program("a b out", loop(2**45, (), add((0, 0), (1, 0), (2, 0)), index=0), cells=1),
    ]
    for kernel_program in forms:
        native = bind(kernel_program, host_isa(), threads)
        arrays = drawn_arrays(kernel_program)
        context = native.take_context()
        native.place(context, tuple(array.ctypes.data for array in arrays))
        ctypes.c_int64.from_address(context.cancel_address).value = 1
        before = [array.copy() for array in arrays]
        native.call(context)
        for left, right in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(left, right)


def test_texts_show_loops_and_kernels() -> None:
    kernel_program = CASES["a loop in registers"]
    text = llvm_text(kernel_program, host_isa(), 1)
    assert "define void @teir_program" in text
    assert "phi ptr" in text
    assert "fadd" in text
    assert "teir_program:" in assembly_text(kernel_program, host_isa(), 1)
