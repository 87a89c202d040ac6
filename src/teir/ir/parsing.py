"""The text form read back: the inverse of `teir.ir.printing`.

    program    = header { tensor | scratch | axis | primitive } { node }
    header     = "teir" 1 string
    tensor     = "tensor" name ":" type
    scratch    = "scratch" name ":" type
    axis       = "axis" name "=" integer [ ":" step { "," step } ] { ";" segment }
    step       = name integer [ ( "+" | "-" ) integer ]            stride, then offset, in bytes
    segment    = "segment" "pos" name "crd" name [ "by_position" names ]
    primitive  = "primitive" name "=" operation [ type ]
                 "(" [ name { "," name } "->" ] name ";" role { "," role } ")" [ "with" object ]
    role       = ( "C" | "M" | "N" | "K" ) "=" names
    names      = "[" [ name { "," name } ] "]"
    node       = invocation | iteration, below it its scratch and children, deeper indented
    invocation = name ":" name [ guard ]
    iteration  = ( "sequential" | "parallel" ) name "over" name [ guard ]
    guard      = "if" term { "and" term }
    term       = ( "first" | "last" ) "(" name ")"

One line per rule; spaces are free and ``#`` starts a comment. A name is a plain word
(letters, digits, ``_`` and ``.``, not starting with a digit) or a JSON string. ``object`` is a
JSON object: the open metadata of the primitive.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

from teir.errors import Finding, TeirError, TextPlace
from teir.ir.cursor import Cursor, LineError
from teir.ir.limits import ENTRIES, LINE_CHARACTERS, LISTED_FINDINGS
from teir.ir.name_rules import Mention, NameSpace, name_again, unknown_names
from teir.ir.nodes import Axis, Primitive, Program, Tensor
from teir.ir.parsing_lines import (
    NodeLine,
    read_axis,
    read_header,
    read_node,
    read_primitive,
    read_tensor,
)
from teir.ir.parsing_tree import grow
from teir.ir.reading_rules import (
    COUNTS,
    DECLARATIONS_FIRST,
    HEADER,
    INDENTATION,
    LINE_LENGTH,
    TOO_MANY_FINDINGS,
)

_Part = TypeVar("_Part")
_DECLARING = (["tensor"], ["scratch"], ["axis"], ["primitive"])
"""The first words of declarations, as splitting a line gives them."""


def _no_names() -> dict[NameSpace, dict[str, int]]:
    return {space: {} for space in NameSpace}


QUOTED_CHARACTERS = 200
"""Of a long line, so many characters are quoted."""


@dataclass(slots=True)
class Lines:
    """What the lines read so far declare; local to one call of `parse_program`."""

    name: str | None = None
    tensors: list[Tensor] = field(default_factory=list)
    scratch: list[Tensor] = field(default_factory=list)
    axes: list[Axis] = field(default_factory=list)
    primitives: list[Primitive] = field(default_factory=list)
    nodes: list[NodeLine] = field(default_factory=list)
    declared: dict[NameSpace, dict[str, int]] = field(default_factory=_no_names)
    """Every declared name with the number of its line."""
    again: list[Finding] = field(default_factory=list)
    """Findings about names declared a second time."""
    references: dict[tuple[NameSpace, str], TextPlace] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    schedule_is_whole: bool = True
    """False after a line that is no declaration could not be read."""


def parse_program(text: str) -> Program:
    """The program that ``text`` spells.

    Raises `TeirError` with every finding, each at its line and column. Numbers and the fit of
    roles, guards and types are not judged here: `teir.ir.check` does that.
    """
    lines = Lines()
    rows = text.split("\n")
    for number, row in enumerate(rows, start=1):
        if len(lines.findings) + len(lines.again) >= LISTED_FINDINGS.largest:
            break
        try:
            _read_line(lines, row.removesuffix("\r"), number)
        except LineError as error:
            lines.findings.append(error.finding)
            lines.schedule_is_whole &= row.split(maxsplit=1)[:1] in _DECLARING
    if lines.name is None and not lines.findings:
        lines.findings.append(_no_header())
    return _assemble(lines, rows)


def _assemble(lines: Lines, rows: list[str]) -> Program:
    roots, tree_findings = grow(tuple(lines.nodes))
    findings = [*lines.findings, *lines.again]
    if lines.schedule_is_whole:
        findings += tree_findings
    if not lines.findings:
        findings += _unknown(lines)
    if findings:
        raise TeirError(tuple(_quoting(finding, rows) for finding in _listed(findings)))
    return Program(
        name=lines.name or "",
        tensors=tuple(lines.tensors),
        scratch=tuple(lines.scratch),
        axes=tuple(lines.axes),
        primitives=tuple(lines.primitives),
        roots=roots,
    )


def _quoting(finding: Finding, rows: list[str]) -> Finding:
    """The finding with the line it blames, where it does not quote one already."""
    if finding.line is not None or not isinstance(finding.place, TextPlace):
        return finding
    return replace(finding, line=rows[finding.place.line - 1][:QUOTED_CHARACTERS])


def _unknown(lines: Lines) -> list[Finding]:
    """Only asked when every line was read: a line not understood may hold the declaration."""
    references = (
        Mention(space=space, name=name, place=place)
        for (space, name), place in lines.references.items()
    )
    return list(unknown_names(lines.declared, references))


def _listed(findings: list[Finding]) -> tuple[Finding, ...]:
    ordered = sorted(findings, key=_line_and_column)
    if len(ordered) < LISTED_FINDINGS.largest:
        return tuple(ordered)
    last = ordered[LISTED_FINDINGS.largest - 1]
    more = Finding(
        rule=TOO_MANY_FINDINGS,
        place=last.place,
        expected=f"fewer than {LISTED_FINDINGS.largest} findings",
        found="that many or more; the rest is left out",
    )
    return (*ordered[: LISTED_FINDINGS.largest - 1], more)


def _line_and_column(finding: Finding) -> tuple[int, int]:
    place = finding.place
    return (place.line, place.column) if isinstance(place, TextPlace) else (0, 0)


def _read_line(lines: Lines, row: str, number: int) -> None:
    if len(row) > LINE_CHARACTERS.largest:
        raise LineError(
            Finding(
                rule=LINE_LENGTH,
                place=TextPlace(line=number, column=LINE_CHARACTERS.largest + 1),
                expected=f"at most {LINE_CHARACTERS.largest} characters",
                found=f"{len(row)} characters",
            )
        )
    cursor = Cursor(row, number)
    if not cursor.token:
        return
    if lines.name is None:
        lines.name = ""
        lines.name = read_header(cursor)
    else:
        if "\t" in row and "\t" in row[: cursor.start]:
            raise cursor.error("spaces", rule=INDENTATION, found="a tab")
        _read_declaration_or_node(lines, cursor)
    cursor.finish()


def _read_declaration_or_node(lines: Lines, cursor: Cursor) -> None:
    word = _declaring_word(cursor)
    if word == "scratch" and lines.nodes:
        _read_node_scratch(lines, cursor)
    elif word is None:
        _read_node(lines, cursor)
    elif lines.nodes or cursor.text[0] == " ":
        raise cursor.error(
            "declarations before the schedule, at the start of a line",
            rule=DECLARATIONS_FIRST,
            found=f"`{word}` {'after a node' if lines.nodes else 'with indentation'}",
        )
    else:
        _read_declaration(lines, cursor, word)


def _declaring_word(cursor: Cursor) -> str | None:
    """The declaration's first word; None for a node, which may have that word as its name."""
    declares = [cursor.token] in _DECLARING and cursor.following != ":"
    return cursor.token if declares else None


