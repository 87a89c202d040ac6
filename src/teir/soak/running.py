"""Run one program on images of its operands: by the evaluator, or as native code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teir.arrays.operand import Operand
from teir.backends.llvm.compile_ir import runs_here
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.pipeline.executable import Executable, compile_program
from teir.soak.operands import Image
from teir.target import Isa


def host_variants() -> tuple[Isa, ...]:
    """The instruction sets that this machine can run, the widest first."""
    return tuple(isa for isa in Isa if runs_here(isa))


def evaluated(program: Program, images: Mapping[str, Image], seed: int = 0) -> dict[str, Image]:
    """Copies of ``images`` as the evaluator leaves them."""
    after = {name: image.copy() for name, image in images.items()}
    evaluate(
        program,
        {name: image.content for name, image in after.items()},
        seed=seed,
        bases={name: image.base for name, image in after.items()},
    )
    return after


def as_operands(images: Mapping[str, Image]) -> dict[str, Any]:
    """What a caller of native code passes for these images."""
    return {name: Operand(image.content, image.base) for name, image in images.items()}


def compiled(program: Program, isa: Isa, threads: int) -> Executable:
    """``program`` as native code of ``isa``."""
    return compile_program(program, isa=isa, threads=threads)
