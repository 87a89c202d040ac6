"""Objects put into memory by our own loader: what LLVM links, and nothing half right."""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Callable

import pytest

from teir.backends.llvm.compile_ir import (
    compile_object,
    host_isa,
    link_object,
    load_images,
    load_object,
    module_text,
)
from teir.backends.llvm.control import CONTROL_SYMBOLS, emit_control
from teir.backends.llvm.object_loader import image_of, mapped, maps_images
from teir.backends.llvm.stored_objects import StoredObject

pytestmark = pytest.mark.skipif(not maps_images(), reason="images are mapped on Linux on AMD64")

SYMBOLS = ("third", "first", "second")
TEXT = (
    "define double @first(double %x) nounwind {\n  %y = fmul double %x, 2.5\n  ret double %y\n}\n",
    "define double @second(double %x) nounwind {\n"
    "  %y = fadd double %x, 0.375\n  ret double %y\n}\n",
    "define double @third(double %x) nounwind {\n"
    "  %y = call double @second(double %x)\n  %z = fsub double %y, 7.125\n  ret double %z\n}\n",
)
OUTSIDE = "declare double @cos(double)\n"
CALLS = """define double @first(double %x) nounwind {
  %y = call double @cos(double %x)
  ret double %y
}
"""
KEEPS = """@kept = internal global i64 0
define i64 @first() nounwind {
  store volatile i64 1, ptr @kept
  %y = load volatile i64, ptr @kept
  ret i64 %y
}
"""


def object_of(*functions: str, symbols: tuple[str, ...] = SYMBOLS) -> bytes:
    return compile_object(module_text(functions, host_isa()), host_isa(), symbols)


def function(address: int) -> Callable[[float], float]:
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)


def test_objects_loaded_together_are_as_those_loaded_alone() -> None:
    doubled = TEXT[0].replace("@first", "@doubled").replace("2.5", "5.0")
    several = [
        StoredObject(SYMBOLS, object_of(*TEXT)),
        StoredObject(("first",), object_of(KEEPS, symbols=("first",))),
        StoredObject(("doubled",), object_of(doubled, symbols=("doubled",))),
    ]
    code = load_images(several)
    assert code is not None
    assert code.addresses.keys() == {*SYMBOLS, "doubled"}
    alone = load_object(*several[0][::-1])
    for symbol in SYMBOLS:
        one, other = function(code.addresses[symbol]), function(alone.addresses[symbol])
        assert one(3.25) == other(3.25)
    assert function(code.addresses["doubled"])(3.0) == 15.0
    assert load_images(several[1:2]) is None
    assert load_images(()) is None


def test_constants_and_calls_are_found_where_the_linker_puts_them() -> None:
    data = object_of(*TEXT)
    assert image_of(data, 3) is not None
    ours, linked = load_object(data, SYMBOLS), link_object(data, SYMBOLS)
    for symbol in SYMBOLS:
        one, other = function(ours.addresses[symbol]), function(linked.addresses[symbol])
        assert [one(x) for x in (0.0, 1.5, -3.0)] == [other(x) for x in (0.0, 1.5, -3.0)]
    assert function(ours.addresses["third"])(1.0) == -5.75


def test_pages_of_code_are_not_writable() -> None:
    image = image_of(object_of(*TEXT), 3)
    assert image is not None
    ((address, *_),), _kept = mapped((image,))
    with open("/proc/self/maps", encoding="ascii") as lines:
        ranges = [line.split()[:2] for line in lines]
    found = [
        mode
        for place, mode in ranges
        if int(place.split("-")[0], 16) <= address < int(place.split("-")[1], 16)
    ]
    assert found == ["r-xp"]


def test_objects_that_name_what_lies_elsewhere_are_left_to_the_linker() -> None:
    data = object_of(OUTSIDE, CALLS, symbols=("first",))
    assert image_of(data, 1) is None
    code = load_object(data, ("first",))
    assert function(code.addresses["first"])(0.0) == 1.0
    assert image_of(object_of(KEEPS, symbols=("first",)), 1) is None
    control = compile_object(
        module_text([emit_control(host_isa())], host_isa()), host_isa(), CONTROL_SYMBOLS
    )
    assert image_of(control, len(CONTROL_SYMBOLS)) is None


def test_another_number_of_functions_is_no_image() -> None:
    data = object_of(*TEXT)
    assert all(image_of(data, count) is None for count in (0, 1, 2, 4))


def test_other_machines_and_torn_objects_are_no_images() -> None:
    data = object_of(*TEXT)
    arm = bytearray(data)
    struct.pack_into("<H", arm, 18, 183)
    assert image_of(bytes(arm), 3) is None
    assert all(image_of(data[:length], 3) is None for length in range(0, len(data), 7))


def test_spoilt_objects_raise_nothing() -> None:
    """The cache compares digests; here nothing but an exception would be wrong."""
    data, draw = object_of(*TEXT), random.Random(0)
    for _ in range(2_000):
        spoilt = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            spoilt[draw.randrange(len(spoilt))] = draw.randrange(256)
        image = image_of(bytes(spoilt), 3)
        assert image is None or all(0 <= start < len(image.content) for start in image.functions)
