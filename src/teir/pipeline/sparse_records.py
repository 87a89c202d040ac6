"""What tuning remembers of sparse products: the fastest schedule by structure and size class.

A record holds the text of a schedule, never code; it is used where the scheduler comes to the same
text again, with every check any schedule passes. Kept beside the records of dense products.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log2

import msgspec

from teir import __version__
from teir.dtypes import DataType
from teir.pipeline.machine_speeds import tuning_records
from teir.pipeline.tuning_records import MachineKey, Merged, merged
from teir.runtime.record_folder import RecordFolder
from teir.runtime.runtime import current
from teir.search.sparse.statement import Statement

FORMAT = 1
_NAME = "sparse-"


class SparseKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A product, its formats, and the powers of two nearest to its extents and fibre lengths."""

    product: str
    formats: tuple[str, ...]
    sizes: tuple[tuple[str, int], ...]
    data_type: str
    index_type: str
    threads: int


class SparseRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fastest schedule measured."""

    teir_sparse_tuning: int
    version: str
    problem: SparseKey
    machine: MachineKey
    schedule: str
    seconds: float
    default_seconds: float
    measured: int
    date: str


@dataclass(slots=True)
class SparseRecords:
    """The records of one machine in one directory; the names of the files are read once."""

    folder: RecordFolder
    machine: MachineKey
    known: frozenset[str]

    def find(self, problem: SparseKey) -> SparseRecord | None:
        """The record of a problem; None where there is none that can be used."""
        if not self.known:
            return None
        name = _name(problem, self.machine)
        data = self.folder.load(name) if name in self.known else None
        if data is None:
            return None
        try:
            record = msgspec.json.decode(data, type=SparseRecord)
        except msgspec.MsgspecError:
            return None
        wanted = (FORMAT, __version__, problem, self.machine)
        found = (record.teir_sparse_tuning, record.version, record.problem, record.machine)
        return record if found == wanted else None

    def keep(self, record: SparseRecord) -> bool:
        """Store a record in the place of an older one; False where it could not be written."""
        name = _name(record.problem, record.machine)
        document = msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
        if not self.folder.store(name, document):
            return False
        self.known |= {name}
        return True

    def all(self) -> list[SparseRecord]:
        """Every record that can be read, of any machine and version."""
        found = []
        for name in sorted(self.folder.names()):
            data = self.folder.load(name) if name.startswith(_NAME) else None
            if data is None:
                continue
            try:
                found.append(msgspec.json.decode(data, type=SparseRecord))
            except msgspec.MsgspecError:
                continue
        return found

    def merge(self, records: Iterable[SparseRecord]) -> Merged:
        """Keep the records that are better than what is known."""
        return merged(records, self.all(), lambda one: (one.problem, one.machine), self.keep)


def sparse_records() -> SparseRecords:
    """The records of this machine."""
    return current().once("sparse tuning records", _records)


def _records() -> SparseRecords:
    dense = tuning_records()
    known = frozenset(name for name in dense.folder.names() if name.startswith(_NAME))
    return SparseRecords(dense.folder, dense.machine, known)


def sparse_key(
    statement: Statement,
    extents: Mapping[str, int],
    lengths: Mapping[str, float],
    types: tuple[DataType, DataType],
    threads: int,
) -> SparseKey:
    """The key of a product; ``types`` are those of values and of indices."""
    sizes = [(index, round(log2(extent))) for index, extent in sorted(extents.items()) if extent]
    sizes += [(f"{index}pos", round(log2(length))) for index, length in sorted(lengths.items())]
    product = " ".join(map(str, statement.inputs))
    return SparseKey(
        product=f"{statement.output} += {product}",
        formats=tuple(map(str, statement.formats)),
        sizes=tuple(sizes),
        data_type=types[0].value,
        index_type=types[1].value,
        threads=threads,
    )


def _name(problem: SparseKey, machine: MachineKey) -> str:
    key = msgspec.json.encode((problem, machine))
    return _NAME + hashlib.sha256(key).hexdigest()[:40]
