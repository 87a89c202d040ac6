"""One compiler stack for dense and sparse tensor operations.

An einsum or a program in the Tiled Execution IR becomes a readable program, is proved safe, and
runs as native code. Every name below is loaded when it is first used, so importing this package
imports neither LLVM nor any optional library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teir.arrays.operand import Operand as Operand
    from teir.arrays.sparse import Sparse as Sparse
    from teir.dtypes import DataType as DataType
    from teir.errors import Finding as Finding
    from teir.errors import TeirError as TeirError
    from teir.ir.check import Report as Report
    from teir.ir.load import load as load
    from teir.ir.load import loads as loads
    from teir.ir.load import save as save
    from teir.ir.nodes import Program as Program
    from teir.pipeline.einsum import einsum as einsum
    from teir.pipeline.einsum import plan as plan
    from teir.pipeline.executable import Executable as Executable
    from teir.pipeline.executable import Form as Form
    from teir.pipeline.executable import check as check
    from teir.pipeline.executable import compile_for
    from teir.pipeline.executable import run as run
    from teir.pipeline.numbered_axes import tensordot as tensordot
    from teir.pipeline.numbered_axes import transpose as transpose
    from teir.pipeline.plan import Plan as Plan
    from teir.pipeline.sparse_plan import SparsePlan as SparsePlan

    compile = compile_for

__version__ = "0.1.0"

_HOMES = {
    "DataType": ("teir.dtypes", "DataType"),
    "Executable": ("teir.pipeline.executable", "Executable"),
    "Finding": ("teir.errors", "Finding"),
    "Form": ("teir.pipeline.executable", "Form"),
    "Operand": ("teir.arrays.operand", "Operand"),
    "Plan": ("teir.pipeline.plan", "Plan"),
    "Program": ("teir.ir.nodes", "Program"),
    "Report": ("teir.ir.check", "Report"),
    "Sparse": ("teir.arrays.sparse", "Sparse"),
    "SparsePlan": ("teir.pipeline.sparse_plan", "SparsePlan"),
    "TeirError": ("teir.errors", "TeirError"),
    "check": ("teir.pipeline.executable", "check"),
    "compile": ("teir.pipeline.executable", "compile_for"),
    "einsum": ("teir.pipeline.einsum", "einsum"),
    "load": ("teir.ir.load", "load"),
    "loads": ("teir.ir.load", "loads"),
    "plan": ("teir.pipeline.einsum", "plan"),
    "run": ("teir.pipeline.executable", "run"),
    "save": ("teir.ir.load", "save"),
    "tensordot": ("teir.pipeline.numbered_axes", "tensordot"),
    "transpose": ("teir.pipeline.numbered_axes", "transpose"),
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'teir' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
