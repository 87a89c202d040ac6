"""The meaning of the kernel that lists parts of fibres."""

from __future__ import annotations

from teir.dtypes import DataType
from teir.lower.evaluate_memory import Memory
from teir.lower.kernel_program import Call
from teir.lower.walked_kernels import FibreParts


def fibre_parts(memory: Memory, kernel: FibreParts, call: Call) -> None:
    pos1_type, crd1_type, pos2_type, crd2_type = kernel.types
    count, size, first, keeps = call.arguments
    pos1, crd1, pos2, crd2 = range(4)
    limit_at, cursors, rows, fibres, bounds = range(4, 9)

    def read(operand: int, data_type: DataType, place: int) -> int:
        return memory.number(call.operands[operand], data_type, place * data_type.width)

    def write(operand: int, data_type: DataType, place: int, number: int) -> None:
        tile = memory.tile(call, operand, data_type.numpy_dtype(), (), place * data_type.width)
        tile[...] = number

    limit = size + (0 if first else read(limit_at, DataType.I64, 0))
    write(limit_at, DataType.I64, 0, limit)
    write(rows, pos1_type, 0, 0)
    start, part = read(pos1, pos1_type, 0), 0
    for row in range(count):
        for fibre in range(read(pos1, pos1_type, row), read(pos1, pos1_type, row + 1)):
            last = read(pos2, pos2_type, fibre + 1)
            begin = (
                read(pos2, pos2_type, fibre) if first else read(cursors, pos2_type, fibre - start)
            )
            end = begin
            while end < last and read(crd2, crd2_type, end) < limit:
                end += 1
            write(cursors, pos2_type, fibre - start, end)
            write(bounds, pos2_type, 2 * part, begin)
            write(bounds, pos2_type, 2 * part + 1, end)
            name = fibre if kernel.is_numbered else read(crd1, crd1_type, fibre)
            write(fibres, crd1_type, part, name)
            part += int(end > begin or bool(first and keeps))
        write(rows, pos1_type, row + 1, part)
