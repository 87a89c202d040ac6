"""The warpgroup product: 64 x N += (64 x K) (K x N), K of 32 bytes, operands in shared memory.

Accumulators are FP32. The products of one instruction are summed in FP64 here and rounded once,
with the accumulator; the hardware's order inside one instruction is not stated. BF16 and FP16
operands are used as they are; of TF32 operands the lowest 13 bits are dropped, or rounded away to
nearest even before the copy, as the kernel chooses.

Thread t of the 128 holds, in register 4 j + 2 h + c, the element at

    row = 16 (t div 32) + (t mod 32) div 4 + 8 h        column = 8 j + 2 (t mod 4) + c
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from teir.errors import Finding, at_argument, refuse
from teir.tma.domain import Index
from teir.tma.element_types import ElementType
from teir.tma.memory import Bytes, read_elements, typed
from teir.tma.operands import Major, MatrixDescriptor, operand_addresses
from teir.tma.rules import REGISTERS, WGMMA_SHAPE

ROWS = 64
STEP_BYTES = 32
THREADS = 128
REGISTER_FILE = 65_536
_TF32_DROPPED_BITS = 13

Accumulator = npt.NDArray[np.float32]


class Tf32Inputs(Enum):
    """What happens to the bits of an FP32 operand that TF32 does not have."""

    TRUNCATED = "truncated"
    ROUNDED = "rounded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A descriptor and how its matrix lies: rows are those of M (left) or N (right)."""

    descriptor: MatrixDescriptor
    major: Major


def multiply_accumulate(
    accumulator: Accumulator,
    left: Operand,
    right: Operand,
    shared: Bytes,
    element_type: ElementType,
    tf32_inputs: Tf32Inputs,
) -> Accumulator:
    """The accumulator, shape (64, N), after one instruction. Raises TeirError (TEIR977, TEIR978).

    An accumulator of zeros stands for scale-d = 0.
    """
    rows, columns = accumulator.shape
    if rows != ROWS or columns % 8 or not 8 <= columns <= 256:
        expected = "64 x N, N in 8..256 in steps of 8"
        found = f"{rows} x {columns}"
        refuse(WGMMA_SHAPE, "accumulator", expected, found)
    a = _fetch(left, ROWS, shared, element_type, tf32_inputs)
    b = _fetch(right, columns, shared, element_type, tf32_inputs)
    total: Accumulator = (accumulator.astype(np.float64) + a @ b.T).astype(np.float32)
    return total


def round_to_tf32(numbers: npt.NDArray[np.float32], inputs: Tf32Inputs) -> npt.NDArray[np.float32]:
    """FP32 numbers with 10 mantissa bits; infinities and not-a-numbers stay what they are."""
    bits = numbers.view(np.uint32)
    if inputs is Tf32Inputs.ROUNDED:
        odd = bits >> np.uint32(_TF32_DROPPED_BITS) & np.uint32(1)
        half = np.uint32((1 << (_TF32_DROPPED_BITS - 1)) - 1)
        bits = np.where(np.isfinite(numbers), bits + half + odd, bits)
    kept = bits & np.uint32(0xFFFFFFFF << _TF32_DROPPED_BITS & 0xFFFFFFFF)
    rounded = np.ascontiguousarray(kept).view(np.float32)
    return np.where(np.isnan(numbers), numbers, rounded)


def fragment_places(columns: int) -> tuple[Index, Index]:
    """Row and column of every accumulator register, both of shape (128 threads, columns / 2)."""
    thread = np.arange(THREADS, dtype=np.int64)[:, None]
    register = np.arange(columns // 2, dtype=np.int64)[None, :]
    row = thread // 32 * 16 + thread % 32 // 4 + register // 2 % 2 * 8
    column = register // 4 * 8 + thread % 4 * 2 + register % 2
    return row, column


def fragments_of(matrix: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The registers, shape (128, N / 2), that hold a 64 x N matrix."""
    row, column = fragment_places(matrix.shape[1])
    registers: npt.NDArray[Any] = matrix[row, column]
    return registers


def matrix_of(fragments: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The 64 x N matrix that registers hold."""
    columns = fragments.shape[1] * 2
    matrix = np.empty((ROWS, columns), dtype=fragments.dtype)
    matrix[fragment_places(columns)] = fragments
    return matrix


def check_registers(threads_and_registers: tuple[tuple[int, int], ...]) -> Finding | None:
    """Does every (threads, registers per thread) of a block fit together? TEIR979 where not.

    The assembler accepts settings that exceed the register file and hang when they run.
    """
    total = sum(threads * registers for threads, registers in threads_and_registers)
    wrong = [count for _, count in threads_and_registers if count % 8 or not 24 <= count <= 256]
    if total <= REGISTER_FILE and not wrong:
        return None
    found = f"{total} registers" + (f", {wrong[0]} per thread" if wrong else "")
    expected = f"at most {REGISTER_FILE}, 24 to 256 per thread in steps of 8"
    return at_argument(REGISTERS, "registers", expected, found)


def _fetch(
    operand: Operand,
    rows: int,
    shared: Bytes,
    element_type: ElementType,
    tf32_inputs: Tf32Inputs,
) -> npt.NDArray[np.float64]:
    """An operand's numbers, shape (rows, K of one instruction)."""
    columns = STEP_BYTES // element_type.width
    addresses = operand_addresses(operand.descriptor, operand.major, rows, columns, element_type)
    raw = read_elements(shared, addresses, element_type.width, "an operand of a product")
    numbers = typed(raw, element_type)
    if element_type in (ElementType.TF32, ElementType.TF32_FTZ):
        numbers = round_to_tf32(numbers, tf32_inputs)
    return numbers.astype(np.float64)
