"""memory_limit: what a plan allocates, and a program of the same contraction that needs less.

Counted are the result where a call allocates it, the scratch of the program, for all its threads,
and the copies of operands; not the operands, and the few kilobytes every program has. The steps of
a tree already run in the order that needs least, and share one arena; what is left is slicing: a
loop around the tree over blocks of an index, of the output or summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, combinations
from typing import Any

from msgspec.structs import replace

from teir.arrays.integers import as_integer
from teir.errors import Rule, TeirError, at_argument
from teir.lower.kernel_program import KernelProgram
from teir.search.contraction import Contraction, Path
from teir.search.machine import Machine
from teir.search.slicing import sliceable
from teir.search.tree import TreeOptions, TreeProgram, contraction_program
from teir.target import PAGE_BYTES

MEMORY_LIMIT = Rule(
    code="TEIR643",
    sentence="memory_limit is a number of bytes, at least those of the result, of the scratch of "
    "the program and of the copies of operands.",
    source="docs/safety.md G16",
)

Measure = Callable[[TreeProgram], int]
"""Bytes a plan of this program allocates."""


_ROUNDS = 24
"""Slices tried one after the other: each at least halves a block."""


def scratch_bytes(program: KernelProgram, threads: int) -> int:
    """Bytes of scratch of a program on this many threads."""
    # The scratch of a thread starts on a page of its own.
    of_a_thread = -(-program.thread_scratch_bytes // PAGE_BYTES) * PAGE_BYTES
    return program.run_scratch_bytes + threads * of_a_thread


def threads_within(program: KernelProgram, room_bytes: int, threads: int) -> int:
    """The most threads up to ``threads`` whose scratch takes at most ``room_bytes``, else 1."""
    counts = range(threads, 1, -1)
    return next((n for n in counts if scratch_bytes(program, n) <= room_bytes), 1)


def require_result_within(limit: int | None, result_bytes: int) -> None:
    """Raises TeirError (TEIR643) where the result alone is larger than the limit."""
    if limit is not None and result_bytes > limit:
        raise _refusal(f"at least {result_bytes:,} bytes for the result", f"{limit:,}")


def checked_limit(memory_limit: Any) -> int | None:
    """The limit in bytes. Raises TeirError (TEIR643) for what is none."""
    if memory_limit is None:
        return None
    limit = None if isinstance(memory_limit, bool) else as_integer(memory_limit)
    if limit is None or limit < 0:
        raise _refusal("a number of bytes, or None", repr(memory_limit))
    return limit


def program_within(
    contraction: Contraction,
    path: Path,
    machine: Machine,
    options: TreeOptions,
    limit: int | None,
    measure: Measure,
) -> TreeProgram:
    """The tree's program; sliced where that is needed to stay within ``limit`` bytes.

    Raises TeirError (TEIR643) with the smallest limit that would do.
    """

    if limit is None:
        return contraction_program(contraction, path, machine, options)

    def made(slices: dict[str, int]) -> TreeProgram:
        sliced = replace(options, slices={**slices, **options.slices}) if slices else options
        return contraction_program(contraction, path, machine, sliced)

    smallest: int | None = None
    trees = (_smaller_and_smaller, _single_indices)
    for tree in chain.from_iterable(one(contraction, made, measure) for one in trees):
        need = measure(tree)
        if need <= limit:
            return tree
        smallest = need if smallest is None else min(smallest, need)
    raise _refusal(f"at least {smallest:,} bytes for this contraction", f"{limit:,}")


def _smaller_and_smaller(
    contraction: Contraction, made: Callable[[dict[str, int]], TreeProgram], measure: Measure
) -> Iterator[TreeProgram]:
    """The whole tree, then slices of the index that saves most, as long as any does.

    What is tried does not depend on the limit, so the smallest need found is a limit that does.
    """
    blocks = {index: contraction.extents[index] for index in sliceable(contraction)}
    slices: dict[str, int] = {}
    best = made({})
    yield best
    for _ in range(_ROUNDS):
        tries = [
            {**slices, index: block}
            for index, extent in blocks.items()
            for block in {-(-slices.get(index, extent) // 2), 1}
            if block < slices.get(index, extent)
        ]
        programs = [made(one) for one in tries]
        needs = [measure(program) for program in programs]
        if not needs or min(needs) >= measure(best):
            return
        # Halving is preferred to cutting to single indices where it saves as much.
        chosen = _mildest(tries, needs, measure(best))
        slices, best = tries[chosen], programs[chosen]
        yield best


def _single_indices(
    contraction: Contraction, made: Callable[[dict[str, int]], TreeProgram], measure: Measure
) -> Iterator[TreeProgram]:
    """Trees with some indices cut to single ones, others whole, one or two changed at a time while
    that saves; from those of the output all cut, and from all of them.

    The slices that saved most at first are not those that save most in the end: a summed index
    costs room for results, and what is cut later may make its cut needless.
    """
    indices = sliceable(contraction)
    changes = [*((index,) for index in indices), *combinations(indices, 2)]

    def tree(cut: frozenset[str]) -> TreeProgram:
        return made({index: 1 for index in indices if index in cut})

    @cache
    def need(cut: frozenset[str]) -> int:
        return measure(tree(cut))

    for start in (contraction.output.order, indices):
        cut = frozenset(start)
        for _ in range(_ROUNDS):
            best = min((cut.symmetric_difference(one) for one in changes), key=need, default=cut)
            if need(best) >= need(cut):
                break
            cut = best
        yield tree(cut)


def _mildest(tries: list[dict[str, int]], needs: list[int], before: int) -> int:
    """The try with the largest blocks among those that save at least half of what can be saved."""
    enough = before - (before - min(needs)) // 2
    good = [place for place, need in enumerate(needs) if need < before and need <= enough]
    return max(good, key=lambda place: (min(tries[place].values()), -needs[place]))


def _refusal(expected: str, found: str) -> TeirError:
    return TeirError((at_argument(MEMORY_LIMIT, "memory_limit", expected, found),))
