"""How a thread walks its part of a box: in batches of loads, then stores, at fixed offsets.

    before the tiles:   reach = the thread's offset in the operand, place = in shared memory
    for every tile:     for (the other axes) for (batches)
                          16 loads, at constants from one pointer
                          16 stores

What an element costs is a load, a store and, where offsets are too large for an instruction, an
addition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from teir.backends.cuda.problem import MapProblem
from teir.backends.cuda.text import block, decode
from teir.backends.cuda.turn_boxes import Share, TurnTile, share

IN_FLIGHT_BYTES = 64
MOST_IN_FLIGHT = 16
_TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "Unit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One side of a tile: into shared memory (0) or out of it (1)."""

    problem: MapProblem
    tile: TurnTile
    side: int
    part: Share

    @property
    def moved(self) -> str:
        """The type that moves an element's bits."""
        return _TYPES[self.problem.operands[self.side].data_type.width]

    def stride(self, at: int) -> int:
        return self.problem.axes[at].strides[self.side]

    def digit(self, at: int) -> str:
        return f"d{self.side}_{at}"


@dataclass(frozen=True, slots=True)
class _Index:
    """A thread's index of a looped axis: ``step`` times a variable (if any) and a constant."""

    variable: str
    constant: int


def walk_of(problem: MapProblem, tile: TurnTile, side: int) -> Walk:
    part = share(problem.axes, tile.boxes, side, tile.threads)
    return Walk(problem=problem, tile=tile, side=side, part=part)


def begin(walk: Walk) -> list[str]:
    """What stays the same for all tiles: the thread's indices and its two offsets."""
    part, boxes = walk.part, walk.tile.boxes
    held = {walk.digit(at): boxes[at] for at in part.fixed}
    if part.strip is not None:
        held[walk.digit(part.strip)] = part.step
    axes = [*part.fixed, *([] if part.strip is None else [part.strip])]
    far = " + ".join(f"(i64){walk.digit(at)} * {walk.stride(at)}ll" for at in axes)
    near = " + ".join(f"{walk.digit(at)} * {walk.tile.places[at]}" for at in axes)
    return [
        *decode("threadIdx.x", held, first_fastest=True, kind="u32"),
        f"const i64 reach{walk.side} = {far or '0'};",
        f"{walk.moved}* const place{walk.side} = ({walk.moved}*)shared + ({near or '0'});",
    ]


def steps(walk: Walk, pointer: str, ragged: Sequence[int]) -> list[str]:
    """All elements of a thread, from or to ``pointer``; tested along the axes in ``ragged``.

    ``m<axis>`` is how much of an axis there is behind the tile's origin.
    """
    held = [f"threadIdx.x < {walk.part.threads}u"]
    held += [f"{walk.digit(at)} < m{at}" for at in walk.part.fixed if at in ragged]
    return [f"if ({' && '.join(held)}) {{", *block(_batches(walk, pointer, ragged)), "}"]


