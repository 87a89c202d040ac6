"""The rules of sparse arrays: what their parts are, what files of them look like."""

from __future__ import annotations

from teir.errors import Rule

_SOURCE = "docs/sparse.md"

COORDINATES = Rule(
    code="TEIR670",
    sentence="Coordinates are integers from 0 on and below the extent of their axis, as many for "
    "every axis as there are values.",
    source=_SOURCE,
)
SHAPE = Rule(
    code="TEIR671",
    sentence="A shape has an extent from 0 to 2^62 per axis, and blocks divide the extents; a file "
    "that says its shape has the one asked for.",
    source=_SOURCE,
)
POINTERS = Rule(
    code="TEIR672",
    sentence="pos of a compressed level has one entry per fibre and one more, begins with 0, "
    "never decreases, and ends with the length of crd.",
    source="docs/safety.md G11",
)
INDICES = Rule(
    code="TEIR673",
    sentence="crd of a compressed level holds coordinates from 0 on and below the extent, "
    "ascending in every fibre, each once.",
    source="docs/safety.md G11",
)
INDEX_TYPE = Rule(
    code="TEIR674",
    sentence="Every compressed level has index arrays (pos, crd): contiguous vectors of int32 or "
    "int64 in the machine's byte order.",
    source="docs/safety.md G11",
)
VALUES = Rule(
    code="TEIR675",
    sentence="Values are a vector of numbers, one per stored position.",
    source=_SOURCE,
)
KNOWN_KIND = Rule(
    code="TEIR676",
    sentence="A sparse operand is a teir.Sparse, a scipy.sparse array, a COO or GCXS array of the "
    "package sparse, a sparse tensor of PyTorch, or offers __binsparse__; what is not stored is 0.",
    source=_SOURCE,
)
STORED_SIZE = Rule(
    code="TEIR677",
    sentence="The levels of a format store at most 2^34 positions, and what memory holds.",
    source=_SOURCE,
)
DENSE = Rule(
    code="TEIR678",
    sentence="An array can be dense where NumPy has arrays of its shape, of 64 axes at most, and "
    "memory for them.",
    source=_SOURCE,
)
FILE = Rule(
    code="TEIR680",
    sentence="A file of a sparse tensor is a regular file ending in .mtx, .tns, .mtx.gz, .tns.gz "
    "or .npz, whole and readable.",
    source=_SOURCE,
)
FILE_SIZE = Rule(
    code="TEIR681",
    sentence="A compressed file grows to at most 256 MiB and 100 times its size, and no line is "
    "longer than 4096 bytes.",
    source=_SOURCE,
)
HEADER = Rule(
    code="TEIR682",
    sentence="A Matrix Market file begins with %%MatrixMarket matrix (coordinate or array) (real, "
    "double, integer, unsigned-integer, complex or pattern) (general, symmetric, skew-symmetric or "
    "hermitian), then sizes.",
    source="Matrix Market exchange formats",
)
ENTRY = Rule(
    code="TEIR683",
    sentence="An entry is one coordinate from 1 on per axis, inside the shape, and a finite "
    "number; there are as many entries as the file says, none that contradicts its symmetry.",
    source="Matrix Market exchange formats; FROSTT file format",
)
ARCHIVE = Rule(
    code="TEIR684",
    sentence="A .npz file holds shape, data and either coords, or row and col, or indptr and "
    "indices, or offsets.",
    source=_SOURCE,
)
