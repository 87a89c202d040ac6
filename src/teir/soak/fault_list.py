"""Faults to seed into our own compiler: each a small change to one source file."""

from __future__ import annotations

from dataclasses import dataclass

PROGRAMS, BOUNDS, PASSES, EINSUMS, KERNELS = "programs", "bounds", "passes", "einsums", "kernels"
"""What catches a fault: a stage of the soak, or else the tests in a directory."""


@dataclass(frozen=True, slots=True)
class Fault:
    """``before`` becomes ``after`` everywhere in ``file``, below the package's directory."""

    title: str
    file: str
    before: str
    after: str
    caught_by: str


FAULTS = (
    # The lowering.
    Fault(
        "axes fused where only the output walks on",
        "lower/axes.py",
        "return outer.strides == tuple([stride * extent for stride in inner.strides])",
        "return outer.strides[-1] == inner.strides[-1] * extent",
        PROGRAMS,
    ),
    Fault(
        "a fused axis one index short",
        "lower/axes.py",
        "fused.pop().extent * axis.extent",
        "fused.pop().extent * axis.extent - 1",
        PROGRAMS,
    ),
    Fault(
        "`last` one iteration early",
        "lower/lower.py",
        "GuardKind.FIRST else extent - 1",
        "GuardKind.FIRST else extent - 2",
        PROGRAMS,
    ),
    Fault(
        "a dropped guard",
        "lower/lower.py",
        "return tuple(IndexTest(index=cell, value=value) for cell, value in wanted.items())",
        "return ()",
        PROGRAMS,
    ),
    Fault(
        "a partial panel computed as a whole one",
        "lower/gemm.py",
        "self._panels(cut, cut.count - partial)",
        "self._panels(cut, cut.count)",
        PROGRAMS,
    ),
    Fault(
        "the last rows computed at the first ones' place",
        "lower/gemm.py",
        "row = (cut.start + (cut.count - 1) * cut.size) * lanes",
        "row = cut.start * lanes",
        PROGRAMS,
    ),
    Fault(
        "panels one row apart",
        "lower/gemm.py",
        "rows = cut.size * self.blocking.lanes",
        "rows = cut.size",
        PROGRAMS,
    ),
    Fault(
        "blocks of columns one column apart",
        "lower/gemm.py",
        "strides = tuple(stride * cut.size for stride in self.axes.columns.strides)",
        "strides = self.axes.columns.strides",
        PROGRAMS,
    ),
    Fault(
        "a wrong remainder mask",
        "lower/blocking.py",
        "rows - (vectors - 1) * lanes,",
        "lanes,",
        PROGRAMS,
    ),
    Fault(
        "the second half of a cut begins early",
        "lower/blocking.py",
        "yield Cut(longer * (size + 1), size, pieces - longer)",
        "yield Cut(longer * size, size, pieces - longer)",
        PROGRAMS,
    ),
    Fault(
        "a rounded result stored with the accumulator's stride",
        "lower/product_sum.py",
        "to_narrow = TileAxis(run.extent, to_wide.strides[::-1])",
        "to_narrow = TileAxis(run.extent, to_wide.strides)",
        PROGRAMS,
    ),
    Fault(
        "temporaries that live at once share bytes",
        "lower/slots.py",
        "start = max(start, high)",
        "start = max(start, 0)",
        "tests/lower",
    ),
    Fault(
        "a temporary without its last bytes",
        "lower/slots.py",
        "high += axis.strides[name] * (axis.extent - 1)",
        "high += 0 * axis.extent",
        "tests/lower/test_slots.py",
    ),
    Fault(
        "an arena that ends inside its temporaries",
        "lower/slots.py",
        "Room(name, round_up(use.high - use.low), range(use.first, use.stop))",
        "Room(name, round_up((use.high - use.low) // 2), range(use.first, use.stop))",
        PROGRAMS,
    ),
    # The passes.
    Fault(
        "a remainder that begins one block early",
        "passes/cutting.py",
        "start = count * block",
        "start = (count - 1) * block",
        PASSES,
    ),
    Fault(
        "blocks that overlap by one index",
        "passes/cutting.py",
        "stride * block for name, stride",
        "stride * (block - 1) for name, stride",
        PASSES,
    ),
    Fault(
        "a missing remainder",
        "passes/cutting.py",
        "count, left = divmod(whole.extent, block)",
        "count, left = max(1, whole.extent // block), 0",
        PASSES,
    ),
    Fault(
        "`last` given to the first branch",
        "passes/split_axes.py",
        "number == len(pieces) - 1",
        "number == 0",
        PASSES,
    ),
    Fault(
        "`first` and `last` exchanged between branches",
        "passes/split_axes.py",
        "has_first if term.kind is GuardKind.FIRST else has_last",
        "has_last if term.kind is GuardKind.FIRST else has_first",
        PASSES,
    ),
    Fault(
        "axes fused across a gap",
        "passes/fuse_axes.py",
        "outer.get(name, 0) == extent * inner.get(name, 0)",
        "outer.get(name, 0) >= extent * inner.get(name, 0)",
        PASSES,
    ),
    Fault(
        "a fused axis one index short, in a program",
        "passes/fuse_axes.py",
        "one.extent * two.extent, strides",
        "one.extent * two.extent - 1, strides",
        PASSES,
    ),
    Fault(
        "an offset lost where axes fuse",
        "passes/fuse_axes.py",
        "one.offsets[name] + two.offsets[name]",
        "one.offsets[name]",
        PASSES,
    ),
    Fault(
        "what happens last is lost",
        "passes/lift_zero.py",
        "after = tuple(_outside(loop, leaf) for leaf in children[end:])",
        "after = tuple(_outside(loop, leaf) for leaf in children[:0])",
        PASSES,
    ),
    Fault(
        "a parallel reduction",
        "passes/chains.py",
        "return not races(resolve(program), Budget(_STEPS))",
        "return True",
        PASSES,
    ),
    Fault(
        "packed rows that overlap",
        "passes/pack_operands.py",
        "stride *= known.extent",
        "stride *= max(1, known.extent - 1)",
        PASSES,
    ),
    # The checker.
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
    # Generated code.
    Fault(
        "one iteration too many",
        "backends/llvm/nest.py",
        "%more = icmp slt i64 %i_next, %extent",
        "%more = icmp sle i64 %i_next, %extent",
        PROGRAMS,
    ),
    Fault(
        "a guard that holds where it should not",
        "backends/llvm/nest.py",
        "%equal = icmp eq i64 %index, %value",
        "%equal = icmp ne i64 %index, %value",
        PROGRAMS,
    ),
    Fault(
        "an unchecked load past the end of a row",
        "backends/llvm/emit_chunks.py",
        "return 1 if self.masked_rest else self.vectors * self.lanes",
        "return 1",
        PROGRAMS,
    ),
    Fault(
        "shares of a grid that leave points out",
        "backends/llvm/nest_grid.py",
        "%end = add i64 %end_share, %one_more",
        "%end = add i64 %end_share, 0",
        PROGRAMS,
    ),
    Fault(
        "one iteration too many in specialised code",
        "backends/llvm/specialise_ir.py",
        "icmp slt i64 {index_next}, {loop.extent}",
        "icmp sle i64 {index_next}, {loop.extent}",
        PROGRAMS,
    ),
    Fault(
        "a wrong guard in specialised code",
        "backends/llvm/specialise_ir.py",
        "icmp eq i64 {scope.indices[test.index]}, {test.value}",
        "icmp ne i64 {scope.indices[test.index]}, {test.value}",
        PROGRAMS,
    ),
    Fault(
        "swapped operands",
        "backends/llvm/table.py",
        "if sources == [0, 1, 2][: len(sources)]:",
        "if len(sources) < 9:",
        PROGRAMS,
    ),
    Fault(
        "a pointer that does not move",
        "backends/llvm/table.py",
        "strides[register] = step.stride_bytes",
        "strides[register] = step.stride_bytes * (register != 1)",
        PROGRAMS,
    ),
    # The cache, the entry point and the front end.
    Fault(
        "a stale cache key",
        "runtime/object_cache.py",
        "if length != len(key) or entry[head : head + length] != key:",
        "if length != len(key):",
        "tests/runtime",
    ),
    Fault(
        "torn files accepted",
        "runtime/object_cache.py",
        "return data if hashlib.sha256(data).digest() == digest else None",
        "return data",
        "tests/runtime",
    ),
    Fault(
        "other strides accepted",
        "backends/llvm/entry_ir.py",
        "%stride_equal = icmp eq i64 %stride, %stride_expected",
        "%stride_equal = icmp eq i64 %stride, %stride",
        "tests/backends/llvm/test_entry.py",
    ),
    Fault(
        "an output that overlaps an input",
        "backends/llvm/entry_overlap.py",
        "%below = icmp ult i64 %written_low, %other_high",
        "%below = icmp ugt i64 %written_low, %other_high",
        "tests/backends/llvm/test_entry.py",
    ),
    Fault(
        "one plan for all types",
        "pipeline/planning.py",
        "        subscripts,\n        types,\n        out,\n",
        "        subscripts,\n        out,\n",
        EINSUMS,
    ),
    Fault(
        "a diagonal that is a row",
        "pipeline/problem.py",
        "strides[index] = strides.get(index, 0) + stride",
        "strides[index] = stride",
        EINSUMS,
    ),
    Fault(
        "an axis reversed about its end",
        "pipeline/problem.py",
        "index: stride * (extents[index] - 1) for",
        "index: stride * extents[index] for",
        EINSUMS,
    ),
    Fault(
        "a missing zero",
        "search/lanes.py",
        "body += emission.leaf(Operation.ZERO, (), c, Roles(m=(*m, *n, *along)))",
        "pass",
        EINSUMS,
    ),
)
