"""What the control functions read of their records, as text: words, children, index arrays.

A record is a row of 64-bit words from ``%node`` on; `nest`, `nest_grid`, `nest_sparse` and
`nest_blocks` say what the words of their records mean.
"""

from __future__ import annotations

from teir.backends.llvm.layout import CANCEL_BYTES


def word(name: str, number: int, base: str = "%node") -> str:
    """``%name``: word ``number`` of the record at ``base``."""
    return (
        f"  %{name}_at = getelementptr i8, ptr {base}, i64 {8 * number}\n"
        f"  %{name} = load i64, ptr %{name}_at\n"
    )


def cell(name: str, number: int, frame: str = "%frame") -> str:
    """``%name``: the place in the frame whose byte is word ``number``."""
    return (
        word(f"{name}_byte", number) + f"  %{name} = getelementptr i8, ptr {frame}, i64 "
        f"%{name}_byte\n"
    )


def array(name: str, base: str, number: int) -> str:
    """The pointer of the index array whose slot, offset and width stand from ``number`` on."""
    return (
        word(f"{name}_slot", number, base)
        + word(f"{name}_offset", number + 1, base)
        + word(f"{name}_width", number + 2, base)
        + f"  %{name}_cell = getelementptr i8, ptr %frame, i64 %{name}_slot\n"
        f"  %{name}_start = load ptr, ptr %{name}_cell\n"
        f"  %{name} = getelementptr i8, ptr %{name}_start, i64 %{name}_offset\n"
    )


CHILD = word("child_distance", 1) + (
    "  %child = getelementptr i8, ptr %node, i64 %child_distance\n"
)
"""``%child``: the record that word 1 leads to."""

CHILD_FUNCTION = CHILD + "  %function = load ptr, ptr %child\n"
"""``%child`` and its ``%function``."""

CANCEL = (
    f"  %cancel_at = getelementptr i8, ptr %frame, i64 {CANCEL_BYTES}\n"
    "  %cancel = load ptr, ptr %cancel_at\n"
)
"""``%cancel``: where the cancel flag of the run lies."""


BOUNDS = """  %begin = call i64 @teir_load_index(ptr %pos, i64 %pos_width)
  %end_at = getelementptr i8, ptr %pos, i64 %pos_width
  %end = call i64 @teir_load_index(ptr %end_at, i64 %pos_width)
"""
"""``%begin`` and ``%end`` of the segment whose bounds begin at ``%pos``."""


def leave_if_cancelled(exit_label: str, go_on: str) -> str:
    """Read the flag and leave, or go on."""
    return (
        "  %flag = load atomic i64, ptr %cancel monotonic, align 8\n"
        "  %stop = icmp ne i64 %flag, 0\n"
        f"  br i1 %stop, label %{exit_label}, label %{go_on}\n"
        f"{go_on}:\n"
    )


LOAD_INDEX_TEXT = """
define internal i64 @teir_load_index(ptr %at, i64 %width) alwaysinline nounwind {
entry:
  %is_short = icmp eq i64 %width, 4
  br i1 %is_short, label %short, label %long
short:
  %narrow = load i32, ptr %at, align 1
  %wide = sext i32 %narrow to i64
  ret i64 %wide
long:
  %whole = load i64, ptr %at, align 1
  ret i64 %whole
}
"""
"""The number at a place of an index array of 4-byte or 8-byte elements."""
