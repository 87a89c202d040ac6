"""The code a process has loaded: control functions and kernels, by symbol.

Kernels are compiled when a plan first needs them, all missing ones of a plan in one module, and
kept on disk: a fresh process loads what others have compiled, all at once. `warm` compiles the
kernels most plans need in one object.
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
    load_images,
    load_object,
    machine_for,
    module_text,
)
from teir.backends.llvm.control import CONTROL_SYMBOLS, emit_control
from teir.backends.llvm.emit_kernel import emit_kernel, kernel_symbol
from teir.backends.llvm.stored_objects import StoredObject, packed, unpacked, with_latest
from teir.lower.kernels import Kernel
from teir.runtime.object_cache import ObjectCache
from teir.runtime.runtime import Runtime
from teir.target import Isa

_GENERATOR_PLACES = (
    "arrays/numpy_fields.py",
    "backends/llvm",
    "lower/access.py",
    "lower/copy_kernels.py",
    "lower/kernels.py",
    "lower/stream_room.py",
    "lower/tile_room.py",
    "lower/walked_kernels.py",
    "dtypes.py",
    "target.py",
)
"""The source files that decide what code is generated, below the package's directory."""

_WARM, _COMPILED = ("library",), ("compiled",)
"""End the key of the object `CodeLibrary.warm` stores, and of those that plans asked for."""

_LOADED_AT_ONCE = 128
"""The latest objects: so many take a few milliseconds."""

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
    has_looked: bool = False
    unloaded: dict[str, StoredObject] = field(default_factory=dict)
    """Objects on disk that are loaded when one of their symbols is asked for."""
    by_kernel: dict[Kernel, int] = field(default_factory=dict)
    """The addresses of leaf functions that plans have asked for."""

    def control(self) -> dict[str, int]:
        """The addresses of the control functions; the dictionary holds more, by symbol."""
        if CONTROL_SYMBOLS[0] not in self.addresses:
            with self.lock:
                self._load_stored(CONTROL_SYMBOLS[:1])
                if CONTROL_SYMBOLS[0] not in self.addresses:
                    self._compile(CONTROL_SYMBOLS, [emit_control(self.isa)])
        return self.addresses

    def leaves(self, kernels: Iterable[Kernel]) -> dict[Kernel, int]:
        """The addresses of the leaf functions of ``kernels``, compiled where they are missing.

        The dictionary holds more.
        """
        known = self.by_kernel
        unknown = set(kernels).difference(known)
        if unknown:
            known.update(self._found(unknown))
        return known

    def _found(self, kernels: Iterable[Kernel]) -> dict[Kernel, int]:
        symbols = {kernel: leaf_symbol(kernel, self.isa) for kernel in kernels}
        if not self.addresses.keys() >= set(symbols.values()):
            with self.lock:
                self._load_stored(symbols.values())
                self._complete(symbols)
        return {kernel: self.addresses[symbol] for kernel, symbol in symbols.items()}

    def warm(self, kernels: Iterable[Kernel]) -> bool:
        """Compile for fresh processes what is not kept yet of ``kernels`` and the control code.

        True when all is on disk afterwards. Takes seconds for a few hundred kernels.
        """
        kept = self._stored(_WARM)
        known = {symbol for one in kept for symbol in one.symbols}
        by_symbol = {leaf_symbol(kernel, self.isa): kernel for kernel in kernels}
        missing = sorted(by_symbol.keys() - known)
        control = () if CONTROL_SYMBOLS[0] in known else CONTROL_SYMBOLS
        if not missing and not control:
            return True
        texts = [emit_kernel(by_symbol[symbol], self.isa) for symbol in missing]
        if control:
            texts = [emit_control(self.isa), *texts]
        symbols = (*control, *missing)
        made = StoredObject(
            symbols, compile_object(module_text(texts, self.isa), self.isa, symbols)
        )
        with self.lock:
            self._load(made)
        return self.cache.store(self._key(_WARM), packed([*kept, made]))

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
            self._compile(symbols, [emit_kernel(missing[s], self.isa) for s in symbols])

    def _compile(self, symbols: tuple[str, ...], texts: Iterable[str]) -> None:
        """Of two processes that do this at the same time, what one of them keeps may get lost."""
        data = compile_object(module_text(texts, self.isa), self.isa, symbols)
        latest = StoredObject(symbols, data)
        self.cache.store(self._key(_COMPILED), packed(with_latest(self._stored(_COMPILED), latest)))
        self._load(latest)

    def _load_stored(self, wanted: Iterable[str]) -> None:
        """Load what is on disk, the first time; then the objects that hold a wanted symbol."""
        if not self.has_looked:
            self.has_looked = True
            for one in self._stored(_WARM):
                self._load(one)
            compiled = self._stored(_COMPILED)
            code = load_images(compiled[-_LOADED_AT_ONCE:])
            if code is not None:
                self._own(code)
            self.unloaded = {
                symbol: one
                for one in compiled
                for symbol in one.symbols
                if symbol not in self.addresses
            }
        for symbol in wanted:
            stored = None if symbol in self.addresses else self.unloaded.pop(symbol, None)
            if stored is not None:
                self._load(stored)

    def _load(self, one: StoredObject) -> None:
        self._own(load_object(one.data, one.symbols))

    def _own(self, code: LoadedCode) -> None:
        self.owners.append(code)
        self.addresses.update(code.addresses)

    def _stored(self, which: tuple[str, ...]) -> list[StoredObject]:
        entry = self.cache.load(self._key(which))
        return [] if entry is None else unpacked(entry)

    def _key(self, symbols: tuple[str, ...]) -> bytes:
        """Everything the code depends on, and what tells entries apart."""
        machine = machine_for(self.isa)
        parts = (self.generator, compiler_version(), *_machine_words(machine), *symbols)
        return "\n".join(parts).encode()


def code_library(runtime: Runtime, isa: Isa) -> CodeLibrary:
    """The process's library for ``isa``."""
    return runtime.once(
        f"code library {isa.spelling}", lambda: CodeLibrary(isa, kept_objects(runtime), _GENERATOR)
    )


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
