"""The CUDA driver through ctypes: the few entry points a launch needs.

The library is looked for first and refused at once where it is missing, for some packages hang
without it. Calls are made in the context that is current on this thread, or in the primary context
of the operand's device.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from teir.backends.cuda.rules import DRIVER, DRIVER_CALL
from teir.errors import refuse
from teir.tma.element_types import ElementType
from teir.tma.tensor_map import TensorMap

_SONAMES = ("libcuda.so.1", "libcuda.so")
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
_DYNAMIC_SHARED_SIZE = 8
_DEVICE_ORDINAL = 9
_CLUSTER_DIMENSION = 4
_NO_TIMING = 2
_MAP_BYTES = 128
_TYPES = {
    ElementType.U8: 0,
    ElementType.U16: 1,
    ElementType.U32: 2,
    ElementType.I32: 3,
    ElementType.U64: 4,
    ElementType.I64: 5,
    ElementType.F16: 6,
    ElementType.F32: 7,
    ElementType.F64: 8,
    ElementType.BF16: 9,
    ElementType.F32_FTZ: 10,
    ElementType.TF32: 11,
    ElementType.TF32_FTZ: 12,
}
"""CUtensorMapDataType."""
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_L2_PROMOTION_256 = 3


@dataclass(frozen=True, slots=True, eq=False)
class Driver:
    """The loaded library."""

    library: ctypes.CDLL

    def call(self, name: str, *arguments: object) -> None:
        """Call an entry point. Raises TeirError (TEIR727) with the driver's own words."""
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(code, ctypes.byref(text))
            said = (text.value or b"unknown error").decode(errors="replace")
            refuse(DRIVER_CALL, name, "success", f"error {code}: {said}")


@cache
def find_driver() -> Driver:
    """The driver, with a GPU that runs our kernels. Raises TeirError (TEIR721) at once if none."""
    library = _library()
    if library is None:
        return refuse(DRIVER, "libcuda", "the NVIDIA driver", f"no {_SONAMES[0]}")
    driver = Driver(library)
    code = library.cuInit(0)
    if code:
        return refuse(DRIVER, "libcuda", "a driver that starts", f"cuInit returned {code}")
    count = ctypes.c_int()
    driver.call("cuDeviceGetCount", ctypes.byref(count))
    found = [capability(driver, device) for device in range(count.value)]
    if (9, 0) not in found:
        listed = ", ".join(f"{major}.{minor}" for major, minor in found) or "no GPU"
        return refuse(DRIVER, "libcuda", "a GPU of compute capability 9.0", listed)
    return driver


def _library() -> ctypes.CDLL | None:
    for soname in _SONAMES:
        try:
            return ctypes.CDLL(soname)
        except OSError:
            continue
    return None


def capability(driver: Driver, device: int) -> tuple[int, int]:
    """The compute capability of a device."""
    value = ctypes.c_int()
    numbers = []
    for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR):
        driver.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        numbers.append(value.value)
    return numbers[0], numbers[1]


def device_of(driver: Driver, address: int) -> int:
    """The device whose memory ``address`` is."""
    ordinal = ctypes.c_int()
    pointer = ctypes.c_uint64(address)
    driver.call("cuPointerGetAttribute", ctypes.byref(ordinal), _DEVICE_ORDINAL, pointer)
    return ordinal.value


@contextmanager
def on_device(driver: Driver, device: int) -> Iterator[None]:
    """With the primary context of ``device`` current on this thread."""
    context = ctypes.c_void_p(_primary_context(driver, device))
    driver.call("cuCtxPushCurrent_v2", context)
    try:
        yield
    finally:
        driver.call("cuCtxPopCurrent_v2", ctypes.byref(context))


@cache
def _primary_context(driver: Driver, device: int) -> int:
    """Kept for the life of the process, as the kernels loaded in it are."""
    context = ctypes.c_void_p()
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    assert context.value is not None
    return context.value


