"""Which products of two-byte numbers are formed in FP32, through what scratch; their meaning."""

from __future__ import annotations

import numpy as np
import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.dtypes import DataType
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.axes import TileAxis
from teir.lower.calls import calls_of
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernels import Elementwise, GemmBlock
from teir.lower.lower import lower
from teir.lower.widened_tiles import _even, _pieces_of_sum
from teir.soak.running import compiled
from teir.target import Isa

INTEL = Isa.AVX512_INTEL


def product(
    m: int,
    n: int,
    k: tuple[int, ...],
    *,
    kind: DataType = DataType.BF16,
    out: DataType | None = None,
    turned: bool = False,
    swapped: bool = False,
    zero: bool = True,
) -> Program:
    """out[n, m] (+)= sum over k of in0[k, m] in1[n, k], or in1[k, n]; with gaps between the axes.

    ``swapped``: the rows are those of in1.
    """
    rows, columns = ("in1", "in0") if swapped else ("in0", "in1")
    to = out or kind
    a, b = 2 * m + 6, 2 * n if turned else 2
    axes: list[str] = []
    for number, extent in reversed(list(enumerate(k))):
        axes.insert(0, f"axis k{number} = {extent}: {rows} {a}, {columns} {b}")
        a, b = a * extent + 16, b * extent + 2
    depth = ", ".join(f"k{number}" for number in range(len(k)))
    kinds = f"tensor in0: {kind.value}\ntensor in1: {kind.value}\ntensor out: {to.value}"
    flush = ' with {"subnormals": "zero"}' if kind is DataType.BF16 else ""
    roles = "M=[n], N=[m]" if swapped else "M=[m], N=[n]"
    return parse_program(f"""teir 1 "product"
{kinds}
axis m = {m}: {rows} 2, out {to.width}
axis n = {n}: {columns} {2 if turned else b}, out {to.width * (m + 1)}
{chr(10).join(axes)}
primitive zero = Zero(out; M=[m], N=[n])
primitive product = Contraction {kind.value} (in0, in1 -> out; {roles}, K=[{depth}]){flush}
{"do_zero: zero" if zero else ""}
do_product: product
""")


def is_widened(program: Program, isa: Isa = INTEL) -> bool:
    kernels = [call.kernel for call, _ in calls_of(lower(program, isa).roots)]
    blocks = [one for one in kernels if isinstance(one, GemmBlock)]
    return bool(blocks) and {one.in_type for one in blocks} == {DataType.FP32}


SHAPES = [
    (32, 8, (5,)),
    (33, 49, (70,)),
    (70, 50, (3, 130)),
    (100, 97, (41,)),
    (200, 100, (9, 11)),
    (97, 200, (2, 3, 67)),
    (48, 40, (1, 700)),
    (65, 9, (700,)),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"zero": False, "turned": True},
        {"kind": DataType.FP16, "swapped": True},
        {"out": DataType.FP32, "zero": False},
        {"kind": DataType.FP16, "out": DataType.FP32, "turned": True},
    ],
)
def test_products_in_fp32_are_those_of_the_evaluator(
    shape: tuple[int, int, tuple[int, ...]], changes: dict[str, object]
) -> None:
    program = product(*shape, **changes)  # type: ignore[arg-type]
    draw = np.random.default_rng(5)
    types = {one.name: one.data_type.numpy_dtype() for one in program.tensors}
    start = {name: draw.integers(-2, 3, 180_000).astype(kind) for name, kind in types.items()}
    expected = {name: array.copy() for name, array in start.items()}
    evaluate(program, expected)
    assert is_widened(program)
    memory = {name: array.copy() for name, array in start.items()}
    evaluate_kernels(lower(program, INTEL), memory, {})
    np.testing.assert_array_equal(memory["out"], expected["out"])
    for isa in filter(runs_here, (INTEL, Isa.AVX2)):
        memory = {name: array.copy() for name, array in start.items()}
        compiled(program, isa, 1).run(memory)
        np.testing.assert_array_equal(memory["out"], expected["out"], err_msg=isa.value)


