"""What the documentation of the GPU does not say: tensor maps, out of bounds, TF32 rounding."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from hopper_programs import product_program

from teir.backends.cuda.compiled import compile_program, run
from teir.backends.cuda.compiler import compile_source
from teir.backends.cuda.driver import (
    allocate,
    encode_map,
    find_driver,
    free,
    launch,
    load_function,
    on_device,
    synchronise,
)
from teir.backends.cuda.text import whole_source
from teir.errors import TeirError
from teir.ir.nodes import Program
from teir.tma.element_types import ElementType
from teir.tma.tensor_map import Fill, TensorMap

Facts = dict[str, Any]


def tensor_map(
    sizes: Sequence[int], strides: Sequence[int], box: Sequence[int], swizzle: int = 0
) -> TensorMap:
    return TensorMap(
        element_type=ElementType.F32,
        address=0,
        sizes=tuple(sizes),
        strides_bytes=tuple(strides),
        box=tuple(box),
        element_strides=(1,) * len(sizes),
        swizzle_bytes=swizzle,
        interleave_bytes=0,
        fill=Fill.ZERO,
    )


BEYOND = "a box beyond its dimension"
MAPS = {
    "ascending strides": tensor_map((32, 8, 4), (128, 1024), (32, 8, 4)),
    "descending strides": tensor_map((32, 8, 4), (1024, 128), (32, 4, 4)),
    "equal strides": tensor_map((32, 8, 4), (128, 128), (32, 8, 4)),
    "a stride of zero": tensor_map((32, 8), (0,), (32, 8)),
    BEYOND: tensor_map((20, 3), (80,), (32, 8)),
    "a box narrower than its swizzle": tensor_map((32, 8), (128,), (16, 8), 128),
}


def facts() -> Facts:
    """The device, and which tensor maps the driver encodes."""
    import torch

    driver = find_driver()
    properties = torch.cuda.get_device_properties(0)
    room = torch.zeros(1 << 16, dtype=torch.float32, device="cuda")
    accepted = {}
    for name, described in MAPS.items():
        try:
            encode_map(driver, described, room.data_ptr())
            accepted[name] = True
        except TeirError as error:
            accepted[name] = error.findings[0].found
    return {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "torch": torch.__version__,
        "maps": accepted,
    }


PROBE = """
KERNEL(32) probe(MAP map, u8* out, u32 expected) {
  SHARED(shared);
  const u32 first = shared_address(shared), barrier = first + 32768;
  for (u32 at = threadIdx.x; at < 8192; at += 32) ((u32*)shared)[at] = 0xABABABABu;
  if (threadIdx.x == 0) { barrier_init(barrier, 1); barriers_ready(); }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier_expect(barrier, expected);
    tile_load(first, &map, barrier, COORDINATES);
  }
  const u64 begin = nanoseconds();
  u32 passed = 0;
  while (!passed && nanoseconds() - begin < 100000000ull) passed = barrier_passed(barrier, 0);
  __syncthreads();
  for (u32 at = threadIdx.x; at < 8192; at += 32) ((u32*)out)[at] = ((u32*)shared)[at];
  if (threadIdx.x == 0) ((u32*)out)[8192] = passed;
}
"""


def probe_source(coordinates: Sequence[int]) -> str:
    """The kernel that loads one tile and copies shared memory out."""
    body = PROBE.replace("COORDINATES", ", ".join(map(str, coordinates)))
    return whole_source(body, tiles=True)


def probe_sources(name: str) -> Sequence[str]:
    """What is compiled to load by the map ``name``."""
    return (probe_source((0,) * MAPS[name].rank),)


def load_once(described: TensorMap, coordinates: Sequence[int], expected: int) -> Any:
    """Shared memory after one tile load of 0, 1, 2, ...; the last word: did the barrier pass?"""
    import torch

    driver = find_driver()
    source = torch.arange(1 << 16, dtype=torch.float32, device="cuda")
    torch.cuda.synchronize()
    compiled = compile_source(probe_source(coordinates), "probe")
    with on_device(driver, 0):
        function = load_function(driver, compiled.cubin, "probe", 33 * 1024)
        out = allocate(driver, 8193 * 4, 0)
        values = (
            encode_map(driver, described, source.data_ptr()),
            out.to_bytes(8, "little"),
            expected.to_bytes(4, "little"),
        )
        launch(driver, function, 1, 32, 1, 33 * 1024, 0, values)
        synchronise(driver, 0)
        words = np.empty(8193, np.uint32)
        host, size = ctypes.c_void_p(words.ctypes.data), ctypes.c_size_t(words.nbytes)
        driver.call("cuMemcpyDtoH_v2", host, ctypes.c_uint64(out), size)
        free(driver, out, 0)
    return words


def bytes_counted(expected: str) -> Facts:
    """Does a barrier pass when it expects whole tiles, or only the elements in bounds?"""
    beyond = MAPS[BEYOND]
    size = {"whole tiles": beyond.tile_bytes, "elements in bounds": 20 * 3 * 4}[expected]
    return {"passes": bool(load_once(beyond, (0, 0), size)[-1])}


def strides_followed(name: str) -> Facts:
    """Does a load follow the strides of the map ``name``?"""
    described = MAPS[name]
    words = load_once(described, (0,) * described.rank, described.tile_bytes)
    return {"right": agrees(words, described)}


def agrees(words: Any, described: TensorMap) -> bool:
    """Does shared memory hold what a tile of 0, 1, 2, ... is by the map's own strides?"""
    index = np.zeros((1,) * described.rank, np.int64)
    strides = (4, *described.strides_bytes)
    for at, (box, stride) in enumerate(zip(described.box, strides, strict=True)):
        shape = [1] * described.rank
        shape[described.rank - 1 - at] = box
        index = index + (np.arange(box) * (stride // 4)).reshape(shape)
    wanted = index.reshape(-1).astype(np.float32)
    return bool(words[-1]) and np.array_equal(words[: wanted.size].view(np.float32), wanted)


def tf32_program() -> Program:
    return product_program("mk,nk->mn", {"m": 64, "n": 64, "k": 32}, "TF32")


def tf32_rounding() -> Facts:
    """Products of 1 + 3 * 2^-12, which truncation makes 1 and rounding 1 + 2^-10."""
    import torch

    left = torch.zeros(64, 32, device="cuda")
    left[:, 0] = 1 + 3 * 2.0**-12
    right = torch.ones(64, 32, device="cuda")
    out = torch.zeros(64, 64, device="cuda")
    run(compile_program(tf32_program()), {"in0": left, "in1": right, "out": out})
    torch.cuda.synchronize()
    value = float(out[0, 0])
    return {"tf32": {1.0: "truncated", 1 + 2.0**-10: "rounded"}.get(value, repr(value))}
