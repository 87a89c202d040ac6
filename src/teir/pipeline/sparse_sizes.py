"""Sparse products that no program can compute: too many indices, extents beyond all addresses.

Programs have loops to a limited depth, and say of every address how far it reaches. What they
cannot say is refused here in the words of the product, before it is scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping

from teir.errors import refuse
from teir.expr.index_notation import Access
from teir.ir.limits import SCHEDULE_DEPTH
from teir.ir.nodes import LIMIT
from teir.pipeline.sparse_rules import SPARSE_SIZE
from teir.search.sparse.statement import Statement

_POSITION_BYTES = 8


def require_computable(statement: Statement, extents: Mapping[str, int], width: int) -> None:
    """Raises TeirError (TEIR679); ``width`` is that of the numbers computed with, in bytes."""
    count, most = len(statement.indices), SCHEDULE_DEPTH.largest
    if count > most:
        refuse(SPARSE_SIZE, statement.output.tensor, f"at most {most} indices", f"{count}")
    for access in statement.accesses:
        _require_addresses(access, statement, extents, max(width, _POSITION_BYTES))


def _require_addresses(
    access: Access, statement: Statement, extents: Mapping[str, int], width: int
) -> None:
    """Each run of a compressed level and the dense ones below it lies in one array.

    Of bounds two are read at a time, so one element more is reached.
    """
    compressed = statement.compressed_indices(access.tensor)
    count = 1
    for index in statement.level_indices(access.tensor):
        count = extents[index] * (1 if index in compressed else count)
        if (count + 1) * width >= LIMIT:
            found = f"extent {extents[index]} of {index!r}, {count * width} bytes"
            refuse(SPARSE_SIZE, access.tensor, "levels of less than 2^62 bytes", found)
