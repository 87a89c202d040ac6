"""What decides the result of pressing or auditing a case, as a digest.

Two states of the package between which no digest of a case differs run the same machine code on the
same numbers: a result of one is a result of the other.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import teir
from teir.backends.llvm.compile_ir import compiler_version
from teir.backends.llvm.nest import emit_nest
from teir.ir.nodes import Program
from teir.ir.printing import print_program
from teir.lower.calls import kernels_of
from teir.lower.lower import lower
from teir.soak.kernel_corpus import AUDITED_ISAS, audit_cases, program_of_case
from teir.soak.kernel_pages import Case, pressed_cases
from teir.soak.running import host_variants
from teir.soak.same_code import kernel_digest
from teir.soak.walked_programs import Scatter, Walk
from teir.target import Isa

_IN_TEXTS = (
    *("cli", "expr", "lower", "passes", "pipeline", "search", "soak", "tma"),
    *("arrays", "backends/cuda", "backends/llvm/emit_", "backends/llvm/fibre_"),
    *("backends/llvm/call", "backends/llvm/entry", "backends/llvm/index_check"),
    *("backends/llvm/kernel_words", "backends/llvm/pair_marks", "backends/llvm/scaled_values"),
    *("backends/llvm/specialise", "backends/llvm/walked_"),
)
"""Sources whose work is in the texts of a case, or that have no part in it."""
_RUNNING = (
    *("arrays/operand.py", "pipeline/executable.py", "soak/code_", "soak/kernel_corpus.py"),
    *("soak/kernel_pages.py", "soak/operands.py", "soak/pages.py", "soak/running.py"),
    *("soak/same_code.py", "soak/stored_images.py"),
)
"""Sources among those that make the operands, run, compare and audit."""


def press_key(item: int, remainders: int) -> str:
    """The digest of what `teir.soak.kernel_pages.press_one` does."""
    programs = _programs(pressed_cases()[item], remainders)
    return _digest(["pressed", *_texts(programs, host_variants())])


def audit_key(item: int, remainders: int) -> str:
    """The digest of what `teir.soak.kernel_corpus.audit_one` does."""
    isa = AUDITED_ISAS[item % len(AUDITED_ISAS)]
    programs = _programs(audit_cases()[item // len(AUDITED_ISAS)], remainders)
    return _digest(["audited", *_texts(programs, (isa,))])


def _programs(case: Case | Walk | Scatter, remainders: int) -> list[Program]:
    return [program_of_case(case, remainder) for remainder in range(1, remainders + 1)]


def _texts(programs: Iterable[Program], isas: Sequence[Isa]) -> Iterable[str]:
    yield from (_sources(), compiler_version(), _digest([emit_nest()]))
    for program in programs:
        yield print_program(program).text
        for isa in isas:
            roots = lower(program, isa).roots
            yield f"{isa.value} {roots}"
            yield from sorted(kernel_digest(kernel, isa) for kernel in kernels_of(roots))


@cache
def _sources() -> str:
    assert teir.__file__ is not None
    package = Path(teir.__file__).parent
    paths = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    return _digest(
        f"{name}\n{_code(path.read_text(encoding='utf-8'))}"
        for name, path in sorted(paths.items())
        if name.startswith(_RUNNING) or not name.startswith(_IN_TEXTS)
    )


def _code(source: str) -> str:
    """What ``source`` does: without comments and docstrings, which decide nothing."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [one for one in node.body if not _is_text(one)]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:24]
