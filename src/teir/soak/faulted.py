"""Run one interpreter with one fault in this package.

``python -m teir.soak.faulted NUMBER TESTS`` seeds a fault of the list,
``python -m teir.soak.faulted FILE NUMBER TESTS`` a mutant of a file of the checker.

The fault is put into the source as it is imported; nothing on disk changes. Ends with status 10
where the stage that should catch the fault does, by a signal where native code crashed, and with
0 where nobody noticed. Status 3: the fault's text is not there to be changed.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

CAUGHT, UNNOTICED, MISSING = 10, 0, 3


class PatchedFile(importlib.abc.MetaPathFinder):
    """Imports one file of this package from changed source."""

    def __init__(self, path: Path, source: str) -> None:
        self._path = path
        self._source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        found = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if found is None or found.origin is None or Path(found.origin) != self._path:
            return None
        loader = _Changed(fullname, str(self._path), self._source)
        return importlib.util.spec_from_file_location(
            fullname,
            self._path,
            loader=loader,
            submodule_search_locations=found.submodule_search_locations,
        )


class _Changed(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> Any:
        del fullname
        return compile(self._source, self.path, "exec")


def detect(stage: str, tests: Path) -> bool:
    """Whether ``stage`` finds something wrong; stages import this package only now."""
    work, items = _stage(stage)
    if work is None:
        return _tests_fail(tests.parent / stage)
    for item in items:
        try:
            if work(item).get("wrong"):
                return True
        except Exception:
            return True
    return False


def _stage(name: str) -> tuple[Callable[[int], dict[str, Any]] | None, Iterable[int]]:
    match name:
        case "programs":
            from teir.soak.differential import compare_one

            return compare_one, range(400)
        case "bounds":
            from teir.soak.soundness import examine_one

            def examine(seed: int) -> dict[str, Any]:
                result = examine_one(seed)
                refused = bool(result.get("false_refusal"))
                return {"wrong": [*result.get("wrong", ()), *["refused"] * refused]}

            return examine, range(600)
        case "passes":
            from teir.soak.translation import translate_one

            return translate_one, range(400)
        case "einsums":
            from teir.soak.random_einsums import judge_one

            return judge_one, range(900)
        case _:
            return None, ()


def _tests_fail(directory: Path) -> bool:
    import pytest

    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header"]
    return pytest.main([*options, str(directory)]) == pytest.ExitCode.TESTS_FAILED


def main(arguments: Sequence[str]) -> int:
    """The status of the process, for the arguments of the command line."""
    tests = Path(arguments[-1]).resolve()
    package = Path(__file__).parents[1]
    stages: tuple[str, ...]
    if len(arguments) == 2:
        fault = _beside("fault_list").FAULTS[int(arguments[0])]
        path, stages = package / fault.file, (fault.caught_by,)
        source = path.read_text()
        if fault.before not in source:
            return MISSING
        changed = source.replace(fault.before, fault.after)
    else:
        path, stages = package / arguments[0], ("bounds", "tests/ir/check", "tests/cases")
        changed = _beside("mutation").mutated(path.read_text(), int(arguments[1]))
    sys.meta_path.insert(0, PatchedFile(path, changed))
    return CAUGHT if any(detect(stage, tests) for stage in stages) else UNNOTICED


def _beside(name: str) -> Any:
    """A module of this folder under another name, so that nothing of the package is imported."""
    found = importlib.util.spec_from_file_location(
        f"seeded_{name}", Path(__file__).with_name(f"{name}.py")
    )
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


if __name__ == "__main__":
    # Importing this module imported nothing of the package but its empty parents.
    sys.exit(main(sys.argv[1:]))
