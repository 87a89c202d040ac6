"""Which loops around dots of rows become columns of the call, and that no bit changes."""

from __future__ import annotations

import pytest

from teir.backends.llvm.compile_ir import runs_here
from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.explanation import count_calls
from teir.lower.kernel_program import Call
from teir.lower.kernels import DotRows
from teir.lower.lower import lower
from teir.soak.operands import differences, draw_images, tight_images
from teir.soak.pages import GuardedOperands
from teir.soak.running import as_operands, compiled, evaluated
from teir.target import Isa


def dots(
    m: int = 7,
    n: int = 5,
    k: int = 53,
    kind: DataType = DataType.FP32,
    column: int | None = None,
    lanes: int = 32,
    in0_moves: bool = False,
    is_looped: bool = True,
) -> Program:
    """out[n, m] += sum over k of in0[m, k] in1[n, k]; columns of the result so many bytes apart."""
    w = kind.width
    apart = m * w if column is None else column
    moved = f"in0 {w}, " if in0_moves else ""
    side, loop = ("", "sequential n over n\n  ") if is_looped else ("n", "")
    return parse_program(
        f"""teir 1 "dots"
tensor in0: {kind.value}
tensor in1: {kind.value}
tensor out: {kind.value}
axis m = {m}: in0 {(k + 3) * w}, out {w}
axis n = {n}: {moved}in1 {(k + 1) * w}, out {apart}
axis k = {k}: in0 {w}, in1 {w}
primitive dots = Contraction {kind.value} (in0, in1 -> out; M=[m], N=[{side}], K=[k]) \
with {{"lanes": {lanes}}}
{loop}do_dots: dots
"""
    )


def columns_at_once(program: Program, isa: Isa = Isa.AVX512) -> set[int]:
    called = count_calls(lower(program, isa).roots)
    return {one.columns for one in called if isinstance(one, DotRows)}


@pytest.mark.parametrize("is_looped", [False, True])
def test_turns_of_a_loop_are_columns(is_looped: bool) -> None:
    (call,) = lower(dots(is_looped=is_looped), Isa.AVX512).roots
    assert isinstance(call, Call)
    assert isinstance(call.kernel, DotRows)
    assert call.kernel.columns == 2
    assert call.arguments[-4:] == (5, 0, 54 * 4, 28)


@pytest.mark.parametrize(
    "changes",
    [{"column": 4}, {"column": 20}, {"in0_moves": True}, {"n": 1}, {"kind": DataType.C64}],
    ids=str,
)
def test_turns_stay_where_results_meet_rows_move_or_numbers_are_pairs(
    changes: dict[str, object],
) -> None:
    assert columns_at_once(dots(**changes)) == {1}  # type: ignore[arg-type]


def test_few_registers_hold_no_columns() -> None:
    assert columns_at_once(dots(), Isa.AVX2) == {1}


@pytest.mark.skipif(not runs_here(Isa.AVX512), reason="no AVX-512")
@pytest.mark.parametrize("kind", [DataType.FP32, DataType.FP64])
@pytest.mark.parametrize(("m", "n", "k"), [(7, 5, 53), (1, 4, 32), (4, 2, 31), (9, 3, 130)])
def test_columns_change_no_bit_and_stay_inside(kind: DataType, m: int, n: int, k: int) -> None:
    program = dots(m=m, n=n, k=k, kind=kind, lanes=128 // kind.width)
    images = tight_images(draw_images(program, 3, 3), program)
    expected = evaluated(program, images)
    pages = GuardedOperands(images)
    executable = compiled(program, Isa.AVX512, 1)
    for at_end in (True, False):
        ours = pages.placed(at_end=at_end)
        executable.run(as_operands(ours))
        assert list(differences(ours, expected)) == []
