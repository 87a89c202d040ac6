"""Rules of the command line, and what each kind of finding makes of the exit code."""

from __future__ import annotations

from enum import IntEnum

from teir.errors import ArgumentPlace, Rule, TeirError
from teir.ir.reading_rules import ENCODING, INPUT_SIZE, JSON_SYNTAX, KIND, READABLE_FILE

_SOURCE = "documentation, command line"

OPERAND_OPTION = Rule(
    code="TEIR802",
    sentence="--operand gives a tensor of the program or of the product a file: NAME=FILE.npy.",
    source=_SOURCE,
)
ARRAY_FILE = Rule(
    code="TEIR803",
    sentence="An operand file is a .npy file of numbers; pickled objects are not read.",
    source=_SOURCE,
)
EVERY_OPERAND = Rule(
    code="TEIR804",
    sentence="Every tensor the program reads is given by --operand, or drawn by --random.",
    source=_SOURCE,
)
SIZES = Rule(
    code="TEIR805",
    sentence="--sizes gives every index of the expression one extent: a=4,b=5.",
    source=_SOURCE,
)
DATA_TYPE_NAME = Rule(
    code="TEIR806",
    sentence="--dtype is one of FP64, FP32, TF32, BF16, FP16, C64, C128, or NumPy's name of one.",
    source=_SOURCE,
)
OUTPUT_FILE = Rule(
    code="TEIR807",
    sentence="A result file can be written where it is asked for.",
    source=_SOURCE,
)
DRAWABLE = Rule(
    code="TEIR808",
    sentence="A figure shows an invocation below at least one tensor with two dimensions.",
    source=_SOURCE,
)
MEMORY = Rule(
    code="TEIR809",
    sentence="The operands fit in memory.",
    source=_SOURCE,
)
EINSUM = Rule(
    code="TEIR817",
    sentence="Commands that draw operands take an einsum or an einsum tree; index notation is for "
    "teir explain, teir schedules and teir tune, einsums without brackets and ellipses for them.",
    source=_SOURCE,
)
COMPARABLE = Rule(
    code="TEIR815",
    sentence="compare takes an einsum of letters, or a tree of at most 52 indices, each at most "
    "once in an operand.",
    source=_SOURCE,
)

TUNED = Rule(
    code="TEIR814",
    sentence="teir tune is given a program file, an expression that native code computes, or "
    "records to export or import.",
    source=_SOURCE,
)

SCHEDULE_OPTION = Rule(
    code="TEIR818",
    sentence="teir schedules, teir explain and teir tune take --format NAME:LEVELS and "
    "--sizes NAME=NUMBER; teir schedules --plot FILE beside --sizes, with matplotlib installed.",
    source=_SOURCE,
)
OF_EXPRESSION = Rule(
    code="TEIR819",
    sentence="--format, --operand and --dtype tell of the tensors of an expression; a program file "
    "tells of its own.",
    source=_SOURCE,
)

NOT_A_PROGRAM = (READABLE_FILE, INPUT_SIZE, ENCODING, KIND, JSON_SYNTAX)


class ExitCode(IntEnum):
    """What the shell is told."""

    DONE = 0
    FINDINGS = 1
    UNUSABLE = 2


def exit_code(error: TeirError) -> ExitCode:
    """UNUSABLE where the input is no program, an argument or an operand wrong; else FINDINGS."""
    from teir.expr.index_notation_rules import RULES as INDEX_NOTATION_RULES
    from teir.expr.rules import RULES as EXPRESSION_RULES
    from teir.ir.check.bounds import IN_BOUNDS

    # A program alone is never out of bounds: an operand that was given is too short.
    unusable = {*NOT_A_PROGRAM, IN_BOUNDS, *EXPRESSION_RULES, *INDEX_NOTATION_RULES}
    if any(
        finding.rule in unusable or isinstance(finding.place, ArgumentPlace)
        for finding in error.findings
    ):
        return ExitCode.UNUSABLE
    return ExitCode.FINDINGS
