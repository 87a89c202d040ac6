"""Faults of generated code, of the cache, the entry point and the front end."""

from __future__ import annotations

from teir.soak.fault import EINSUMS, PROGRAMS, Fault

CODE_FAULTS = (
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
        "search/slabs.py",
        "emission.leaf(Operation.ZERO, (), c, Roles(m=(*m, *n, *along))) if zeroes else Body()",
        "Body()",
        EINSUMS,
    ),
)
