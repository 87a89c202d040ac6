"""The rules of the GPU backend."""

from __future__ import annotations

from typing import Never

from teir.errors import Finding, Part, ProgramPlace, Rule, TeirError

_PAGE = "documentation, GPU backend"

DRIVER = Rule(
    code="TEIR721",
    sentence="A GPU program runs where the NVIDIA driver (libcuda) and a GPU of compute capability "
    "9.0 are found.",
    source=_PAGE,
)
COMPILER = Rule(
    code="TEIR722",
    sentence="GPU code is compiled by NVRTC (pip install 'teir[cuda]') or by nvcc.",
    source=_PAGE,
)
DENSE = Rule(
    code="TEIR723",
    sentence="The GPU backend runs dense programs.",
    source=_PAGE,
)
COMPILED = Rule(
    code="TEIR724",
    sentence="The GPU compiler accepts the source of every kernel.",
    source=_PAGE,
)
SHARED_BUDGET = Rule(
    code="TEIR725",
    sentence="A kernel's shared memory fits into 232,448 bytes.",
    source="CUDA programming guide, compute capability 9.0",
)
DEVICE_ARRAY = Rule(
    code="TEIR726",
    sentence="An operand of a GPU program is an array in GPU memory whose elements are aligned.",
    source=_PAGE,
)
DRIVER_CALL = Rule(
    code="TEIR727",
    sentence="Every call of the CUDA driver succeeds.",
    source="CUDA driver API",
)
DECISION = Rule(
    code="TEIR728",
    sentence='The metadata entry "cuda" names a kernel that computes the primitive, with its '
    "tile, stages, cluster and stores.",
    source=_PAGE,
)

FOLDER = Rule(
    code="TEIR729",
    sentence="A folder of compiled kernels holds what this version compiles its program to.",
    source=_PAGE,
)


def blame(rule: Rule, part: Part, name: str, expected: str, found: str) -> Never:
    """Raise the one finding about a part of the program."""
    place = ProgramPlace(part=part, name=name)
    raise TeirError((Finding(rule=rule, place=place, expected=expected, found=found),))
