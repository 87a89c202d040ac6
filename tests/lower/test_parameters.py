"""Tables 10.6.1 and 10.6.2 on the examples of the specification and around their edges."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import Axis, Bytes, Operation, Primitive, Tensor
from teir.lower.parameters import KernelParameters, TableRow, kernel_parameters

FP32 = DataType.FP32


def contraction(**roles: tuple[str, ...]) -> Primitive:
    primitive = Primitive(
        name="p", operation=Operation.CONTRACTION, inputs=("in0", "in1"), output="out"
    )
    return replace(primitive, **roles)


def axis(name: str, extent: int, in0: int, in1: int, out: int) -> Axis:
    """An axis with strides in elements of four bytes."""
    strides = Bytes({"in0": 4 * in0, "in1": 4 * in1, "out": 4 * out})
    return Axis(name=name, extent=extent, strides=strides)


def parameters_of(primitive: Primitive, *axes: Axis) -> KernelParameters:
    tensors = {name: Tensor(name=name, data_type=FP32) for name in primitive.operands}
    return kernel_parameters(primitive, {axis.name: axis for axis in axes}, tensors)


M = axis("m", 8, 1, 0, 1)
N = axis("n", 4, 0, 16, 8)
K = axis("k", 16, 8, 1, 0)
GEMM = contraction(m=("m",), n=("n",), k=("k",))


def test_the_gemm_example_of_section_10_6() -> None:
    found = parameters_of(GEMM, M, N, K)
    assert found.row is TableRow.GEMM
    assert found.named_values() == (
        ("M", 8),
        ("N", 4),
        ("K", 16),
        ("lda", 8),
        ("ldb", 16),
        ("ldc", 8),
    )
    assert found.gemm is not None
    assert found.gemm.unit_axes == ("m", "k", "m")
    assert str(found) == "p: GEMM, M = 8, N = 4, K = 16, lda = 8, ldb = 16, ldc = 8"


def test_the_brgemm_example_of_section_10_7_7() -> None:
    q, r, s, t, u = 6, 3, 8, 2, 16
    found = parameters_of(
        contraction(m=("s",), n=("q",), k=("t", "u")),
        axis("s", s, 1, 0, 1),
        axis("q", q, 0, t * u, r * s),
        axis("t", t, r * u * s, u, 0),
        axis("u", u, s, 1, 0),
    )
    assert found.row is TableRow.BRGEMM
    assert dict(found.named_values()) == {
        "M": s,
        "N": q,
        "K": u,
        "lda": s,
        "ldb": t * u,
        "ldc": r * s,
        "brSize": t,
        "brStrA": r * u * s,
        "brStrB": u,
    }


def test_a_contraction_without_axes_is_scalar() -> None:
    found = parameters_of(contraction())
    assert (found.row, found.named_values()) == (TableRow.SCALAR, ())
    assert str(found) == "p: Scalar"


def test_every_layout_of_the_operands_is_a_gemm() -> None:
    for a in ((1, 9), (17, 1)):
        for b in ((1, 18), (5, 1)):
            for c in ((1, 10), (6, 1)):
                found = parameters_of(
                    GEMM,
                    axis("m", 8, a[0], 0, c[0]),
                    axis("n", 4, 0, b[1], c[1]),
                    axis("k", 16, a[1], b[0], 0),
                )
                leading = tuple(value for name, value in found.named_values() if name[:2] == "ld")
                assert leading == (max(a), max(b), max(c))


def test_ties_of_unit_strides_prefer_m_and_k() -> None:
    found = parameters_of(GEMM, axis("m", 8, 1, 0, 1), axis("n", 1, 0, 1, 1), axis("k", 1, 1, 1, 0))
    assert found.gemm is not None
    assert found.gemm.unit_axes == ("m", "k", "m")


def test_widths_are_per_operand() -> None:
    primitive = GEMM
    tensors = {
        "in0": Tensor(name="in0", data_type=DataType.BF16),
        "in1": Tensor(name="in1", data_type=DataType.BF16),
        "out": Tensor(name="out", data_type=FP32),
    }
    axes = {
        "m": Axis(name="m", extent=8, strides=Bytes({"in0": 2, "out": 4})),
        "n": Axis(name="n", extent=4, strides=Bytes({"in1": 32, "out": 32})),
        "k": Axis(name="k", extent=16, strides=Bytes({"in0": 16, "in1": 2})),
    }
    found = kernel_parameters(primitive, axes, tensors)
    assert [value for name, value in found.named_values() if name[:2] == "ld"] == [8, 16, 8]


@pytest.mark.parametrize(
    ("primitive", "axes", "reason"),
    [
        (replace(GEMM, c=("d",)), (M, N, K), "batch axes C = [d]"),
        (replace(GEMM, m=("m", "q")), (M, N, K), "2 axes in M, GEMM and BRGEMM have one"),
        (replace(GEMM, n=()), (M, N, K), "0 axes in N, GEMM and BRGEMM have one"),
        (replace(GEMM, k=("a", "b", "k")), (M, N, K), "3 axes in K, GEMM has one and BRGEMM two"),
        (replace(GEMM, inputs=("in0",)), (M, N, K), "1 inputs, a product has two"),
        (GEMM, (axis("m", 8, 2, 0, 1), N, K), "on in0 neither of m, k has unit stride"),
        (GEMM, (M, axis("n", 4, 1, 16, 8), K), "axis n has a stride on in0"),
        (GEMM, (axis("m", 8, 1, 3, 1), N, K), "axis m has a stride on in1"),
        (GEMM, (M, N, axis("k", 16, 0, 1, 0)), "on in0 neither of m, k"),
        (
            replace(GEMM, k=("b", "k")),
            (M, N, K, axis("b", 2, 128, 64, 512)),
            "K axis b has a stride on out",
        ),
    ],
)
def test_what_no_row_covers_says_why(
    primitive: Primitive, axes: tuple[Axis, ...], reason: str
) -> None:
    found = parameters_of(primitive, *axes)
    assert found.row is TableRow.OTHER
    assert found.reason is not None
    assert reason in found.reason
    assert found.named_values() == ()
    assert str(found).startswith("p: other, loops around the nearest kernel: ")
