"""The generated documentation is what the code says now."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import teir

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate_docs"] = module
    spec.loader.exec_module(module)
    return module


def test_pages_and_sections_are_up_to_date(generate: ModuleType) -> None:
    stale = [
        str(path.relative_to(ROOT))
        for path, text in generate.generated().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert not stale, "run python3 docs/generate.py"


def test_every_rule_has_a_code_a_sentence_and_a_source(generate: ModuleType) -> None:
    rules = generate.rules()
    assert len(rules) > 60
    for rule in rules.values():
        assert re.fullmatch(r"TEIR\d{3}", rule.code)
        assert rule.sentence.endswith((".", ")"))
        assert rule.source


def test_two_rules_with_one_code_are_noticed(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    from teir.errors import Rule

    intruder = ModuleType("intruder")
    intruder.RULE = Rule(code="TEIR100", sentence="Another one.", source="here")  # type: ignore[attr-defined]
    modules = [*generate._modules(), intruder]
    monkeypatch.setattr(generate, "_modules", lambda: iter(modules))
    with pytest.raises(ValueError, match="TEIR100"):
        generate.rules()


def test_a_missing_section_is_noticed(generate: ModuleType) -> None:
    with pytest.raises(ValueError, match="no section soak"):
        generate.with_sections("text", {"soak": lambda: "x"})


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken


def test_named_files_exist() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    pattern = r"`((?:src|tests|docs|schema)/[\w./-]+)`"
    missing = [
        f"{page.name}: {name}"
        for page in pages
        for name in re.findall(pattern, page.read_text(encoding="utf-8"))
        if not (ROOT / name).exists()
    ]
    assert not missing


def test_the_examples_of_the_readme_run(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)  # the README's own lines
    result = names["result"]
    assert result.tolist() == [200.0] * 300  # type: ignore[attr-defined]
    rows = names["B"].toarray().sum(axis=1)  # type: ignore[attr-defined]
    np.testing.assert_allclose(names["A"], np.repeat(16 * rows[:, None], 32, axis=1))  # type: ignore[call-overload]
    assert "trus,pqtu->pqrs" in capsys.readouterr().out


def heading_anchor(heading: str) -> str:
    """As the pages are shown on the web: small letters, hyphens for blanks, no other signs."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def test_links_to_sections_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    broken = []
    for page in pages:
        for file, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text("utf-8")):
            target = (page.parent / file if file else page).read_text("utf-8")
            headings = re.findall(r"^#+ (.*)$", target, re.MULTILINE)
            if anchor not in map(heading_anchor, headings):
                broken.append(f"{page.name}: {file}#{anchor}")
    assert broken == []


@pytest.mark.parametrize("page", ["compute", "write-a-program", "tune"])
def test_the_examples_of_a_how_to_run(page: str) -> None:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    if page == "tune":
        shapes = ((4, 4, 8, 8), (4, 6, 4, 8))
        names = {"teir": teir, "a": np.ones(shapes[0]), "b": np.ones(shapes[1])}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, f"{page}.md", "exec"), names)  # the page's own lines
