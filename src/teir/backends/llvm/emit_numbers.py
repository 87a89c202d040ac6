"""Number formats: how elements are stored, what type kernels compute in, and the conversions.

Every value here is a vector of ``count`` numbers (a complex element is two adjacent numbers).
Conversions of the 16-bit types use integer arithmetic where the hardware's own instruction would
round or flush differently (BF16) or does not exist (FP16 without F16C), so results are the same
on every instruction set. Sources: IEEE 754-2019 section 4.3.1 (round to nearest even); the
round-to-odd argument of Boldo and Melquiond, "Emulation of FMA and correctly rounded sums".
"""

from __future__ import annotations

from typing import assert_never

from teir.backends.llvm.emit_text import FunctionText, repeated, shuffle, vector
from teir.dtypes import DataType
from teir.target import Isa


def stored_number(data_type: DataType) -> str:
    """The LLVM type of one number in memory; the 16-bit formats are plain integers there."""
    match data_type:
        case DataType.FP64 | DataType.C128:
            return "double"
        case DataType.FP32 | DataType.TF32 | DataType.C64:
            return "float"
        case DataType.BF16 | DataType.FP16:
            return "i16"
        case DataType.I32:
            return "i32"
        case DataType.I64:
            return "i64"
        case _:
            assert_never(data_type)


def computed_number(data_type: DataType) -> str:
    """The LLVM type of one number in registers."""
    return stored_number(data_type.accumulator)


def require_one_accumulator(in_type: DataType, out_type: DataType) -> None:
    """Raises ValueError where sums of ``in_type`` are not computed as ``out_type`` is."""
    if computed_number(in_type) != computed_number(out_type):
        raise ValueError(f"expected one accumulator, found {in_type} to {out_type}")


def numbers_per_element(data_type: DataType) -> int:
    return 2 if data_type.is_complex else 1


def number_bytes(data_type: DataType) -> int:
    return data_type.width // numbers_per_element(data_type)


def widen(text: FunctionText, data_type: DataType, isa: Isa, stored: str, count: int) -> str:
    """Stored numbers as the numbers kernels compute with; exact."""
    match data_type:
        case DataType.BF16:
            return _widen_bf16(text, stored, count)
        case DataType.FP16:
            if isa is Isa.PLAIN:
                return _widen_fp16_by_integers(text, stored, count)
            half = vector("half", count)
            halves = text.value(f"bitcast {vector('i16', count)} {stored} to {half}")
            return text.value(f"fpext {half} {halves} to {vector('float', count)}")
        case _:
            return stored


def narrow(text: FunctionText, data_type: DataType, isa: Isa, computed: str, count: int) -> str:
    """Computed numbers as stored ones, rounded to nearest even; NaN stays NaN."""
    match data_type:
        case DataType.BF16:
            return _narrow_bf16(text, computed, count)
        case DataType.FP16:
            if isa is Isa.PLAIN:
                return _narrow_fp16_by_integers(text, computed, count)
            half = vector("half", count)
            halves = text.value(f"fptrunc {vector('float', count)} {computed} to {half}")
            return text.value(f"bitcast {half} {halves} to {vector('i16', count)}")
        case _:
            return computed


def round_factor(text: FunctionText, data_type: DataType, computed: str, count: int) -> str:
    """A number as an input of a product: TF32 is rounded to 10 mantissa bits, others are exact."""
    if data_type is not DataType.TF32:
        return computed
    bits = _bits(text, computed, count)
    rounded = _round_bits_to_even(text, bits, count, dropped=13)
    kept = _integer(text, "and", rounded, count, -(1 << 13))
    if count == 1:
        # A single number stays in the integer registers, away from the multiply-adds.
        exponent = _integer(text, "and", bits, count, 0x7F800000)
        special = _compare(text, "eq", exponent, count, 0x7F800000)
        return _float(text, _choose(text, special, bits, kept, "i32", count), count)
    return _keep_nan(text, computed, computed, _float(text, kept, count), count)


def round_to_odd_float(text: FunctionText, wide: str, count: int) -> str:
    """FP64 to FP32 by truncation with a sticky last bit.

    A second rounding to a format with at most 22 significant bits then equals one direct rounding.
    """
    float_kind, double_kind = vector("float", count), vector("double", count)
    near = text.value(f"fptrunc {double_kind} {wide} to {float_kind}")
    back = text.value(f"fpext {float_kind} {near} to {double_kind}")
    size = text.value(f"call {double_kind} @llvm.fabs.v{count}f64({double_kind} {wide})")
    near_size = text.value(f"call {double_kind} @llvm.fabs.v{count}f64({double_kind} {back})")
    above = text.value(f"fcmp ogt {double_kind} {near_size}, {size}")
    inexact = text.value(f"fcmp une {double_kind} {back}, {wide}")
    ints = vector("i32", count)
    excess = text.value(f"sext {vector('i1', count)} {above} to {ints}")
    sticky = text.value(f"zext {vector('i1', count)} {inexact} to {ints}")
    bits = _bits(text, near, count)
    truncated = text.value(f"add {ints} {bits}, {excess}")
    odd = text.value(f"or {ints} {truncated}, {sticky}")
    return _float(text, odd, count)


def _bits(text: FunctionText, number: str, count: int) -> str:
    return text.value(f"bitcast {vector('float', count)} {number} to {vector('i32', count)}")


def _float(text: FunctionText, bits: str, count: int) -> str:
    return text.value(f"bitcast {vector('i32', count)} {bits} to {vector('float', count)}")


