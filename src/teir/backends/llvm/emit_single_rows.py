"""Rows that store one element each, as many at once as a fibre has chains.

    where pos[row] = pos[0] + row for every row of the call
      { out[row : row + n] = values[p : p + n] * x[crd[p : p + n]] }

The first chain of such a row is its product and the others are zeros: the bits are those of rows
formed one by one. A vector gather for a single element takes as long as for eight.
"""

from __future__ import annotations

from teir.backends.llvm.emit_fibre_chains import FibreChains
from teir.backends.llvm.emit_fibres import emit_fibre, load_index
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_when
from teir.backends.llvm.emit_text import constants, shift_pointer, splat, vector
from teir.backends.llvm.walked_sum_body import SumBody
from teir.dtypes import DataType
from teir.lower.walked_kernels import Follows

_TYPES = (DataType.FP32, DataType.FP64)


def has_single_rows(body: SumBody) -> bool:
    """Whether rows of one element are looked for: sums in chains that only the fibre moves."""
    kernel = body.kernel
    if kernel.chains is None or kernel.rows is None or kernel.outer is not None:
        return False
    if kernel.in_type not in _TYPES or kernel.out_type is not kernel.in_type:
        return False
    moved = (Follows.POSITION, Follows.COORDINATE)
    return (
        body.isa.gathers_quickly
        and all(one.follows in moved for one in kernel.inputs)
        and all(follows is Follows.NOTHING for follows in kernel.rows.inputs)
    )


def emit_are_single(label: str, first: SumBody, left: str) -> str:
    """Whether each of ``left`` rows from that of ``first`` on stores one element, sums adjacent.

    There is a row. Where the elements are not as many as the rows, no other bound is looked at.
    """
    text, kernel = first.text, first.kernel
    before_last = text.value(f"sub i64 {left}, 1")
    byte = text.value(f"mul i64 {before_last}, %pos_row")
    begin = load_index(text, kernel.pos_type, first.arrays[0])
    last, length = emit_fibre(text, kernel.pos_type, shift_pointer(text, first.arrays[0], byte))
    end = text.value(f"add i64 {last}, {length}")
    stored = text.value(f"sub i64 {end}, {begin}")
    may_be = text.value(f"icmp eq i64 {stored}, {left}")
    facts = (
        f"icmp sge i64 {left}, {kernel.chains}",
        f"icmp eq i64 %pos_row, {kernel.pos_type.width}",
        f"icmp eq i64 %c_row, {kernel.out_type.width}",
    )
    for fact in facts:
        may_be = text.value(f"and i1 {may_be}, {text.value(fact)}")

    def look() -> Values:
        return [_follow_one_another(label, first, begin, left)]

    return emit_when(text, f"looked{label}", may_be, [Carried("i1", "false")], look)[0]


def _follow_one_another(label: str, first: SumBody, begin: str, left: str) -> str:
    """Whether the bounds of ``left`` rows, at least a vector of them, are ``begin`` and so on."""
    text, pos_type, lanes = first.text, first.kernel.pos_type, first.kernel.chains
    assert lanes is not None
    index = f"i{8 * pos_type.width}"
    kind, bits = vector(index, lanes), vector("i1", lanes)

    def compare(row: str, same: str) -> str:
        place = text.value(f"getelementptr {index}, ptr {first.arrays[0]}, i64 {row}")
        bounds = text.value(f"load {kind}, ptr {place}, align 1")
        here = text.value(f"add i64 {begin}, {row}")
        here = here if index == "i64" else text.value(f"trunc i64 {here} to {index}")
        many = splat(text, index, here, lanes)
        expected = text.value(f"add {kind} {many}, {constants(index, range(lanes))}")
        equal = text.value(f"icmp eq {kind} {bounds}, {expected}")
        return text.value(f"and {bits} {same}, {equal}")

    def step(now: Values) -> Values:
        row, same = now
        return [text.value(f"add i64 {row}, {lanes}"), compare(row, same)]

    carried = [Carried("i64", "0"), Carried(bits, constants("i1", [1] * lanes))]
    _, (_, same) = emit_loop(text, f"bounds{label}", left, lanes, carried, step)
    same = compare(text.value(f"sub i64 {left}, {lanes}"), same)
    mask = text.value(f"bitcast {bits} {same} to i{lanes}")
    return text.value(f"icmp eq i{lanes} {mask}, -1")


def emit_single_rows(label: str, first: SumBody, left: str) -> None:
    """The sums of such rows from zero; those of the last vector may be formed twice."""
    text, kernel, lanes = first.text, first.kernel, first.kernel.chains
    assert lanes is not None
    chains = FibreChains(text, kernel, first.isa, first.arrays[-1], first.pointers, {})
    begin = load_index(text, kernel.pos_type, first.arrays[0])
    out, kind = first.pointers[len(kernel.inputs)], chains.kind

    def form(row: str) -> None:
        sums = chains.of_rows(text.value(f"add i64 {begin}, {row}"))
        place = text.value(f"getelementptr {kind.element}, ptr {out}, i64 {row}")
        text.effect(f"store {kind.kind} {sums}, ptr {place}, align 1")

    def step(now: Values) -> Values:
        form(now[0])
        return [text.value(f"add i64 {now[0]}, {lanes}")]

    emit_loop(text, f"singles{label}", left, lanes, [Carried("i64", "0")], step)
    form(text.value(f"sub i64 {left}, {lanes}"))
