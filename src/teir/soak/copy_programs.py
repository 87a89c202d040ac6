"""Programs of figures 7 and 15 for kernels that only copy; see `teir.soak.special_programs`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from teir.dtypes import DataType
from teir.lower.permutation import PERMUTED_BYTES
from teir.target import LINE_BYTES

GAP = 3
"""Elements between rows, so that a stride is no extent."""
_STREAMED_BYTES = 96 << 10
"""What a copy has at least whose runs are streamed."""
_LONG_ROW_BYTES = 512
_ROW_BYTES = 2048
_COLUMN_BYTES = 1024
"""What rows and columns have at least that are read side by side."""


def copies() -> Iterator[tuple[str, Callable[[int, DataType], str]]]:
    """A title and a text for every remainder and type, in a fixed order."""
    yield "a streamed copy of runs", _runs
    yield "streamed rows side by side", _rows
    yield "streamed rows one after another", _long_rows
    yield "many short axes", _cells
    yield "a copy of what is far", _brought
    for group in (2, 4):
        yield f"rows turned in groups of {group}", partial(_turned, group=group)
    yield "short rows", _short_rows
    for side, joins in product((2, 3, 4, 5, 6), (True, False)):
        done = "put together" if joins else "taken apart"
        yield f"{side} elements {done}", partial(_few_turned, side=side, joins=joins, step=1)
    for step in (2, 3, 5):
        yield f"every {step}th element", partial(_picked, step=step)
    for run in (3, 7):
        yield f"runs of {run} turned joined", partial(_turned_runs, run=run)
    for width in (6, 11):
        yield f"{width} columns turned whole", partial(_turned_whole, columns=width)
    for step in (2, 3):
        yield f"every {step}th element turned", partial(_turned_steps, step=step, least_bytes=0)
        far = partial(_turned_steps, step=step, least_bytes=PERMUTED_BYTES)
        yield f"every {step}th element permuted", far
    for joins in (True, False):
        done = "put together" if joins else "taken apart"
        yield f"3 elements {done} in steps", partial(_few_turned, side=3, joins=joins, step=2)


def head(**kinds: DataType) -> str:
    lines = [f"tensor {name}: {kind.value}" for name, kind in kinds.items()]
    return "\n".join(['teir 1 "special"', *lines, ""])


def _runs(remainder: int, kind: DataType) -> str:
    """Runs as long as the remainder and one more, written past the caches in another order."""
    w, e, c = kind.width, remainder + 1, 17
    r = -(-_STREAMED_BYTES // (e * w * c))
    return f"""{head(in0=kind, out=kind)}axis e = {e}: in0 {w}, out {w}
axis c = {c}: in0 {e * w}, out {e * r * w}
axis r = {r}: in0 {e * c * w}, out {e * w}
primitive copy = Copy(in0 -> out; M=[e, c], N=[r]) with {{"stream": true}}
do_copy: copy
"""


def _long_rows(remainder: int, kind: DataType) -> str:
    """Rows of half a kilobyte and some elements in another order, written past the caches."""
    w, c = kind.width, 5
    e = _LONG_ROW_BYTES // w + remainder
    r = -(-_STREAMED_BYTES // (e * w * c))
    return f"""{head(in0=kind, out=kind)}axis e = {e}: in0 {w}, out {w}
axis c = {c}: in0 {e * w}, out {(e * r + GAP) * w}
axis r = {r}: in0 {(e * c + GAP) * w}, out {e * w}
primitive copy = Copy(in0 -> out; M=[e, c], N=[r]) with {{"stream": true}}
do_copy: copy
"""


def _brought(remainder: int, kind: DataType) -> str:
    w, m, n = kind.width, remainder, 5
    return f"""{head(in0=kind, out=kind)}axis p = 2: in0 {n * (m + GAP) * w}, out {n * m * w}
axis m = {m}: in0 {w}, out {w}
axis n = {n}: in0 {(m + GAP) * w}, out {m * w}
primitive copy = Copy(in0 -> out; M=[m], N=[n]) with {{"prefetch": ["in0"]}}
sequential loop over p
  do_copy: copy
"""


def _rows(remainder: int, kind: DataType) -> str:
    """Rows and columns that are long enough to be read side by side, a few planes of them."""
    w = kind.width
    rows, columns, planes = _ROW_BYTES // w + remainder, _COLUMN_BYTES // w + 7, 1 + remainder % 2
    return f"""{head(in0=kind, out=kind)}axis c = {columns}: in0 {w}, out {(rows + GAP) * w}
axis r = {rows}: in0 {(columns + GAP) * w}, out {w}
axis p = {planes}: in0 {rows * (columns + GAP) * w}, out {columns * (rows + GAP) * w}
primitive copy = Copy(in0 -> out; M=[c, r], N=[p]) with {{"stream": true}}
do_copy: copy
"""


def _cells(remainder: int, kind: DataType) -> str:
    """Many short axes in another order, one of them as long as the remainder and three more."""
    extents = {"a": 2, "b": 3, "c": remainder + 3, "d": 2, "e": 5, "f": 4, "g": 2}
    inward, outward = (_strides(order, extents, kind.width) for order in ("abcdefg", "fdgcbea"))
    axes = "".join(
        f"axis {name} = {extent}: in0 {inward[name]}, out {outward[name]}\n"
        for name, extent in extents.items()
    )
    return f"""{head(in0=kind, out=kind)}{axes}
