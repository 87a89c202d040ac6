"""Rows of walked sums, two at once, with an accumulator each.

    for every position both fibres have:  sums 0 += ...;  sums 1 += ...
    the positions one of them has left;  store both

The multiply-adds of a sum wait for one another, for each starts from the last. Processors look a
row or less ahead, so that a short row's vectors alone leave most of the time empty: of rows of two
vectors in the second cache two at once take 0.87 to 0.95 of the time on a Golden Cove core, of one
vector 0.78; from three on nothing is gained. No sum changes: every one has its positions in their
order.

Both rows are addressed from one number that counts up to zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from teir.backends.llvm.emit_fibres import emit_fibre
from teir.backends.llvm.emit_loops import Carried, Values, emit_strides, emit_to_zero
from teir.backends.llvm.emit_text import shift_pointer
from teir.backends.llvm.walked_sum_body import SumBody

_LEAST_MEAN = 24
"""Stored elements of a row, on average over a call, from which two rows at once pay: where rows
are of different lengths the ends of two are foreseen less often."""
_MOST_VECTORS = 2


def has_row_pairs(body: SumBody) -> bool:
    """Whether rows are formed two at once where they are long enough.

    Not where they are read line by line under masks: three lines of two take 0.99 of the time.
    """
    return body.counts_to_zero and not body.inside and body.kernel.vectors <= _MOST_VECTORS


def emit_pays_in_pairs(body: SumBody, begin: str, left: str) -> str:
    """Whether the fibres of ``left`` rows from ``begin`` on are long.

    There is a row. The stored elements are those from the first row to the last.
    """
    text, kernel = body.text, body.kernel
    last = text.value(f"add i64 {begin}, {left}")
    last = text.value(f"sub i64 {last}, 1")
    bounds = []
    for row in (begin, last):
        byte = text.value(f"mul i64 {row}, %pos_row")
        pos = shift_pointer(text, body.arrays[0], byte)
        bounds.append(emit_fibre(text, kernel.pos_type, pos))
    (first, _), (start, length) = bounds
    end = text.value(f"add i64 {start}, {length}")
    stored = text.value(f"sub i64 {end}, {first}")
    least = text.value(f"mul i64 {left}, {_LEAST_MEAN}")
    return text.value(f"icmp sge i64 {stored}, {least}")


def emit_row_pairs(label: str, first: SumBody, steps: Mapping[int, str], left: str) -> None:
    """All ``left`` rows from that of ``first`` on; the last of an odd number is formed twice.

    ``steps``: by the number of a pointer that rows move its bytes from one row to the next.
    """
    text = first.text

    def form(left_now: str, now: Values) -> tuple[str, Values]:
        is_last = text.value(f"icmp eq i64 {left_now}, 1")
        row_steps = [
            text.value(f"select i1 {is_last}, i64 0, i64 {step}")
            for step in ("%pos_row", *steps.values())
        ]
        both = []
        for _ in range(2):
            here, *pointers = now
            places = first.pointers | dict(zip(steps, pointers, strict=True))
            both.append(replace(first, arrays=(here, *first.arrays[1:]), pointers=places))
            now = [shift_pointer(text, *one) for one in zip(now, row_steps, strict=True)]
        _emit_pair(label, both)
        return text.value(f"select i1 {is_last}, i64 1, i64 2"), now

    carried = [Carried("ptr", first.arrays[0])]
    carried += [Carried("ptr", first.pointers[number]) for number in steps]
    emit_strides(text, f"each_pair{label}", left, carried, form)


def _emit_pair(label: str, both: Sequence[SumBody]) -> None:
    """The sums of two rows, a position of the second after each of the first."""
    text = both[0].text
    fibres = [emit_fibre(text, one.kernel.pos_type, one.arrays[0]) for one in both]
    (_, length), (_, other) = fibres
    shared = text.value(f"call i64 @llvm.smin.i64(i64 {length}, i64 {other})")
    rows = [
        one.from_position(text.value(f"add i64 {begin}, {shared}"))
        for one, (begin, _) in zip(both, fibres, strict=True)
    ]
    starts = [row.carried(row.start(label)) for row in rows]
    count = len(starts[0])

    def add(index: str, sums: Values) -> Values:
        added: Values = []
        for row, some in zip(rows, (sums[:count], sums[count:]), strict=True):
            added += row.add_position({}, [index, *some])[1:]
        return added

    carried, has_vector = [*starts[0], *starts[1]], both[0].kind.fills_masked_vector
    sums = emit_to_zero(text, f"pair{label}", shared, carried, add, has_vector=has_vector)
    halves = (sums[:count], sums[count:])
    for number, (row, half, fibre) in enumerate(zip(rows, halves, fibres, strict=True)):
        left = text.value(f"sub i64 {fibre[1]}, {shared}")
        row.store(row.sum_fibre(f"_rest{number}{label}", ("0", left), {}, half))
