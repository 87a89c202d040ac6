"""The rules of sparse products: results, operands, keywords."""

from __future__ import annotations

from teir.errors import Rule

_SOURCE = "docs/sparse.md"

OUT_LEVELS = Rule(
    code="TEIR685",
    sentence="out_levels names one level per axis of the result, d or s, and perhaps their order: "
    "dsd or dsd:1,0,2; the result is then a new teir.Sparse.",
    source=_SOURCE,
)
SPARSE_OUT = Rule(
    code="TEIR686",
    sentence="out of a sparse product or of index notation is a writable, C-contiguous array of "
    "the type and shape of the result that shares no byte with an operand; += needs one.",
    source=_SOURCE,
)
SPARSE_KEYWORDS = Rule(
    code="TEIR687",
    sentence="Sparse products and index notation take out, dtype, threads, tune, memory_limit, "
    "deterministic and out_levels, and no optimize.",
    source=_SOURCE,
)
SPARSE_OPERANDS = Rule(
    code="TEIR688",
    sentence="A sparse product is called with as many operands as it names, of the shapes, types "
    "and formats it was planned for.",
    source=_SOURCE,
)
SPARSE_TYPE = Rule(
    code="TEIR689",
    sentence="A sparse product is computed in FP64, FP32, C64 or C128; BF16 and FP16 in FP32, "
    "rounded once; integers as FP64.",
    source=_SOURCE,
)
SPARSE_SIZE = Rule(
    code="TEIR679",
    sentence="A sparse product has at most 256 indices, and extents with which every compressed "
    "level, with the dense ones below it, spans less than 2^62 bytes.",
    source=_SOURCE,
)
