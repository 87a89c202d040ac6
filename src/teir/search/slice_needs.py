"""About how many bytes of scratch the slices of a tree leave, without its program.

    intermediates alive at once, in slices  +  one result for every summed index that is sliced

Packed operands, what steps that run together save, and other layouts than written are left out:
this tells which slices are worth a program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import msgspec

from teir.search.contraction import Contraction, Path
from teir.search.meetings import Meeting, meeting_tree, meetings_below


class SliceNeeds(msgspec.Struct, frozen=True, gc=False):
    """The results of a contraction's tree, parts before what they make: their indices, and the
    places of their parts among them."""

    contraction: Contraction
    results: tuple[tuple[tuple[str, ...], tuple[int, ...]], ...]

    def bytes_within(self, slices: Mapping[str, int]) -> int:
        """Bytes of scratch with these blocks of these indices, outermost loops first."""
        extents = {**self.contraction.extents, **slices}
        width = self.contraction.compute.width
        sizes: list[int] = []
        peaks: list[int] = []
        for order, parts in self.results:
            size = width * prod(map(extents.__getitem__, order)) if order else 0
            peaks.append(_peak([sizes[at] for at in parts], [peaks[at] for at in parts], size))
            sizes.append(size)
        return peaks[-1] + self._sum_bytes(slices)

    def _sum_bytes(self, slices: Mapping[str, int]) -> int:
        output = self.contraction.output.strides
        size = self.contraction.compute.width * prod(
            self.contraction.extents[one] for one in output
        )
        total = 0
        for index, block in slices.items():
            if index in output:
                size = size // self.contraction.extents[index] * block
            else:
                total += size
        return total


def slice_needs(
    contraction: Contraction, path: Path, results: Sequence[Sequence[str]] | None
) -> SliceNeeds:
    """The needs of the tree along ``path`` in slices; ``results`` as in `TreeOptions`."""
    meetings = meetings_below(meeting_tree(contraction, path, results))
    places = {id(meeting): place for place, meeting in enumerate(meetings)}
    return SliceNeeds(
        contraction,
        tuple(
            (
                # The last result is the output, which is no scratch, and a scalar is next to none.
                meeting.order if meeting is not meetings[-1] else (),
                tuple(places[id(part)] for part in meeting.parts if isinstance(part, Meeting)),
            )
            for meeting in meetings
        ),
    )


def _peak(sizes: Sequence[int], peaks: Sequence[int], size: int) -> int:
    """Most bytes alive until a result of these parts is made, the parts in their best order."""
    if not sizes:
        return size
    if len(sizes) == 1:
        return max(peaks[0], sizes[0] + size)
    (first, second), (one, two) = peaks, sizes
    below = min(max(first, one + second), max(second, two + first))
    return max(below, one + two + size)
