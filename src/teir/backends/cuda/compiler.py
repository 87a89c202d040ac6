"""Source to cubin without a GPU: NVRTC through ctypes, nvcc as the second way.

The library is looked for where the wheel nvidia-cuda-nvrtc puts it, then where the system loader
looks. Compiled code is for sm_90a, and the PTX is kept with it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from teir.backends.cuda.rules import COMPILED, COMPILER
from teir.errors import refuse

ARCHITECTURE = "sm_90a"
_SONAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
_LONGEST_COMPILE_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A kernel's machine code, its PTX where the compiler gave it, and what the compiler said."""

    cubin: bytes
    ptx: bytes
    log: str

    @property
    def spilled_bytes(self) -> int:
        """Bytes of registers stored to local memory."""
        found = re.findall(r"(\d+) bytes spill stores", self.log)
        return max(map(int, found), default=0)

    @property
    def registers(self) -> int:
        """Registers per thread; 0 where the compiler does not say."""
        found = re.findall(r"Used (\d+) registers", self.log)
        return max(map(int, found), default=0)


def compile_source(source: str, name: str, options: tuple[str, ...] = ()) -> Compiled:
    """Compile with NVRTC, or with nvcc where NVRTC is not found.

    Raises TeirError (TEIR722 without a compiler, TEIR724 with the compiler's own words).
    """
    library = nvrtc_path()
    if library is not None:
        return compile_with_nvrtc(library, source, name, options)
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        return compile_with_nvcc(nvcc, source, name, options)
    return refuse(COMPILER, "compiler", "NVRTC or nvcc", "neither")


@cache
def nvrtc_path() -> str | None:
    """The NVRTC library that loads, or None."""
    for candidate in _candidates():
        try:
            # NVRTC asks the loader for its built-ins by name; once loaded, they are found.
            for part in sorted(Path(candidate).parent.glob("libnvrtc-builtins.so*")):
                ctypes.CDLL(str(part))
            ctypes.CDLL(candidate)
        except OSError:
            continue
        return candidate
    return None


def _candidates() -> Iterator[str]:
    for folder in sys.path:
        root = Path(folder) / "nvidia"
        for part in ("cu13", "cuda_nvrtc"):
            for soname in _SONAMES:
                path = root / part / "lib" / soname
                if path.exists():
                    yield str(path)
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        for soname in _SONAMES:
            if home and (Path(home) / "lib64" / soname).exists():
                yield str(Path(home) / "lib64" / soname)
    yield from _SONAMES


def compile_with_nvrtc(
    library: str, source: str, name: str, options: tuple[str, ...] = ()
) -> Compiled:
    """Compile with the NVRTC at ``library``. Raises TeirError (TEIR724)."""
    nvrtc = ctypes.CDLL(library)
    handle = ctypes.c_void_p()
    code = nvrtc.nvrtcCreateProgram(
        ctypes.byref(handle), source.encode(), f"{name}.cu".encode(), 0, None, None
    )
    if code:
        refuse(COMPILED, name, "a program NVRTC takes", f"error {code}")
    try:
        flags = (
            f"--gpu-architecture={ARCHITECTURE}",
            "--std=c++17",
            "--ptxas-options=-v",
            "--diag-suppress=177",
            *options,
        )
        encoded = [flag.encode() for flag in flags]
        code = nvrtc.nvrtcCompileProgram(
            handle, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded)
        )
        log = _fetch(nvrtc, handle, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if code:
            refuse(COMPILED, name, "source the compiler accepts", log or f"error {code}")
        cubin = _fetch(nvrtc, handle, "CUBIN")
        return Compiled(cubin=cubin, ptx=_fetch(nvrtc, handle, "PTX"), log=log)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(handle))


def _fetch(nvrtc: ctypes.CDLL, handle: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    if getattr(nvrtc, f"nvrtcGet{what}Size")(handle, ctypes.byref(size)) or not size.value:
        return b""
    room = ctypes.create_string_buffer(size.value)
    if getattr(nvrtc, f"nvrtcGet{what}")(handle, room):
        return b""
    return room.raw


def compile_with_nvcc(nvcc: str, source: str, name: str, options: tuple[str, ...] = ()) -> Compiled:
    """Compile with the nvcc at path ``nvcc``. Raises TeirError (TEIR724)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.cu"
        path.write_text(source, encoding="utf-8")
        ptx, cubin = path.with_suffix(".ptx"), path.with_suffix(".cubin")
        virtual = ARCHITECTURE.replace("sm_", "compute_")
        shared = (nvcc, "-std=c++17", "-diag-suppress=177", *options)
        said = _run((*shared, f"-arch={virtual}", "-ptx", str(path), "-o", str(ptx)), name)
        real = f"-gencode=arch={virtual},code={ARCHITECTURE}"
        said += _run((*shared, real, "-Xptxas=-v", "-cubin", str(path), "-o", str(cubin)), name)
        return Compiled(cubin=cubin.read_bytes(), ptx=ptx.read_bytes(), log=said)


def _run(command: tuple[str, ...], name: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_LONGEST_COMPILE_S, check=False
    )
    if done.returncode:
        refuse(COMPILED, name, "source the compiler accepts", done.stderr)
    return done.stdout + done.stderr
