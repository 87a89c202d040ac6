"""What a process with the fake driver does; prints one JSON object. See ``test_fake_driver.py``."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

from backends.cuda.programs import contraction, permutation
from teir.backends.cuda import driver as cuda
from teir.backends.cuda.compiled import CompiledProgram, compile_program, run
from teir.backends.cuda.decision import Decision, with_decision
from teir.backends.cuda.device_arrays import _Device, _Tensor, _Type
from teir.backends.cuda.driver import allocate, find_driver
from teir.backends.cuda.kernel import Family, MapParameter
from teir.backends.cuda.tile_stores import Stores
from teir.cli.commands import app
from teir.dtypes import DataType
from teir.errors import TeirError
from teir.ir.load import loads, save

STREAM, PRODUCER = 0x5000, 0x6000


class Interface:
    """The CUDA array interface of CuPy."""

    def __init__(self, at: int, count: int, stream: int | None = None) -> None:
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "<f4",
            "data": (at, False),
            "version": 3,
            "stream": stream,
        }


class Packed:
    """A one-dimensional array of BF16 that speaks DLPack; ``streams`` are those it was told of."""

    def __init__(self, at: int, count: int) -> None:
        self.at, self.count = at, count
        self.streams: list[int | None] = []
        self.released = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.streams.append(stream)
        shape = (ctypes.c_int64 * 1)(self.count)
        tensor = _Tensor(
            data=self.at,
            device=_Device(type=2, number=0),
            rank=1,
            type=_Type(code=4, bits=16, lanes=1),
            shape=ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        )
        destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._release)
        self.held = (shape, tensor, destructor)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return make(ctypes.addressof(tensor), b"dltensor", destructor)

    def _release(self, _: int) -> None:
        self.released += 1


def parameters(compiled: CompiledProgram) -> None:
    """Tell the fake driver what the kernels' parameters are."""
    for kernel in compiled.planned.kernels:
        letters = "".join("m" if isinstance(p, MapParameter) else "p" for p in kernel.parameters)
        find_driver().library.fake_parameters(letters.encode())


def run_product() -> dict[str, Any]:
    """BF16 by DLPack, in a cluster, stored by tiles, on a stream."""
    program, _ = contraction("mk,nk->mn", {"m": 512, "n": 512, "k": 256}, DataType.BF16)
    stores = Stores.TILES
    asked = Decision(kernel=Family.WARPGROUP, tile=(128, 128), cluster=2, stores=stores)
    compiled = compile_program(with_decision(program, "gemm", asked))
    parameters(compiled)
    arrays = {
        "in0": Packed(0x100000, 512 * 256),
        "in1": Packed(0x200000, 512 * 256),
        "out": Packed(0x300000, 512 * 512),
    }
    run(compiled, arrays, STREAM)
    run(compiled, arrays, 0)
    return {
        "told": [array.streams for array in arrays.values()],
        "released": [array.released for array in arrays.values()],
        "shared_bytes": compiled.planned.kernels[0].shared_bytes,
    }


def run_copies() -> dict[str, Any]:
    """A permutation by the array interface, at an address that is a multiple of 4 only."""
    program, room = permutation((70, 96), (1, 0), DataType.FP32)
    compiled = compile_program(program)
    parameters(compiled)
    out = Interface(0x90000, 70 * 96)
    run(compiled, {"in0": Interface(0x80000, room, PRODUCER), "out": out}, STREAM)
    find_driver().library.fake_parameters(b"pp")
    run(compiled, {"in0": Interface(0x80004, room), "out": out}, STREAM)
    return {"families": [kernel.family.value for kernel in compiled.planned.kernels]}


TURN_BEHIND_AN_OFFSET = """teir 1 "turn"
tensor in0: FP32
tensor out: FP32
axis i = 72: in0 400 + 64, out 4
axis j = 100: in0 4, out 288
primitive turn = Copy (in0 -> out; M=[i], N=[j])
turn: turn
"""


def run_offset() -> dict[str, Any]:
    """A permutation whose input begins 64 bytes behind its address."""
    compiled = compile_program(loads(TURN_BEHIND_AN_OFFSET))
    parameters(compiled)
    arrays = {"in0": Interface(0x80000, 7216), "out": Interface(0x90000, 7200)}
    run(compiled, arrays, STREAM)
    return {}


def run_scratch() -> dict[str, Any]:
    """TF32 whose right input is turned into scratch: two kernels and an arena."""
    program, counts = contraction("mk,kn->mn", {"m": 128, "n": 128, "k": 64}, DataType.TF32)
    compiled = compile_program(program)
    find_driver().library.fake_parameters(b"m")
    arrays = {
        name: Interface(0x100000 * (at + 1), n) for at, (name, n) in enumerate(counts.items())
    }
    run(compiled, arrays, STREAM)
    return {"arena_bytes": compiled.planned.run_arena_bytes}


def refusals() -> dict[str, str]:
    """What is said of devices that differ, and of a call that fails."""
    program, room = permutation((70, 96), (1, 0), DataType.FP32)
    compiled = compile_program(program)
    arrays = {"in0": Interface(0x80000, room), "out": Interface(1 << 46, 70 * 96)}
    said = {}
    for name, call in (
        ("devices", lambda: run(compiled, arrays, STREAM)),
        ("no context", lambda: allocate(find_driver(), 64, 0)),
    ):
        try:
            call()
        except TeirError as error:
            said[name] = f"{error.findings[0].code} {error.findings[0].found}"
    return said


def tune() -> dict[str, Any]:
    """``teir cuda tune`` from file to folder."""
    folder = Path(sys.argv[2])
    program, _ = contraction("mk,kn->mn", {"m": 256, "n": 192, "k": 64}, DataType.FP32)
    save(program, folder / "program.teir")
    find_driver().library.fake_parameters(b"ppp")
    app(
        ["cuda", "tune", str(folder / "program.teir"), "--out", str(folder / "out"), "--json"],
        standalone_mode=False,
    )
    return {"files": sorted(path.name for path in (folder / "out").iterdir())}


def none() -> dict[str, str]:
    """A device of another generation."""
    try:
        find_driver()
    except TeirError as error:
        return {"said": f"{error.findings[0].code} {error.findings[0].found}"}
    return {}


ALL = (run_product, run_copies, run_offset, run_scratch, refusals, tune, none)
RUNS = {one.__name__: one for one in ALL}

if __name__ == "__main__":
    # Not by LD_LIBRARY_PATH: NVRTC would find it too, and ask for what it does not have.
    cuda._SONAMES = (sys.argv[3],)  # type: ignore[attr-defined]
    print(json.dumps(RUNS[sys.argv[1]]()))