def _read_declaration(lines: Lines, cursor: Cursor, word: str) -> None:
    cursor.step()
    index = cursor.index
    match word:
        case "tensor":
            tensor = read_tensor(cursor)
            _append(cursor, lines.tensors, tensor)
            _declare(lines, cursor, NameSpace.TENSOR, tensor.name, index)
        case "scratch":
            tensor = read_tensor(cursor)
            _append(cursor, lines.scratch, tensor)
            _declare(lines, cursor, NameSpace.TENSOR, tensor.name, index)
        case "axis":
            axis = read_axis(cursor, lines.references)
            _append(cursor, lines.axes, axis)
            _declare(lines, cursor, NameSpace.AXIS, axis.name, index)
        case _:
            primitive = read_primitive(cursor, lines.references)
            _append(cursor, lines.primitives, primitive)
            _declare(lines, cursor, NameSpace.PRIMITIVE, primitive.name, index)


def _read_node(lines: Lines, cursor: Cursor) -> None:
    node = read_node(cursor, lines.references)
    _append(cursor, lines.nodes, node)
    _declare(lines, cursor, NameSpace.NODE, node.name, node.index)


def _read_node_scratch(lines: Lines, cursor: Cursor) -> None:
    """A scratch tensor belongs to the iteration node on the line above it."""
    owner, indent = lines.nodes[-1], cursor.start
    if owner.policy is None or indent <= owner.indent:
        raise cursor.error(
            "a scratch tensor directly below its iteration node, deeper than it",
            rule=INDENTATION,
            found=f"`scratch` {indent} spaces deep",
        )
    cursor.step()
    index = cursor.index
    tensor = read_tensor(cursor)
    _append(cursor, owner.scratch, tensor)
    _declare(lines, cursor, NameSpace.TENSOR, tensor.name, index)


def _declare(lines: Lines, cursor: Cursor, space: NameSpace, name: str, index: int) -> None:
    first = lines.declared[space].setdefault(name, cursor.number)
    if first != cursor.number:
        lines.again.append(name_again(space, name, cursor.place_of(index), f"line {first}"))


def _append(cursor: Cursor, parts: list[_Part], part: _Part) -> None:
    if len(parts) >= ENTRIES.largest:
        raise cursor.error(f"at most {ENTRIES.largest} of a kind", rule=COUNTS, found="one more")
    parts.append(part)


def _no_header() -> Finding:
    return Finding(
        rule=HEADER,
        place=TextPlace(line=1, column=1),
        expected='teir 1 "name"',
        found="an empty text",
    )
