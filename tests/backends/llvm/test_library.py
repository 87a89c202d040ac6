"""The code library compiles what is missing, once, and takes the rest from disk."""

from __future__ import annotations

import threading
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from backends.llvm.small_programs import SHARED, elementwise
from teir.backends.llvm import library as library_module
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.control import CONTROL_SYMBOLS
from teir.backends.llvm.library import CodeLibrary, generator_digest, leaf_symbol
from teir.backends.llvm.table import build_table
from teir.ir.nodes import Operation
from teir.lower.kernels import Kernel
from teir.runtime.object_cache import ObjectCache

ADD, MUL, RELU = (
    elementwise(operation, *((0, 0),) * count).kernel
    for operation, count in ((Operation.ADD, 3), (Operation.MUL, 3), (Operation.RELU, 2))
)


def fresh(folder: Path | None, generator: str = "g") -> CodeLibrary:
    """The library of a process that has just started."""
    return CodeLibrary(host_isa(), ObjectCache(folder), generator)


def compiling() -> mock._patch[mock.Mock]:
    """Counts compilations."""
    return mock.patch.object(library_module, "compile_object", wraps=library_module.compile_object)


def test_missing_kernels_are_compiled_together_and_once() -> None:
    library = fresh(None)
    with compiling() as compile_object:
        first = library.leaves({ADD, MUL})
        again = library.leaves({MUL, ADD})
        more = library.leaves({ADD, RELU})
    assert compile_object.call_count == 2
    assert first == again
    assert more[ADD] == first[ADD]
    assert len({*first.values(), *more.values()}) == 3


def test_a_later_process_takes_code_from_disk(tmp_path: Path) -> None:
    fresh(tmp_path / "c").leaves({ADD, MUL})
    fresh(tmp_path / "c").control()
    library = fresh(tmp_path / "c")
    with compiling() as compile_object:
        assert len(library.leaves({ADD, MUL})) == 2
        assert library.control().keys() >= set(CONTROL_SYMBOLS)
    assert compile_object.call_count == 0


def test_kernels_are_found_whichever_plan_asked_first(tmp_path: Path) -> None:
    fresh(tmp_path / "c").leaves({ADD, MUL})
    with compiling() as compile_object:
        fresh(tmp_path / "c").leaves({MUL, RELU})
    assert compile_object.call_count == 1
    library = fresh(tmp_path / "c")
    with compiling() as compile_object:
        assert len(library.leaves({RELU, ADD})) == 2
    assert compile_object.call_count == 0
    assert {leaf_symbol(kernel, host_isa()) for kernel in (ADD, MUL, RELU)} <= set(
        library.addresses
    )


def test_older_objects_are_loaded_when_they_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kernel in (ADD, MUL, RELU):
        fresh(tmp_path / "c").leaves({kernel})
    monkeypatch.setattr(library_module, "_LOADED_AT_ONCE", 1)
    library = fresh(tmp_path / "c")
    symbols = {kernel: leaf_symbol(kernel, host_isa()) for kernel in (ADD, MUL, RELU)}
    with compiling() as compile_object:
        for kernel in (RELU, MUL):
            assert library.leaves({kernel})[kernel] == library.addresses[symbols[kernel]]
    assert compile_object.call_count == 0
    assert symbols[ADD] not in library.addresses


def test_another_generator_takes_nothing_from_disk(tmp_path: Path) -> None:
    fresh(tmp_path / "c", "one").leaves({ADD})
    with compiling() as compile_object:
        fresh(tmp_path / "c", "two").leaves({ADD})
    assert compile_object.call_count == 1


def test_another_compiler_takes_nothing_from_disk(tmp_path: Path) -> None:
    fresh(tmp_path / "c").leaves({ADD})
    with (
        mock.patch.object(library_module, "compiler_version", return_value="another"),
        compiling() as compile_object,
    ):
        fresh(tmp_path / "c").leaves({ADD})
    assert compile_object.call_count == 1


def test_a_warm_process_compiles_nothing(tmp_path: Path) -> None:
    assert fresh(tmp_path / "c").warm({ADD, MUL, RELU})
    library = fresh(tmp_path / "c")
    with compiling() as compile_object:
        addresses = library.leaves({MUL})
        library.control()
        library.leaves({RELU, ADD})
    assert compile_object.call_count == 0
    table = build_table(SHARED, library.control(), library.leaves({ADD}), 2)
    assert addresses[MUL] == library.addresses[leaf_symbol(MUL, host_isa())]
    assert table.words[0] == library.addresses[leaf_symbol(ADD, host_isa())]


def test_warming_again_adds_what_is_missing(tmp_path: Path) -> None:
    assert fresh(tmp_path / "c").warm({ADD})
    with compiling() as compile_object:
        assert fresh(tmp_path / "c").warm({ADD})
    assert compile_object.call_count == 0
    assert fresh(tmp_path / "c").warm({MUL, ADD})
    with compiling() as compile_object:
        fresh(tmp_path / "c").leaves({ADD, MUL})
    assert compile_object.call_count == 0


def test_warming_says_when_nothing_was_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    library = fresh(tmp_path / "file" / "c")
    assert not library.warm({ADD})
    assert ADD in library.leaves({ADD})


def test_threads_get_the_same_code() -> None:
    library = fresh(None)
    got: list[dict[Kernel, int]] = []
    callers = [
        threading.Thread(target=lambda: got.append(library.leaves({ADD, MUL}))) for _ in range(6)
    ]
    with compiling() as compile_object:
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert compile_object.call_count == 1
    assert all(one == got[0] for one in got)


def test_the_generator_digest_is_of_the_source() -> None:
    assert generator_digest() == generator_digest()
    with mock.patch.object(library_module, "_GENERATOR_PLACES", ("dtypes.py",)):
        other = generator_digest()
    assert other != generator_digest()
    assert np.unique([len(other), len(generator_digest())]).size == 1
