"""The JSON schema of the record form, generated from the classes of `teir.ir.record_form`.

``python -m teir.ir.record_schema`` writes ``schema/teir-1.schema.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from teir.ir.record_form import ProgramRecord


def schema() -> dict[str, Any]:
    """The schema as a JSON value; rules between fields are beyond it and stay with `teir.loads`."""
    described = msgspec.json.schema(ProgramRecord)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "TEIR program, record form, version 1",
        **described,
    }


def schema_text() -> str:
    """The published file."""
    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "schema/teir-1.schema.json").write_text(
        schema_text(), encoding="utf-8"
    )
