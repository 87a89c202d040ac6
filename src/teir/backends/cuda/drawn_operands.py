"""Operands of standard normal numbers in GPU memory, for measuring a program without its data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.backends.cuda import driver as cuda
from teir.dtypes import DataType
from teir.ir.check import prove
from teir.ir.nodes import Program

_DEVICE = 0


@dataclass(frozen=True, slots=True)
class DeviceNumbers:
    """Memory of a GPU that speaks the CUDA array interface."""

    address: int
    count: int
    data_type: DataType

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.count,),
            "typestr": self.data_type.numpy_dtype().str,
            "data": (self.address, False),
            "version": 3,
        }


@contextmanager
def drawn_operands(program: Program, seed: int) -> Iterator[Mapping[str, DeviceNumbers]]:
    """As many numbers as the proof says that every tensor needs; given back at the end.

    Raises TeirError (TEIR721) where there is no GPU, and with the findings of the check.
    """
    driver = cuda.find_driver()
    report = prove(program).report
    report.raise_if_wrong()
    numbers = np.random.default_rng(seed)
    held: dict[str, DeviceNumbers] = {}
    with cuda.on_device(driver, _DEVICE):
        try:
            for tensor in program.tensors:
                if tensor.name not in report.needs:
                    continue
                count = -(-report.needs[tensor.name].high // tensor.data_type.width)
                content = numbers.standard_normal(count).astype(tensor.data_type.numpy_dtype())
                address = cuda.allocate(driver, max(1, content.nbytes), 0)
                held[tensor.name] = DeviceNumbers(address, count, tensor.data_type)
                cuda.copy_in(driver, address, content.tobytes(), 0)
            yield held
        finally:
            for one in held.values():
                cuda.free(driver, one.address, 0)
