"""Every fault to seed into our own compiler; its place in the list is its number."""

from __future__ import annotations

from teir.soak.checker_faults import CHECKER_FAULTS
from teir.soak.code_faults import CODE_FAULTS
from teir.soak.program_faults import PROGRAM_FAULTS

FAULTS = (*PROGRAM_FAULTS, *CHECKER_FAULTS, *CODE_FAULTS)
