"""The facts of a machine, read from a pretended file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from teir.errors import TeirError
from teir.target import (
    ASSUMED_CACHES,
    AVX2_FEATURES,
    AVX512_FEATURES,
    Caches,
    Isa,
    choose_isa,
    cpu_features,
    cpu_name,
    host_target,
    read_caches,
    widest_isa,
)

CPUINFO = """processor\t: 0
model name\t: Pretended CPU
flags\t\t: fpu avx2 fma f16c avx512f avx512bw avx512dq avx512vl

processor\t: 1
flags\t\t: fpu
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("architecture", "features", "isa"),
    [
        ("x86_64", AVX512_FEATURES, Isa.AVX512_INTEL),
        ("x86_64", AVX512_FEATURES | {"amx_tile", "amx_bf16"}, Isa.AVX512_INTEL),
        ("x86_64", AVX512_FEATURES | {"sse4a"}, Isa.AVX512),
        ("x86_64", AVX512_FEATURES | {"sse4a", "avx512_vp2intersect"}, Isa.AVX512_ZEN5),
        ("x86_64", AVX512_FEATURES | {"sse4a", "avx512_bf16"}, Isa.AVX512),
        ("x86_64", AVX512_FEATURES | {"avx512_vp2intersect"}, Isa.AVX512),
        ("x86_64", AVX512_FEATURES | {"avx512vp2intersect"}, Isa.AVX512),
        ("x86_64", AVX512_FEATURES - {"avx512vl"}, Isa.AVX2),
        ("x86_64", AVX2_FEATURES, Isa.AVX2),
        ("x86_64", AVX2_FEATURES - {"fma"}, Isa.PLAIN),
        ("aarch64", frozenset({"asimd"}), Isa.NEON),
        ("riscv64", frozenset(), Isa.PLAIN),
    ],
)
def test_the_feature_bits_decide(architecture: str, features: frozenset[str], isa: Isa) -> None:
    assert widest_isa(architecture, features) is isa


@pytest.mark.parametrize("names", ["avx512_bf16 amx_tile amx_bf16", "avx512bf16 amx-tile amx-bf16"])
@pytest.mark.parametrize("is_granted", [True, False])
def test_tiles_are_used_where_the_system_grants_them(
    names: str, is_granted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teir.target.may_use_tiles", lambda: is_granted)
    features = AVX512_FEATURES | set(names.split())
    assert widest_isa("x86_64", features) is (Isa.AMX if is_granted else Isa.AVX512)
    assert choose_isa("x86_64", features, "avx512") is Isa.AVX512
    assert choose_isa("x86_64", features, "avx512_intel") is Isa.AVX512_INTEL
    assert choose_isa("x86_64", features, "avx512_zen5") is Isa.AVX512_ZEN5


def test_a_narrower_instruction_set_may_be_asked_for() -> None:
    assert choose_isa("x86_64", AVX512_FEATURES, "avx2") is Isa.AVX2
    assert choose_isa("x86_64", AVX512_FEATURES, "PLAIN") is Isa.PLAIN
    assert choose_isa("x86_64", AVX512_FEATURES, "") is Isa.AVX512_INTEL


@pytest.mark.parametrize("wanted", ["avx512", "neon", "sse9"])
def test_an_instruction_set_the_machine_lacks_is_refused(wanted: str) -> None:
    with pytest.raises(TeirError) as caught:
        choose_isa("x86_64", AVX2_FEATURES, wanted)
    assert caught.value.findings[0].code == "TEIR801"
    assert "avx2 or plain" in str(caught.value)


def test_cpuinfo() -> None:
    assert cpu_features(CPUINFO) == AVX512_FEATURES | {"fpu"}
    assert cpu_features("Features : fp asimd") == {"fp", "asimd"}
    assert cpu_features("") == frozenset()
    assert cpu_name(CPUINFO) == "Pretended CPU"
    assert cpu_name("") == ""


def test_caches_from_sysfs(tmp_path: Path) -> None:
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "1M")]
    ):
        for name, text in (("level", level), ("type", kind), ("size", size)):
            write(tmp_path / f"index{index}" / name, text + "\n")
    expected = Caches(l1_bytes=49152, l2_bytes=1048576, l3_bytes=1048576, source="sysfs")
    assert read_caches(tmp_path) == expected


def test_caches_without_any_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf_names", {}, raising=False)
    assert read_caches(tmp_path) == ASSUMED_CACHES


def test_host_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    write(tmp_path / "proc/cpuinfo", CPUINFO)
    target = host_target({"TEIR_ISA": "avx2"}, tmp_path)
    assert (target.cpu, target.isa) == ("Pretended CPU", Isa.AVX2)
    assert host_target({}).threads >= 1
