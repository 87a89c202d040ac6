"""What this machine reaches, for the model: measured once per machine, on request, and kept.

A call of a user's never measures; without a file the speeds are assumed from the width of the
vectors.
"""

from __future__ import annotations

import datetime
import hashlib
import os
from dataclasses import dataclass, fields

import msgspec

from teir.backends.llvm.peak import measure_bf16_peak, measure_copy_bandwidth, measure_fma_peak
from teir.dtypes import DataType
from teir.pipeline.tuning_records import MachineKey, TuningRecords, machine_key
from teir.runtime.private_files import cache_folder
from teir.runtime.record_folder import RecordFolder
from teir.runtime.runtime import current
from teir.search.machine import Machine, Speeds, assumed_speeds
from teir.target import Isa, Target, host_target

FORMAT = 1

_THREADED_WORK = 2**16
"""Products or elements below which a second thread costs more than it brings."""


class SpeedsRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file that holds the speeds of a machine."""

    teir_speeds: int
    machine: MachineKey
    speeds: Speeds
    date: str


@dataclass(frozen=True, slots=True)
class KnownSpeeds:
    """Speeds, and where they come from, for people."""

    speeds: Speeds
    source: str
    is_measured: bool


def host() -> Target:
    """The machine this process runs on, looked at once."""
    return current().once("host target", lambda: host_target(os.environ))


def machine_of(threads: int) -> Machine:
    """The facts of this machine the search looks at."""
    return current().once(f"machine of {threads}", lambda: _machine(host(), threads))


def _machine(target: Target, threads: int) -> Machine:
    return Machine(
        vector_bytes=target.isa.vector_bytes,
        vector_registers=target.isa.vector_registers,
        l1_bytes=target.caches.l1_bytes,
        l2_bytes=target.caches.l2_bytes,
        l3_bytes=target.caches.l3_bytes,
        threads=threads,
        threaded_work=_THREADED_WORK,
        has_tiles=_has_tiles(target),
        multiplies_twice=target.isa.multiplies_twice_a_cycle,
        follows_few_rows=target.isa.follows_few_rows,
        forgets_requests=target.isa.forgets_requests,
        multiplies_whole=target.isa.multiplies_whole,
    )


def record_folder() -> RecordFolder:
    """Where speeds and tuning records are kept."""
    return RecordFolder(cache_folder(os.environ, "tuning"))


def tuning_records() -> TuningRecords:
    """The tuning records of this machine."""
    return current().once("tuning records", _records)


def _records() -> TuningRecords:
    folder = record_folder()
    known = frozenset(name for name in folder.names() if name.startswith("record-"))
    return TuningRecords(folder, machine_key(host()), known)


def known_speeds() -> KnownSpeeds:
    """The speeds on file, else assumed ones. Measures nothing."""
    kept = _kept()
    if not kept:
        kept.append(_on_file() or _assumed())
    return kept[-1]


def measured_speeds() -> KnownSpeeds:
    """The speeds on file; measured and kept where there are none, in a quarter of a second."""
    known = known_speeds()
    if known.is_measured:
        return known
    return remeasured_speeds()


def remeasured_speeds() -> KnownSpeeds:
    """The speeds as they are measured now; they take the place of those on file."""
    target = host()
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    record = SpeedsRecord(
        teir_speeds=FORMAT, machine=machine_key(target), speeds=_measure(target), date=date
    )
    document = msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
    record_folder().store(_name(record.machine), document)
    known = KnownSpeeds(record.speeds, f"measured {date}", True)
    _kept().append(known)
    return known


def _kept() -> list[KnownSpeeds]:
    """What this process knows, the latest last."""
    return current().once("speeds", list[KnownSpeeds])


def _measure(target: Target) -> Speeds:
    """Copies that fill a third of a cache level, so that nothing else has to go for them."""
    caches = target.caches
    return Speeds(
        fp32_flops_per_second=measure_fma_peak(target.isa, DataType.FP32),
        fp64_flops_per_second=measure_fma_peak(target.isa, DataType.FP64),
        l2_bytes_per_second=measure_copy_bandwidth(size_bytes=max(4096, caches.l2_bytes // 3)),
        l3_bytes_per_second=measure_copy_bandwidth(
            size_bytes=max(4096, min(8 << 20, caches.l3_bytes // 6))
        ),
        memory_bytes_per_second=measure_copy_bandwidth(rounds=4),
        l3_bytes=caches.l3_bytes,
        tile_flops_per_second=measure_bf16_peak(target.isa) if _has_tiles(target) else None,
    )


def _has_tiles(target: Target) -> bool:
    return target.isa is Isa.AMX


def _assumed() -> KnownSpeeds:
    target = host()
    caches, tiles = target.caches, _has_tiles(target)
    speeds = assumed_speeds(target.isa.vector_bytes, caches.l3_bytes, tiles)
    return KnownSpeeds(speeds, "assumed; teir tune measures them", False)


def _on_file() -> KnownSpeeds | None:
    key = machine_key(host())
    data = record_folder().load(_name(key))
    if data is None:
        return None
    try:
        record = msgspec.json.decode(data, type=SpeedsRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if (record.speeds.tile_flops_per_second is not None) != _has_tiles(host()):
        return None
    values = [getattr(record.speeds, field.name) for field in fields(Speeds)]
    numbers = [value for value in values if value is not None]
    if record.teir_speeds != FORMAT or record.machine != key:
        return None
    if not all(0 < number < 1e18 for number in numbers):
        return None
    return KnownSpeeds(record.speeds, f"measured {record.date}", True)


def _name(machine: MachineKey) -> str:
    return "machine-" + hashlib.sha256(msgspec.json.encode(machine)).hexdigest()[:40]
