"""The 57 permutations of the TTC and HPTT benchmark, scaled to 48 MB in single precision.

The published cases (200 MiB each) come in three sizes per permutation: balanced, a long first axis
of the input, a long first axis of the output; no two axes can be fused. Every extent is scaled by
the same factor, the first axes of input and output to a multiple of 8, the longest of the others
raised until there are 12 million elements: 48 to 71 MB in FP32, twice that in FP64.

Names, and the table below, are as published: column-major, axis 0 adjacent in memory, axis
``permutation[i]`` of the input is axis ``i`` of the output. The cases are row-major, as NumPy and
einsum count axes: ``np.transpose(array, permutation)`` of an array of shape ``extents``.

Source: P. Springer, J. R. Hammond, P. Bientinesi, TTC: A High-Performance Compiler for Tensor
Transpositions, ACM TOMS 44(2), 2017; P. Springer, T. Su, P. Bientinesi, HPTT, ARRAY 2017.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PermutationCase:
    """One permutation, row-major: axis ``permutation[i]`` of the input is axis i of the output."""

    name: str
    extents: tuple[int, ...]
    permutation: tuple[int, ...]


def _case(published: str, extents: tuple[int, ...]) -> PermutationCase:
    last = len(extents) - 1
    return PermutationCase(
        name=f"{published} {'x'.join(map(str, extents))}",
        extents=extents[::-1],
        permutation=tuple(last - int(axis) for axis in reversed(published)),
    )


PERMUTATION_CASES = (
    _case("10", (3464, 3464)),
    _case("10", (20696, 576)),
    _case("10", (576, 20696)),
    _case("021", (224, 232, 232)),
    _case("021", (1312, 39, 235)),
    _case("021", (224, 39, 1394)),
    _case("102", (232, 232, 223)),
    _case("102", (1416, 232, 37)),
    _case("102", (232, 1416, 37)),
    _case("210", (232, 223, 232)),
    _case("210", (1416, 37, 232)),
    _case("210", (232, 37, 1416)),
    _case("0321", (56, 66, 51, 66)),
    _case("0321", (320, 11, 52, 66)),
    _case("0321", (56, 11, 51, 396)),
    _case("2130", (64, 57, 64, 52)),
    _case("2130", (424, 8, 64, 56)),
    _case("2130", (64, 8, 424, 56)),
    _case("2031", (64, 57, 64, 52)),
    _case("2031", (424, 8, 64, 56)),
    _case("2031", (64, 8, 424, 56)),
    _case("1032", (64, 64, 57, 52)),
    _case("1032", (424, 64, 8, 56)),
    _case("1032", (64, 424, 8, 56)),
    _case("3210", (64, 57, 52, 64)),
    _case("3210", (424, 8, 56, 64)),
    _case("3210", (64, 8, 56, 424)),
    _case("04213", (24, 36, 20, 20, 35)),
    _case("04213", (128, 6, 21, 21, 36)),
    _case("04213", (24, 6, 20, 20, 216)),
    _case("32140", (32, 27, 21, 32, 21)),
    _case("32140", (264, 3, 23, 32, 21)),
    _case("32140", (32, 3, 23, 264, 21)),
    _case("20413", (32, 27, 32, 21, 21)),
    _case("20413", (264, 3, 32, 23, 21)),
    _case("20413", (32, 3, 264, 23, 21)),
    _case("13042", (32, 32, 27, 21, 21)),
    _case("13042", (264, 32, 3, 23, 21)),
    _case("13042", (32, 264, 3, 23, 21)),
    _case("43210", (32, 27, 21, 21, 32)),
    _case("43210", (264, 3, 23, 21, 32)),
    _case("43210", (32, 3, 23, 21, 264)),
    _case("032541", (16, 25, 12, 25, 12, 12)),
    _case("032541", (40, 8, 12, 25, 12, 12)),
    _case("032541", (16, 8, 12, 80, 12, 12)),
    _case("320514", (24, 13, 12, 24, 12, 12)),
    _case("320514", (88, 4, 12, 24, 11, 11)),
    _case("320514", (24, 4, 12, 88, 11, 11)),
    _case("204153", (24, 13, 24, 12, 12, 12)),
    _case("204153", (88, 4, 24, 12, 11, 11)),
    _case("204153", (24, 4, 88, 12, 11, 11)),
    _case("325104", (24, 13, 12, 24, 12, 12)),
    _case("325104", (88, 4, 12, 24, 11, 11)),
    _case("325104", (24, 4, 12, 88, 11, 11)),
    _case("543210", (24, 13, 12, 12, 12, 24)),
    _case("543210", (88, 4, 12, 11, 11, 24)),
    _case("543210", (24, 4, 12, 11, 11, 88)),
)
