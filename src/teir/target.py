"""Facts of a machine as a value: instruction set, vector width, caches, cores, measured peaks.

Features come from the bits the processor reports (CPUID through the operating system), never from
its family. What cannot be read (virtual machines, containers, other systems) has a stated fallback.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from teir.errors import Rule, refuse
from teir.system_files import read_system_file
from teir.thread_limits import usable_threads
from teir.tile_permission import may_use_tiles

LINE_BYTES = 64
"""A line of the caches, of every processor there is code for."""

PAGE_BYTES = 4096
"""The smallest page of memory; addresses a page apart lie in the same places of the first cache."""

ARRAY_START_BYTES = 16
"""Where in a line of memory large arrays of NumPy begin with the C library of Linux."""

MANY_REGISTERS = 32
"""With fewer vector registers, blocks of four vectors and six columns do not stay in them."""
VECTORS_IN_A_ROW = (2, 3, 4, 6)
"""Vectors, in few registers, of a block whose columns follow one another in the result: those that
fill twelve registers with sums."""
LEAST_COLUMNS_IN_PARTS = 18
"""Columns of a complex product that repay the copy of its rows in parts: three register blocks."""

_VECTORS = {
    "amx": (64, 32),
    "avx512_intel": (64, 32),
    "avx512_zen5": (64, 32),
    "avx512": (64, 32),
    "avx2": (32, 16),
    "neon": (16, 32),
    "plain": (16, 16),
}
"""Bytes of a vector register, and how many there are."""


def in_lines(size_bytes: int) -> int:
    """The bytes of the fewest lines that hold so many."""
    return -(-size_bytes // LINE_BYTES) * LINE_BYTES


def rows_apart(row_bytes: int) -> int:
    """From one row to the next where each begins with a line and one line of room lies between."""
    return in_lines(row_bytes) + LINE_BYTES


class Isa(Enum):
    """What code is generated for: an instruction set, and the kind of core where that matters.

    A core is told by its feature bits, as an instruction set is.
    """

    spelling: str
    """The value, by which kernels are named."""
    vector_bytes: int
    vector_registers: int
    is_avx512: bool
    """True where vectors are those of AVX-512, whatever there is besides."""
    has_masks: bool
    """True where loads and stores of part of a vector cost no more than whole ones."""
    has_masks_among_vectors: bool
    """True where the mask of part of a vector takes the place of a vector."""
    multiplies_from_memory: bool
    """True where a multiply-add reads a factor from memory."""
    multiplies_twice_a_cycle: bool
    """True where a core multiplies two whole vectors a cycle, as many as it loads, and blocks
    are shaped by that.

    So do Intel's servers, and not Zen 4. Zen 5 does, but shapes chosen so took 1.08 times as
    long there (configurations of section 5.3, FP32).
    """
    multiplies_whole: bool
    """True where a vector of 64 bytes is multiplied as quickly as half of one.

    Zen 4 takes two cycles.
    """
    multiplies_narrow_sooner: bool
    """True where half a vector of 64 bytes is multiplied in less time than a whole one."""
    stores_lines_sooner: bool
    """True where a vector that crosses a line is stored in twice the time of one that does not.

    Golden Cove stores two vectors a cycle to one line. Zen 4 stores one in two cycles anyway.
    """
    waits_to_store: bool
    """True where lines of far rows are asked for before they are stored to, whatever holds them.

    Stores enter the first cache in their order, so one that waits for its line holds up the others.
    Golden Cove turned matrices that the second cache holds in 0.38 to 0.8 of the time, those
    with a side of two to six elements in 0.3 to 0.7.
    """
    asks_nearest: bool
    """True where lines of far rows are best asked for into the first cache, and all of them.

    Processors of Intel take a place of the first cache for every line that is asked for,
    wherever it shall go. Their servers' third caches are slow
    for one core: without a request 12 GB/s came from there on Golden Cove, with requests 20.
    """
    forgets_requests: bool
    """True where lines asked for into the second cache are dropped once some are under way.

    Measured on Zen 5: of two lines in 48 cycles all arrive, of more those that are asked for
    into the first cache, up to a line in eight cycles. They must be used soon. What is best
    there took up to 1.7 times as long on Zen 4, which brings them all.
    """
    asks_in_passing: bool
    """True where a line asked for in a pass of a block costs the pass nothing.

    Measured on Zen 4 and Zen 5. Processors of Intel ask for lines in a row (`asks_nearest`).
    """
    follows_near_inputs: bool
    """True where inputs of a few megabytes arrive in time without a request for any line.

    Without them products of 2 MB of factors took 0.93 of the time on Zen 5 (FP64), and no other
    time on Zen 4.
    """
    gathers_quickly: bool
    """True where one instruction gathers a vector sooner than its lanes are read one by one.

    Golden Cove gathers eight numbers in about six cycles, and a sparse matrix times a vector
    took 0.7 of the time. Zen 4 needs about a cycle for each, as for a load and what moves it to
    its lane; processors with slower gathers are many.
    """
    follows_few_rows: bool
    """True where rows read a piece at a time come at full speed only in long pieces, unless
    there are few of them.

    On Golden Cove up to 64 rows, or pieces of 12 lines and more, came from memory in half the
    time of pieces of 3 lines of more rows, whatever was asked for ahead.
    """
    streams_rows: bool
    """True where long rows are copied as they lie, in lines past the caches, sooner than through
    tiles; measured on Zen 3 alone."""
    widens_factors: bool
    """True where no instruction multiplies BF16, and converting one factor for every product
    takes the time of products (`teir.lower.widened_tiles`)."""
    has_fma: bool

    AMX = "amx"
    """AVX-512 and tile registers with products of BF16."""
    AVX512_INTEL = "avx512_intel"
    """AVX-512 on processors of Intel that multiply no BF16: Ice Lake servers, and virtual machines
    that hide it on later ones."""
    AVX512_ZEN5 = "avx512_zen5"
    """AVX-512 on Zen 5."""
    AVX512 = "avx512"
    """AVX-512 on any processor; measured on Zen 4."""
    AVX2 = "avx2"
    NEON = "neon"
    PLAIN = "plain"

    __hash__ = object.__hash__

    def __init__(self, spelling: str) -> None:
        # Attributes, and not properties: planning asks for them dozens of times.
        is_intel = spelling in ("amx", "avx512_intel")
        is_zen5, is_avx2 = spelling == "avx512_zen5", spelling == "avx2"
        self.spelling = spelling
        self.vector_bytes, self.vector_registers = _VECTORS[spelling]
        self.is_avx512 = is_intel or is_zen5 or spelling == "avx512"
        self.has_masks = self.is_avx512
        self.has_masks_among_vectors = is_avx2
        self.multiplies_from_memory = self.is_avx512 or is_avx2
        self.multiplies_twice_a_cycle = is_intel
        self.multiplies_whole = is_intel or is_zen5
        self.multiplies_narrow_sooner = self.is_avx512 and not self.multiplies_whole
        self.stores_lines_sooner = is_intel
        self.waits_to_store = is_intel
        self.asks_nearest = is_intel
        self.forgets_requests = is_zen5
        self.asks_in_passing = self.is_avx512 and not is_intel
        self.follows_near_inputs = is_avx2 or (self.is_avx512 and not is_intel)
        self.gathers_quickly = is_intel
        self.follows_few_rows = is_intel
        self.streams_rows = is_avx2
        self.widens_factors = spelling == "avx512_intel" or is_avx2
        self.has_fma = spelling != "plain"


KNOWN_ISA = Rule(
    code="TEIR801",
    sentence="TEIR_ISA names an instruction set of this machine "
    "(amx, avx512_intel, avx512_zen5, avx512, avx2, neon, plain).",
    source="documentation, command line",
)

AVX2_FEATURES = frozenset({"avx2", "fma", "f16c"})
AVX512_FEATURES = AVX2_FEATURES | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
_AMX_FEATURES = frozenset({"avx512bf16", "amxtile", "amxbf16"})
"""Without the marks that Linux and LLVM put between the words."""
_NOT_INTEL_SERVERS = frozenset({"sse4a", "avx512vp2intersect", "avx512bf16"})
"""Processors of AMD have the first; with the second one, of those with AVX-512 and without tile
registers, are Tiger Lake, which multiplies one vector a cycle, and Zen 5. The third multiplies
BF16, which code for `Isa.AVX512_INTEL` does without."""
_ZEN_5_FEATURES = frozenset({"sse4a", "avx512vp2intersect"})

_ARM = ("aarch64", "arm64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """Bytes of data cache one core sees; ``source`` says where the figures come from."""

    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    source: str


ASSUMED_CACHES = Caches(
    l1_bytes=32 * 1024, l2_bytes=512 * 1024, l3_bytes=8 * 1024 * 1024, source="assumed"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """What was measured on this machine, in this process, on one core.

    Fused multiply-add chains in registers count two operations each; a copy counts the bytes read
    and the bytes written. ``tile_flops_per_second``: products of BF16 by tile registers; None where
    there are none.
    """

    fp32_flops_per_second: float
    fp64_flops_per_second: float
    copy_bytes_per_second: float
    tile_flops_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A machine: what code is generated for and how its work is cut."""

    cpu: str
    architecture: str
    features: frozenset[str]
    isa: Isa
    caches: Caches
    threads: int