def test_subnormal_numbers_count_as_zero_in_fp32_too() -> None:
    program = product(32, 8, (3,))
    small = np.full(4000, 2.0**-70).astype(DataType.BF16.numpy_dtype())
    memory = {"in0": small, "in1": small, "out": np.ones_like(small)}
    expected = {name: array.copy() for name, array in memory.items()}
    evaluate(program, expected)
    assert expected["out"][0] == 0
    for isa in filter(runs_here, (INTEL, Isa.AVX2)):
        compiled(program, isa, 1).run(memory)
        np.testing.assert_array_equal(memory["out"], expected["out"])


@pytest.mark.parametrize("isa", [Isa.AMX, Isa.AVX512, Isa.PLAIN])
def test_others_multiply_as_they_did(isa: Isa) -> None:
    assert not is_widened(product(64, 64, (64,)), isa)


def test_few_rows_or_columns_are_converted_in_the_block() -> None:
    assert not is_widened(product(31, 64, (64,)))
    assert not is_widened(product(64, 7, (64,)))


@pytest.mark.parametrize(
    "shape", [*SHAPES, (192, 192, (3000,)), (40, 8, (5000,)), (96, 96, (9, 9, 9))]
)
@pytest.mark.parametrize("turned", [False, True])
def test_no_copy_leaves_its_scratch(
    shape: tuple[int, int, tuple[int, ...]], *, turned: bool
) -> None:
    """Bounds of every slot, from the calls and the loops around them."""
    program = lower(product(*shape, turned=turned), INTEL)
    sizes = {
        number: int(slot.tensor.partition(" bytes of ")[0])
        for number, slot in enumerate(program.slots)
        if " bytes of " in slot.tensor
    }
    assert len(sizes) == 3
    seen = set()
    for call, _ in calls_of(program.roots):
        if isinstance(call.kernel, Elementwise) and call.operands[-1].slot in sizes:
            count = len(call.operands)
            rows, columns = call.arguments[:2]
            row_bytes, column_bytes = call.arguments[1 + count], call.arguments[1 + 2 * count]
            end = (rows - 1) * row_bytes + (columns - 1) * column_bytes + 4
            slot = call.operands[-1].slot
            assert call.operands[-1].offset_bytes + end <= sizes[slot]
            seen.add(slot)
    assert len(seen) >= 2


def test_pieces_are_even_and_never_longer_than_allowed() -> None:
    for extent in range(1, 400):
        for most in (1, 7, 32, 48, 96):
            for multiple in (1, 16, 32):
                length = _even(extent, most, multiple)
                assert 1 <= length <= min(extent, most)
    assert _even(168, 192, 16) == 168
    assert _even(100, 96, 16) == 64


def test_a_sum_in_one_piece_goes_straight_to_the_output() -> None:
    for steps, types in ((5, {DataType.BF16}), (700, {DataType.FP32})):
        calls = calls_of(lower(product(32, 8, (steps,)), INTEL).roots)
        kernels = [call.kernel for call, _ in calls]
        assert {one.out_type for one in kernels if isinstance(one, GemmBlock)} == types


def test_sums_are_cut_where_the_innermost_axes_are_long_enough() -> None:
    axes = tuple(TileAxis(extent, (2 * extent, 2, 0)) for extent in (5, 10, 20))
    outside, pieces = _pieces_of_sum(axes, 70)
    assert [axis.extent for axis in outside] == [5]
    assert [(piece.inside[0].extent, piece.count) for piece in pieces] == [(3, 3), (1, 1)]
    outside, pieces = _pieces_of_sum(axes, 999)
    assert outside == ()
    assert [(piece.inside[0].extent, piece.count) for piece in pieces] == [(3, 1), (2, 1)]
