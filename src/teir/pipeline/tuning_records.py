"""What tuning remembers: the decisions of the fastest program per problem and machine, as JSON.

A record holds decisions, never code. A program made from it passes every check again, as any
program does. Records of another version, of another machine, or of a form that is not understood
are left aside with a note; a file that is imported is refused instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
from msgspec.structs import fields

from teir import __version__
from teir.errors import ArgumentPlace, Finding, Rule, TeirError
from teir.ir.json_scan import scan
from teir.pipeline.operand_types import OperandType
from teir.pipeline.problem import Problem
from teir.runtime.record_folder import RecordFolder
from teir.search.choice import Choice
from teir.search.contraction import Path
from teir.search.tree import TreeOptions
from teir.target import Isa, Target

TUNING_FILE = Rule(
    code="TEIR645",
    sentence="A file of tuning records holds what teir tune --export writes: decisions with their "
    "problem, machine and times.",
    source="docs/how-to/tune.md",
)

FORMAT = 1
_LARGEST = 1 << 40
_LONGEST = 1e9


class ArrayKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An array as a plan knows it; strides in bytes."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class ProblemKey(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Everything a program depends on besides the machine.

    ``rearranged`` is False where the layouts of an einsum tree are kept as written; ``sliced`` are
    the indices a cotengra tree slices.
    """

    expression: str
    compute: str
    operands: tuple[ArrayKey, ...]
    out: ArrayKey
    path: tuple[tuple[int, ...], ...]
    rearranged: bool
    threads: int
    memory_limit: int | None
    sliced: tuple[str, ...] = ()


class MachineKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a time depends on besides the program."""

    cpu: str
    isa: str
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int


class TuningRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decisions of the fastest program measured, and what was measured.

    ``complete`` is False where the measuring was interrupted.
    """

    teir_tuning: int
    version: str
    problem: ProblemKey
    machine: MachineKey
    choices: tuple[Choice, ...]
    seconds: float
    default_seconds: float
    measured: int
    complete: bool
    date: str


class Found(msgspec.Struct, frozen=True):
    """A record, or a note that says why the one on disk is not used; neither if there is none."""

    record: TuningRecord | None = None
    note: str | None = None


class Merged(msgspec.Struct, frozen=True):
    """How many of some records were kept, and how many should have been and were not written."""

    kept: int = 0
    unwritten: int = 0

    def __add__(self, other: Merged) -> Merged:
        return Merged(self.kept + other.kept, self.unwritten + other.unwritten)


def problem_key(
    problem: Problem, path: Path, options: TreeOptions, *, threads: int, memory_limit: int | None
) -> ProblemKey:
    """The key of an einsum on these arrays, contracted along this path."""
    assert problem.contraction is not None
    return ProblemKey(
        expression=str(problem.subscripts),
        compute=problem.contraction.compute.value,
        operands=tuple(map(_array_key, problem.operands)),
        out=_array_key(problem.out),
        path=path,
        rearranged=options.rearrange,
        threads=threads,
        memory_limit=memory_limit,
        sliced=tuple(options.slices),
    )


def _array_key(array: OperandType) -> ArrayKey:
    return ArrayKey(dtype=_spelled(array.dtype), shape=array.shape, strides=array.strides_bytes)


@cache
def _spelled(dtype: np.dtype[Any]) -> str:
    """As NumPy spells the type, which takes it longer than all else of a key."""
    return str(dtype)


def machine_key(target: Target) -> MachineKey:
    """The key of a machine."""
    return MachineKey(
        cpu=target.cpu,
        isa=target.isa.value,
        l1_bytes=target.caches.l1_bytes,
        l2_bytes=target.caches.l2_bytes,
        l3_bytes=target.caches.l3_bytes,
    )


@dataclass(slots=True)
class TuningRecords:
    """The records of one machine in one directory, by problem.

    The names of the files are read once, so that a problem without a record costs no file access.
    """

    folder: RecordFolder
    machine: MachineKey
    known: frozenset[str]

    def find(self, problem: ProblemKey) -> Found:
        """The record of a problem."""
        if not self.known:
            return Found()
        name = record_name(problem, self.machine)
        if name not in self.known:
            return Found()
        data = self.folder.load(name)
        if data is None:
            return Found(note="its file cannot be read, or others may write it")
        try:
            record = read_record(data)
        except TeirError as error:
            return Found(note=error.findings[0].found)
        if record.version != __version__:
            return Found(note=f"it was made by version {record.version}")
        if record.problem != problem or record.machine != self.machine:
            return Found(note="it is of another problem or machine")
        return Found(record)

    def keep(self, record: TuningRecord) -> bool:
        """Store a record in the place of an older one; False where it could not be written."""
        name = record_name(record.problem, record.machine)
        if not self.folder.store(name, write_record(record)):
            return False
        self.known |= {name}
        return True

    def all(self) -> list[TuningRecord]:
        """Every record that can be read, of any machine and version."""
        found = []
        for name in sorted(self.folder.names()):
            data = self.folder.load(name)
            try:
                if data is not None and name.startswith(_NAME):
                    found.append(read_record(data))
            except TeirError:
                continue
        return found

    def merge(self, records: Iterable[TuningRecord]) -> Merged:
        """Keep the records that are better than what is known."""
        return merged(
            records, self.all(), lambda one: record_name(one.problem, one.machine), self.keep
        )


