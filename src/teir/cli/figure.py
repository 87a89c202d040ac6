"""Tile grids and memory order of a program as SVG text (figures 10.7.1 and 10.7.2).

The upper panel names the axes: tiles are indexed by iterated axes, their inside is spanned by
consumed axes; the tiles that make the first output tile are filled. The lower panel shows
addresses: numbers order the tiles by their first byte, the line inside a tile walks its elements
in increasing order of address, from the dot on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import escape

from teir.cli.rules import DRAWABLE
from teir.cli.tile_grid import Picture, TensorGrid, extent_of, picture_of, shown_indices
from teir.errors import refuse
from teir.ir.nodes import Axis, Program

TILE = 66
GAP = 8
MARGIN = 96
HEAD = 64
MOST = 7
"""Rows or columns of tiles drawn; longer ones get a gap."""
SAMPLES = 5
"""Rows or columns of elements whose order is drawn inside a tile."""

_COLORS = ("#3b6fb6", "#c26a1b", "#2f8f5b", "#8a5aa8", "#7a7a7a")
_FONT = 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A grid on the page: its upper left corner, the drawn indices, its colour."""

    grid: TensorGrid
    x: float
    y: float
    rows: tuple[int | None, ...]
    columns: tuple[int | None, ...]
    color: str

    @property
    def width(self) -> float:
        return _span(self.columns)

    @property
    def height(self) -> float:
        return _span(self.rows)

    def corner(self, row: int, column: int) -> tuple[float, float]:
        """The upper left corner of the tile at drawn position (row, column)."""
        return self.x + column * (TILE + GAP), self.y + row * (TILE + GAP)


