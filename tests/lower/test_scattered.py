"""Sparse loops that add into what the visited element addresses, as kernels and as the meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.ir.evaluate import evaluate
from teir.ir.load import loads
from teir.ir.nodes import Program
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernel_program import Call, KernelNode, SparseLoop, inner_nodes
from teir.lower.lower import lower
from teir.lower.walked_kernels import Follows, WalkedScatter
from teir.pipeline.executable import compile_program
from teir.target import Isa

Array = np.ndarray[Any, np.dtype[Any]]

TEXT = """teir 1 "scatter"
tensor b: {type}
tensor C: {type}
tensor pos: I32
tensor crd: {index}
tensor T: {type}
axis k = 9: C {c}, crd {iw}, T {t}; segment pos pos crd crd by_position [C]
axis i = 3: b {w}, pos 4, T {row}
axis l = {length}: C {w}, T {w}
primitive add = Contraction {type} (b, C -> T; M=[l], N=[], K=[])
primitive zero = Zero(T; M=[l], N=[])
parallel i over i
  sequential k over k
{body}
"""


def program(
    kind: str, index: str, length: int, body: str = "    add: add", gap: int = 0
) -> Program:
    width = {"FP32": 4, "FP64": 8}[kind]
    row = width * (length + gap)
    return loads(
        TEXT.format(
            type=kind,
            index=index,
            w=width,
            iw={"I32": 4, "I64": 8}[index],
            length=length,
            c=width * length,
            t=row,
            row=9 * row,
            body=body,
        )
    )


def operands(made: Program, length: int, gap: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(length)
    types = {tensor.name: tensor.data_type.numpy_dtype() for tensor in made.tensors}
    pos = np.array([0, 4, 4, 9], np.int32)
    crd = np.concatenate([np.sort(random.permutation(9)[:4]), np.sort(random.permutation(9)[:5])])
    return {
        "b": random.integers(-4, 5, 3).astype(types["b"]),
        "C": random.integers(-4, 5, (9, length)).astype(types["C"]),
        "pos": pos,
        "crd": crd.astype(types["crd"]),
        "T": random.integers(-4, 5, (3, 9, length + gap)).astype(types["T"]),
    }


def copies(arrays: dict[str, Array]) -> dict[str, Array]:
    return {name: array.copy() for name, array in arrays.items()}


def kernels(nodes: tuple[KernelNode, ...]) -> list[object]:
    found: list[object] = []
    for node in nodes:
        if isinstance(node, Call):
            found.append(node.kernel)
        else:
            found += [type(node)] if isinstance(node, SparseLoop) else []
            found += kernels(inner_nodes(node))
    return found


@pytest.mark.parametrize("kind", ["FP64", "FP32"])
@pytest.mark.parametrize("index", ["I32", "I64"])
@pytest.mark.parametrize("length", [1, 3, 4, 8, 12, 21, 300])
@pytest.mark.parametrize("isa", list(Isa))
def test_rows_move_with_the_coordinate(kind: str, index: str, length: int, isa: Isa) -> None:
    made = program(kind, index, length, gap=length % 2)
    given = operands(made, length, gap=length % 2)
    lowered = lower(made, isa)
    assert all(isinstance(kernel, WalkedScatter) for kernel in kernels(lowered.roots))
    expected, found = copies(given), copies(given)
    evaluate(made, expected)
    evaluate_kernels(lowered, found, {})
    np.testing.assert_array_equal(found["T"], expected["T"])
    if not runs_here(isa):
        return
    native = copies(given)
    compile_program(made, isa=isa, threads=2).run(native)
    np.testing.assert_array_equal(native["T"], expected["T"])


@pytest.mark.parametrize(
    ("length", "lanes"), [(2, 2), (4, 4), (6, 2), (7, 1), (12, 4), (13, 1), (20, 4), (37, 8)]
)
def test_short_rows_are_stored_without_masks(length: int, lanes: int) -> None:
    (kernel,) = kernels(lower(program("FP64", "I32", length), Isa.AVX512).roots)
    assert isinstance(kernel, WalkedScatter)
    assert (kernel.lanes, kernel.masked) == (lanes, length == 37)


@pytest.mark.parametrize(
    ("body", "splits"),
    [
        ("    zero: zero\n    add: add", True),
        ("    zero: zero", True),
        ("    add: add\n    zero: zero", True),
        ("    add: add\n    again: add", True),
    ],
)
def test_leaves_one_after_the_other(body: str, splits: bool) -> None:
    made = program("FP64", "I32", 5, body)
    given = operands(made, 5)
    lowered = lower(made, Isa.PLAIN)
    assert (SparseLoop not in kernels(lowered.roots)) == splits
    expected, found, native = copies(given), copies(given), copies(given)
    evaluate(made, expected)
    evaluate_kernels(lowered, found, {})
    compile_program(made).run(native)
    for one in (found, native):
        np.testing.assert_array_equal(one["T"], expected["T"])


def test_visits_that_overlap_stay_together() -> None:
    """A row of 5 elements every 4: what one visit adds the next one sets to zero."""
    made = program("FP64", "I32", 5, "    zero: zero\n    add: add", gap=-1)
    sequential = loads(str_of(made).replace("parallel i over i", "sequential i over i"))
    given = operands(sequential, 5, gap=-1)
    given["T"] = np.append(given["T"].reshape(-1), 0.0)
    assert SparseLoop in kernels(lower(sequential, Isa.PLAIN).roots)
    expected, found = copies(given), copies(given)
    evaluate(sequential, expected)
    evaluate_kernels(lower(sequential, Isa.PLAIN), found, {})
    np.testing.assert_array_equal(found["T"], expected["T"])


def str_of(made: Program) -> str:
    from teir.ir.printing import print_program

    return print_program(made).text


PRODUCT = """teir 1 "rows of a matrix that a fibre names"
tensor B: {type}
tensor B.pos: I32
tensor B.crd: I32
tensor C: {type}
tensor C.pos: I64
tensor C.crd: I64
tensor T: {type}
axis j = 5: B {w}, B.crd 4, C.pos 8; segment pos B.pos crd B.crd by_position [B]
axis k = 9: C {row}, C.crd 8, T {row}; segment pos C.pos crd C.crd by_position [C]
axis i = 3: B.pos 4, T {rows}
axis l = {length}: C {w}, T {w}
primitive add = Contraction {type} (B, C -> T; M=[l], N=[], K=[])
parallel i over i
  sequential j over j
    sequential k over k
      add: add
