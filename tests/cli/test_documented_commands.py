"""The pages name the commands and options there are, and show what they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
import typer.main

from cli.command_line import Teir
from teir.cli.commands import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

RACE = """teir 1 "race"
tensor in0: FP32
tensor out: FP32
axis t = 2: in0 16
axis s = 4: in0 4, out 4
primitive clear = Zero(out; M=[s], N=[])
primitive sum = Contraction FP32 (in0 -> out; M=[s], N=[], K=[])
parallel r over t
  zero: clear
  add: sum
"""


def commands() -> dict[str, set[str]]:
    """The options of every command by its words."""
    found: dict[str, set[str]] = {}
    group = typer.main.get_command(app)
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = command.list_commands(context) if hasattr(command, "list_commands") else [""]
        for word in inner:
            one = command.get_command(context, word) if word else command
            options = {option for parameter in one.params for option in parameter.opts}
            found[f"{name} {word}".strip()] = options | {"--help", "-h"}
    return found


def test_every_command_has_a_row() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `teir ((?:cuda )?\w+)", page, re.MULTILINE)
    assert sorted(rows) == sorted(commands())


def test_rows_name_options_of_their_commands() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    known = commands()
    rows = re.findall(r"^\| `teir ((?:cuda )?\w+)(.*)$", page, re.MULTILINE)
    wrong = {
        name: unknown
        for name, rest in rows
        if (unknown := set(re.findall(r"--[a-z][a-z-]*", rest)) - known[name])
    }
    assert rows
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_calls_shown_on_a_page_are_of_commands_there_are(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    known = commands()
    for line in re.findall(r"^ {4}(?:\$ )?teir ([a-z].*)$", text, re.MULTILINE):
        words = line.split()
        name = " ".join(words[:2]) if words[0] == "cuda" else words[0]
        assert set(re.findall(r"(?<!\S)--[a-z][a-z-]*", line)) <= known[name], line


def test_the_readme_shows_the_finding_of_a_race(teir: Teir, tmp_path: Path) -> None:
    file = tmp_path / "race.teir"
    file.write_text(RACE)
    done = teir("check", file)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"\$ teir check race\.teir\n    (.*)\n    (.*)\n", readme)
    sentence = re.sub(r"line \d+", "line 8", " ".join(shown))
    assert done.code == 1
    assert done.out.splitlines()[0] == sentence
