"""Write the generated pages and sections: ``python3 docs/generate.py``.

Each is a function of the code and of stored measurements; a test compares what is stored with it.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import teir
from teir.errors import Rule
from teir.ir.limits import LIMITS

FOLDER = Path(__file__).parent
MEASURED = FOLDER / "figures.json"
RESULTS = FOLDER.parent / "benchmarks" / "results"

SECTIONS = (
    ("TEIR1", "Reading: files, text form, names, records"),
    ("TEIR2", "Other forms: flat form, etops configurations"),
    ("TEIR3", "Well-formedness"),
    ("TEIR4", "Safe to run"),
    ("TEIR5", "Operands"),
    ("TEIR6", "Expressions, einsum, plans"),
    ("TEIR7", "Compiling and running"),
    ("TEIR8", "Machine and command line"),
    ("TEIR9", "Tile loads"),
)


def rules() -> dict[str, Rule]:
    """Every rule any module of the package declares, by code, in the order of codes.

    Raises ValueError when two rules share a code.
    """
    found: dict[str, Rule] = {}
    for module in _modules():
        for value in vars(module).values():
            for rule in _rules_in(value):
                if found.setdefault(rule.code, rule) != rule:
                    raise ValueError(f"two rules have the code {rule.code}")
    return dict(sorted(found.items()))


def _modules() -> Iterator[ModuleType]:
    for entry in pkgutil.walk_packages(teir.__path__, "teir."):
        yield importlib.import_module(entry.name)


def _rules_in(value: Any) -> Iterator[Rule]:
    if isinstance(value, Rule):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _rules_in(item)
    elif isinstance(value, dict):
        yield from _rules_in(tuple(value.values()))


def rules_page() -> str:
    """``rules.md``: the table of all rules."""
    lines = [
        "# Rules",
        "",
        "Every finding names a rule by its code. This page is generated from the rules in the code "
        "by `docs/generate.py`.",
    ]
    every = rules()
    for prefix, title in SECTIONS:
        rows = [rule for code, rule in every.items() if code.startswith(prefix)]
        if not rows:
            continue
        lines += ["", f"## {title}", "", "| code | rule | source |", "|---|---|---|"]
        lines += [
            f"| {rule.code} | {_cell(rule.sentence)} | {_cell(rule.source)} |" for rule in rows
        ]
    return "\n".join(lines) + "\n"


def limits_page() -> str:
    """``limits.md``: the limits of what is read."""
    lines = [
        "# Limits of inputs",
        "",
        "An input beyond a limit is refused with a finding. Generated from the code by "
        "`docs/generate.py`; `teir info` prints the same table.",
        "",
        "| at most | of |",
        "|---:|---|",
    ]
    lines += [f"| {limit.largest:,} | {limit.of} |" for limit in LIMITS]
    lines += [
        "",
        "Extents, strides, offsets and every sum of them stay below 2^62.",
    ]
    return "\n".join(lines) + "\n"


def grammar_section() -> str:
    """The grammar of the text form, as the reader states it."""
    from teir.ir import parsing

    paragraphs = (parsing.__doc__ or "").strip().split("\n\n")
    grammar = next(part for part in paragraphs if part.lstrip().startswith("program "))
    notes = " ".join(paragraphs[paragraphs.index(grammar) + 1].split())
    return f"{grammar}\n\n{notes.replace('``', '`')}"


def records_section() -> str:
    """One line per field of the record form."""
    import msgspec

    from teir.ir import record_form

    lines = ["| record | field | required | value |", "|---|---|---|---|"]
    for record in (
        record_form.ProgramRecord,
        record_form.TensorRecord,
        record_form.AxisRecord,
        record_form.SegmentRecord,
        record_form.ScheduleRecord,
        record_form.IterationRecord,
        record_form.InvocationRecord,
        record_form.GuardRecord,
        record_form.PrimitiveRecord,
        record_form.MetadataRecord,
        record_form.OperandsRecord,
    ):
        name = record.__name__.removesuffix("Record").lower()
        for field in msgspec.inspect.type_info(record).fields:  # type: ignore[attr-defined]
            required = "yes" if field.required else "no"
            value = _type_text(field.type)
            lines.append(f"| {name} | `{field.encode_name}` | {required} | {value} |")
    return "\n".join(lines)


def _type_text(kind: Any) -> str:
    """A msgspec type in words."""
    from msgspec import inspect

    match kind:
        case inspect.Metadata():
            return _type_text(kind.type)
        case inspect.StrType():
            return "string"
        case inspect.IntType():
            return "integer"
        case inspect.NoneType():
            return "null"
        case inspect.EnumType():
            return ", ".join(f"`{member.value}`" for member in kind.cls)
        case inspect.StructType():
            return kind.cls.__name__.removesuffix("Record").lower()
        case inspect.VarTupleType():
            return f"list of {_type_text(kind.item_type)}"
        case inspect.DictType():
            return f"object: {_type_text(kind.key_type)} to {_type_text(kind.value_type)}"
        case inspect.UnionType():
            texts = [
                _type_text(one) for one in kind.types if not isinstance(one, inspect.CustomType)
            ]
            named = dict.fromkeys(text for text in texts if text)
            return "identifier" if set(named) == {"string", "integer"} else " or ".join(named)
        case _:
            return ""


def soak_section() -> str:
    """The tables the soak command wrote, one for each machine, if it did."""
    first = FOLDER / "soak" / "soak.md"
    tables = [first, *sorted(first.parent.glob("*/soak.md"))]
    texts = [table.read_text(encoding="utf-8").strip() for table in tables if table.exists()]
    return "\n\n".join(texts) or "Not yet measured."


def figures_page() -> str:
    """``figures.md``: what `docs/measure.py` measured."""
    lines = ["# Measured figures", ""]
    if not MEASURED.exists():
        return "\n".join([*lines, "Not yet measured: run `python3 docs/measure.py`."]) + "\n"
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    lines += [
        "Measured by `docs/measure.py`, written by `docs/generate.py`. Every speed stands beside a "
        "peak taken in the same process: only the shares compare across machines.",
        "",
        _machine_line(measured["machine"]),
    ]
    for run in measured["demo"]:
        threads = run["threads"]
        lines += ["", f"## teir demo, {threads} {'thread' if threads == 1 else 'threads'}", ""]
        lines += _demo_rows(run["rows"])
    lines += ["", "## Overheads", "", *_overhead_rows(measured["overheads"])]
    lines += KERNELS.first_call_lines(_stored("overheads"))
    lines += KERNELS.tile_lines(_stored("tiles"))
    lines += CLASSES.pages(_stored("summary"))
    return "\n".join(lines) + "\n"


def machines_page() -> str:
    """``machines.md``: what was measured on other machines."""
    lines = [
        "# Other machines",
        "",
        "The figures of the README and of the other pages are of one machine. The same benchmarks "
        "on others (`benchmarks/all.py --results benchmarks/results/NAME`):",
    ]
    for about in sorted(RESULTS.glob("*/about.md")):
        folder = about.parent.name
        summaries = _stored(f"{folder}/summary")
        lines += ["", about.read_text(encoding="utf-8").rstrip("\n")]
        lines += [*CLASSES.peak_lines(summaries), *CLASSES.section(summaries)]
        lines += SPARSE.headline(_stored(f"{folder}/sparse-summary"), "sparse-performance.md")
    return "\n".join(lines) + "\n"


def figures_section() -> str:
    """The figures of the README: the main jobs on one thread, and the overheads."""
    if not MEASURED.exists():
        return "Not yet measured: run `python3 docs/measure.py`."
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    shown = (
        "backend-",
        "permutation-tiled",
        "contraction-gemm",
        "contraction-brgemm",
        "stiffness-",
    )
    rows = [row for row in measured["demo"][0]["rows"] if row["name"].startswith(shown)]
    return "\n".join(
        [
            _machine_line(measured["machine"]),
            "",
            *_demo_rows(rows),
            "",
            *_overhead_rows(measured["overheads"]),
            *CLASSES.section(_stored("summary")),
            *SPARSE.headline(_stored("sparse-summary"), "docs/sparse-performance.md"),
        ]
    )


def _stored(name: str) -> Any:
    """A record of `benchmarks/`; empty where it was never measured."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _machine_line(machine: dict[str, Any]) -> str:
    peaks = machine["peaks"]
    return (
        f"{machine['cpu']} ({machine['microarchitecture']}), {machine['isa']}, "
        f"{machine['threads']} cores, Python {machine['versions']['python']}, "
        f"teir {machine['versions']['teir']}, {machine['date']}. Peak of one core: "
        f"{peaks['fp32_flops_per_second'] / 1e9:.0f} GFLOP/s FP32, "
        f"{peaks['fp64_flops_per_second'] / 1e9:.0f} GFLOP/s FP64, "
        f"{peaks['copy_bytes_per_second'] / 1e9:.0f} GB/s copying 64 MiB."
    )


