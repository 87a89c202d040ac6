"""The rules of the flat form, one function per rule. Codes ``TEIR200`` to ``TEIR239``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.dtypes import DataType
from teir.errors import Finding, RecordPlace, Rule
from teir.ir.name_rules import shown
from teir.ir.nodes import LIMIT

_DOMAINS = "flat form, domains and notation"
_SHAPE = "flat form, well-formedness"
_UNARY = "flat form, unary operations"
_BINARY = "flat form, binary contractions"
_PRIMITIVES = "flat form, primitive-specific requirements"
_REFERENCE = "language reference"

UNARY = ("Copy", "ReLU", "Zero")
CONTRACTIONS = ("GEMM", "BRGEMM")
PARTICIPATION = {"C": (True, True, True), "M": (True, False, True), "N": (False, True, True)}
PARTICIPATION["K"] = (True, True, False)
"""Which of in0, in1 and out take part in an axis of a binary contraction, by its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A configuration in the flat form; strides count elements, one row per tensor.

    ``strides_path`` is the field that findings about strides quote.
    """

    data_type: str
    prim_first: str
    prim_main: str
    prim_last: str
    dim_types: tuple[str, ...]
    exec_types: tuple[str, ...]
    dim_sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    strides_path: str

    @property
    def is_contraction(self) -> bool:
        return self.prim_main in CONTRACTIONS

    @property
    def tensors(self) -> tuple[str, ...]:
        return ("in0", "in1", "out") if self.is_contraction else ("in0", "out")

    def primitive_axes(self, types: str) -> tuple[int, ...]:
        """The axes consumed by primitives whose type is one of ``types``."""
        return tuple(
            index
            for index, (policy, type_) in enumerate(
                zip(self.exec_types, self.dim_types, strict=False)
            )
            if policy == "prim" and type_ in types
        )


FLAT_VERSION = Rule(
    code="TEIR200", sentence="The version of the flat form is 1.", source=_REFERENCE
)
FLAT_DATA_TYPE = Rule(
    code="TEIR201",
    sentence="The data type is FP16, BF16, TF32, FP32 or FP64.",
    source=_DOMAINS,
)
PRIM_FIRST = Rule(code="TEIR202", sentence="prim_first is None, Zero or ReLU.", source=_DOMAINS)
PRIM_MAIN = Rule(
    code="TEIR203",
    sentence="prim_main is None, Copy, ReLU, GEMM or BRGEMM.",
    source=_DOMAINS,
)
PRIM_LAST = Rule(code="TEIR204", sentence="prim_last is None or ReLU.", source=_DOMAINS)
DIM_TYPE = Rule(code="TEIR205", sentence="Every dim_type is C, M, N or K.", source=_DOMAINS)
EXEC_TYPE = Rule(
    code="TEIR206", sentence="Every exec_type is seq, parallel or prim.", source=_DOMAINS
)
VECTOR_LENGTH = Rule(
    code="TEIR207",
    sentence="All schedule vectors have length D, at least 1; the strides have shape T x D.",
    source=_SHAPE,
)
TENSOR_COUNT = Rule(
    code="TEIR208",
    sentence="Unary operations have two tensors, binary contractions three.",
    source="flat form, operation-type constraints",
)
SIZE_POSITIVE = Rule(code="TEIR209", sentence="Every dim_size is positive.", source=_DOMAINS)
FLAT_STRIDE_NOT_NEGATIVE = Rule(
    code="TEIR210", sentence="Strides are natural numbers.", source=_DOMAINS
)
FLAT_RANGE = Rule(
    code="TEIR211",
    sentence="Sizes, and strides in bytes, stay below 2^62.",
    source=_REFERENCE,
)
PARTICIPATES = Rule(
    code="TEIR212",
    sentence="A stride is 0 whenever the tensor does not participate in the axis.",
    source=_SHAPE,
)
MAIN_GIVEN = Rule(
    code="TEIR213",
    sentence="prim_main is not None: a configuration computes something.",
    source=_REFERENCE,
)
UNARY_TYPES = Rule(
    code="TEIR214", sentence="All axes of a unary operation have type C.", source=_UNARY
)
UNARY_FIRST = Rule(
    code="TEIR215", sentence="prim_first of a unary operation is None.", source=_UNARY
)
UNARY_LAST = Rule(code="TEIR216", sentence="prim_last of a unary operation is None.", source=_UNARY)
CONTRACTION_FIRST = Rule(
    code="TEIR217",
    sentence="prim_first of a binary contraction is None or Zero.",
    source=_BINARY,
)
R1 = Rule(
    code="TEIR221",
    sentence=(
        "R1: Copy, Zero and ReLU need a primitive axis of type C, M or N (waived when no axis at "
        "all is primitive)."
    ),
    source=_PRIMITIVES,
)
R2 = Rule(
    code="TEIR222",
    sentence=(
        "R2: GEMM has no primitive axis of type C and exactly one each of M, N and K (waived when "
        "no axis at all is primitive)."
    ),
    source=_PRIMITIVES,
)
R3 = Rule(
    code="TEIR223",
    sentence="R3: BRGEMM has no primitive axis of type C, exactly one each of M and N, two of K.",
    source=_PRIMITIVES,
)


def data_type_known(flat: Flat) -> Iterator[Finding]:
    """The data type is one of five."""
    known = ("FP16", "BF16", "TF32", "FP32", "FP64")
    yield from _outside(FLAT_DATA_TYPE, "$.data_type", flat.data_type, known)


def prim_first_known(flat: Flat) -> Iterator[Finding]:
    """prim_first is None, Zero or ReLU."""
    yield from _outside(PRIM_FIRST, "$.prim_first", flat.prim_first, ("None", "Zero", "ReLU"))


def prim_main_known(flat: Flat) -> Iterator[Finding]:
    """prim_main is None, Copy, ReLU, GEMM or BRGEMM; Zero only comes from etops."""
    known = ("None", *UNARY, *CONTRACTIONS)
    yield from _outside(PRIM_MAIN, "$.prim_main", flat.prim_main, known)


def prim_last_known(flat: Flat) -> Iterator[Finding]:
    """prim_last is None or ReLU."""
    yield from _outside(PRIM_LAST, "$.prim_last", flat.prim_last, ("None", "ReLU"))


def dim_types_known(flat: Flat) -> Iterator[Finding]:
    """Every dim_type is C, M, N or K."""
    for index, type_ in enumerate(flat.dim_types):
        yield from _outside(DIM_TYPE, f"$.dim_types[{index}]", type_, ("C", "M", "N", "K"))


def exec_types_known(flat: Flat) -> Iterator[Finding]:
    """Every exec_type is seq, parallel or prim."""
    for index, type_ in enumerate(flat.exec_types):
        known = ("seq", "parallel", "prim")
        yield from _outside(EXEC_TYPE, f"$.exec_types[{index}]", type_, known)


def vector_lengths(flat: Flat) -> Iterator[Finding]:
    """All schedule vectors have length D, at least 1; the strides have shape T x D."""
    count = len(flat.dim_types)
    if count == 0:
        yield _finding(VECTOR_LENGTH, "$.dim_types", "at least one axis", "none")
    vectors = [("$.exec_types", len(flat.exec_types)), ("$.dim_sizes", len(flat.dim_sizes))]
    vectors += (
        (f"{flat.strides_path}[{index}]", len(row)) for index, row in enumerate(flat.strides)
    )
    for path, length in vectors:
        if length != count:
            yield _finding(VECTOR_LENGTH, path, f"{count} values, as in dim_types", str(length))


def tensor_count(flat: Flat) -> Iterator[Finding]:
    """Unary operations have two tensors, binary contractions three."""
    if flat.prim_main not in (*UNARY, *CONTRACTIONS) or len(flat.strides) == len(flat.tensors):
        return
    expected = f"{len(flat.tensors)} rows ({', '.join(flat.tensors)}) for {flat.prim_main}"
    yield _finding(TENSOR_COUNT, flat.strides_path, expected, str(len(flat.strides)))


def sizes_positive(flat: Flat) -> Iterator[Finding]:
    """Every dim_size is positive."""
    for index, size in enumerate(flat.dim_sizes):
        if size <= 0:
            yield _finding(SIZE_POSITIVE, f"$.dim_sizes[{index}]", "a positive integer", str(size))


def strides_not_negative(flat: Flat) -> Iterator[Finding]:
    """Strides are natural numbers."""
    for path, stride, _, _ in _strides(flat):
        if stride < 0:
            yield _finding(FLAT_STRIDE_NOT_NEGATIVE, path, "zero or more", str(stride))


def values_in_range(flat: Flat) -> Iterator[Finding]:
    """Sizes, and strides in bytes, stay below 2^62."""
    for index, size in enumerate(flat.dim_sizes):
        if size >= LIMIT:
            yield _finding(FLAT_RANGE, f"$.dim_sizes[{index}]", "less than 2^62", str(size))
    known = flat.data_type in DataType.__members__
    width = DataType[flat.data_type].width if known else 1
    for path, stride, _, _ in _strides(flat):
        if stride * width >= LIMIT:
            expected = f"less than 2^62 bytes, {LIMIT // width} elements"
            yield _finding(FLAT_RANGE, path, expected, str(stride))


def participates(flat: Flat) -> Iterator[Finding]:
    """A stride is 0 whenever the tensor does not participate in the axis."""
    if not flat.is_contraction:
        return
    for path, stride, tensor, index in _strides(flat):
        type_ = flat.dim_types[index] if index < len(flat.dim_types) else "C"
        row = PARTICIPATION.get(type_, (True, True, True))
        if stride != 0 and tensor < len(row) and not row[tensor]:
            expected = f"0, as {flat.tensors[tensor]} has no axis of type {type_}"
            yield _finding(PARTICIPATES, path, expected, str(stride))


def main_given(flat: Flat) -> Iterator[Finding]:
    """prim_main is not None."""
    if flat.prim_main == "None":
        yield _finding(MAIN_GIVEN, "$.prim_main", "Copy, ReLU, GEMM or BRGEMM", "None")


def unary_types(flat: Flat) -> Iterator[Finding]:
    """All axes of a unary operation have type C."""
    if flat.prim_main not in UNARY:
        return
    for index, type_ in enumerate(flat.dim_types):
        if type_ in ("M", "N", "K"):
            expected = f"C, the type of every axis of {flat.prim_main}"
            yield _finding(UNARY_TYPES, f"$.dim_types[{index}]", expected, type_)


def unary_first(flat: Flat) -> Iterator[Finding]:
    """prim_first of a unary operation is None."""
    if flat.prim_main in UNARY and flat.prim_first in ("Zero", "ReLU"):
        expected = f"None, as prim_main is {flat.prim_main}"
        yield _finding(UNARY_FIRST, "$.prim_first", expected, flat.prim_first)


def unary_last(flat: Flat) -> Iterator[Finding]:
    """prim_last of a unary operation is None."""
    if flat.prim_main in UNARY and flat.prim_last == "ReLU":
        expected = f"None, as prim_main is {flat.prim_main}"
        yield _finding(UNARY_LAST, "$.prim_last", expected, flat.prim_last)


def contraction_first(flat: Flat) -> Iterator[Finding]:
    """prim_first of a binary contraction is None or Zero."""
    if flat.is_contraction and flat.prim_first == "ReLU":
        yield _finding(CONTRACTION_FIRST, "$.prim_first", "None or Zero", "ReLU")


def r1(flat: Flat) -> Iterator[Finding]:
    """Copy, Zero and ReLU need a primitive axis of type C, M or N."""
    needs = (
        flat.prim_main == "Copy" or flat.prim_first in ("Zero", "ReLU") or flat.prim_last == "ReLU"
    )
    if needs and "prim" in flat.exec_types and not flat.primitive_axes("CMN"):
        yield _finding(R1, "$.exec_types", "prim on an axis of type C, M or N", "none")


def r2(flat: Flat) -> Iterator[Finding]:
    """GEMM has no primitive C axis and exactly one each of M, N and K."""
    if flat.prim_main == "GEMM" and "prim" in flat.exec_types:
        yield from _cardinalities(R2, flat, {"C": 0, "M": 1, "N": 1, "K": 1})


def r3(flat: Flat) -> Iterator[Finding]:
    """BRGEMM has no primitive C axis, exactly one each of M and N, two of K."""
    if flat.prim_main == "BRGEMM":
        yield from _cardinalities(R3, flat, {"C": 0, "M": 1, "N": 1, "K": 2})


def _cardinalities(rule: Rule, flat: Flat, wanted: dict[str, int]) -> Iterator[Finding]:
    found = {type_: len(flat.primitive_axes(type_)) for type_ in wanted}
    if found != wanted:
        yield _finding(rule, "$.exec_types", _counts(wanted), _counts(found))


def _counts(counts: dict[str, int]) -> str:
    return "primitive axes " + ", ".join(f"{count} {type_}" for type_, count in counts.items())


def _strides(flat: Flat) -> Iterator[tuple[str, int, int, int]]:
    """Path, stride, tensor and axis of every entry."""
    for tensor, row in enumerate(flat.strides):
        for index, stride in enumerate(row):
            yield f"{flat.strides_path}[{tensor}][{index}]", stride, tensor, index


def _outside(rule: Rule, path: str, value: str, known: tuple[str, ...]) -> Iterator[Finding]:
    if value not in known:
        yield _finding(rule, path, f"one of {', '.join(known)}", shown(value))


def _finding(rule: Rule, path: str, expected: str, found: str) -> Finding:
    return Finding(rule=rule, place=RecordPlace(path=path), expected=expected, found=found)


FLAT_RULES = (
    (FLAT_DATA_TYPE, data_type_known),
    (PRIM_FIRST, prim_first_known),
    (PRIM_MAIN, prim_main_known),
    (PRIM_LAST, prim_last_known),
    (DIM_TYPE, dim_types_known),
    (EXEC_TYPE, exec_types_known),
    (VECTOR_LENGTH, vector_lengths),
    (TENSOR_COUNT, tensor_count),
    (SIZE_POSITIVE, sizes_positive),
    (FLAT_STRIDE_NOT_NEGATIVE, strides_not_negative),
    (FLAT_RANGE, values_in_range),
    (PARTICIPATES, participates),
    (MAIN_GIVEN, main_given),
    (UNARY_TYPES, unary_types),
    (UNARY_FIRST, unary_first),
    (UNARY_LAST, unary_last),
    (CONTRACTION_FIRST, contraction_first),
    (R1, r1),
    (R2, r2),
    (R3, r3),
)
"""The rules of the flat form: each a rule and the function that finds where it is broken."""
