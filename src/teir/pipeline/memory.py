"""memory_limit: what a plan allocates, and a program of the same contraction that needs less.

Counted are the result where a call allocates it, the scratch of the program, for all its threads,
and the copies of operands; not the operands, and the few kilobytes every program has. The steps of
a tree already run in the order that needs least, and share one arena; what is left is slicing: a
loop around the tree over blocks of an index, of the output or summed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations
from typing import Any

from msgspec.structs import replace

from teir.arrays.integers import as_integer
from teir.errors import Rule, TeirError, at_argument
from teir.lower.kernel_program import KernelProgram
from teir.search.contraction import Contraction, Path
from teir.search.machine import Machine
from teir.search.slice_needs import SliceNeeds, slice_needs
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


Slices = dict[str, int]
"""Blocks of indices, outermost loops first."""

_ROUNDS = 24
"""Slices tried one after the other: each at least halves a block."""

_MOST_BUILT = 600
"""Steps of the programs built in one round, which take about a quarter of a millisecond each."""

_BUILT_OF_MANY = 150
"""The same where there are more: of what is estimated to need least."""

_MOST_ESTIMATED = 30_000
"""Steps of the trees that are estimated in one round, about two microseconds each."""


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


def require_within(limit: int, need: int) -> None:
    """Raises TeirError (TEIR643) where a program needs more bytes than the limit."""
    if need > limit:
        raise _refusal(f"at least {need:,} bytes for this program", f"{limit:,}")


def program_within(
    contraction: Contraction,
    path: Path,
    machine: Machine,
    options: TreeOptions,
    limit: int,
    measure: Measure,
) -> TreeProgram:
    """The tree's program; sliced where that is needed to stay within ``limit`` bytes.

    Raises TeirError (TEIR643) with the smallest limit that would do.
    """
    tries = _Tries(
        contraction,
        path,
        machine,
        options,
        measure,
        slice_needs(contraction, path, options.results),
    )
    smallest: int | None = None
    for tree, need in chain(_smaller_and_smaller(tries), _single_indices(tries)):
        if need <= limit:
            return tree
        smallest = need if smallest is None else min(smallest, need)
    raise _refusal(f"at least {smallest:,} bytes for this contraction", f"{limit:,}")


@dataclass(frozen=True, slots=True)
class _Tries:
    """Programs of one contraction in slices, and which slices are worth a program.

    Which are tried does not depend on the limit, so the smallest need found is a limit that does.
    """

    contraction: Contraction
    path: Path
    machine: Machine
    options: TreeOptions
    measure: Measure
    needs: SliceNeeds

    def made(self, slices: Slices) -> tuple[TreeProgram, int]:
        """The program and what it needs."""
        sliced = replace(self.options, slices=self._with_given(slices)) if slices else self.options
        tree = contraction_program(self.contraction, self.path, self.machine, sliced)
        return tree, self.measure(tree)

    def are_many(self, tries: Sequence[Slices]) -> bool:
        """True for more steps than may be built in one round."""
        return sum(map(self._steps, tries)) > _MOST_BUILT

    def worth(self, tries: Sequence[Slices]) -> Sequence[Slices]:
        """All tries; where that were too many steps, those that seem to need least."""
        if not self.are_many(tries):
            return tries
        few: list[Slices] = []
        left = _BUILT_OF_MANY
        for one in sorted(tries, key=self._estimate):
            steps = self._steps(one)
            if steps <= left or (not few and steps <= max(_MOST_BUILT, len(self.needs.results))):
                few.append(one)
                left -= steps
        return few

    def settled(self, indices: Sequence[str], cut: Collection[str]) -> Slices:
        """Single indices of which to change one more is not estimated to save anything."""
        slices = {index: 1 for index in indices if index in cut}
        least, before = self._estimate(slices), -1
        while before != least:
            before = least
            for index in indices:
                changed = {one: 1 for one in indices if (one in slices) != (one == index)}
                if (estimate := self._estimate(changed)) < least:
                    slices, least = changed, estimate
        return slices

    def changes(self, indices: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """One index and, unless that were too many to estimate, two."""
        ones = tuple((index,) for index in indices)
        twos = tuple(combinations(indices, 2))
        many = (len(ones) + len(twos)) * len(self.needs.results) > _MOST_ESTIMATED
        return ones if many else (*ones, *twos)

    def _steps(self, slices: Slices) -> int:
        """The steps of a program: what an index leaves beside whole blocks is a tree again."""
        extents = self.contraction.extents
        left_over = sum(extents[index] % block > 0 for index, block in slices.items())
        return len(self.needs.results) << left_over

    def _estimate(self, slices: Slices) -> int:
        return self.needs.bytes_within(self._with_given(slices))

    def _with_given(self, slices: Slices) -> Slices:
        return {**slices, **self.options.slices}


def _smaller_and_smaller(tries: _Tries) -> Iterator[tuple[TreeProgram, int]]:
    """The whole tree, then slices of the index that saves most, as long as any does."""
    extents = tries.contraction.extents
    indices = sliceable(tries.contraction)
    slices: Slices = {}
    tree, least = tries.made({})
    yield tree, least
    for _ in range(_ROUNDS):
        smaller = tries.worth(
            [
                {**slices, index: block}
                for index in indices
                for block in {-(-slices.get(index, extents[index]) // 2), 1}
                if block < slices.get(index, extents[index])
            ]
        )
        made = [tries.made(one) for one in smaller]
        needs = [need for _, need in made]
        if not needs or min(needs) >= least:
            return
        # Halving is preferred to cutting to single indices where it saves as much.
        chosen = _mildest(smaller, needs, least)
        slices, (tree, least) = smaller[chosen], made[chosen]
        yield tree, least


def _single_indices(tries: _Tries) -> Iterator[tuple[TreeProgram, int]]:
    """Trees with some indices cut to single ones, others whole, one or two changed at a time while
    that saves; from those of the output all cut, and from all of them.

    The slices that saved most at first are not those that save most in the end: a summed index
    costs room for results, and what is cut later may make its cut needless.
    """
    indices = sliceable(tries.contraction)
    changes = [frozenset(change) for change in tries.changes(indices)]

    def slices(cut: frozenset[str]) -> Slices:
        return {index: 1 for index in indices if index in cut}

    @cache
    def need(cut: frozenset[str]) -> int:
        return tries.made(slices(cut))[1]

    for start in (tries.contraction.output.order, indices):
        cut = frozenset(start)
        if tries.are_many([slices(change) for change in changes]):
            cut = frozenset(tries.settled(indices, cut))
        for _ in range(_ROUNDS):
            changed = tries.worth([slices(cut ^ change) for change in changes])
            best = min(map(frozenset, changed), key=need, default=cut)
            if need(best) >= need(cut):
                break
            cut = best
        yield tries.made(slices(cut))


def _mildest(tries: Sequence[Slices], needs: Sequence[int], before: int) -> int:
    """The try with the largest blocks among those that save at least half of what can be saved."""
    enough = before - (before - min(needs)) // 2
    good = [place for place, need in enumerate(needs) if need < before and need <= enough]
    return max(good, key=lambda place: (min(tries[place].values()), -needs[place]))


def _refusal(expected: str, found: str) -> TeirError:
    return TeirError((at_argument(MEMORY_LIMIT, "memory_limit", expected, found),))
