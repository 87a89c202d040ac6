"""Well-formed programs and hostile ones as hypothesis strategies.

Both are the generators of `teir.soak`, driven by hypothesis: a failure shrinks to small choices.
"""

from __future__ import annotations

from hypothesis import strategies as st

from teir.ir.nodes import Program
from teir.soak.draws import DrawInt
from teir.soak.mutants import draw_mutant
from teir.soak.parts import DrawnProgram
from teir.soak.programs import draw_program


def _draws(draw: st.DrawFn) -> DrawInt:
    def draw_int(low: int, high: int) -> int:
        return draw(st.integers(low, high))

    return draw_int


@st.composite
def programs(draw: st.DrawFn, work: int = 5_000) -> DrawnProgram:
    """A well-formed, race-free program of at most about ``work`` multiply-adds."""
    return draw_program(_draws(draw), work)


@st.composite
def mutants(draw: st.DrawFn, work: int = 2_000) -> tuple[Program, Program]:
    """A well-formed program and the same program with one to three hostile changes."""
    choices = _draws(draw)
    program = draw_program(choices, work).program
    return program, draw_mutant(choices, program)
