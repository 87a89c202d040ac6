"""Machine code as text, by nvdisasm from a wheel or the toolkit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from teir.backends.cuda.compiler import nvrtc_path


def need_compiler() -> None:
    if nvrtc_path() is None and shutil.which("nvcc") is None:
        pytest.skip("neither NVRTC (teir[cuda]) nor nvcc")


def need_disassembler() -> str:
    for folder in sys.path:
        path = Path(folder) / "nvidia" / "cu13" / "bin" / "nvdisasm"
        if path.exists():
            return str(path)
    found = shutil.which("nvdisasm")
    if found is None:
        pytest.skip("no nvdisasm (pip install nvidia-cuda-nvdisasm)")
    return found


def disassemble(cubin: bytes, folder: Path) -> str:
    path = folder / "kernel.cubin"
    path.write_bytes(cubin)
    command = (need_disassembler(), "-c", str(path))
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
