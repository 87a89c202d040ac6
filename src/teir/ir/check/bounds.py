"""Proof (a): every byte a program touches lies inside its operand (docs/safety.md G2).

Strides are non-negative and indices independent, so the bytes one invocation touches of one tensor
fill exactly the hull [sum of offsets, sum of offsets + sum of stride * (extent - 1) + width). The
walk keeps the two sums per tensor up to date, so it is linear in the program. Guards can only
shrink the hull; they are not considered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from teir.arrays.operand import WRITABLE, BoundOperand
from teir.errors import Finding, Part, Rule
from teir.ir.check.report import Need, blame
from teir.ir.check.resolved import WIDTHS, Invocation, Iteration, Resolved, path_of
from teir.ir.check.tiles import tile_of
from teir.ir.nodes import LIMIT, Axis, Primitive

ADDRESS_LIMIT = Rule(
    code="TEIR401",
    sentence="Every address sum stays below 2^62.",
    source="docs/design.md 2, types",
)
IN_BOUNDS = Rule(
    code="TEIR402",
    sentence="Every byte a program touches lies inside the operand.",
    source="docs/design.md 3 (a)",
)
UNKNOWN_OPERAND = Rule(
    code="TEIR510",
    sentence="Operands are given for tensors of the program.",
    source="docs/design.md 3, safe to run",
)
MISSING_OPERAND = Rule(
    code="TEIR511",
    sentence="Every tensor the program touches is given an operand.",
    source="docs/design.md 3, safe to run",
)

BOUND_RULES = (ADDRESS_LIMIT, IN_BOUNDS, UNKNOWN_OPERAND, MISSING_OPERAND)

Positions = Mapping[str, tuple[tuple[int, int], ...]]
"""Per sparse axis and segment, the positions [begin, end) its iterations may visit."""

Place = Invocation | Iteration
Move = tuple[str, int, int]
"""A tensor, and what its lowest and its highest address gain."""


@dataclass(slots=True, eq=False)
class Hulls:
    """Per tensor the lowest and the highest byte, and the places that reach them."""

    low: dict[str, int]
    high: dict[str, int]
    low_place: dict[str, Place]
    high_place: dict[str, Place]
    unknown: set[str]
    """Tensors addressed by positions that are not known yet."""

    def needs(self) -> dict[str, Need]:
        return {
            tensor: Need(low, self.high[tensor])
            for tensor, low in self.low.items()
            if tensor not in self.unknown
        }


def hulls(resolved: Resolved, positions: Positions | None = None) -> Hulls:
    """The exact hull of every tensor; ``positions`` comes from bound index arrays."""
    found = Hulls({}, {}, {}, {}, set())
    low: defaultdict[str, int] = defaultdict(int)
    high: defaultdict[str, int] = defaultdict(int)
    moves: dict[str, list[Move]] = {}
    tiles: dict[str, list[Move]] = {}
    active: list[list[Move]] = []
    never: list[Iteration] = []
    for event in resolved.events:
        if event is None:
            if never and len(active) == never[-1].depth + 1:
                never.pop()
            for tensor, down, up in active.pop():
                low[tensor] -= down
                high[tensor] -= up
        elif isinstance(event, Iteration):
            axis = event.axis
            assert axis is not None
            step = moves.get(axis.name)
            if step is None:
                step = moves[axis.name] = _axis_moves(axis, positions, found.unknown)
            if axis.segments and not never:
                _touch(found, event, _pos_reads(resolved, axis), low, high)
            for tensor, down, up in step:
                low[tensor] += down
                high[tensor] += up
            if axis.segments:
                if _is_empty(axis, positions):
                    never.append(event)
                if not never:
                    _touch(found, event, _crd_reads(resolved, axis), low, high)
            active.append(step)
        else:
            primitive = event.primitive
            assert primitive is not None
            tile = tiles.get(primitive.name)
            if tile is None:
                tile = tiles[primitive.name] = _tile_moves(resolved, primitive)
            if not never:
                _touch(found, event, tile, low, high)
    return found


def _is_empty(axis: Axis, positions: Positions | None) -> bool:
    """True where bound index arrays show that the loop never runs."""
    ranges = () if positions is None else positions.get(axis.name, ())
    return any(begin == end for begin, end in ranges)


def _touch(
    found: Hulls, place: Place, tile: list[Move], low: dict[str, int], high: dict[str, int]
) -> None:
    for tensor, down, up in tile:
        begin = low[tensor] + down
        end = high[tensor] + up
        if tensor not in found.low:
            found.low[tensor] = begin
            found.high[tensor] = end
            found.low_place[tensor] = found.high_place[tensor] = place
            continue
        if begin < found.low[tensor]:
            found.low[tensor] = begin
            found.low_place[tensor] = place
        if end > found.high[tensor]:
            found.high[tensor] = end
            found.high_place[tensor] = place


def _axis_moves(axis: Axis, positions: Positions | None, unknown: set[str]) -> list[Move]:
    if axis.segments:
        return _sparse_moves(axis, positions, unknown)
    last = axis.extent - 1
    offsets = axis.offsets
    if not offsets:
        return [(tensor, 0, stride * last) for tensor, stride in axis.strides.items()]
    return [
        (tensor, offsets[tensor], offsets[tensor] + axis.strides[tensor] * last)
        for tensor in {**dict(axis.strides.items()), **dict(offsets.items())}
    ]


def _sparse_moves(axis: Axis, positions: Positions | None, unknown: set[str]) -> list[Move]:
    ranges = {}
    for number, segment in enumerate(axis.segments):
        for tensor in (segment.crd, *segment.by_position):
            if positions is None or axis.name not in positions:
                unknown.add(tensor)
            else:
                begin, end = positions[axis.name][number]
                ranges[tensor] = (begin, max(begin, end - 1))
    moves = []
    for tensor in {**dict(axis.strides.items()), **dict(axis.offsets.items())}:
        first, last = ranges.get(tensor, (0, axis.extent - 1))
        offset, stride = axis.offsets[tensor], axis.strides[tensor]
        moves.append((tensor, offset + stride * first, offset + stride * last))
    return moves


def _pos_reads(resolved: Resolved, axis: Axis) -> list[Move]:
    """A segment is bounded by two adjacent elements of pos."""
    return [(segment.pos, 0, 2 * resolved.width(segment.pos)) for segment in axis.segments]


def _crd_reads(resolved: Resolved, axis: Axis) -> list[Move]:
    return [(segment.crd, 0, resolved.width(segment.crd)) for segment in axis.segments]


def _tile_moves(resolved: Resolved, primitive: Primitive) -> list[Move]:
    tensors = resolved.tensors
    moves = []
    for tensor in primitive.operands:
        tile = tile_of(resolved, primitive, tensor)
        moves.append((tensor, tile.begin, tile.end + WIDTHS[tensors[tensor].data_type]))
    return moves


def addresses_limited(found: Hulls) -> list[Finding]:
    """Findings of the rule ADDRESS_LIMIT, one per node at most."""
    findings: dict[Place, Finding] = {}
    for tensor, low in found.low.items():
        if low <= -LIMIT:
            place = found.low_place[tensor]
            text = f"byte {low} of {tensor}"
            findings.setdefault(place, _at(ADDRESS_LIMIT, place, "bytes above -2^62", text))
        high = found.high[tensor]
        if high >= LIMIT:
            place = found.high_place[tensor]
            text = f"byte {high - 1} of {tensor}"
            findings.setdefault(place, _at(ADDRESS_LIMIT, place, "bytes below 2^62", text))
    return list(findings.values())


def _at(rule: Rule, place: Place, expected: str, found: str) -> Finding:
    return blame(rule, Part.NODE, place.node.name, expected, found)


def operands_known(resolved: Resolved, operands: Mapping[str, BoundOperand]) -> list[Finding]:
    """Findings of the rule UNKNOWN_OPERAND."""
    names = {tensor.name for tensor in resolved.program.tensors}
    return [
        blame(
            UNKNOWN_OPERAND,
            Part.PROGRAM,
            resolved.program.name,
            "operands named " + ", ".join(sorted(names)),
            f"{name!r}" + (" (scratch)" if name in resolved.scratch else ""),
        )
        for name in operands
        if name not in names
    ]


def operands_present(
    resolved: Resolved, found: Hulls, operands: Mapping[str, BoundOperand]
) -> list[Finding]:
    """Findings of the rule MISSING_OPERAND."""
    return [
        blame(MISSING_OPERAND, Part.TENSOR, tensor.name, "an operand", "none")
        for tensor in resolved.program.tensors
        if tensor.name in found.low and tensor.name not in operands
    ]


def operands_writable(resolved: Resolved, operands: Mapping[str, BoundOperand]) -> list[Finding]:
    """Findings of the rule WRITABLE."""
    findings = []
    for tensor in written_tensors(resolved):
        operand = operands.get(tensor)
        if operand is not None and not operand.writable:
            findings.append(
                blame(WRITABLE, Part.TENSOR, tensor, "a writable operand", "a read-only one")
            )
    return findings


def written_tensors(resolved: Resolved) -> dict[str, None]:
    """The tensors some invocation writes, scratch included, in program order."""
    return dict.fromkeys(
        leaf.primitive.output for leaf in resolved.invocations if leaf.primitive is not None
    )


def operands_cover(
    resolved: Resolved, found: Hulls, operands: Mapping[str, BoundOperand]
) -> list[Finding]:
    """Findings of the rule IN_BOUNDS; index arrays have their own rules."""
    findings = []
    index_arrays = {
        name
        for axis in resolved.sparse
        for segment in axis.segments
        for name in (segment.pos, segment.crd)
    }
    for tensor, operand in operands.items():
        low = found.low.get(tensor)
        if low is None or tensor in found.unknown or tensor in index_arrays:
            continue
        if low < -operand.before_bytes:
            findings.append(
                _outside(
                    tensor,
                    f"{-low} bytes before the base",
                    f"{operand.before_bytes}",
                    _reach(found.low_place[tensor], tensor, low, at_end=False),
                )
            )
        high = found.high[tensor]
        if high > operand.after_bytes:
            findings.append(
                _outside(
                    tensor,
                    f"{high} bytes from the base on",
                    f"{operand.after_bytes}",
                    _reach(found.high_place[tensor], tensor, high - 1, at_end=True),
                )
            )
    return findings


def _outside(tensor: str, expected: str, found: str, hint: str) -> Finding:
    return blame(IN_BOUNDS, Part.TENSOR, tensor, expected, found, hint)


def _reach(place: Place, tensor: str, byte: int, *, at_end: bool) -> str:
    indices = []
    for step in reversed(path_of(place)):
        axis = step.axis
        assert axis is not None
        if axis.strides[tensor] and not axis.segments:
            indices.append(f"{axis.name}={axis.extent - 1 if at_end else 0}")
    where = f" at {', '.join(indices)}" if indices else ""
    return f"node {place.node.name} reaches byte {byte} of {tensor}{where}; guards do not count"
