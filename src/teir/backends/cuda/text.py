"""C++ text: pieces that every emitter writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files

from teir.dtypes import DataType

_COMPUTED = {
    DataType.FP64: "double",
    DataType.C64: "c64",
    DataType.C128: "c128",
}


@cache
def device_text(name: str) -> str:
    """A file of the folder ``device``."""
    return files("teir.backends.cuda").joinpath("device", name).read_text(encoding="utf-8")


def whole_source(body: str, tiles: bool) -> str:
    """The source of a kernel: what it needs of the device files, then ``body``.

    ``tiles``: with barriers, tile loads and warpgroup products.
    """
    parts = [device_text("hopper.cu"), device_text("numbers.cu")]
    if tiles:
        parts.append(device_text("tiles.cu"))
    return "\n".join([*parts, body])


def computed(data_type: DataType) -> str:
    """The C++ type in which numbers of ``data_type`` are computed with."""
    return _COMPUTED.get(data_type, "float")


def zero(data_type: DataType) -> str:
    """A zero of `computed`."""
    return f"{computed(data_type)}{{}}"


def literal(number: int, kind: str) -> str:
    """A number as a literal of ``kind``, "u32" or "i64"."""
    return f"{number}{'u' if kind == 'u32' else 'll'}"


def block(lines: Iterable[str]) -> list[str]:
    """``lines`` one step further in."""
    return [f"  {line}" for line in lines]


def decode(index: str, extents: Mapping[str, int], first_fastest: bool, kind: str) -> list[str]:
    """Declare one variable per entry of ``extents``: the digits of ``index`` in mixed radix."""
    names = list(extents) if first_fastest else list(extents)[::-1]
    lines: list[str] = []
    rest = index
    for at, name in enumerate(names):
        last = at == len(names) - 1
        lines.append(f"const {kind} {name} = {rest if last else f'{rest} % {extents[name]}'};")
        if not last:
            lines.append(f"const {kind} {name}_rest = {rest} / {extents[name]};")
            rest = f"{name}_rest"
    return lines


def address(base: str, constant: int, terms: Sequence[tuple[str, int]]) -> str:
    """``base`` plus a constant plus index times stride for every term, in bytes."""
    parts = [base] + ([f"{constant}ll"] if constant else [])
    parts += [f"(i64){name} * {stride}ll" for name, stride in terms if stride]
    return " + ".join(parts)