primitive copy = Copy(in0 -> out; M=[{", ".join(extents)}], N=[])
do_copy: copy
"""


def _turned(remainder: int, kind: DataType, group: int) -> str:
    """Rows of the output that lie in groups; the input is adjacent across all of them."""
    w, m, r = kind.width, 3 + remainder, 1 + remainder * 5 % 14
    return f"""{head(in0=kind, out=kind)}axis g = {group}: in0 {w}, out {(m + GAP) * w}
axis r = {r}: in0 {group * w}, out {(group * (m + GAP) + 1) * w}
axis m = {m}: in0 {(group * r + GAP) * w}, out {w}
primitive copy = Copy(in0 -> out; M=[r, g], N=[m])
do_copy: copy
"""


def _turned_runs(remainder: int, kind: DataType, run: int) -> str:
    """Rows of the output that are runs of a few elements, four more than the remainder."""
    w, m, runs = kind.width, 4 + remainder * 7 % 45, 4 + remainder
    return f"""{head(in0=kind, out=kind)}axis o = 2: in0 {w * m * run * runs}, out {run * runs * w}
axis m = {m}: in0 {w}, out {2 * (run * runs + GAP) * w}
axis n = {run}: in0 {m * runs * w}, out {w}
axis r = {runs}: in0 {m * w}, out {run * w}
primitive copy = Copy(in0 -> out; M=[o, m], N=[r, n])
do_copy: copy
"""


def _few_turned(remainder: int, kind: DataType, side: int, joins: bool, step: int) -> str:
    """A few elements next to each other in the output, or ``step`` apart in the input; two rows and
    a remainder."""
    w, n = kind.width, 2 + remainder
    apart, together = (w, (n + GAP) * w), (side * w, w)
    (n_in, s_in), (n_out, s_out) = (apart, together) if joins else (together, apart)
    n_in, s_in, reach = step * n_in, step * s_in, step * (side + 1) * (n + GAP) * w
    return f"""{head(in0=kind, out=kind)}axis o = 3: in0 {reach}, out {reach}
axis s = {side}: in0 {s_in}, out {s_out}
axis n = {n}: in0 {n_in}, out {n_out}
primitive copy = Copy(in0 -> out; M=[o, n], N=[s])
do_copy: copy
"""


def _picked(remainder: int, kind: DataType, step: int) -> str:
    """Every so many-th element of rows that are one more than the remainder and three."""
    w, n = kind.width, 4 + remainder
    return f"""{head(in0=kind, out=kind)}axis o = 3: in0 {(step * n + GAP) * w}, out {(n + GAP) * w}
axis n = {n}: in0 {step * w}, out {w}
primitive copy = Copy(in0 -> out; M=[o, n], N=[])
do_copy: copy
"""


def _turned_steps(remainder: int, kind: DataType, step: int, least_bytes: int) -> str:
    """Every so many-th element of rows that become columns, four and the remainder."""
    w, m = kind.width, 4 + remainder
    n = max(4 + remainder * 5 % 14, -(-least_bytes // (m * w)))
    return f"""{head(in0=kind, out=kind)}axis m = {m}: in0 {step * w}, out {(n + GAP) * w}
axis n = {n}: in0 {step * (m + GAP) * w}, out {w}
primitive copy = Copy(in0 -> out; M=[m], N=[n])
do_copy: copy
"""


def _short_rows(remainder: int, kind: DataType) -> str:
    """Rows of some elements, as many as the remainder and one more, apart on both sides."""
    w, e, n = kind.width, remainder + 1, 3 + remainder % 6
    return f"""{head(in0=kind, out=kind)}axis o = 3: in0 {n * (e + GAP) * w}, out {(e + 1) * w}
axis n = {n}: in0 {(e + GAP) * w}, out {3 * (e + 1) * w}
axis e = {e}: in0 {w}, out {w}
primitive copy = Copy(in0 -> out; M=[o, n], N=[e])
do_copy: copy
"""


def _turned_whole(remainder: int, kind: DataType, columns: int) -> str:
    """Panels of few columns, each adjacent along a depth of some lines and a remainder."""
    w, k = kind.width, 2 * LINE_BYTES // kind.width + remainder
    return f"""{head(in0=kind, out=kind)}axis n = {columns}: in0 {(k + GAP) * w}, out {w}
axis k = {k}: in0 {w}, out {columns * w}
primitive copy = Copy(in0 -> out; M=[n], N=[k])
do_copy: copy
"""


def _strides(order: str, extents: dict[str, int], width: int) -> dict[str, int]:
    """Of axes that follow one another in ``order``, with a gap behind the first."""
    strides, reach = {}, width
    for place, name in enumerate(order):
        strides[name] = reach
        reach = reach * extents[name] + (0 if place else GAP * width)
    return strides
