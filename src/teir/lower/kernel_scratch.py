"""Scratch of kernels: one slot after those of the program's tensors."""

from __future__ import annotations

from teir.dtypes import DataType
from teir.lower.block_shapes import most_accumulators
from teir.lower.calls import calls_of
from teir.lower.contraction_tile import Accumulator
from teir.lower.copy_kernels import (
    CellCopy,
    PermuteCopy,
    RunCopy,
    StreamCopy,
    StreamRuns,
    cell_copy_room_bytes,
    permute_room_bytes,
)
from teir.lower.kernel_program import Call, KernelNode, Slot, Storage
from teir.lower.kernels import PartCopy
from teir.lower.part_loops import room_end
from teir.lower.slots import SlotTable
from teir.lower.stream_room import stream_copy_room_bytes
from teir.lower.tile_kernels import TileProduct
from teir.lower.tile_products import tile_product_room
from teir.target import Isa


def kernel_slot(start_bytes: int) -> Slot:
    """The slot, from so many bytes of a thread's scratch on."""
    return Slot(
        tensor="scratch of kernels",
        data_type=DataType.FP32,
        storage=Storage.THREAD,
        start_bytes=start_bytes,
    )


def accumulator_of(slots: SlotTable, isa: Isa) -> Accumulator:
    """Room for the largest register block in FP32."""
    return Accumulator(len(slots.slots), most_accumulators(isa) * isa.vector_bytes)


def kernel_scratch_bytes(nodes: tuple[KernelNode, ...], accumulator: Accumulator, isa: Isa) -> int:
    """What calls below ``nodes`` need of the slot after those of the program's tensors.

    Wide accumulators and the room of other kernels share it: no call leaves anything there.
    """
    most = 0
    has_parts = False
    for call, _ in calls_of(nodes):
        has_parts = has_parts or isinstance(call.kernel, PartCopy)
        for address in call.operands:
            if address.slot == accumulator.slot:
                most = max(most, _room_of(call, accumulator, isa))
    return max(most, room_end(nodes, accumulator.slot)) if has_parts else most


def _room_of(call: Call, accumulator: Accumulator, isa: Isa) -> int:
    match call.kernel:
        case PermuteCopy() | RunCopy():
            return permute_room_bytes(isa)
        case StreamCopy() | StreamRuns():
            return stream_copy_room_bytes()
        case CellCopy():
            return cell_copy_room_bytes()
        case TileProduct():
            return tile_product_room(call)
        case _:
            return accumulator.bytes
