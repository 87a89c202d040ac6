"""A refusal: a finding, the stage that found it, and its cause in one short sentence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from teir.errors import Finding, Part, ProgramPlace, Rule
from teir.tma.domain import IterDomain, names


class Stage(Enum):
    """Where a transfer is refused; later stages presume the earlier ones."""

    INFER = "infer"
    DESCRIPTOR = "descriptor"
    SHARED = "smem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """``reason`` names numbers only, ``finding`` the IterDomains as well."""

    stage: Stage
    reason: str
    finding: Finding


def refusal(
    stage: Stage, rule: Rule, concerned: tuple[IterDomain, ...], expected: str, reason: str
) -> Refusal:
    """A refusal that blames the IterDomains ``concerned``; the finding's witness is the reason."""
    place = (
        ProgramPlace(part=Part.ITER_DOMAIN, name=names(concerned))
        if concerned
        else ProgramPlace(part=Part.TENSOR, name="in global memory")
    )
    finding = Finding(rule=rule, place=place, expected=expected, found=reason)
    return Refusal(stage=stage, reason=reason, finding=finding)
