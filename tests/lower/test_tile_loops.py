"""Which loops around products by tile registers go into the call."""

from __future__ import annotations

from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.explanation import count_calls
from teir.lower.kernel_program import Call, Loop
from teir.lower.lower import lower
from teir.lower.tile_kernels import TileProduct
from teir.target import Isa


def looped_text(
    rows: int = 3, columns: int = 5, m: int = 24, n: int = 20, k: int = 40, column_gap: int = 0
) -> str:
    """out[n_, n, m_, m] = sum over k of in0[m_, k, m] in1[n_, n, k], the outer ones in loops.

    ``column_gap`` is how many bytes more than a column the columns of the result are apart.
    """
    apart = 2 * m * rows + column_gap
    return f"""teir 1 "loops"
tensor in0: BF16
tensor in1: BF16
tensor out: BF16
axis m_ = {rows}: in0 {2 * m * k}, out {2 * m}
axis n_ = {columns}: in1 {2 * k * n + 16}, out {apart * n}
axis m = {m}: in0 2, out 2
axis n = {n}: in1 {2 * k}, out {apart}
axis k = {k}: in0 {2 * m}, in1 2
primitive zero = Zero(out; M=[m], N=[n])
primitive product = Contraction BF16 (in0, in1 -> out; M=[m], N=[n], K=[k]) with {{"subnormals": "zero"}}
sequential m_ over m_
  sequential n_ over n_
    do_zero: zero
    do_product: product
"""  # noqa: E501


def looped(**changes: int) -> Program:
    return parse_program(looped_text(**changes))


def test_loops_over_rows_and_columns_become_axes_of_the_call() -> None:
    (only,) = lower(looped(), Isa.AMX).roots
    assert isinstance(only, Call)
    assert only.arguments[:2] == (24, 20)
    assert only.arguments[16:22] == (3, 80 * 24, 48, 5, 80 * 20 + 16, 2 * 24 * 3 * 20)


def test_an_axis_that_goes_on_where_the_inner_one_ends_makes_it_longer() -> None:
    text = looped_text(rows=1).replace("in1 1616", "in1 1600")
    (only,) = lower(parse_program(text), Isa.AMX).roots
    assert isinstance(only, Call)
    assert only.arguments[:2] == (24, 100)
    assert only.arguments[16:22] == (1, 0, 0, 1, 0, 0)


def nested_text(
    beyond: int = 5, rows: int = 3, columns: int = 40, m: int = 24, n: int = 12, k: int = 24
) -> str:
    """out[d, n_, m_, n, m] = sum over k of in0[d, m_, k, m] in1[n_, n, k]; n_, d and m_ in loops.

    Rows of ``d`` do not go on where those of ``m_`` end, unless there is one ``n_``.
    """
    tile = 2 * m * n
    return f"""teir 1 "loops"
tensor in0: BF16
tensor in1: BF16
tensor out: BF16
axis d = {beyond}: in0 {2 * m * k * rows}, out {tile * rows * columns}
axis m_ = {rows}: in0 {2 * m * k}, out {tile}
axis n_ = {columns}: in1 {2 * k * n + 16}, out {tile * rows}
axis m = {m}: in0 2, out 2
axis n = {n}: in1 {2 * k}, out {2 * m}
axis k = {k}: in0 {2 * m}, in1 2
primitive zero = Zero(out; M=[m], N=[n])
primitive product = Contraction BF16 (in0, in1 -> out; M=[m], N=[n], K=[k]) with {{"subnormals": "zero"}}
sequential n_ over n_
  sequential d over d
    sequential m_ over m_
      do_zero: zero
      do_product: product
"""  # noqa: E501


def test_rows_that_go_on_where_the_outer_ones_end_join_them() -> None:
    (only,) = lower(parse_program(nested_text(columns=1, rows=8)), Isa.AMX).roots
    assert isinstance(only, Call)
    assert only.arguments[16:22] == (40, 24 * 48, 24 * 24, 1, 0, 0)


def test_a_small_call_takes_a_loop_across_one_that_it_cannot_take() -> None:
    (loop,) = lower(parse_program(nested_text(rows=8)), Isa.AMX).roots
    assert isinstance(loop, Loop)
    assert loop.extent == 5
    (call,) = loop.body
    assert isinstance(call, Call)
    assert isinstance(call.kernel, TileProduct)
    assert call.arguments[16] == 8
    assert call.arguments[19] == 40


def test_small_products_want_a_loop_that_the_call_takes() -> None:
    """6,912 products a turn: eight turns are enough, two and rows far from one another are not."""
    for rows, is_taken in ((8, True), (2, False)):
        nodes = lower(parse_program(nested_text(rows=rows)), Isa.AMX).roots
        kernels = count_calls(nodes)
        assert any(isinstance(one, TileProduct) for one in kernels) is is_taken


def test_results_that_meet_across_loops_stay_where_they_are() -> None:
    text = nested_text(rows=8).replace(f"out {2 * 24 * 12 * 8 * 40}", f"out {2 * 24 * 12 * 8}")
    (outer,) = lower(parse_program(text), Isa.AMX).roots
    assert isinstance(outer, Loop)
    assert outer.extent == 40


def test_a_long_loop_gives_some_of_its_turns() -> None:
    (only,) = lower(looped(rows=1, columns=1024, m=512, n=512, k=512), Isa.AMX).roots
    assert isinstance(only, Loop)
    (call,) = only.body
    assert isinstance(call, Call)
    assert only.extent * call.arguments[19] == 1024
    assert call.arguments[19] == 64


def test_results_that_meet_stay_in_their_loop() -> None:
    """Columns nearer than a column is long: what is added twice is added in the loop's order."""
    (rows,) = lower(looped(column_gap=-48), Isa.AMX).roots
    assert isinstance(rows, Loop)
    (call,) = rows.body
    assert isinstance(call, Call)
    assert isinstance(call.kernel, TileProduct)
    assert call.arguments[16] == 1


def with_relu(text: str, strides: str = "out 2") -> Program:
    """The same with ReLU of every tile after its product."""
    text = text.replace("axis k =", f"axis r = 480: {strides}\naxis k =")
    text = text.replace(
        "sequential m_", "primitive relu = ReLU(out -> out; M=[r], N=[])\nsequential m_"
    )
    return parse_program(text + "    do_relu: relu\n")


def test_what_changes_results_afterwards_has_a_loop_of_its_own() -> None:
    text = looped_text(rows=1)
    call, loop = lower(with_relu(text), Isa.AMX).roots
    assert isinstance(call, Call)
    assert call.arguments[19] == 5
    assert isinstance(loop, Loop)
    assert [type(node) for node in loop.body] == [Call]


def test_what_changes_results_of_other_turns_stays_behind_its_product() -> None:
    text = looped_text(rows=1)
    (loop,) = lower(with_relu(text, "out 4"), Isa.AMX).roots
    assert isinstance(loop, Loop)
    assert len(loop.body) == 2
