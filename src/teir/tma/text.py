"""The text form of a transfer: one line per field, canonical when printed.

    tma 1 "figure 14a"
    load f64 by tensor
    shape 16, 200
    strides 200, 1
    contiguous yes, yes
    schedule: split 1 by 128; split 0 by 4; split 1 by 3; reorder 1 -> 2
    parallel: 3 BIDx, 2 Bulk, 4 Bulk
    shared loop
    unallocated 3

Further lines: ``base N`` (address mod 128), ``allocation: verbs``, ``broadcast axes``, ``shared:
verbs``, ``swizzle BYTES``, ``circular STAGES`` or ``circular STAGES warp-specialised``, ``strong``,
``threads N``. Verbs: ``split A by F``, ``outer split A by F``, ``merge A, B``, ``reorder A -> B,
...``, ``flatten A to B``, ``swizzle A, B``, ``resize A by L, R``. ``#`` starts a comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn, assert_never

from teir.errors import Finding, TeirError, TextPlace
from teir.tma.case_form import transfer_of
from teir.tma.nodes import Flatten, Merge, Reorder, Resize, Split, Swizzle, Transfer, Verb
from teir.tma.rules import TEXT_FORM

_HEAD = re.compile(r'tma 1 ("(?:[^"\\]|\\.)*")\s*(?:#.*)?')
_NUMBER = r"\s*(-?\d{1,15})\s*"
_VERBS: tuple[tuple[re.Pattern[str], Callable[..., list[Any]]], ...] = (
    (re.compile(rf"split{_NUMBER}by{_NUMBER}"), lambda a, f: ["split", a, f]),
    (re.compile(rf"outer split{_NUMBER}by{_NUMBER}"), lambda a, f: ["outer_split", a, f]),
    (re.compile(rf"merge{_NUMBER},{_NUMBER}"), lambda a, b: ["merge", a, b]),
    (re.compile(rf"flatten{_NUMBER}to{_NUMBER}"), lambda a, b: ["flatten", a, b]),
    (re.compile(rf"swizzle{_NUMBER},{_NUMBER}"), lambda a, b: ["swizzle", a, b]),
    (re.compile(rf"resize{_NUMBER}by{_NUMBER},{_NUMBER}"), lambda a, x, y: ["resize", a, x, y]),
)
_MOVE = re.compile(rf"{_NUMBER}->{_NUMBER}")


def print_transfer(transfer: Transfer) -> str:
    """The canonical text; `parse_transfer` reads it back."""
    lines = [
        f"tma 1 {json.dumps(transfer.name)}",
        f"{transfer.direction.value} {transfer.element_type.value} by {transfer.instruction.value}",
        f"shape {_listed(transfer.shape)}",
        f"strides {_listed(transfer.strides_elements)}",
        "contiguous " + ", ".join("yes" if one else "no" for one in transfer.contiguous),
    ]
    if transfer.base_address_mod_128:
        lines.append(f"base {transfer.base_address_mod_128}")
    if transfer.allocation is not None:
        lines.append(_verbs_line("allocation", transfer.allocation))
    if transfer.broadcast:
        lines.append(f"broadcast {_listed(tuple(sorted(transfer.broadcast)))}")
    lines.append(_verbs_line("schedule", transfer.schedule))
    lines.append(
        "parallel: " + ", ".join(f"{axis} {kind.value}" for axis, kind in transfer.parallel)
    )
    if transfer.shared is not None:
        verbs = transfer.shared.verbs
        lines.append("shared loop" if verbs is None else _verbs_line("shared", verbs))
        if transfer.shared.unallocated:
            lines.append(f"unallocated {_listed(transfer.shared.unallocated)}")
    if transfer.swizzle_bytes:
        lines.append(f"swizzle {transfer.swizzle_bytes}")
    if transfer.circular_buffer is not None:
        special = " warp-specialised" if transfer.circular_buffer.warp_specialised else ""
        lines.append(f"circular {transfer.circular_buffer.stages}{special}")
    if transfer.strong:
        lines.append("strong")
    if transfer.threads is not None:
        lines.append(f"threads {transfer.threads}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def parse_transfer(text: str) -> Transfer:
    """The transfer that ``text`` states. Raises TeirError (TEIR904, and TEIR900 for a value)."""
    case: dict[str, Any] = {"parallel": {}, "schedule": []}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        if "id" not in case:
            case["id"] = _read_name(raw.strip(), number)
            continue
        _read_line(case, line, number)
    if "id" not in case:
        _refuse(1, 'tma 1 "name"', "nothing")
    return transfer_of(case, "$")


def _read_name(line: str, number: int) -> str:
    head = _HEAD.fullmatch(line)
    if head is None:
        _refuse(number, 'tma 1 "name"', line)
    try:
        return str(json.loads(head.group(1)))
    except ValueError:
        _refuse(number, "a name in JSON's spelling", line)


def _read_line(case: dict[str, Any], line: str, number: int) -> None:
    word, _, rest = line.partition(" ")
    rest = rest.strip()
    match word:
        case "load" | "store":
            kind = re.fullmatch(r"(\w+) by (\w+)", rest)
            if kind is None:
                _refuse(number, "TYPE by INSTRUCTION", rest)
            case |= {"direction": word, "dtype": kind.group(1), "instruction": kind.group(2)}
        case "shape":
            case["shape"] = _numbers(rest, number)
        case "strides":
            case["gmem_strides"] = _numbers(rest, number)
        case "broadcast":
            case["broadcast_axes"] = _numbers(rest, number)
        case "unallocated":
            case["smem_unallocated_axes"] = _numbers(rest, number)
        case "contiguous":
            case["contiguity"] = [_yes(one.strip(), number) for one in rest.split(",")]
        case "base" | "swizzle" | "threads":
            field = {"base": "base_address_mod_128", "swizzle": "swizzle_bytes"}.get(word, word)
            case[field] = _number(rest, number)
        case "strong" if not rest:
            case["strong"] = True
        case "circular":
            stages, _, special = rest.partition(" ")
            if special not in ("", "warp-specialised"):
                _refuse(number, "warp-specialised or nothing", special)
            case["circular_buffer"] = {
                "stages": _number(stages, number),
                "warp_specialised": bool(special),
            }
        case "allocation:":
            case["gmem_allocation"] = _read_verbs(rest, number)
        case "schedule:":
            case["schedule"] = _read_verbs(rest, number)
        case "shared" if rest == "loop":
            case["smem_allocation"] = "loop"
        case "shared:":
            case["smem_allocation"] = _read_verbs(rest, number)
        case "parallel:":
            pairs = [one.split() for one in rest.split(",") if one.strip()]
            if any(len(pair) != 2 for pair in pairs):
                _refuse(number, "AXIS KIND, ...", rest)
            case["parallel"] = dict(pairs)
        case _:
            _refuse(number, "a field of a transfer", word)


def _read_verbs(text: str, number: int) -> list[Any]:
    return [_read_verb(one.strip(), number) for one in text.split(";") if one.strip()]


def _read_verb(text: str, number: int) -> list[Any]:
    if text.startswith("reorder"):
        moves = [_MOVE.fullmatch(one) for one in text.removeprefix("reorder").split(",")]
        found = [move for move in moves if move is not None]
        if len(found) == len(moves):
            return ["reorder", {move.group(1): int(move.group(2)) for move in found}]
    for pattern, make in _VERBS:
        match = pattern.fullmatch(text)
        if match is not None:
            return make(*map(int, match.groups()))
    return _refuse(number, "split, outer split, merge, reorder, flatten, swizzle, resize", text)


def _verbs_line(field: str, verbs: tuple[Verb, ...]) -> str:
    return f"{field}: " + "; ".join(verb_text(verb) for verb in verbs)


def verb_text(verb: Verb) -> str:
    """One verb, as a schedule's line says it."""
    match verb:
        case Split():
            return f"{'outer ' if verb.outer else ''}split {verb.axis} by {verb.factor}"
        case Merge():
            return f"merge {verb.outer}, {verb.inner}"
        case Reorder():
            return "reorder " + ", ".join(f"{old} -> {new}" for old, new in verb.moves)
        case Flatten():
            return f"flatten {verb.first} to {verb.last}"
        case Swizzle():
            return f"swizzle {verb.x}, {verb.y}"
        case Resize():
            return f"resize {verb.axis} by {verb.left}, {verb.right}"
        case _:
            assert_never(verb)


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _numbers(text: str, number: int) -> list[int]:
    return [_number(one.strip(), number) for one in text.split(",")]


def _number(text: str, number: int) -> int:
    if not re.fullmatch(r"-?\d{1,15}", text, re.ASCII):
        _refuse(number, "an integer", text)
    return int(text)


def _yes(text: str, number: int) -> bool:
    if text not in ("yes", "no"):
        _refuse(number, "yes or no", text)
    return text == "yes"


def _refuse(line: int, expected: str, found: str) -> NoReturn:
    place = TextPlace(line=line, column=1)
    finding = Finding(rule=TEXT_FORM, place=place, expected=expected, found=repr(found[:80]))
    raise TeirError((finding,))
