"""Programs written in Python as the tables of the specification write them.

    from teir.ir.build import axis, invocation, iteration, primitive, program

    program(
        "guarded reduction",
        tensors={"in0": "FP32", "in1": "FP32", "out": "FP32"},
        axes={                    # extent, strides and offsets in bytes     Table 10.1.1
            "k": axis(16, (4, 4, 0)),
            "m": axis(8, (64, 0, 4)),
        },
        roots=["k"],
        iterations={              # axis, policy, children, guard            Table 10.2.1
            "k": iteration("k", "sequential", ["zero", "contraction"]),
        },
        invocations={             # primitive, guard                         Table 10.2.2
            "zero": invocation("zero_prim", "first(k)"),
            "contraction": invocation("contraction_prim"),
        },
        primitives={              # operation, axes, metadata                Table 10.3.1
            "zero_prim": primitive("Zero", M=["m"], N=[]),
            "contraction_prim": primitive("Contraction", M=["m"], N=[], K=[]),
        },
    )

A row is one entry of the record form, so every rule and every default of `teir.loads` applies.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

from teir.dtypes import DataType
from teir.errors import TeirError
from teir.ir.cursor import Cursor, LineError
from teir.ir.nodes import Operation, Policy, Program
from teir.ir.parsing_lines import read_guard
from teir.ir.records import program_from_records

Row = dict[str, Any]
"""A table row: one entry of the record form without its identifier."""


def program(
    name: str,
    *,
    tensors: Mapping[str, DataType | str | Row],
    axes: Mapping[str, Row],
    roots: Sequence[str],
    iterations: Mapping[str, Row],
    invocations: Mapping[str, Row],
    primitives: Mapping[str, Row],
) -> Program:
    """The program of these tables. Raises `TeirError` with every finding, at record paths."""
    return program_from_records(
        {
            "teir": 1,
            "name": name,
            "tensors": _entries(
                {
                    key: value if isinstance(value, dict) else {"data_type": _text(value)}
                    for key, value in tensors.items()
                }
            ),
            "axes": _entries(axes),
            "schedule": {
                "roots": list(roots),
                "iterations": _entries(iterations),
                "invocations": _entries(invocations),
            },
            "primitives": _entries(primitives),
        }
    )


def scratch(data_type: DataType | str, owner: str | None) -> Row:
    """A tensor private to each iteration of node ``owner``, or to the whole run (None)."""
    return {"data_type": _text(data_type), "scratch": owner}


def axis(
    extent: SupportsIndex,
    strides: Iterable[SupportsIndex],
    offsets: Iterable[SupportsIndex] = (),
    segments: Iterable[Row] = (),
) -> Row:
    """Extent, and strides and offsets in bytes, one per tensor in the order of the tensors."""
    row: Row = {"extent": operator.index(extent), "strides": _integers(strides)}
    given = _integers(offsets)
    if given:
        row["offsets"] = given
    sparse = list(segments)
    if sparse:
        row["segments"] = sparse
    return row


def segment(pos: str, crd: str, by_position: Iterable[str] = ()) -> Row:
    """A compressed level of a sparse axis."""
    return {"pos": pos, "crd": crd, "by_position": list(by_position)}


def iteration(
    axis: str, policy: Policy | str, children: Iterable[str], guard: str | None = None
) -> Row:
    """Axis, policy, children and guard, the guard as ``first(k) and last(t)`` or None."""
    return {
        "axis": axis,
        "policy": _text(policy),
        "children": list(children),
        "guard": _guard(guard),
    }


def invocation(primitive: str, guard: str | None = None) -> Row:
    """Primitive and guard, the guard as ``first(k) and last(t)`` or None."""
    return {"primitive": primitive, "guard": _guard(guard)}


def primitive(
    operation: Operation | str,
    *,
    M: Iterable[str],  # noqa: N803 - the roles are spelled as in Table 10.3.2
    N: Iterable[str],  # noqa: N803
    K: Iterable[str] | None = None,  # noqa: N803
    C: Iterable[str] | None = None,  # noqa: N803
    inputs: Iterable[str] | None = None,
    out: str = "out",
    metadata: Mapping[str, Any] | None = None,
) -> Row:
    """Operation, axes by role, and metadata; ``inputs`` and ``out`` where no default applies."""
    roles = {"C": C, "M": M, "N": N, "K": K}
    entries = dict(metadata or {})
    if inputs is not None:
        entries["operands"] = {"in": list(inputs), "out": out}
    if "data_type" in entries:
        entries["data_type"] = _text(entries["data_type"])
    return {
        "operation": _text(operation),
        "axes": {role: list(names) for role, names in roles.items() if names is not None},
        "metadata": entries,
    }


def _entries(table: Mapping[str, Row]) -> list[Row]:
    return [{"id": name, **row} for name, row in table.items()]


def _integers(values: Iterable[SupportsIndex]) -> list[int]:
    return [operator.index(value) for value in values]


def _text(value: DataType | Operation | Policy | str) -> str:
    return value if isinstance(value, str) else value.value


def _guard(guard: str | None) -> list[dict[str, str]] | None:
    if guard is None:
        return None
    try:
        cursor = Cursor(guard, 1)
        terms = read_guard(cursor, {})
        cursor.finish()
    except LineError as error:
        raise TeirError((error.finding,)) from error
    return [{term.kind.value: term.axis} for term in terms]