def _demo_rows(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| example | computes | speed | share of peak | result |", "|---|---|---:|---:|---|"]
    lines += [
        f"| {row['name']} | `{row['what']}` | {row['per_second'] / 1e9:.1f} {row['unit']} | "
        f"{100 * row['share']:.0f} % | {'OK' if row['ok'] else 'WRONG'} |"
        for row in rows
    ]
    return lines


def _overhead_rows(overheads: list[dict[str, Any]]) -> list[str]:
    lines = ["| overhead | median |", "|---|---:|"]
    return lines + [f"| {one['what']} | {one['median']} |" for one in overheads]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _beside(name: str) -> ModuleType:
    """A module of this folder."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CLASSES = _beside("class_figures")
KERNELS = _beside("kernel_figures")
SPARSE = _beside("sparse_figures")
TREES = _beside("tree_figures")


def _ranking() -> Any:
    return _stored("ranking").get("figures", [])


def _trees(allocator: str) -> str:
    return "\n".join(TREES.tree_rows(_stored("trees").get("figures", {}), allocator))


PAGES: dict[str, Callable[[], str]] = {
    "rules.md": rules_page,
    "limits.md": limits_page,
    "figures.md": figures_page,
    "machines.md": machines_page,
}
"""Whole pages of this folder."""

SECTIONED: dict[str, dict[str, Callable[[], str]]] = {
    "docs/language.md": {"grammar": grammar_section, "records": records_section},
    "docs/safety.md": {"soak": soak_section},
    "docs/trees.md": {
        "trees-keeping": lambda: _trees("keeping its pages"),
        "trees-usual": lambda: _trees("usual"),
    },
    "docs/sparse-performance.md": {
        "sparse-kernels": lambda: "\n".join(SPARSE.kernel_rows(_stored("sparse-summary"))),
        "sparse-others": lambda: "\n".join(SPARSE.other_lines(_stored("sparse-summary"))),
        "sparse-cases": lambda: "\n".join(SPARSE.case_rows(_stored("sparse-summary"))),
        "sparse-ranking": lambda: "\n".join(SPARSE.ranking_rows(_ranking())),
        "sparse-layouts": lambda: "\n".join(SPARSE.layout_rows(_ranking())),
    },
    "README.md": {"figures": figures_section},
}
"""Files of the repository in which sections are generated, between two comments."""


def with_sections(text: str, sections: dict[str, Callable[[], str]]) -> str:
    """``text`` with every section written anew. Raises ValueError where a section is missing."""
    for name, section in sections.items():
        head, end = f"<!-- generated: {name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(head)
        if not found or end not in rest:
            raise ValueError(f"no section {name}")
        text = before + head + section().rstrip("\n") + "\n" + rest[rest.index(end) :]
    return text


def generated() -> dict[Path, str]:
    """Every file this script writes, with the content it should have."""
    root = FOLDER.parent
    files = {FOLDER / name: page() for name, page in PAGES.items()}
    for name, sections in SECTIONED.items():
        files[root / name] = with_sections((root / name).read_text(encoding="utf-8"), sections)
    return files


def main() -> None:
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
