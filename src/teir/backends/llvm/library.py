"""The code a process has loaded: control functions and kernels, by symbol.

Kernels are compiled when a plan first needs them, all missing ones of a plan in one module, and
kept on disk. `warm` compiles the kernels most plans need in one object; a fresh process then loads
that object instead of compiling.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from teir.backends.llvm.cached_code import kept_objects
from teir.backends.llvm.compile_ir import (
    LoadedCode,
    Machine,
    compile_object,
    compiler_version,
    load_object,
    machine_for,
    module_text,
)
from teir.backends.llvm.control import CONTROL_SYMBOLS, emit_control
from teir.backends.llvm.emit_kernel import emit_kernel, kernel_symbol
from teir.lower.kernels import Kernel
from teir.runtime.object_cache import ObjectCache
from teir.runtime.runtime import Runtime
from teir.target import Isa

_GENERATOR_PLACES = ("backends/llvm", "lower/kernels.py", "dtypes.py", "target.py")
"""The source files that decide what code is generated, below the package's directory."""

_WHOLE_LIBRARY = ("library",)
"""Takes the symbols' place in the key of the object `CodeLibrary.warm` stores."""

_PROGRAM = "program"
"""Stands before a program's functions in the key of its object."""


@dataclass(slots=True)
class CodeLibrary:
    """Loaded code for one instruction set. All methods may be called from any thread."""

    isa: Isa
    cache: ObjectCache
    generator: str
    addresses: dict[str, int] = field(default_factory=dict)
    owners: list[LoadedCode] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    looked_for_warm: bool = False
    by_kernel: dict[Kernel, int] = field(default_factory=dict)
    """The addresses of leaf functions that plans have asked for."""

    def control(self) -> dict[str, int]:
        """The addresses of the control functions; the dictionary holds more, by symbol."""
        if CONTROL_SYMBOLS[0] not in self.addresses:
            with self.lock:
                self._load_warm()
                if CONTROL_SYMBOLS[0] not in self.addresses:
                    self._obtain(CONTROL_SYMBOLS, lambda: [emit_control(self.isa)])
        return self.addresses

    def leaves(self, kernels: Iterable[Kernel]) -> dict[Kernel, int]:
        """The addresses of the leaf functions of ``kernels``, compiled where they are missing."""
        wanted, known = tuple(kernels), self.by_kernel
        unknown = [kernel for kernel in wanted if kernel not in known]
        if unknown:
            known.update(self._found(unknown))
        return {kernel: known[kernel] for kernel in wanted}

    def _found(self, kernels: Iterable[Kernel]) -> dict[Kernel, int]:
        symbols = {kernel: leaf_symbol(kernel, self.isa) for kernel in kernels}
        if not self.addresses.keys() >= set(symbols.values()):
            with self.lock:
                self._load_warm()
                self._complete(symbols)
        return {kernel: self.addresses[symbol] for kernel, symbol in symbols.items()}

    def warm(self, kernels: Iterable[Kernel]) -> bool:
        """Compile ``kernels`` and the control functions into the object fresh processes load.

        True when it is on disk afterwards. Takes seconds for a few hundred kernels.
        """
        by_symbol = {leaf_symbol(kernel, self.isa): kernel for kernel in kernels}
        symbols = (*CONTROL_SYMBOLS, *sorted(by_symbol))
        texts = [
            emit_control(self.isa),
            *(emit_kernel(by_symbol[s], self.isa) for s in sorted(by_symbol)),
        ]
        data = compile_object(module_text(texts, self.isa), self.isa, symbols)
        with self.lock:
            self._load(symbols, data)
        return self.cache.store(self._key(_WHOLE_LIBRARY), _pack(symbols, data))

    def program(
        self, symbols: tuple[str, ...], functions: str, bodies: Callable[[], list[str]]
    ) -> LoadedCode:
        """Code of one program, loaded while the value lives.

        ``functions`` tells programs apart; ``bodies`` makes the texts of the kernels they call,
        asked for where the code is not on disk.
        """
        key = self._key((_PROGRAM, functions))
        data = self.cache.load(key)
        if data is None:
            text = module_text([*bodies(), functions], self.isa)
            data = compile_object(text, self.isa, symbols, fold=True)
            self.cache.store(key, data)
        return load_object(data, symbols)

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork_in_parent(self) -> None:
        """Nothing has changed."""

    def after_fork_in_child(self) -> None:
        self.lock = threading.RLock()

    def _complete(self, wanted: dict[Kernel, str]) -> None:
        missing = {symbol: k for k, symbol in wanted.items() if symbol not in self.addresses}
        if missing:
            symbols = tuple(sorted(missing))
            self._obtain(symbols, lambda: [emit_kernel(missing[s], self.isa) for s in symbols])

    def _obtain(self, symbols: tuple[str, ...], texts: Callable[[], list[str]]) -> None:
        entry = self._stored(symbols)
        if entry is None or entry[0] != symbols:
            data = compile_object(module_text(texts(), self.isa), self.isa, symbols)
            self.cache.store(self._key(symbols), _pack(symbols, data))
            entry = (symbols, data)
        self._load(*entry)

    def _load_warm(self) -> None:
        if self.looked_for_warm:
            return
        self.looked_for_warm = True
        entry = self._stored(_WHOLE_LIBRARY)
        if entry is not None:
            self._load(*entry)

    def _load(self, symbols: tuple[str, ...], data: bytes) -> None:
        code = load_object(data, symbols)
        self.owners.append(code)
        self.addresses.update(code.addresses)

    def _stored(self, symbols: tuple[str, ...]) -> tuple[tuple[str, ...], bytes] | None:
        entry = self.cache.load(self._key(symbols))
        return None if entry is None else _unpack(entry)

    def _key(self, symbols: tuple[str, ...]) -> bytes:
        """Everything the code depends on: symbols name kernels, the generator makes texts."""
        machine = machine_for(self.isa)
        parts = (self.generator, compiler_version(), *_machine_words(machine), *symbols)
        return "\n".join(parts).encode()


def code_library(runtime: Runtime, isa: Isa) -> CodeLibrary:
    """The process's library for ``isa``."""
    cache = kept_objects(runtime)
    return runtime.once(f"code library {isa.value}", lambda: CodeLibrary(isa, cache, _GENERATOR))


def leaf_symbol(kernel: Kernel, isa: Isa) -> str:
    """The symbol of a kernel's leaf function."""
    return f"{kernel_symbol(kernel, isa)}_node"


def generator_digest() -> str:
    """A digest of the source of the code generator: equal digests generate equal code."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for place in _GENERATOR_PLACES:
        path = package / place
        for file in sorted(path.glob("*.py")) if path.is_dir() else (path,):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


_GENERATOR = generator_digest()
"""Of the source this process imported: taken with the import, before anybody can edit a file."""


def _machine_words(machine: Machine) -> tuple[str, str, str]:
    return (machine.triple, machine.cpu, machine.features)


def _pack(symbols: tuple[str, ...], data: bytes) -> bytes:
    return "\n".join(symbols).encode() + b"\0" + data


def _unpack(entry: bytes) -> tuple[tuple[str, ...], bytes]:
    names, _, data = entry.partition(b"\0")
    return tuple(names.decode().split("\n")), data
