"""Every record of tuning in one document, for other machines of the same kind."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from teir.pipeline.sparse_records import FORMAT, SparseRecord
from teir.pipeline.tuning_records import (
    TuningRecord,
    decoded,
    refusal,
    require_sound,
    require_times,
)


class _Export(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    teir_tuning_records: tuple[TuningRecord, ...]
    teir_sparse_tuning_records: tuple[SparseRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Exported:
    """Records of dense and of sparse products."""

    dense: tuple[TuningRecord, ...]
    sparse: tuple[SparseRecord, ...] = ()

    @property
    def count(self) -> int:
        return len(self.dense) + len(self.sparse)


def write_export(records: Exported) -> bytes:
    """One document of many records."""
    document = _Export(teir_tuning_records=records.dense, teir_sparse_tuning_records=records.sparse)
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def read_export(data: bytes, name: str) -> Exported:
    """The records of an exported document called ``name``. Raises TeirError (TEIR645)."""
    export: _Export = decoded(data, _Export, name)
    for number, record in enumerate(export.teir_tuning_records):
        require_sound(record, f"{name}, record {number}")
    for number, sparse in enumerate(export.teir_sparse_tuning_records):
        place = f"{name}, sparse record {number}"
        if sparse.teir_sparse_tuning != FORMAT:
            raise refusal(place, f"format {sparse.teir_sparse_tuning}", f"format {FORMAT}")
        require_times(sparse.seconds, sparse.default_seconds, place)
    return Exported(export.teir_tuning_records, export.teir_sparse_tuning_records)
