"""Memory for a result and for operands, where there is not enough of it."""

from __future__ import annotations

from teir.errors import ArgumentPlace, Finding, NoRoomError, Rule, at_argument
from teir.pipeline.operand_types import OperandType

NO_ROOM = Rule(
    code="TEIR648",
    sentence="There is memory for the result, for copies of operands, and for the dense operands "
    "that a sparse product is planned with by their shapes.",
    source="language reference, einsum",
)


def no_room(result: OperandType) -> NoRoomError:
    """What to raise where the result could not be allocated; it is a MemoryError too."""
    size_bytes = result.dtype.itemsize
    for extent in result.shape:
        size_bytes *= extent
    finding = Finding(
        rule=NO_ROOM,
        place=ArgumentPlace(name="out"),
        expected=f"{size_bytes:,} bytes for a result of shape {result.shape}",
        found="less memory than that",
        hint="ask for a part of the result at a time, or give out=, mapped from a file",
    )
    return NoRoomError((finding,))


def no_room_for(name: str, what: str, size_bytes: int) -> NoRoomError:
    """What to raise where an operand, or a copy of it, could not be allocated."""
    expected = f"{size_bytes:,} bytes for {what}"
    return NoRoomError((at_argument(NO_ROOM, name, expected, "less memory than that"),))
