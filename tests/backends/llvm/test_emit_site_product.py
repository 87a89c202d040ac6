"""Small matrices along sites: exact integers inside page edges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from backends.llvm.kernel_calls import (
    HERE,
    Compiled,
    Edge,
    Guarded,
    compiled_once,
    kernel_assembly,
    small_integers,
    strided,
)
from teir.backends.llvm import emit_pair_sites, emit_pairs, emit_site_product
from teir.dtypes import DataType
from teir.ir.tile_arithmetic import contract, convert
from teir.lower.site_kernels import SiteAxis, SiteProduct
from teir.target import Isa

TYPES = (DataType.FP32, DataType.FP64, DataType.C64, DataType.C128)
PAIRS = tuple(isa for isa in HERE if isa.is_avx512)
Axes = tuple[SiteAxis, ...]
INSIDE: tuple[tuple[Axes, Axes, Axes], ...] = (
    ((), (SiteAxis(2, 0, 1),), (SiteAxis(2, 1, 0),)),
    ((), (SiteAxis(3, 0, 1),), (SiteAxis(2, 1, 0),)),
    ((SiteAxis(2, 1, 1),), (SiteAxis(2, 0, 2),), (SiteAxis(2, 2, 0),)),
    ((SiteAxis(2, 1, 2),), (SiteAxis(2, 0, 1),), (SiteAxis(2, 2, 0),)),
    ((SiteAxis(2, 2, 1),), (), (SiteAxis(2, 1, 0),)),
    ((), (SiteAxis(2, 0, 2), SiteAxis(2, 0, 1)), (SiteAxis(2, 1, 0), SiteAxis(2, 2, 0))),
    ((SiteAxis(2, 1, 1),), (), ()),
)
"""Rows, columns and sums of a site."""
SHORT_SUMS = tuple(
    ((), (SiteAxis(columns, 0, 1),), (SiteAxis(products, 1, 0),))
    for columns in (1, 2, 5, 8, 16, 32)
    for products in (1, 4, 7, 16)
)
"""The same of rows that are vectors of their own."""
OUTER = (((), ()), ((2,), (2,)), ((2, 3), ()), ((), (2, 2)))


def site_product(
    kind: DataType, isa: Isa, inside: tuple[Axes, Axes, Axes], outer: tuple[tuple[int, ...], ...]
) -> SiteProduct | None:
    """As many sites as a vector holds; None where it holds none."""
    lanes = isa.vector_bytes // kind.width
    kernel = SiteProduct(
        data_type=kind,
        lanes=lanes,
        sites=1,
        rows=inside[0],
        columns=inside[1],
        sums=inside[2],
        outer_columns=outer[0],
        outer_sums=outer[1],
    )
    size = max(kernel.a_elements, kernel.c_elements)
    if size > lanes:
        return None
    return SiteProduct(
        **{name: getattr(kernel, name) for name in kernel.__struct_fields__ if name != "sites"},
        sites=lanes // size,
    )


def check(compiled: Compiled, kernel: SiteProduct, count: int, gap: int, edge: Edge) -> None:
    """``count`` sites in a row, ``gap`` elements behind every vector of them."""
    kind, sites = kernel.data_type, kernel.sites
    random, width = np.random.default_rng(count + gap), kernel.data_type.width
    a_site = (kernel.a_elements + gap) * width
    c_site = (kernel.c_elements + gap) * width
    blocks, accumulate = (2, 3), count % 2
    a, b, c = [(count, a_site)], [(count, 0)], [(count, c_site)]
    sums_a, sums_b = [], []
    b_next = width
    strides: list[int] = []
    reach_a, reach_c = count * a_site, count * c_site
    for extent in kernel.outer_sums:
        sums_a.append((extent, reach_a + width))
        sums_b.append((extent, b_next))
        strides += [reach_a + width, b_next]
        reach_a, b_next = (reach_a + width) * extent, b_next * extent
    for extent in kernel.outer_columns:
        a.append((extent, 0))
        b.append((extent, b_next))
        c.append((extent, reach_c + width))
        strides += [b_next, reach_c + width]
        reach_c, b_next = (reach_c + width) * extent, b_next * extent
    for axis in kernel.rows:
        a.append((axis.extent, axis.a_step * width))
        b.append((axis.extent, 0))
        c.append((axis.extent, axis.c_step * width))
    for axis in kernel.columns:
        a.append((axis.extent, 0))
        b.append((axis.extent, b_next))
        c.append((axis.extent, axis.c_step * width))
        strides.append(b_next)
        b_next *= axis.extent
    for axis in kernel.sums:
        sums_a.append((axis.extent, axis.a_step * width))
        sums_b.append((axis.extent, b_next))
        strides.append(b_next)
        b_next *= axis.extent
    rows = [(blocks[0], reach_a, reach_c), (blocks[1], 2 * reach_a, 2 * reach_c)]
    a += [(extent, step) for extent, step, _ in rows]
    b += [(extent, 0) for extent, *_ in rows]
    c += [(extent, step) for extent, _, step in rows]
    views, memories = [], []
    for axes in ((*a, *sums_a), (*b, *sums_b), tuple(c)):
        memory = Guarded(sum((extent - 1) * step for extent, step in axes) + width, edge)
        memory.bytes[:] = 0x5A
        view = strided(memory.bytes, kind, 0, axes)
        view[...] = small_integers(random, view.shape, kind)
        views.append(view)
        memories.append(memory)
    wide = np.complex128 if kind.is_complex else np.float64
    products = views[0].astype(wide) * views[1].astype(wide)
    wanted = products.sum(axis=tuple(range(len(c), products.ndim)))
    wanted = wanted + views[2].astype(wide) * accumulate
    expected = memories[2].bytes.copy()
    strided(expected, kind, 0, c)[...] = wanted.astype(kind.numpy_dtype())
    words = [word for row in rows for word in row]
    arguments = (count, sites * a_site, sites * c_site, *words, accumulate, *strides)
    compiled.call(kernel, arguments, [one.address for one in memories])
    np.testing.assert_array_equal(memories[2].bytes, expected, str((kernel, count, gap)))


def check_all(made: Sequence[SiteProduct | None], isa: Isa) -> None:
    """Those there are, with rows that end at a vector or within one, and sites apart."""
    kernels = [one for one in made if one is not None]
    compiled = compiled_once(kernels, isa)
    for kernel, edge in product(kernels, Edge):
        for count in (1, kernel.sites, 3 * kernel.sites + 1, 6 * kernel.sites - 1):
            check(compiled, kernel, count, 0, edge)
        if kernel.sites == 1:
            check(compiled, kernel, 4, 3, edge)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("kind", TYPES)
def test_sums_are_exact_and_stay_inside(isa: Isa, kind: DataType) -> None:
    made = [site_product(kind, isa, inside, outer) for inside in INSIDE for outer in OUTER]
    check_all(made, isa)


@pytest.mark.parametrize("isa", PAIRS)
@pytest.mark.parametrize("outer", OUTER)
def test_sums_of_pairs_are_exact_and_stay_inside(
    isa: Isa, outer: tuple[tuple[int, ...], ...]
) -> None:
    made = [site_product(DataType.BF16, isa, inside, outer) for inside in INSIDE + SHORT_SUMS]
    check_all(made, isa)


@pytest.mark.parametrize("kind", [DataType.FP32, DataType.C64])
def test_factors_stay_in_registers(kind: DataType) -> None:
    kernel = site_product(kind, Isa.AVX512, INSIDE[2], ((), ()))
    assert kernel is not None
    text = kernel_assembly(kernel, Isa.AVX512)
    assert not [line for line in text.splitlines() if "zmm" in line and "(%rsp)" in line]


@pytest.mark.skipif(not PAIRS, reason="needs AVX-512")
@pytest.mark.parametrize("is_emulated", [False, True])
@pytest.mark.parametrize("size", [1.0, 2.0**-63])
@pytest.mark.parametrize(("columns", "products"), [(8, 7), (3, 3), (16, 12), (24, 9)])
def test_bits_of_pairs_are_those_of_the_evaluator(
    columns: int, products: int, size: float, is_emulated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether or not factors and sums become subnormal, with infinities and no numbers, too; also
    by two multiply-adds, as where the processor has no instruction for both."""
    if is_emulated:
        for module in (emit_pair_sites, emit_pairs, emit_site_product):
            monkeypatch.setattr(module, "has_pairs", lambda _: False)
    inside = ((), (SiteAxis(columns, 0, 1),), (SiteAxis(products, 1, 0),))
    kernel = site_product(DataType.BF16, Isa.AVX512, inside, ((), ()))
    assert kernel is not None
    random, rows, width = np.random.default_rng(7), 4 * kernel.sites + 1, 2
    drawn = [(rows, products), (columns, products), (rows, columns)]
    a, b, c = (
        (size * random.standard_normal(shape)).astype(DataType.BF16.numpy_dtype())
        for shape in drawn
    )
    a[0, 0], a[1, 1], a[2, 2], b[1, 2] = np.inf, np.nan, a.dtype.type(1e-39), a.dtype.type(1e-39)
    whole = (rows, columns, products)
    factors = (np.broadcast_to(a[:, None], whole), np.broadcast_to(b[None], whole))
    with np.errstate(all="ignore"):
        sums = contract(factors, c.astype(np.float32), DataType.BF16, None, True)
        expected = convert(sums, DataType.BF16).astype(np.float32)
    sites = (rows, kernel.sites * products * width, kernel.sites * columns * width)
    arguments = (*sites, 1, 0, 0, 1, 0, 0, 1, products * width, width)
    compiled = Compiled([kernel], Isa.AVX512)
    compiled.call(kernel, arguments, [one.ctypes.data for one in (a, b, c)])
    np.testing.assert_array_equal(c.astype(np.float32), expected)


@pytest.mark.skipif(not emit_pairs.has_pairs(Isa.AVX512), reason="needs AVX512_BF16")
@pytest.mark.parametrize(
    ("columns", "products", "is_read"),
    [(16, 16, True), (16, 4, False), (32, 16, False), (8, 16, False)],
)
def test_pairs_of_one_row_come_from_memory(columns: int, products: int, is_read: bool) -> None:
    """Eight pairs of two rows; few pairs, and those that several vectors take, are permuted."""
    inside = ((), (SiteAxis(columns, 0, 1),), (SiteAxis(products, 1, 0),))
    kernel = site_product(DataType.BF16, Isa.AVX512, inside, ((), ()))
    assert kernel is not None
    lines = kernel_assembly(kernel, Isa.AVX512).splitlines()
    products_read = [line for line in lines if "vdpbf16ps" in line and "{1to16}" in line]
    assert bool(products_read) is is_read
