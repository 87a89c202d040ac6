"""Counts of small products against a literal enumeration of the specification."""

from __future__ import annotations

import pytest

from search.sparse.counted import Tensor, counts
from teir.arrays.levels import parse_format
from teir.expr.index_notation_parsing import parse_index_notation
from teir.search.sparse.schedules import Request, RuleSet, find_schedules
from teir.search.sparse.statement import Statement, statement_of

CASES = (
    ("A[i,l] = B[i,j] * C[j,k] * D[k,l]", {"B": "ds"}),
    ("A[i,l] = B[i,j] * C[j,k] * D[k,l]", {"B": "ds:1,0"}),
    ("A[i,l] = B[i,j] * C[j,k] * D[k,l]", {}),
    ("A[i,j,m] = B[i,j,k] * C[k,l] * D[l,m]", {"A": "dsd", "B": "dss"}),
    ("A[i,j,m] = B[i,j,k] * C[k,l] * D[l,m]", {"A": "dsd:1,0,2", "B": "sss:1,0,2"}),
    ("A[i,k] = B[i,j] * C[j,k]", {"B": "ds", "C": "ds"}),
    ("A[i] = B[i,j] * C[j] * D[j]", {"B": "ds", "C": "s"}),
    ("A[i,j] = B[i,j] * C[i,j] * D[i,j]", {"A": "ds", "B": "ds", "C": "ss", "D": "sd"}),
    ("A[k] = B[i,j,k] * C[i] * D[j]", {"B": "sss:2,0,1", "A": "s"}),
    ("A[i,k] = B[i,j] * C[j,k] * D[i,k]", {"B": "ds", "D": "ss"}),
    ("A = B[i,j] * C[j,k] * D[k,i]", {"B": "ds", "C": "ds"}),
    ("A[j] = B[i,j]", {"B": "ds"}),
    ("A[i,j] = B[i] * C[j]", {"B": "s"}),
    ("A[i,j] = B[i,j] * C[i,k] * D[j,k] * E[j]", {"A": "ds", "B": "ds"}),
)


def tensor(statement: Statement, place: int) -> Tensor:
    """A tensor of a statement with its order of loops, as the specification says (2.1)."""
    access, fmt = statement.accesses[place], statement.formats[place]
    if "s" not in str(fmt):
        return Tensor(access.tensor, access.indices, frozenset())
    levels = [access.indices[mode] for mode in fmt.mode_order]
    pairs = {(one, other) for n, one in enumerate(levels) for other in levels[n + 1 :]}
    if place == 0:
        last = max(n for n, letter in enumerate(str(fmt)[: len(levels)]) if letter == "s")
        pairs |= {(levels[last], index) for index in statement.indices if index not in levels}
    return Tensor(access.tensor, access.indices, frozenset(pairs))


@pytest.mark.parametrize(("text", "formats"), CASES)
def test_all_schedules_are_counted(text: str, formats: dict[str, str]) -> None:
    stored = {name: parse_format(levels, name) for name, levels in formats.items()}
    statement = statement_of(parse_index_notation(text), stored)
    tensors = tuple(tensor(statement, place) for place in range(len(statement.accesses)))
    expected = counts(tensors[0], tensors[1:])
    paper = find_schedules(statement, Request(rule=RuleSet.PAPER, cache_bytes=1 << 25))
    sound = find_schedules(statement, Request(cache_bytes=1 << 25))
    assert (paper.generated, paper.stage1) == expected
    assert sound.generated == expected[0]
    assert sound.stage2 == sound.stage1
    assert paper.chosen is None
    assert sound.chosen is None
