"""The rules on names that every reader shares: unique where declared, known where used.

Codes ``TEIR130`` to ``TEIR139``. A reader collects a declaration for every name it introduces and
a reference for every name it uses; where they stand is the reader's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from teir.errors import Finding, Place, Rule


class NameSpace(Enum):
    """What a name stands for; scratch tensors are tensors."""

    TENSOR = "tensor"
    AXIS = "axis"
    PRIMITIVE = "primitive"
    NODE = "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A name at a place: its declaration or a use."""

    space: NameSpace
    name: str
    place: Place


UNIQUE: Mapping[NameSpace, Rule] = {
    NameSpace.TENSOR: Rule(
        code="TEIR130",
        sentence="Every tensor identifier is unique, scratch tensors included.",
        source="language reference",
    ),
    NameSpace.AXIS: Rule(
        code="TEIR131",
        sentence="Every axis identifier is unique.",
        source="section 10.5, axis rules",
    ),
    NameSpace.PRIMITIVE: Rule(
        code="TEIR132",
        sentence="Every primitive identifier is unique.",
        source="section 10.5, primitive rules",
    ),
    NameSpace.NODE: Rule(
        code="TEIR133",
        sentence=(
            "Every schedule node identifier is unique across iteration and invocation nodes."
        ),
        source="section 10.5, schedule rules",
    ),
}

KNOWN: Mapping[NameSpace, Rule] = {
    NameSpace.TENSOR: Rule(
        code="TEIR134",
        sentence="Every tensor that is named exists.",
        source="language reference",
    ),
    NameSpace.AXIS: Rule(
        code="TEIR135",
        sentence=(
            "Every axis named by an iteration node, a role list or a guard refers to an existing "
            "axis in TEIR-Axes."
        ),
        source="section 10.5, iteration node, guard and primitive rules",
    ),
    NameSpace.PRIMITIVE: Rule(
        code="TEIR136",
        sentence=(
            "An invocation node's primitive refers to an existing primitive in TEIR-Primitives."
        ),
        source="section 10.5, invocation node rules",
    ),
    NameSpace.NODE: Rule(
        code="TEIR137",
        sentence=(
            "Every identifier in roots and in any children list refers to an existing schedule "
            "node."
        ),
        source="section 10.5, schedule rules",
    ),
}

NAME_RULES = (*UNIQUE.values(), *KNOWN.values())


def name_again(space: NameSpace, name: str, place: Place, first: str) -> Finding:
    """The finding for a name declared at ``place`` and before that at ``first``."""
    return Finding(
        rule=UNIQUE[space],
        place=place,
        expected=f"a new {space.value} identifier",
        found=f"{shown(name)}, which is declared at {first}",
    )


def unknown_names(
    declared: Mapping[NameSpace, Iterable[str]], references: Iterable[Mention]
) -> Iterator[Finding]:
    """A finding for every reference to a name that is not declared."""
    known = {space: frozenset(names) for space, names in declared.items()}
    for mention in references:
        if mention.name not in known[mention.space]:
            yield unknown_name(mention, known[mention.space])


def unknown_name(mention: Mention, declared: frozenset[str]) -> Finding:
    """The finding for one unknown name, with the nearest known one as a hint."""
    few = sorted(declared)[:8] if len(declared) <= 8 else ()
    space = mention.space.value
    near = get_close_matches(mention.name, declared, n=1) if len(declared) <= 32 else []
    return Finding(
        rule=KNOWN[mention.space],
        place=mention.place,
        expected=f"a declared {space}" + (f" ({', '.join(map(shown, few))})" if few else ""),
        found=shown(mention.name),
        hint=f"did you mean {shown(near[0])}?" if near else None,
    )


def shown(value: object) -> str:
    """A value as a finding quotes it: short, whatever its size."""
    match value:
        case str():
            return repr(value) if len(value) <= 80 else f"{value[:60]!r}… ({len(value)} characters)"
        case list() | tuple():
            return f"an array of {len(value)}"
        case dict():
            return f"an object with {len(value)} fields"
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case _:
            return repr(value)
