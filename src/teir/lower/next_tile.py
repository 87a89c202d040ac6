"""How far the operands of a tile move to the next one, and whether they are worth asking for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from teir.ir.memory_hints import memory_hints
from teir.ir.nodes import Axis, Primitive
from teir.ir.subnormals import flushes_subnormals
from teir.target import Isa

_SHORT_LOOP = 8
"""Turns of a loop whose last one, for which the wrong lines are asked for, counts."""
_FAR_BYTES = 8 << 20
"""Inputs that are asked for without a word of the program where memory follows streams by itself.

What it follows too takes the places of lines on their way. Measured on Zen 5, nobody asking: the
products of section 5.3 in FP64 0.93 of the time, columns of 2 to 5 KB from inputs up to 6 MB 0.90
to 0.93, of 4 to 37 KB from inputs of 13 MB and more 1.04 to 1.06.
"""
_LEAST_AHEAD_BYTES = 4096
"""Of an input, that are read while what comes next is on its way: tiles that read less ask for what
a loop around them reads next."""
_LONG_SUM = 64
"""Products of a sum from which the streams of a tile are long enough to be followed."""


def distances_to_next_tile(
    primitive: Primitive, loops: Sequence[Axis], consumed: Sequence[Axis], width: int, isa: Isa
) -> tuple[int, ...]:
    """How far each operand moves from one tile to the next, in bytes; 0: it is not asked for.

    Inputs that are asked for, and results of BF16, whose tiles are soon formed: where the innermost
    loop is soon over, to the next tile of the loop around it. What is asked for in the last turn of
    a loop is not what comes next.
    """
    if not loops or loops[-1].segments:
        return (0,) * (len(primitive.inputs) + 1)
    inner, asked = loops[-1], memory_hints(primitive).prefetched
    around = loops[-2] if len(loops) > 1 and not loops[-2].segments else None
    is_soon_over = around is not None and inner.extent <= _SHORT_LOOP < around.extent
    moves = list(map(inner.strides.get, primitive.operands, repeat(0)))
    if around is not None and is_soon_over and asked:
        far = primitive.operands if flushes_subnormals(primitive) else primitive.inputs
        for place, name in enumerate(far):
            if name in asked:
                moves[place] = around.strides[name] or moves[place]
    elif asked:
        for place, name in enumerate(primitive.inputs):
            if name in asked and moves[place]:
                moves[place] = _far_enough(name, loops, consumed, width)
    if not isa.follows_near_inputs or _depth(primitive.output, consumed) < _LONG_SUM:
        return tuple(moves)
    for place, name in enumerate(primitive.inputs):
        if name in asked or not moves[place]:
            continue
        if _elements(name, (*loops, *consumed)) * width <= _FAR_BYTES:
            moves[place] = 0
    return tuple(moves)


def _far_enough(name: str, loops: Sequence[Axis], consumed: Sequence[Axis], width: int) -> int:
    """How far a turn moves an input: of the innermost loop whose turns read enough of it."""
    covered, move = _elements(name, consumed) * width, 0
    for axis in reversed(loops):
        if axis.segments or not axis.strides.get(name):
            break
        move = axis.strides[name]
        if covered >= _LEAST_AHEAD_BYTES:
            break
        covered *= axis.extent
    return move


def _depth(output: str, consumed: Sequence[Axis]) -> int:
    """The products of a sum."""
    depth = 1
    for axis in consumed:
        if output not in axis.strides:
            depth *= axis.extent
    return depth


def _elements(name: str, axes: Sequence[Axis]) -> int:
    """Of a tensor, at all positions of ``axes``."""
    elements = 1
    for axis in axes:
        if name in axis.strides:
            elements *= axis.extent
    return elements
