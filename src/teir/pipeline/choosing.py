"""Which program a contraction becomes: the default decisions, or those that tuning found best.

path, options -> [record of this problem on this machine] -> program within the memory limit
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from teir.ir.check import prove
from teir.lower.lower import lower
from teir.pipeline.executable import default_isa
from teir.pipeline.machine_speeds import tuning_records
from teir.pipeline.memory import program_within, require_within, scratch_bytes
from teir.pipeline.problem import Problem
from teir.pipeline.tuning import Tunable, progress_bar, tune
from teir.pipeline.tuning_records import Found, TuningRecord, problem_key
from teir.search.contraction import Path
from teir.search.machine import Machine
from teir.search.tree import TreeOptions, TreeProgram, contraction_program
from teir.search.tuning import Choices


class Chosen(msgspec.Struct, frozen=True):
    """A program, and the record its decisions come from or why one is not used."""

    tree: TreeProgram
    found: Found


class Decidable(msgspec.Struct, frozen=True, kw_only=True):
    """A problem with everything fixed but the decisions of its steps."""

    problem: Problem
    path: Path
    options: TreeOptions
    machine: Machine
    limit: int | None
    counted_threads: int
    """Scratch is counted for so many threads."""
    makes_result: bool
    """A call allocates the result, which counts."""

    @property
    def result_bytes(self) -> int:
        """Bytes of the result where a call allocates it."""
        return self.problem.result_bytes if self.makes_result else 0

    def make(self, choices: Choices, default: TreeProgram | None = None) -> TreeProgram:
        """The program of these choices within the memory limit. Raises TeirError (TEIR643).

        It has the slices of the ``default`` one, which is made where it is not given: other slices
        of a sum would be another order of it.
        """
        contraction = self.problem.contraction
        assert contraction is not None
        if not choices:
            problem = (contraction, self.path, self.machine, self.options)
            if self.limit is None:
                return contraction_program(*problem)
            return program_within(*problem, self.limit, self.scratch)
        slices = self.make(()).slices if default is None else default.slices
        options = replace(self.options, choices=choices, slices=slices)
        tree = contraction_program(contraction, self.path, self.machine, options)
        if self.limit is not None:
            require_within(self.limit, self.scratch(tree))
        return tree

    def scratch(self, tree: TreeProgram) -> int:
        """Bytes a call of a plan of this program allocates."""
        kernels = lower(tree.program, default_isa())
        fixed = self.problem.copied_bytes + self.result_bytes
        return fixed + scratch_bytes(kernels, self.counted_threads)


def chosen_tree(decidable: Decidable, wants_tuning: bool) -> Chosen:
    """The program of the remembered decisions, else the default one.

    ``wants_tuning`` measures where nothing is remembered yet. Raises TeirError (TEIR643).
    """
    records = tuning_records()
    if not wants_tuning and not records.known:
        return Chosen(decidable.make(()), Found())
    tunable = tunable_of(decidable)
    found = records.find(tunable.key)
    if found.record is None and wants_tuning:
        with progress_bar(f"tuning {decidable.problem.subscripts}") as tell:
            found = Found(tune(tunable, tell))
    if found.record is None:
        return Chosen(decidable.make(()), found)
    return _remembered(decidable, found.record)


def tunable_of(decidable: Decidable) -> Tunable:
    """What `teir.pipeline.tuning` needs to know."""
    return Tunable(
        problem=decidable.problem,
        key=problem_key(
            decidable.problem,
            decidable.path,
            decidable.options,
            threads=decidable.machine.threads,
            memory_limit=decidable.limit,
        ),
        make=decidable.make,
        machine=decidable.machine,
    )


def without_record(decidable: Decidable, error: Exception) -> Chosen:
    """The default program, in the place of one of a record that came to ``error``."""
    note = f"no safe program comes of it ({type(error).__name__})"
    return Chosen(decidable.make(()), Found(note=note))


def _remembered(decidable: Decidable, record: TuningRecord) -> Chosen:
    """The program of a record: decisions may have been tampered with, so it is looked at twice.

    What runs is proved safe like any program; here a program that cannot be made, or that wants
    far more memory than the default, gives way to the default. Any error tells so: nobody has
    looked at what programs come of decisions that no search would make.
    """
    default = decidable.make(())
    if len(record.choices) != len(default.matrix_steps):
        return Chosen(default, Found(note="it decides other steps than this program has"))
    try:
        tree = decidable.make(record.choices, default)
        prove(tree.program).report.raise_if_wrong()
        scratch = decidable.scratch(tree)
    except Exception as error:
        return without_record(decidable, error)
    if scratch > _ROOM + _TIMES * decidable.scratch(default):
        return Chosen(default, Found(note="its program needs far more memory than the default"))
    return Chosen(tree, Found(record))


_ROOM = 64 << 20
_TIMES = 4
"""A tuned program may take some megabytes, and this many times the scratch of the default."""
