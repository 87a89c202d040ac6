"""The element types a tensor map knows, and which of them carries a data type of the IR."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from teir.dtypes import DataType

if TYPE_CHECKING:
    import numpy as np

_WIDTHS_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


class ElementType(Enum):
    """Type of one element of a tensor map (CUDA driver API, CUtensorMapDataType).

    ``F32_FTZ`` and ``TF32_FTZ`` flush subnormal numbers to zero on the way.
    """

    width: int
    """Bytes of one element."""

    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    I32 = "i32"
    U64 = "u64"
    I64 = "i64"
    F16 = "f16"
    F32 = "f32"
    F64 = "f64"
    BF16 = "bf16"
    F32_FTZ = "f32_ftz"
    TF32 = "tf32"
    TF32_FTZ = "tf32_ftz"

    def __init__(self, spelling: str) -> None:
        bits = spelling.removesuffix("_ftz").lstrip("abcdefghijklmnopqrstuvwxyz")
        self.width = _WIDTHS_BYTES[bits]

    @property
    def is_float(self) -> bool:
        spelling: str = self.value
        return spelling.startswith(("f", "bf", "tf"))

    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the storage."""
        import numpy as np

        if self is ElementType.BF16:
            return DataType.BF16.numpy_dtype()
        kind = "f" if self.is_float else self.value[0]
        return np.dtype(f"{kind}{self.width}")