def _batches(walk: Walk, pointer: str, ragged: Sequence[int]) -> list[str]:
    """Loops around batches: whole inner loops, a piece of the next one, the rest as loops.

    Batches are shorter where elements are tested: the tests take registers as well.
    """
    loops = walk.part.loops(walk.tile.boxes)
    width = walk.problem.operands[0].data_type.width
    most = min(MOST_IN_FLIGHT, IN_FLIGHT_BYTES // width) // (2 if ragged else 1)
    inner = 0
    while inner < len(loops) and prod(count for _, count, _ in loops[: inner + 1]) <= most:
        inner += 1
    whole, outer = loops[:inner], loops[inner:]
    if not outer:
        return _batch(walk, pointer, ragged, [_constants(one) for one in whole], [])
    (at, count, step), *outer = outer
    pieces = -(-count // (most // prod(count for _, count, _ in whole)))
    piece = -(-count // pieces)
    # The last piece stands for itself: it is shorter, and its last step may leave the box.
    spans = [(True, 0, piece)] if pieces > 1 else []
    spans.append((False, (pieces - 1) * piece, count - (pieces - 1) * piece))
    lines = []
    for is_loop, first, length in spans:
        variable = f"r{at}" if is_loop else ""
        indices = [_Index(variable, (first + one) * step) for one in range(length)]
        around = [(at, pieces - 1, piece * step)] if is_loop else []
        sets = [*(_constants(one) for one in whole), (at, indices)]
        lines += _looped(around, _batch(walk, pointer, ragged, sets, [*around, *outer]))
    return _looped(outer, lines)


def _constants(loop: tuple[int, int, int]) -> tuple[int, list[_Index]]:
    at, count, step = loop
    return at, [_Index("", one * step) for one in range(count)]


def _looped(loops: Sequence[tuple[int, int, int]], lines: list[str]) -> list[str]:
    for at, count, step in loops:
        head = f"NO_UNROLL for (u32 r{at} = 0; r{at} < {count * step}; r{at} += {step}) {{"
        lines = [head, *block(lines), "}"]
    return lines


def _batch(
    walk: Walk,
    pointer: str,
    ragged: Sequence[int],
    sets: Sequence[tuple[int, list[_Index]]],
    around: Sequence[tuple[int, int, int]],
) -> list[str]:
    """Every combination of the indices in ``sets``, at the loops ``around`` them."""
    far = "".join(f" + (i64)r{at} * {walk.stride(at)}ll" for at, _, _ in around)
    near = "".join(f" + r{at} * {walk.tile.places[at]}" for at, _, _ in around)
    constant = "const " if walk.side == 0 else ""
    axes = [at for at, _ in sets]
    loads, stores = [], []
    for number, chosen in enumerate(product(*(indices for _, indices in sets))):
        load, store = _element(walk, number, list(zip(axes, chosen, strict=True)), ragged)
        loads.append(load)
        stores.append(store)
    fixed = [at for at, _, _ in around if at in ragged and at not in axes]
    held = [_test(walk, at, _Index(f"r{at}", 0)) for at in fixed]
    return [
        f"if ({' && '.join(held)}) {{" if held else "{",
        f"  {constant}u8* const at = {pointer}{far};",
        f"  {walk.moved}* const place = place{walk.side}{near};",
        *block([*loads, *stores]),
        "}",
    ]


def _element(
    walk: Walk, number: int, pairs: Sequence[tuple[int, _Index]], ragged: Sequence[int]
) -> tuple[str, str]:
    """The load and the store of one element of a batch."""
    offset = sum(walk.stride(at) * one.constant for at, one in pairs)
    place = sum(walk.tile.places[at] * one.constant for at, one in pairs)
    tests = _tests(walk, pairs, ragged)
    test = f"if ({' && '.join(tests)}) " if tests else ""
    constant = "const " if walk.side == 0 else ""
    memory, shared = f"*({constant}{walk.moved}*)(at + {offset}ll)", f"place[{place}]"
    source, target = (memory, shared) if walk.side == 0 else (shared, memory)
    return f"{walk.moved} v{number}; {test}v{number} = {source};", f"{test}{target} = v{number};"


def _tests(walk: Walk, pairs: Sequence[tuple[int, _Index]], ragged: Sequence[int]) -> list[str]:
    """What has to hold for an element to be moved, of the axes that a batch walks."""
    tests = []
    for at, one in pairs:
        is_strip = at == walk.part.strip
        leaves = (
            is_strip and one.variable == "" and one.constant + walk.part.step > walk.tile.boxes[at]
        )
        if at in ragged:
            tests.append(_test(walk, at, one))
        if leaves:
            tests.append(f"{walk.digit(at)} < {walk.tile.boxes[at] - one.constant}")
    return tests


def _test(walk: Walk, at: int, one: _Index) -> str:
    digit = walk.digit(at) if at == walk.part.strip else ""
    parts = [part for part in (digit, one.variable, str(one.constant or "")) if part]
    return f"{' + '.join(parts) or '0'} < m{at}"
