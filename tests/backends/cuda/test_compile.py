"""Every kernel family over 50 shapes, compiled without a GPU: no spills, the instructions meant."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.cuda.disassembly import disassemble, need_compiler
from backends.cuda.emulation import body_of
from backends.cuda.programs import contraction, permutation, sum_by_tiles
from teir.backends.cuda.budget import check_budget, check_launch
from teir.backends.cuda.compiler import compile_source, compile_with_nvcc
from teir.backends.cuda.decision import Decision, with_decision
from teir.backends.cuda.kernel import CudaKernel, Family
from teir.backends.cuda.plan import plan
from teir.backends.cuda.text import whole_source
from teir.backends.cuda.tile_stores import Stores
from teir.dtypes import DataType
from teir.ir.nodes import Program

SHAPES, TOGETHER = 50, 25
SERIALISED = "Potential Performance Loss"
"""What the assembler says where products wait for each other (C7510 to C7514)."""
FP32, FP64, BF16, FP16, TF32 = (DataType(name) for name in ["FP32", "FP64", "BF16", "FP16", "TF32"])


def turned(random_: random.Random, step: int) -> Program:
    data_type = random_.choice((FP32, FP64, BF16, FP16))
    rank = random_.choice((2, 3, 4))
    shape = [random_.randint(1, 12) * step + (step == 1) for _ in range(rank)]
    shape[-1] = max(shape[-1], 32 // data_type.width)
    order = list(range(rank))
    while order[-1] == rank - 1:
        random_.shuffle(order)
    return permutation(shape, order, data_type)[0]


def copied(random_: random.Random) -> Program:
    rank = random_.choice((2, 3, 4))
    shape = [random_.randint(2, 40) for _ in range(rank)]
    order = [*random_.sample(range(rank - 1), rank - 1), rank - 1]
    return permutation(shape, order, random_.choice((FP32, BF16, DataType.C64)))[0]


def product(random_: random.Random, types: tuple[DataType, ...], step: int) -> Program:
    expression = random_.choice(("mk,nk->mn", "mk,kn->mn", "bmk,bnk->bmn", "amk,cnk->acmn"))
    sizes = {index: random_.randint(1, 9) * step for index in "acmnkb"}
    sizes |= {index: random_.randint(1, 60) * step for index in "mnk"}
    options = {"zero": random_.random() < 0.7, "relu": random_.random() < 0.3}
    data_type = random_.choice(types)
    return contraction(expression, sizes, data_type, None, **options)[0]


def generic(random_: random.Random) -> Program:
    program = product(random_, (FP32, FP64, BF16), 1)
    return with_decision(program, "gemm", Decision(kernel=Family.GENERIC))


DRAWS: dict[Family, Callable[[random.Random], Program]] = {
    Family.GENERIC: generic,
    Family.MAP: copied,
    Family.TURN: lambda random_: turned(random_, 1),
    Family.TURN_TILES: lambda random_: turned(random_, 8),
    Family.MAP_TILES: lambda random_: sum_by_tiles(random_, 20, 40)[0],
    Family.PRODUCT: lambda random_: product(random_, (FP32, FP64), 1),
    Family.WARPGROUP: lambda random_: product(random_, (BF16, FP16, TF32), 8),
}


assert set(DRAWS) == set(Family)


def drawn_kernels(family: Family, count: int) -> list[CudaKernel]:
    """Kernels of one family, each of another shape."""
    random_ = random.Random(family.value)
    found: dict[str, CudaKernel] = {}
    for _ in range(count * 20):
        for kernel in plan(DRAWS[family](random_)).kernels:
            if kernel.family is family:
                found.setdefault(kernel.source, kernel)
        if len(found) >= count:
            break
    assert len(found) >= count
    return list(found.values())[:count]


@pytest.mark.parametrize("first", range(0, SHAPES, TOGETHER))
@pytest.mark.parametrize("family", DRAWS)
def test_fifty_shapes(family: Family, first: int) -> None:
    """Many kernels in one source: most of the compiler's time but theirs is spent once."""
    need_compiler()
    kernels = drawn_kernels(family, SHAPES)[first : first + TOGETHER]
    compiled = compile_source(joined_source(kernels), "kernels")
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.spilled_bytes == 0
    assert SERIALISED not in compiled.log
    logs = dict(
        re.findall(r"Compiling entry function '(\w+)'(.*?)(?=Compiling|$)", compiled.log, re.S)
    )
    for at, kernel in enumerate(kernels):
        check_budget(kernel)
        assert f".entry {kernel.name}_{at}(".encode() in compiled.ptx
        log = logs[f"{kernel.name}_{at}"]
        assert " 0 bytes stack frame" in log
        (registers,) = re.findall(r"Used (\d+) registers", log)
        assert 0 < int(registers) * kernel.threads <= 65_536
        check_launch(kernel, int(registers))