"""


@pytest.mark.parametrize("kind", ["FP64", "FP32"])
@pytest.mark.parametrize("length", [1, 3, 8, 21])
@pytest.mark.parametrize("isa", list(Isa))
def test_fibres_named_by_coordinates_of_the_level_above(kind: str, length: int, isa: Isa) -> None:
    width = {"FP32": 4, "FP64": 8}[kind]
    row = width * length
    made = loads(PRODUCT.format(type=kind, w=width, length=length, row=row, rows=9 * row))
    random = np.random.default_rng(length)
    dtype = np.dtype(f"f{width}")
    given: dict[str, Array] = {
        "B": random.integers(-4, 5, 6).astype(dtype),
        "B.pos": np.array([0, 3, 3, 6], np.int32),
        "B.crd": np.array([0, 2, 4, 1, 3, 4], np.int32),
        "C": random.integers(-4, 5, (14, length)).astype(dtype),
        "C.pos": np.array([0, 2, 2, 9, 10, 14]),
        "C.crd": np.array([1, 8, 0, 1, 2, 4, 5, 6, 8, 3, 0, 3, 5, 7]),
        "T": random.integers(-4, 5, (3, 9, length)).astype(dtype),
    }
    lowered = lower(made, isa)
    (kernel,) = kernels(lowered.roots)
    assert isinstance(kernel, WalkedScatter)
    assert kernel.fibre is Follows.OUTER_COORDINATE
    expected, found, native = copies(given), copies(given), copies(given)
    evaluate(made, expected)
    evaluate_kernels(lowered, found, {})
    np.testing.assert_array_equal(found["T"], expected["T"])
    if runs_here(isa):
        compile_program(made, isa=isa, threads=2).run(native)
        np.testing.assert_array_equal(native["T"], expected["T"])