def _integer(text: FunctionText, operation: str, left: str, count: int, literal: int) -> str:
    constant = repeated("i32", count, literal)
    return text.value(f"{operation} {vector('i32', count)} {left}, {constant}")


def _compare(text: FunctionText, relation: str, left: str, count: int, literal: int) -> str:
    constant = repeated("i32", count, literal)
    return text.value(f"icmp {relation} {vector('i32', count)} {left}, {constant}")


def _choose(text: FunctionText, condition: str, yes: str, no: str, element: str, count: int) -> str:
    kind = vector(element, count)
    return text.value(f"select {vector('i1', count)} {condition}, {kind} {yes}, {kind} {no}")


def _round_bits_to_even(text: FunctionText, bits: str, count: int, dropped: int) -> str:
    """``bits`` plus what carries into the kept part when ``dropped`` low bits are cut off."""
    ints = vector("i32", count)
    shifted = _integer(text, "lshr", bits, count, dropped)
    last_kept = _integer(text, "and", shifted, count, 1)
    half_below = _integer(text, "add", bits, count, (1 << (dropped - 1)) - 1)
    return text.value(f"add {ints} {half_below}, {last_kept}")


def _keep_nan(
    text: FunctionText, tested: str, nan: str, number: str, count: int, element: str = "float"
) -> str:
    kind = vector("float", count)
    is_nan = text.value(f"fcmp uno {kind} {tested}, {tested}")
    return _choose(text, is_nan, nan, number, element, count)


def _widen_bf16(text: FunctionText, stored: str, count: int) -> str:
    ints = text.value(f"zext {vector('i16', count)} {stored} to {vector('i32', count)}")
    return _float(text, _integer(text, "shl", ints, count, 16), count)


def _narrow_bf16(text: FunctionText, computed: str, count: int) -> str:
    bits, ints = _bits(text, computed, count), vector("i32", count)
    if count == 1:
        rounded = _round_bits_to_even(text, bits, count, dropped=16)
    else:
        # A test and a masked constant are two operations less than the last kept bit shifted down.
        last_kept = _compare(text, "ne", _integer(text, "and", bits, count, 1 << 16), count, 0)
        half, below = (repeated("i32", count, value) for value in (1 << 15, (1 << 15) - 1))
        carry = _choose(text, last_kept, half, below, "i32", count)
        rounded = text.value(f"add {ints} {bits}, {carry}")
    quiet = _integer(text, "or", bits, count, 1 << 22)
    kept = _keep_nan(text, computed, quiet, rounded, count, "i32")
    if count == 1:
        high = _integer(text, "lshr", kept, count, 16)
        return text.value(f"trunc {ints} {high} to {vector('i16', count)}")
    halves = text.value(f"bitcast {ints} {kept} to {vector('i16', 2 * count)}")
    return shuffle(text, "i16", 2 * count, halves, "poison", range(1, 2 * count, 2))


def _widen_fp16_by_integers(text: FunctionText, stored: str, count: int) -> str:
    ints, floats = vector("i32", count), vector("float", count)
    wide = text.value(f"zext {vector('i16', count)} {stored} to {ints}")
    size = _integer(text, "and", wide, count, 0x7FFF)
    sign = _integer(text, "shl", _integer(text, "and", wide, count, 0x8000), count, 16)
    moved = _integer(text, "add", _integer(text, "shl", size, count, 13), count, 112 << 23)
    special = _compare(text, "sge", size, count, 0x7C00)
    beyond = _integer(text, "add", moved, count, 112 << 23)
    normal = _choose(text, special, beyond, moved, "i32", count)
    tiny = _compare(text, "slt", size, count, 0x400)
    whole = text.value(f"sitofp {ints} {size} to {floats}")
    scale = repeated("float", count, "0x3E70000000000000")
    subnormal = _bits(text, text.value(f"fmul {floats} {whole}, {scale}"), count)
    chosen = _choose(text, tiny, subnormal, normal, "i32", count)
    return _float(text, text.value(f"or {ints} {chosen}, {sign}"), count)


def _narrow_fp16_by_integers(text: FunctionText, computed: str, count: int) -> str:
    ints, floats = vector("i32", count), vector("float", count)
    bits = _bits(text, computed, count)
    size = _integer(text, "and", bits, count, 0x7FFFFFFF)
    sign = _integer(text, "lshr", _integer(text, "and", bits, count, -(1 << 31)), count, 16)
    rounded = _round_bits_to_even(text, size, count, dropped=13)
    normal = _integer(text, "sub", _integer(text, "lshr", rounded, count, 13), count, 112 << 10)
    # Adding 0.5 lets the adder round at 2^-24, the spacing of subnormal halves.
    half = repeated("float", count, "0.5")
    shifted = text.value(f"fadd {floats} {_float(text, size, count)}, {half}")
    subnormal = _integer(text, "sub", _bits(text, shifted, count), count, 0x3F000000)
    tiny = _compare(text, "slt", size, count, 0x38800000)
    finite = _choose(text, tiny, subnormal, normal, "i32", count)
    huge = _compare(text, "sge", size, count, 0x477FF000)
    infinity = repeated("i32", count, 0x7C00)
    bounded = _choose(text, huge, infinity, finite, "i32", count)
    payload = _integer(text, "lshr", size, count, 13)
    quiet = _integer(text, "or", _integer(text, "and", payload, count, 0x3FF), count, 0x7E00)
    number = _keep_nan(text, computed, quiet, bounded, count, "i32")
    signed = text.value(f"or {ints} {number}, {sign}")
    return text.value(f"trunc {ints} {signed} to {vector('i16', count)}")
