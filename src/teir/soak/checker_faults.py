"""Faults of the checker of programs."""

from __future__ import annotations

from teir.soak.fault import BOUNDS, Fault

CHECKER_FAULTS = (
    Fault(
        "an axis's last index ignored",
        "ir/check/bounds.py",
        "last = axis.extent - 1",
        "last = axis.extent - 2",
        BOUNDS,
    ),
    Fault(
        "plain programs: the strides of loops count for one iteration less",
        "ir/check/plain_walk.py",
        "end += strides[tensor] * (extent - 1)",
        "end += strides[tensor] * (extent - 2)",
        BOUNDS,
    ),
    Fault(
        "plain programs: iterations are apart whatever they write",
        "ir/check/plain_walk.py",
        "return not self.is_written or (self.is_alike and is_injective(self.terms))",
        "return not self.is_written or self.is_alike",
        BOUNDS,
    ),
    Fault(
        "plain programs: what is written under a guard counts",
        "ir/check/plain_walk.py",
        "if tensor in owners and not node.guard and True not in self._guards:",
        "if tensor in owners:",
        "tests/ir",
    ),
    Fault(
        "a tile eight bytes too long",
        "ir/check/tiles.py",
        "reach += stride * (extent - 1)",
        "reach += 8 + stride * (extent - 1)",
        BOUNDS,
    ),
    Fault(
        "offsets of loops ignored",
        "ir/check/bounds.py",
        "(tensor, offsets[tensor], offsets[tensor] + axis",
        "(tensor, 0, 0 * offsets[tensor] + axis",
        BOUNDS,
    ),
    Fault(
        "a loop that is left moves on",
        "ir/check/bounds.py",
        "high[tensor] -= up",
        "high[tensor] -= down",
        BOUNDS,
    ),
    Fault(
        "any stride counts as apart",
        "ir/check/races.py",
        "return stride > max([access.end for access in accesses]) - lowest",
        "return stride > 0",
        BOUNDS,
    ),
    Fault(
        "writes that are no race",
        "ir/check/races.py",
        "if not group.writes:",
        "if group.writes:",
        BOUNDS,
    ),
    Fault(
        "scratch of the outside taken for private",
        "ir/check/races.py",
        "return owner is not None and owner.depth >= node.depth",
        "return tensor in resolved.scratch",
        "tests/ir",
    ),
    Fault(
        "no look for races",
        "ir/check/__init__.py",
        "findings += races(resolved, Budget(STEPS))",
        "pass",
        BOUNDS,
    ),
    Fault(
        "tiles may collide with themselves",
        "ir/check/__init__.py",
        "findings += tiles_once(resolved, Budget(STEPS))",
        "pass",
        "tests/ir",
    ),
    Fault(
        "scratch may be read before it is written",
        "ir/check/__init__.py",
        "findings += scratch_written_first(resolved, Budget(STEPS))",
        "pass",
        "tests/ir",
    ),
    Fault(
        "operands may be too short",
        "ir/check/__init__.py",
        "findings += bounds.operands_cover(resolved, found, operands)",
        "pass",
        "tests/ir",
    ),
    Fault(
        "operands may overlap",
        "ir/check/__init__.py",
        "findings += overlaps(resolved, found, operands, Budget(STEPS))",
        "pass",
        "tests/ir",
    ),
    Fault(
        "in place one element further on",
        "ir/check/overlap.py",
        "or operands[name].address != operands[other].address",
        "",
        "tests/ir",
    ),
    Fault(
        "the solver's lower ends",
        "ir/check/collision.py",
        "self.lowest[level] = self.lowest[level + 1] + stride * low",
        "self.lowest[level] = self.lowest[level + 1]",
        "tests/ir",
    ),
)