def load_function(driver: Driver, cubin: bytes, name: str, shared_bytes: int) -> int:
    """A kernel of a cubin in the current context, allowed its shared memory."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuModuleLoadData", ctypes.byref(module), cubin)
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
    if shared_bytes:
        driver.call("cuFuncSetAttribute", function, _DYNAMIC_SHARED_SIZE, shared_bytes)
    assert function.value is not None
    return function.value


def allocate(driver: Driver, size_bytes: int, stream: int) -> int:
    """Device memory, in the order of ``stream``."""
    address = ctypes.c_uint64()
    size = ctypes.c_size_t(size_bytes)
    driver.call("cuMemAllocAsync", ctypes.byref(address), size, ctypes.c_void_p(stream))
    return address.value


def free(driver: Driver, address: int, stream: int) -> None:
    """Give memory back, in the order of ``stream``."""
    driver.call("cuMemFreeAsync", ctypes.c_uint64(address), ctypes.c_void_p(stream))


def encode_map(driver: Driver, described: TensorMap, address: int) -> bytes:
    """The 128 bytes of a tensor map at a device address (cuTensorMapEncodeTiled)."""
    rank = described.rank
    room = ctypes.create_string_buffer(_MAP_BYTES + 64)
    start = -ctypes.addressof(room) % 64
    strides = described.strides_bytes or (16,)
    driver.call(
        "cuTensorMapEncodeTiled",
        ctypes.c_void_p(ctypes.addressof(room) + start),
        _TYPES[described.element_type],
        rank,
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*described.sizes),
        (ctypes.c_uint64 * len(strides))(*strides),
        (ctypes.c_uint32 * rank)(*described.box),
        (ctypes.c_uint32 * rank)(*described.element_strides),
        0,
        _SWIZZLES[described.swizzle_bytes],
        _L2_PROMOTION_256,
        0,
    )
    return room.raw[start : start + _MAP_BYTES]


class _Dimension(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class _Value(ctypes.Union):
    _fields_ = (("room", ctypes.c_char * 64), ("cluster", _Dimension))


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", _Value))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", _Dimension),
        ("block", _Dimension),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def launch(
    driver: Driver,
    function: int,
    blocks: int,
    threads: int,
    cluster: int,
    shared_bytes: int,
    stream: int,
    values: Sequence[bytes],
) -> None:
    """Launch a kernel; ``values`` are the bytes of its parameters."""
    attribute = _Attribute(id=_CLUSTER_DIMENSION)
    attribute.value.cluster = _Dimension(cluster, 1, 1)
    config = _Config(
        grid=_Dimension(blocks, 1, 1),
        block=_Dimension(threads, 1, 1),
        shared=shared_bytes,
        stream=stream,
        attributes=ctypes.pointer(attribute),
        count=int(cluster > 1),
    )
    rooms = [_aligned_copy(value) for value in values]
    places = (ctypes.c_void_p * len(rooms))(*(address for _, address in rooms))
    driver.call("cuLaunchKernelEx", ctypes.byref(config), ctypes.c_void_p(function), places, None)


def _aligned_copy(value: bytes) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """The bytes at an address that is a multiple of 64, as tensor maps want it."""
    room = ctypes.create_string_buffer(len(value) + 64)
    start = ctypes.addressof(room) + -ctypes.addressof(room) % 64
    ctypes.memmove(start, value, len(value))
    return room, start


def copy_in(driver: Driver, address: int, content: bytes, stream: int) -> None:
    """Copy bytes of this process to device memory; returns when they are there."""
    size = ctypes.c_size_t(len(content))
    arguments = (ctypes.c_uint64(address), content, size, ctypes.c_void_p(stream))
    driver.call("cuMemcpyHtoDAsync_v2", *arguments)
    synchronise(driver, stream)


def device_milliseconds(
    driver: Driver, stream: int, ahead: Callable[[], object], work: Callable[[], object]
) -> float:
    """How long the device takes for what ``work`` puts on ``stream``, by events.

    ``ahead`` keeps the device busy until all of that is on the stream: else the time of this
    process between the launches would be counted too.
    """
    begin, end = ctypes.c_void_p(), ctypes.c_void_p()
    for event in (begin, end):
        driver.call("cuEventCreate", ctypes.byref(event), 0)
    try:
        ahead()
        driver.call("cuEventRecord", begin, ctypes.c_void_p(stream))
        work()
        driver.call("cuEventRecord", end, ctypes.c_void_p(stream))
        driver.call("cuEventSynchronize", end)
        taken = ctypes.c_float()
        driver.call("cuEventElapsedTime", ctypes.byref(taken), begin, end)
        return taken.value
    finally:
        for event in (begin, end):
            driver.call("cuEventDestroy_v2", event)


def wait_for_stream(driver: Driver, stream: int, other: int) -> None:
    """What comes on ``stream`` from now on waits for what is on ``other``."""
    event = ctypes.c_void_p()
    driver.call("cuEventCreate", ctypes.byref(event), _NO_TIMING)
    try:
        driver.call("cuEventRecord", event, ctypes.c_void_p(other))
        driver.call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
    finally:
        driver.call("cuEventDestroy_v2", event)


def synchronise(driver: Driver, stream: int) -> None:
    """Wait until everything on ``stream`` is done."""
    driver.call("cuStreamSynchronize", ctypes.c_void_p(stream))