def host_target(environment: Mapping[str, str], root: Path = Path("/")) -> Target:
    """The machine this process runs on.

    ``environment`` may set TEIR_ISA to a narrower instruction set and OMP_NUM_THREADS to fewer
    threads. ``root`` is where ``proc`` and ``sys`` are found. Raises TeirError (TEIR801).
    """
    architecture = platform.machine()
    cpuinfo = read_system_file(root / "proc/cpuinfo")
    features = cpu_features(cpuinfo) or _features_by_llvm()
    return Target(
        cpu=cpu_name(cpuinfo) or platform.processor() or architecture,
        architecture=architecture,
        features=features,
        isa=choose_isa(architecture, features, environment.get("TEIR_ISA")),
        caches=read_caches(root / "sys/devices/system/cpu/cpu0/cache"),
        threads=usable_threads(environment, root),
    )


def widest_isa(architecture: str, features: frozenset[str]) -> Isa:
    """The widest instruction set the feature bits, and for tiles the system, allow."""
    if architecture in _ARM:
        return Isa.NEON
    if features >= AVX512_FEATURES:
        plain = {name.replace("-", "").replace("_", "") for name in features}
        if plain >= _AMX_FEATURES and may_use_tiles():
            return Isa.AMX
        if plain >= _ZEN_5_FEATURES:
            return Isa.AVX512_ZEN5
        return Isa.AVX512 if plain & _NOT_INTEL_SERVERS else Isa.AVX512_INTEL
    if features >= AVX2_FEATURES:
        return Isa.AVX2
    return Isa.PLAIN


