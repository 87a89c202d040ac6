"""The rules of the functions on arrays, gathered for the documentation."""

from __future__ import annotations

from teir.arrays.adapters import ADAPTER_RULES
from teir.expr.rules import RULES as EXPRESSION_RULES
from teir.pipeline.call_checks import CALL_RULES
from teir.pipeline.determinism import DETERMINISTIC
from teir.pipeline.einsum import SHAPES
from teir.pipeline.memory import MEMORY_LIMIT
from teir.pipeline.numbered_axes import AXES
from teir.pipeline.numbered_axes import EXTENTS as TENSORDOT_EXTENTS
from teir.pipeline.operand_types import COMMON_TYPE, RESULT_TYPE
from teir.pipeline.overlap import OVERLAP
from teir.pipeline.plan import NO_PROGRAM
from teir.pipeline.problem import OUT_ORDER, OUT_OVERLAP, OUT_WIDTH, SIZE
from teir.pipeline.room import NO_ROOM
from teir.pipeline.switches import TUNE
from teir.pipeline.view_runs import NUMPY_OPERANDS
from teir.search.path import OPTIMIZE

EINSUM_RULES = tuple(
    sorted(
        (
            *EXPRESSION_RULES,
            OPTIMIZE,
            RESULT_TYPE,
            COMMON_TYPE,
            SIZE,
            AXES,
            TENSORDOT_EXTENTS,
            SHAPES,
            *ADAPTER_RULES,
            *CALL_RULES,
            NO_PROGRAM,
            NUMPY_OPERANDS,
            OUT_OVERLAP,
            OUT_ORDER,
            OUT_WIDTH,
            MEMORY_LIMIT,
            DETERMINISTIC,
            OVERLAP,
            TUNE,
            NO_ROOM,
        ),
        key=lambda rule: rule.code,
    )
)
"""Every rule of the functions on arrays, in the order of the codes."""