class Measured(Protocol):
    """A record of dense or of sparse products."""

    @property
    def version(self) -> str: ...

    @property
    def seconds(self) -> float: ...


_Record = TypeVar("_Record", bound=Measured)


def is_better(record: Measured, other: Measured | None) -> bool:
    """Whether ``record`` takes the place of ``other``, of the same problem and machine.

    A record is used by the version it was made by alone: across versions this one's is kept, and
    times are compared within a version.
    """
    if other is None:
        return True
    if record.version != other.version:
        return record.version == __version__
    return record.seconds < other.seconds


def merged(
    records: Iterable[_Record],
    known: Iterable[_Record],
    key: Callable[[_Record], Hashable],
    keep: Callable[[_Record], bool],
) -> Merged:
    """Keeps the records that are better than those known of the same ``key``."""
    result = Merged()
    present = {key(one): one for one in known}
    for record in records:
        if not is_better(record, present.get(key(record))):
            continue
        if keep(record):
            present[key(record)] = record
            result += Merged(kept=1)
        else:
            result += Merged(unwritten=1)
    return result


_NAME = "record-"


def record_name(problem: ProblemKey, machine: MachineKey) -> str:
    """The name of a record's file; the file holds both in full."""
    key = msgspec.json.encode((problem, machine))
    return _NAME + hashlib.sha256(key).hexdigest()[:40]


def write_record(record: TuningRecord) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"


def read_record(data: bytes) -> TuningRecord:
    """A record from JSON. Raises TeirError (TEIR645)."""
    record: TuningRecord = decoded(data, TuningRecord, "record")
    require_sound(record, "record")
    return record


def decoded(data: bytes, kind: Any, name: str) -> Any:
    """A document called ``name`` as a value of a type. Raises TeirError (TEIR645)."""
    try:
        faults = scan(data.decode("utf-8")).faults
    except UnicodeDecodeError as error:
        raise refusal(name, f"bytes that are no UTF-8: {error.reason}") from None
    if faults:
        raise refusal(name, f"{faults[0].found} at {faults[0].path}")
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise refusal(name, str(error)) from None


def require_sound(record: TuningRecord, name: str) -> None:
    """Raises TeirError (TEIR645) at ``name`` for numbers that nothing can be made of."""
    if record.teir_tuning != FORMAT:
        raise refusal(name, f"format {record.teir_tuning}", f"format {FORMAT}")
    for number, choice in enumerate(record.choices):
        for field in fields(choice):
            value = getattr(choice, field.name)
            if isinstance(value, int) and not isinstance(value, bool) and not _is_size(value):
                place = f"{name}, choice {number}"
                expected = f"{field.name} from 1 to {_LARGEST:,}"
                raise refusal(place, f"{field.name} of {value}", expected)
    _require_known(record, name)
    require_times(record.seconds, record.default_seconds, name)


def _require_known(record: TuningRecord, name: str) -> None:
    """Raises TeirError (TEIR645) at ``name`` for a problem or a machine that cannot be."""
    for array in (*record.problem.operands, record.problem.out):
        if len(array.shape) != len(array.strides):
            found = f"{len(array.shape)} extents and {len(array.strides)} strides of an array"
            raise refusal(name, found, "a stride for each extent")
        for extent, stride in zip(array.shape, array.strides, strict=True):
            if not 0 <= extent <= _LARGEST or abs(stride) > _LARGEST:
                expected = f"extents from 0 and strides, both up to {_LARGEST:,}"
                raise refusal(name, f"an extent of {extent} with a stride of {stride}", expected)
    if record.machine.isa not in [one.value for one in Isa]:
        raise refusal(name, f"isa {record.machine.isa!r}", "an instruction set of `teir info`")


def require_times(seconds: float, default_seconds: float, name: str) -> None:
    """Raises TeirError (TEIR645) at ``name`` for times that nothing takes."""
    for label, time in (("seconds", seconds), ("default_seconds", default_seconds)):
        if not 0 < time < _LONGEST:
            expected = f"{label} above 0 and below {_LONGEST:g}"
            raise refusal(name, f"{label} of {time}", expected)


def _is_size(number: int) -> bool:
    return 1 <= number <= _LARGEST


def refusal(name: str, found: str, expected: str = "tuning records") -> TeirError:
    """TEIR645 at ``name``."""
    place = ArgumentPlace(name=name)
    return TeirError((Finding(rule=TUNING_FILE, place=place, expected=expected, found=found),))
