"""Code for every instruction set; executable pages nobody can write."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from teir.backends.llvm.compile_ir import (
    assembly,
    compile_object,
    compiler_version,
    host_isa,
    inlined_text,
    load_object,
    machine_for,
    module_text,
    runs_here,
)
from teir.target import Isa

BODY = """define void @body(ptr %to, i64 %value) alwaysinline nounwind {
  store i64 %value, ptr %to
  ret void
}
"""
CALLER = """define void @write7(ptr %to) nounwind {
  call void @body(ptr %to, i64 7)
  ret void
}
"""
CONSTANTS = """define double @constant(i64 %at) nounwind {
  %slot = getelementptr [4 x double], ptr @table, i64 0, i64 %at
  %value = load double, ptr %slot
  %sum = fadd double %value, 0x3FF123456789ABCD
  ret double %sum
}
@table = internal constant [4 x double] [double 1.0, double 2.0, double 3.0, double 4.0]
"""


def pages(address: int) -> str:
    """The permissions of the page that holds ``address``."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, permissions, *_ = line.split()
            low, high = (int(word, 16) for word in span.split("-"))
            if low <= address < high:
                return permissions
    raise AssertionError


@pytest.mark.parametrize("isa", Isa)
def test_every_instruction_set_compiles(isa: Isa) -> None:
    text = module_text([BODY, CALLER], isa)
    assert compile_object(text, isa, ("write7",))[:4] == b"\x7fELF"
    assert "write7:" in assembly(text, isa, ("write7",))
    assert machine_for(isa).triple.startswith("aarch64" if isa is Isa.NEON else "x86_64")


def test_bodies_marked_for_it_are_inlined() -> None:
    text = inlined_text(module_text([BODY, CALLER], host_isa()), host_isa(), ("write7",))
    assert "@body" not in text
    assert "store i64 7" in text


def test_functions_may_use_whole_vectors() -> None:
    text = module_text([BODY, CALLER], Isa.AVX512)
    assert text.count('"prefer-vector-width"="512"') == 2


@pytest.mark.parametrize("isa", [isa for isa in Isa if runs_here(isa)])
def test_loaded_code_runs_and_is_not_writable(isa: Isa) -> None:
    text = module_text([BODY, CALLER, CONSTANTS], isa)
    symbols = ("constant", "write7")
    code = load_object(compile_object(text, isa, symbols), symbols)
    cell = ctypes.c_int64(0)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses["write7"])(ctypes.addressof(cell))
    assert cell.value == 7
    constant = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(code.addresses["constant"])
    assert constant(2) == 3.0 + float.fromhex("0x1.123456789abcdp0")
    assert pages(code.addresses["write7"])[:3] == "r-x"


def test_no_page_becomes_writable_and_executable() -> None:
    """llvmlite itself makes one such page for its callbacks when it is imported."""
    code = (
        "import llvmlite.binding\n"
        "def both(): return sum('rwx' in line for line in open('/proc/self/maps'))\n"
        "before = both()\n"
        "from backends.llvm.small_programs import SHARED\n"
        "from teir.backends.llvm.compile_ir import host_isa\n"
        "from teir.backends.llvm.native import bind_native\n"
        "from teir.backends.llvm.specialise import bind_specialised\n"
        "import numpy as np\n"
        "for bind in (bind_native, bind_specialised):\n"
        "    memory = np.ones((3, 64), np.float32)\n"
        "    bind(SHARED, host_isa(), 2).run(tuple(row.ctypes.data for row in memory))\n"
        "    assert memory[2, 0] == 2\n"
        "assert both() == before\n"
    )
    search = ":".join(path for path in sys.path if path)
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": search})


def test_refused_text_is_an_error() -> None:
    with pytest.raises(RuntimeError):
        compile_object(module_text(["define void @f() { nonsense }"], host_isa()), host_isa(), ())


def test_llvm_is_not_imported_before_it_is_used() -> None:
    code = (
        "import sys, teir, teir.backends.llvm.native, teir.backends.llvm.entry\n"
        "assert not any(name.startswith('llvmlite') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_compilers_version_names_both_parts() -> None:
    assert "llvmlite" in compiler_version()
    assert "LLVM" in compiler_version()