def joined_source(kernels: list[CudaKernel]) -> str:
    """The prelude once, and every kernel in a namespace, under its name and number."""
    bodies = [
        f"namespace n{at} {{\n{body_of(one).replace(one.name, f'{one.name}_{at}')}\n}}"
        for at, one in enumerate(kernels)
    ]
    return "\n".join([whole_source("", tiles=True), *bodies])


WANTED = {
    Family.TURN_TILES: ("UTMALDG", "SYNCS", "LDS.128"),
    Family.TURN: ("LDS", "STS"),
    Family.MAP: ("LDG", "STG"),
    Family.MAP_TILES: ("UTMALDG", "SYNCS", "LDS", "STG"),
    Family.PRODUCT: ("LDS", "BAR.SYNC"),
    Family.WARPGROUP: ("UTMALDG", "HGMMA.64x", "SYNCS"),
}


@pytest.mark.parametrize("family", WANTED)
def test_instructions(family: Family, tmp_path: Path) -> None:
    need_compiler()
    (kernel,) = drawn_kernels(family, 1)
    text = disassemble(compile_source(kernel.source, kernel.name).cubin, tmp_path)
    for instruction in WANTED[family]:
        assert instruction in text
    assert "LDL" not in text
    assert "STL" not in text


@pytest.mark.parametrize("data_type", [BF16, FP16, TF32])
@pytest.mark.parametrize("expression", ["mk,nk->mn", "mk,kn->mn", "km,kn->mn"])
def test_large_products(expression: str, data_type: DataType, tmp_path: Path) -> None:
    """The kernel of a large product: a whole tile per instruction, registers moved to consumers."""
    need_compiler()
    program = contraction(expression, dict.fromkeys("mnk", 4096), data_type)[0]
    (kernel,) = plan(program).kernels
    if data_type is TF32 and expression != "mk,nk->mn":
        assert kernel.family is Family.PRODUCT
        return
    assert kernel.family is Family.WARPGROUP
    assert (kernel.threads, kernel.blocks) == (384, 132)
    compiled = compile_source(kernel.source, kernel.name)
    assert compiled.spilled_bytes == 0
    text = disassemble(compiled.cubin, tmp_path)
    assert "HGMMA.64x256" in text
    assert "USETMAXREG.DEALLOC" in text
    assert "UTMALDG.2D" in text
    assert "UTMASTG.2D" in text
    assert "FENCE.VIEW.ASYNC" in text
    assert "STG.E" not in text
    assert SERIALISED not in compiled.log


@pytest.mark.parametrize("data_type", [BF16, TF32])
def test_large_products_stored_by_registers(data_type: DataType, tmp_path: Path) -> None:
    need_compiler()
    program = contraction("mk,nk->mn", dict.fromkeys("mnk", 4096), data_type)[0]
    asked = Decision(kernel=Family.WARPGROUP, tile=(128, 256), stores=Stores.REGISTERS)
    (kernel,) = plan(with_decision(program, "gemm", asked)).kernels
    compiled = compile_source(kernel.source, kernel.name)
    assert compiled.spilled_bytes == 0
    text = disassemble(compiled.cubin, tmp_path)
    assert "UTMASTG" not in text
    assert "STG.E.64" in text
    assert ("SHFL.IDX" in text) == (data_type is not TF32)
    assert SERIALISED not in compiled.log


@pytest.mark.parametrize("expression", ["mk,nk->mn", "mk,kn->mn"])
def test_clusters_load_columns_once(expression: str, tmp_path: Path) -> None:
    need_compiler()
    program = contraction(expression, dict.fromkeys("mnk", 4096), BF16)[0]
    asked = Decision(kernel=Family.WARPGROUP, tile=(128, 256), cluster=2)
    (kernel,) = plan(with_decision(program, "gemm", asked)).kernels
    compiled = compile_source(kernel.source, kernel.name)
    assert compiled.spilled_bytes == 0
    text = disassemble(compiled.cubin, tmp_path)
    assert "UTMALDG.2D.MULTICAST" in text
    assert "UCGABAR_WAIT" in text
    assert SERIALISED not in compiled.log


@pytest.mark.parametrize("size", [300, 1000, 4096])
def test_doubles_are_multiplied_by_tensor_cores(size: int, tmp_path: Path) -> None:
    need_compiler()
    program = contraction("mk,kn->mn", dict.fromkeys("mnk", size), FP64)[0]
    (kernel,) = plan(program).kernels
    compiled = compile_source(kernel.source, kernel.name)
    assert compiled.spilled_bytes == 0
    text = disassemble(compiled.cubin, tmp_path)
    assert "DMMA.16x8x16" in text
    assert "DFMA" not in text


def test_nvcc_is_a_second_way() -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    (kernel,) = drawn_kernels(Family.WARPGROUP, 1)
    compiled = compile_with_nvcc(nvcc, kernel.source, kernel.name)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert b"wgmma.mma_async" in compiled.ptx
    assert compiled.spilled_bytes == 0
