"""Results with blocks from operands with blocks: every index in two, that of a block and inside.

    A[i,k] = B[i,j] * C[j,k] in "dsdd"   ->   A[i,k,i_in,k_in] = B[i,j,i_in,j_in] * C[j,k,j_in,k_in]

The operands are read where they lie (`Sparse.split_blocks`), dense ones with their axes in two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

import numpy as np

from teir.arrays.levels import Level, parse_format
from teir.arrays.sparse import Sparse
from teir.errors import refuse
from teir.expr.index_notation import Access, Assignment
from teir.pipeline.sparse_operands import Held
from teir.pipeline.sparse_problem import extents_of
from teir.pipeline.sparse_results import KnownResult
from teir.pipeline.sparse_rules import OUT_LEVELS
from teir.pipeline.unused_names import unused_name


@dataclass(frozen=True, slots=True)
class KnownBlocks:
    """A known call whose result is to have blocks."""

    call: KnownResult

    @property
    def sources(self) -> tuple[tuple[int, ref[Any]], ...]:
        return self.call.sources

    def run(self, operands: Sequence[Any], out: Any) -> Any:
        """The result; NotImplemented where something is not as it was."""
        result = self.call.run(operands, out)
        return result if result is NotImplemented else result.join_blocks()


def asks_for_blocks(assignment: Assignment, out_levels: str | None) -> bool:
    """True for levels of the axes inside blocks, too. Raises TeirError (TEIR685)."""
    rank = len(assignment.output.indices)
    if not isinstance(out_levels, str) or not rank:
        return False
    fmt = parse_format(out_levels, "out_levels")
    if len(fmt.levels) != 2 * rank:
        return False
    inside = fmt.mode_order[rank:] == tuple(range(rank, 2 * rank))
    if not inside or Level.COMPRESSED in fmt.levels[rank:]:
        expected = f"{rank} levels, or of blocks {rank} dense ones besides, innermost and in order"
        refuse(OUT_LEVELS, "out_levels", expected, repr(out_levels))
    return True


def with_blocks_apart(
    assignment: Assignment, held: Mapping[str, Held]
) -> tuple[Assignment, dict[str, Held]]:
    """The assignment with every index that has blocks in two, and what it reads.

    Raises TeirError (TEIR685) where an index of the result has no blocks, or two sizes of them.
    """
    extents_of(assignment, held)
    blocks = _block_sizes(assignment, held)
    missing = [index for index in assignment.output.indices if index not in blocks]
    if missing:
        names = ", ".join(missing)
        expected = f"blocks along {names} in an operand, or {len(assignment.output.indices)} levels"
        refuse(OUT_LEVELS, "out_levels", expected, "none", "pass a BSR array")
    used = set(assignment.indices)
    inner = {index: unused_name(f"{index}_in", used) for index in blocks}
    wide = {name: _apart(access, held[name], blocks, inner) for name, access in _read(assignment)}
    products = tuple(
        replace(
            product,
            factors=tuple(
                _access(factor, held[factor.tensor], inner) for factor in product.factors
            ),
        )
        for product in assignment.products
    )
    output = assignment.output
    indices = (*output.indices, *(inner[index] for index in output.indices))
    whole = replace(output, indices=indices, columns=())
    return replace(assignment, output=whole, products=products, text=""), wide


def _read(assignment: Assignment) -> Sequence[tuple[str, Access]]:
    return tuple(assignment.inputs.items())


def _block_sizes(assignment: Assignment, held: Mapping[str, Held]) -> dict[str, int]:
    """The extents of blocks along every index that has some, the same in all operands."""
    sizes: dict[str, int] = {}
    for product in assignment.products:
        for access in product.factors:
            array = held[access.tensor].array
            if not isinstance(array, Sparse):
                continue
            if array.blocks is None:
                hint = "pass a BSR array, or as many levels as the result has axes"
                refuse(OUT_LEVELS, "out_levels", f"blocks in {access}", "none", hint)
            for index, size in zip(access.indices, array.blocks, strict=True):
                if sizes.setdefault(index, size) != size:
                    expected = f"blocks of {sizes[index]} along {index} in {access}"
                    refuse(OUT_LEVELS, "out_levels", expected, f"blocks of {size}")
    return sizes


def _access(access: Access, one: Held, inner: Mapping[str, str]) -> Access:
    if isinstance(one.array, Sparse):
        indices = (*access.indices, *(inner[index] for index in access.indices))
    else:
        pairs = ((index, inner[index]) if index in inner else (index,) for index in access.indices)
        indices = tuple(name for pair in pairs for name in pair)
    return replace(access, indices=indices, columns=())


def _apart(access: Access, one: Held, blocks: Mapping[str, int], inner: Mapping[str, str]) -> Held:
    array = one.array
    if isinstance(array, Sparse):
        made_for = (*one.made_for, "blocks split")
        return replace(one, array=array.split_blocks(), made_for=made_for)
    shape: list[int] = []
    for index, extent in zip(access.indices, array.shape, strict=True):
        shape += [extent // blocks[index], blocks[index]] if index in inner else [extent]
    return replace(one, array=np.reshape(array, shape))