def choose_isa(architecture: str, features: frozenset[str], wanted: str | None) -> Isa:
    """The widest instruction set, or the ``wanted`` one where the machine has it.

    Raises TeirError (TEIR801).
    """
    widest = widest_isa(architecture, features)
    if not wanted:
        return widest
    avx512 = (Isa.AVX512_INTEL, Isa.AVX512_ZEN5, Isa.AVX512, Isa.AVX2, Isa.PLAIN)
    having = {
        Isa.AMX: (Isa.AMX, *avx512),
        Isa.AVX512_INTEL: avx512,
        Isa.AVX512_ZEN5: avx512,
        Isa.AVX512: avx512,
        Isa.AVX2: (Isa.AVX2, Isa.PLAIN),
        Isa.NEON: (Isa.NEON, Isa.PLAIN),
        Isa.PLAIN: (Isa.PLAIN,),
    }[widest]
    named = {isa.value: isa for isa in having}
    if wanted.lower() not in named:
        refuse(KNOWN_ISA, "TEIR_ISA", " or ".join(named), repr(wanted))
    return named[wanted.lower()]


def cpu_features(cpuinfo: str) -> frozenset[str]:
    """The feature names of the first processor of a Linux ``/proc/cpuinfo``."""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo, re.MULTILINE)
    return frozenset(found.group(1).split()) if found else frozenset()


def cpu_name(cpuinfo: str) -> str:
    """The model name of the first processor of a Linux ``/proc/cpuinfo``, empty if none."""
    found = re.search(r"^model name\s*:(.*)$", cpuinfo, re.MULTILINE)
    return found.group(1).strip() if found else ""


def _features_by_llvm() -> frozenset[str]:
    """CPUID as LLVM reads it: slower to import, but the same on every system."""
    try:
        from llvmlite import binding
    except ImportError:
        return frozenset()
    return frozenset(name for name, has in binding.get_host_cpu_features().items() if has)


def read_caches(folder: Path) -> Caches:
    """Data cache sizes from Linux' ``cache/index*`` folders, else from sysconf, else assumed."""
    sizes = {}
    for index in sorted(folder.glob("index*")):
        level, kind, size = (
            read_system_file(index / name).strip() for name in ("level", "type", "size")
        )
        if kind in ("Data", "Unified") and level.isdigit() and (size_bytes := _bytes(size)):
            sizes[int(level)] = size_bytes
    source = "sysfs"
    if 1 not in sizes or 2 not in sizes:
        sizes, source = _caches_by_sysconf(), "sysconf"
    if 1 not in sizes or 2 not in sizes:
        return ASSUMED_CACHES
    return Caches(
        l1_bytes=sizes[1], l2_bytes=sizes[2], l3_bytes=sizes.get(3, sizes[2]), source=source
    )


def _caches_by_sysconf() -> dict[int, int]:
    names = {1: "SC_LEVEL1_DCACHE_SIZE", 2: "SC_LEVEL2_CACHE_SIZE", 3: "SC_LEVEL3_CACHE_SIZE"}
    known = getattr(os, "sysconf_names", {})
    found = {level: os.sysconf(name) for level, name in names.items() if name in known}
    return {level: size for level, size in found.items() if size > 0}


def _bytes(size: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", size)
    return int(found.group(1)) * 1024 ** " KMG".index(found.group(2) or " ") if found else 0
