"""A command line run in this process, and a small program to give it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PRODUCT = """teir 1 "product"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis m = 5: in0 4, out 4
axis n = 3: in1 28, out 20
axis k = 7: in0 20, in1 4
primitive zero = Zero(out; M=[m], N=[n])
primitive gemm = Contraction FP32 (in0, in1 -> out; M=[m], N=[n], K=[k])
z: zero
g: gemm
"""


@dataclass(frozen=True, slots=True)
class Done:
    """What a command line did."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Teir = Callable[..., Done]