def draw_program(program: Program) -> str:
    """The two panels of the program's main invocation. Raises TeirError (TEIR808)."""
    picture = picture_of(program)
    if picture is None:
        refuse(DRAWABLE, "--svg", "a dense program with an invocation", "none")
    upper = place(picture)
    width = max(grid.x + grid.width for grid in upper) + MARGIN
    panel = max(grid.y + grid.height for grid in upper) + MARGIN / 2
    lines = _legend(picture)
    height = 2 * panel + 22 * len(lines) + 24
    lower = tuple(_moved(grid, panel) for grid in upper)
    body = [
        _text(16, 26, f"{program.name}: tiles and axes", 15, weight="bold"),
        *_dimensions(upper, picture),
        _text(16, panel + 26, "memory order", 15, weight="bold"),
        *_memory_order(lower),
        *(
            _text(16, 2 * panel + 16 + 22 * number, line, 12, color=color)
            for number, (line, color) in enumerate(lines)
        ),
    ]
    width = max(width, 24 + 7.4 * max(len(line) for line, _ in lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" {_FONT}>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def place(picture: Picture) -> tuple[Placed, ...]:
    """The grids on the page: a product aligned as a matrix product, others side by side."""
    shown = [
        (shown_indices(extent_of(grid.rows), MOST), shown_indices(extent_of(grid.columns), MOST))
        for grid in picture.grids
    ]
    top, left = float(HEAD + 28), float(MARGIN)
    if picture.is_product:
        right = left + _span(shown[0][1]) + MARGIN
        below = top + _span(shown[1][0]) + HEAD
        corners = [(left, below), (right, top), (right, below)]
    else:
        corners = []
        for _, columns in shown:
            corners.append((left, top))
            left += _span(columns) + MARGIN
    return tuple(
        Placed(grid=grid, x=x, y=y, rows=rows, columns=columns, color=_COLORS[number % 5])
        for number, (grid, (x, y), (rows, columns)) in enumerate(
            zip(picture.grids, corners, shown, strict=True)
        )
    )


def _span(indices: tuple[int | None, ...]) -> float:
    return len(indices) * (TILE + GAP) - GAP


def _moved(placed: Placed, down: float) -> Placed:
    return Placed(
        grid=placed.grid,
        x=placed.x,
        y=placed.y + down,
        rows=placed.rows,
        columns=placed.columns,
        color=placed.color,
    )


def _dimensions(grids: Iterable[Placed], picture: Picture) -> list[str]:
    body: list[str] = []
    for placed in grids:
        body += _axis_labels(placed)
        for row, column, x, y in _tiles(placed):
            opacity = 0.30 if _is_filled(picture, placed.grid, row, column) else 0.07
            body.append(_tile(x, y, placed.color, opacity))
        body += _inside_labels(*placed.corner(0, 0), placed.grid)
        body += _gaps(placed)
    return body


def _is_filled(picture: Picture, grid: TensorGrid, row: int, column: int) -> bool:
    """True for the tiles that make output tile (0, 0): a row of in0 and a column of in1."""
    if picture.is_product and grid is picture.grids[0]:
        return row == 0
    if picture.is_product and grid is picture.grids[1]:
        return column == 0
    return row == 0 and column == 0


def _inside_labels(x: float, y: float, grid: TensorGrid) -> list[str]:
    """The consumed axes along the edges of the first tile."""
    body = []
    if grid.tile_columns:
        body.append(_text(x + TILE - 4, y + 14, _names(grid.tile_columns), 11, anchor="end"))
    if grid.tile_rows:
        words = escape(_names(grid.tile_rows))
        turned = f"rotate(-90 {x + 13:.1f} {y + TILE - 4:.1f})"
        body.append(
            f'<text x="{x + 13:.1f}" y="{y + TILE - 4:.1f}" font-size="11" '
            f'transform="{turned}">{words}</text>'
        )
    if not grid.tile_rows and not grid.tile_columns:
        body.append(_text(x + TILE / 2, y + TILE / 2 + 4, "1 element", 10, anchor="middle"))
    return body


def _axis_labels(placed: Placed) -> list[str]:
    """The tensor's name, and the iterated axes as arrows along the grid."""
    grid, x, y = placed.grid, placed.x, placed.y
    body = [_text(x - 8, y - 14, grid.tensor, 14, anchor="end", weight="bold", color=placed.color)]
    if grid.columns:
        middle = x + placed.width / 2
        body.append(_text(middle, y - 20, _names(grid.columns), 12, anchor="middle"))
        body.append(_arrow(x, y - 11, x + placed.width, y - 11))
    if grid.rows:
        body.append(_text(x - 18, y + placed.height / 2 + 4, _names(grid.rows), 12, anchor="end"))
        body.append(_arrow(x - 11, y, x - 11, y + placed.height))
    return body


def _memory_order(grids: Iterable[Placed]) -> list[str]:
    body: list[str] = []
    for placed in grids:
        body += _axis_labels(placed)
        body += _gaps(placed)
        drawn = [
            (placed.grid.tile_offset_bytes(row, column), x, y)
            for row, column, x, y in _tiles(placed)
        ]
        complete = None not in placed.rows and None not in placed.columns
        for rank, (offset, x, y) in enumerate(sorted(drawn)):
            body.append(_tile(x, y, placed.color, 0.07))
            body += _walk(x, y, placed)
            label = str(rank) if complete else f"+{offset:,}"
            size = 11 if len(label) < 5 else 9
            body.append(_text(x + TILE - 5, y + TILE - 5, label, size, "end", "bold", placed.color))
    return body


def _walk(x: float, y: float, placed: Placed) -> list[str]:
    """A line through the elements of a tile in increasing order of address."""
    grid = placed.grid
    rows = min(extent_of(grid.tile_rows), SAMPLES)
    columns = min(extent_of(grid.tile_columns), SAMPLES)
    order = sorted(
        ((row, column) for row in range(rows) for column in range(columns)),
        key=lambda place: grid.element_offset_bytes(*place),
    )
    inner = TILE - 30
    points = [
        (
            x + 11 + (inner * column / (columns - 1) if columns > 1 else 0.0),
            y + 11 + (inner * row / (rows - 1) if rows > 1 else 0.0),
        )
        for row, column in order
    ]
    first = f'<circle cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="3" fill="{placed.color}"/>'
    if len(points) == 1:
        return [first]
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    line = f'<polyline points="{path}" fill="none" stroke="{placed.color}" stroke-width="1.2"/>'
    return [line, first]


def _legend(picture: Picture) -> list[tuple[str, str]]:
    """The strides of every tensor, smallest first, and what is not drawn."""
    lines = []
    for number, grid in enumerate(picture.grids):
        axes = {*grid.rows, *grid.columns, *grid.tile_rows, *grid.tile_columns, *picture.batch}
        steps = sorted((axis.strides[grid.tensor], axis.name) for axis in axes)
        words = ", ".join(f"{name} {stride:,}" for stride, name in steps if stride)
        lines.append((f"{grid.tensor}, strides in bytes: {words or 'none'}", _COLORS[number % 5]))
    if picture.batch:
        names = ", ".join(f"{axis.name} ({axis.extent})" for axis in picture.batch)
        lines.append((f"batch axes, drawn at index 0: {names}", "#333333"))
    return lines


def _tiles(placed: Placed) -> Iterable[tuple[int, int, float, float]]:
    for at_row, row in enumerate(placed.rows):
        for at_column, column in enumerate(placed.columns):
            if row is not None and column is not None:
                yield row, column, *placed.corner(at_row, at_column)


def _gaps(placed: Placed) -> list[str]:
    """Dots where rows or columns of tiles are left out."""
    body = []
    for number, row in enumerate(placed.rows):
        if row is None:
            x, y = placed.corner(number, 0)
            body.append(_text(x + placed.width / 2, y + TILE / 2 + 6, "⋮", 18, anchor="middle"))
    for number, column in enumerate(placed.columns):
        if column is None:
            x, y = placed.corner(0, number)
            body.append(_text(x + TILE / 2, y + placed.height / 2 + 6, "⋯", 18, anchor="middle"))
    return body


def _names(axes: tuple[Axis, ...]) -> str:
    return ", ".join(f"{axis.name} ({axis.extent})" for axis in axes)


def _tile(x: float, y: float, color: str, opacity: float) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{TILE}" height="{TILE}" rx="4" fill="{color}" '
        f'fill-opacity="{opacity}" stroke="{color}" stroke-width="1"/>'
    )


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    head = f"{x2 - 5},{y2 - 3} {x2},{y2} {x2 - 5},{y2 + 3}"
    if x1 == x2:
        head = f"{x2 - 3},{y2 - 5} {x2},{y2} {x2 + 3},{y2 - 5}"
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#555555"/>'
        f'<polyline points="{head}" fill="none" stroke="#555555"/>'
    )


def _text(
    x: float,
    y: float,
    words: str,
    size: int,
    anchor: str = "start",
    weight: str = "normal",
    color: str = "#222222",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}" fill="{color}">{escape(words)}</text>'
    )
