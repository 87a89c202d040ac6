"""``teir tune`` of index notation: the schedules measured, the fastest remembered."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from teir.cli.console import Json, complain, say, say_table
from teir.cli.keeping import said_of_keeping
from teir.cli.operands import draw_numbers
from teir.cli.rules import TUNED
from teir.cli.sparse_job import SparseCase
from teir.cli.timing import in_time_unit
from teir.dtypes import DataType
from teir.errors import refuse
from teir.pipeline.progress import patient_bar
from teir.pipeline.sparse_tuning import TunedProduct


def tune_case(
    case: SparseCase, data_type: DataType, threads: int | None, as_json: bool
) -> dict[str, Json]:
    """Measure the schedules of every product of a case; what --json prints of them.

    Raises TeirError (TEIR814) where none has another schedule.
    """
    from teir.pipeline.sparse_einsum import tune_operands

    generator = np.random.default_rng(0)
    operands = [_filled(one, data_type, generator) for one in case.operands]
    found: list[TunedProduct] = []
    try:
        with patient_bar(f"tuning {case.text}") as tell:
            tune_operands(
                case.text,
                operands,
                out_levels=case.out_levels,
                dtype=data_type,
                threads=threads,
                tell=tell,
                found=found,
            )
    except KeyboardInterrupt:
        kept = f"the best of {len(found[-1].measured)} schedules is kept" if found else "none kept"
        complain(f"interrupted: {kept}")
        raise
    if not found:
        expected, hint = "a product with more than one schedule", "tune dense products as einsums"
        refuse(TUNED, "EXPRESSION", expected, repr(case.text), hint)
    if not as_json:
        for one in found:
            _say(one)
    return {"expression": case.text, "products": [_as_json(one) for one in found]}


def _filled(operand: Any, data_type: DataType, generator: np.random.Generator) -> Any:
    if not isinstance(operand, tuple):
        return operand
    return draw_numbers(generator, prod(operand), data_type).reshape(operand)


def _say(one: TunedProduct) -> None:
    rows = sorted(one.measured, key=lambda row: row.seconds)
    say_table(
        ("measured", "predicted", "schedule"),
        [(in_time_unit(r.seconds), in_time_unit(r.predicted), r.schedule) for r in rows],
    )
    record = one.record
    gain = record.default_seconds / record.seconds
    said = f"{gain:.2f} times as fast as the default" if gain > 1 else "the default is the fastest"
    say(f"{one.product}: {in_time_unit(record.seconds)}, {said}; {said_of_keeping(one.is_kept)}")


def _as_json(one: TunedProduct) -> Json:
    measured: list[Json] = [
        {"seconds": row.seconds, "predicted_seconds": row.predicted, "schedule": row.schedule}
        for row in one.measured
    ]
    return {
        "product": one.product,
        "schedule": one.record.schedule,
        "seconds": one.record.seconds,
        "default_seconds": one.record.default_seconds,
        "measured": measured,
    }
