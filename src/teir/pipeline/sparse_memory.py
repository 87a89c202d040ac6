"""What computing a product of held operands allocates at most, before anything is computed.

    dense result      the result, a second one where terms are summed, operands in other types
    sparse result     what the operands say of its positions, at most, and what finding them takes
    both              scratch of the program, which the schedule is chosen by

Of a sparse result only the symbolic phase tells how many positions it stores; counted are those it
may store at most: pairs of elements that meet, or all there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from teir.arrays.sparse import Sparse
from teir.arrays.sparse_storage import index_type, position_count
from teir.backends.llvm.fibre_unions import ROOM, TermKind
from teir.expr.index_notation import Number
from teir.pipeline.kept_patterns import kept_pattern
from teir.pipeline.row_patterns import MOST_COLUMNS, RowTerm, last_level, row_terms
from teir.pipeline.row_sums import row_sum
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.sparse_room import Room, bytes_of
from teir.pipeline.sparse_sharing import shared_factor
from teir.pipeline.sparse_terms import Term

_WORD = 8
_BLOCK_BYTES = (1 << 21) * 12 * _WORD + (1 << 27)
"""A block of pairs of a join with its keys, and the marks of a range of keys."""
_PART_BYTES = (1 << 21) * _WORD
"""Columns of consecutive rows that a thread finds at once."""
_ROW_BYTES = 64
"""Bounds and counts of a row, of the operands, of the result and in between."""
_COLUMN_BYTES = 8
"""Marks, lines and stamps of a column that a thread marks."""
_POSITION_BYTES = 3 * _WORD
"""Coordinates of a position as found, put together, and in the type of the result."""

Terms = Sequence[tuple[Term, Number]]
"""The products that something is added of, each with its coefficient."""


def spare_bytes(problem: SparseProblem, terms: Terms, room: Room) -> int:
    """What is left for scratch. Raises TeirError (TEIR643) where the rest alone does not fit."""
    what = f"the result of {problem.assignment.output} and copies of operands"
    if not problem.has_sparse_result:
        need = _dense_bytes(problem, terms, room.has_out)
        room.require(need, what)
        return room.left_bytes - need
    # Counting the pairs of rows takes memory as well.
    room.require(_typed_bytes(problem, terms) + _ROW_BYTES * _rows(terms), what)
    need = _sparse_bytes(problem, terms)
    room.require(need, what)
    return room.left_bytes - need


def _dense_bytes(problem: SparseProblem, terms: Terms, has_out: bool) -> int:
    cells = prod(problem.shape)
    width = problem.computed_type.width
    is_direct = problem.result_type is problem.computed_type and not problem.assignment.accumulates
    results = min(len(terms), 2) or 1
    if has_out and is_direct:
        results -= 1
    need = cells * width * results
    if not (has_out or problem.result_type is problem.computed_type):
        need += cells * problem.result_type.width
    return need + max((_copied_bytes(problem, term) for term, _ in terms), default=0)


def _sparse_bytes(problem: SparseProblem, terms: Terms) -> int:
    numbers = problem.computed_type.numpy_dtype()
    narrow = 0 if problem.result_type is problem.computed_type else problem.result_type.width
    kept = kept_pattern(problem, terms)
    if kept is not None:
        is_shared = kept.operand.is_frozen
        return kept.operand.values.nbytes if is_shared else bytes_of(kept.operand)
    copies = max((_copied_bytes(problem, term) for term, _ in terms), default=0)
    alone = shared_factor(terms[0][0]) if len(terms) == 1 else None
    if alone is not None and alone.stored is not None:
        array, prefix = alone.stored, problem.output_format.sparse_prefix
        count = position_count(array.stored[:prefix], array.level_extents[:prefix])
        below = problem.output_format.mode_order[prefix:]
        count *= prod(problem.shape[mode] for mode in below)
        levels = 0 if array.is_frozen else bytes_of(array) - array.values.nbytes
        return count * (numbers.itemsize + narrow) + levels + copies
    most = _most_positions(problem, terms)
    values = most * (2 * numbers.itemsize + narrow + _POSITION_BYTES)
    threads, columns = problem.threads, _last_extent(problem)
    rows = _ROW_BYTES * _rows(terms)
    typed = _typed_bytes(problem, terms)
    products = [_products(term) for term, _ in terms]
    wanted = _prefix(problem)
    if not wanted:
        return most * (2 * numbers.itemsize + narrow) + copies
    at_once = row_sum(
        terms,
        problem.assignment.output.indices,
        problem.output_format,
        problem.extents,
        problem.computed_type,
    )
    if at_once is not None:
        marks = threads * columns * (numbers.itemsize + _COLUMN_BYTES)
        width = at_once.width.itemsize
        wider = index_type(problem.shape, most).itemsize
        # What is copied is at most a quarter of the memory there is for it.
        values = most * ((numbers.itemsize + width) * 5 // 4 + narrow)
        values += most * wider if wider > width else 0
        return values + marks + rows + typed
    if row_terms(products, wanted) is not None and columns <= MOST_COLUMNS:
        marks = threads * (columns * 2 + _PART_BYTES)
        return values + marks + rows + max(typed, copies)
    places = len(wanted) + 2
    listed = sum(one.nnz for factors in products for _, one in factors) * places * 2 * _WORD
    joins = threads * _BLOCK_BYTES if any(len(factors) > 1 for factors in products) else 0
    return values + most * places * 2 * _WORD + listed + joins + rows + copies


def _copied_bytes(problem: SparseProblem, term: Term) -> int:
    """Values and index arrays of one term in the types of its program."""
    need = 0
    width = max(
        (factor.stored.index_dtype.itemsize for factor in term.factors if factor.stored), default=0
    )
    for factor in term.factors:
        array = factor.held.array
        if array.dtype != problem.computed_type.numpy_dtype():
            count = array.values.size if isinstance(array, Sparse) else array.size
            need += count * problem.computed_type.width
        if isinstance(array, Sparse):
            need += sum(
                part.size * width
                for level in array.stored
                if level is not None
                for part in (level.pos, level.crd)
                if part.dtype.itemsize != width
            )
    return need


def _typed_bytes(problem: SparseProblem, terms: Terms) -> int:
    return sum(_copied_bytes(problem, term) for term, _ in terms)


def _products(term: Term) -> list[tuple[tuple[str, ...], Sparse]]:
    return [(one.access.indices, one.stored) for one in term.factors if one.stored is not None]


def _prefix(problem: SparseProblem) -> tuple[str, ...]:
    """The indices of the result down to its last compressed level."""
    fmt = problem.output_format
    modes = fmt.mode_order[: fmt.sparse_prefix]
    return tuple(problem.assignment.output.indices[mode] for mode in modes)


def _last_extent(problem: SparseProblem) -> int:
    wanted = _prefix(problem)
    return problem.extents[wanted[-1]] if wanted else 1


def _rows(terms: Terms) -> int:
    """Fibres of all operands together."""
    levels = [
        level
        for term, _ in terms
        for factor in term.factors
        if factor.stored is not None
        for level in factor.stored.stored
        if level is not None
    ]
    return sum(level.pos.size for level in levels)


def _most_positions(problem: SparseProblem, terms: Terms) -> int:
    """Positions of the result at most, with dense levels below the last compressed one."""
    wanted = _prefix(problem)
    extents = problem.extents
    every = prod(extents[index] for index in wanted)
    reached = 0
    for term, _ in terms:
        factors = _products(term)
        rows = row_terms([factors], wanted) if wanted else None
        reached += _pairs(factors, wanted, problem) if rows is None else _row_pairs(rows[0])
    below = prod(problem.shape) // every if every else 0
    # Levels above that are dense have a fibre for every coordinate.
    return min(every, reached) * below + ROOM * problem.threads


def _row_pairs(row: RowTerm) -> int:
    """Elements that meet where rows are formed from rows."""
    left = last_level(row.left)
    if row.right is None:
        return left.crd.size
    right = last_level(row.right)
    if row.kind is TermKind.PRODUCT:
        return int(np.diff(right.pos)[left.crd].sum(dtype=np.int64))
    return left.crd.size + right.crd.size


def _pairs(
    factors: Sequence[tuple[tuple[str, ...], Sparse]],
    wanted: tuple[str, ...],
    problem: SparseProblem,
) -> int:
    """Rows of the join of all factors at most: those of one, times what others add to it."""
    extents = problem.extents
    known: set[str] = set()
    count = 1
    for indices, one in sorted(factors, key=lambda pair: pair[1].nnz):
        fmt = one.format
        bound = [indices[mode] for mode in fmt.mode_order[: fmt.sparse_prefix]]
        new = [index for index in bound if index not in known]
        stored = last_level(one).crd.size if fmt.is_sparse else prod(extents[i] for i in bound)
        count *= min(stored, prod(extents[index] for index in new)) if known else stored
        known |= set(bound)
        count = min(count, prod(extents[index] for index in known))
    return count * prod(extents[index] for index in wanted if index not in known)
