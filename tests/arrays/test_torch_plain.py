"""Tensors without memory, and those whose derivatives would be lost, are refused in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import teir

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

RIGHT = torch.ones(3, 2)


def refusal(compute: Callable[[], Any]) -> str:
    with pytest.raises(teir.TeirError) as caught:
        compute()
    (finding,) = caught.value.findings
    return f"{finding.rule.code} {finding.found}"


def product(left: Any, **keywords: Any) -> Any:
    return teir.einsum("ij,jk->ik", left, RIGHT, **keywords)


def a_fake_tensor() -> Any:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        return torch.empty(4, 3)


def a_freed_tensor(left_bytes: int = 0) -> Any:
    tensor = torch.ones(4, 3)
    tensor.untyped_storage().resize_(left_bytes)
    return tensor


def a_nested_tensor() -> Any:
    return torch.nested.nested_tensor([torch.ones(3), torch.ones(2)])


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (a_fake_tensor, "fake"),
        (a_freed_tensor, "given back"),
        (lambda: a_freed_tensor(40), "given back"),
        (a_nested_tensor, "nested"),
        (lambda: torch._efficientzerotensor(4, 3), "never there"),
    ],
)
def test_what_has_no_memory_is_refused(make: Callable[[], Any], found: str) -> None:
    told = refusal(lambda: product(make()))
    assert told.startswith("TEIR624")
    assert found in told


def test_batches_that_are_mapped_are_refused() -> None:
    batch = torch.ones(2, 4, 3)
    assert "mapped" in refusal(lambda: torch.func.vmap(product)(batch))
    assert "mapped" in refusal(lambda: torch.func.jvp(product, (batch[0],), (batch[0],)))


def test_a_trace_is_refused() -> None:
    assert "traced" in refusal(lambda: torch.jit.trace(product, (torch.ones(4, 3),)))


@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_a_graph_of_plain_tensors_is_refused(pre_dispatch: bool) -> None:
    proxies = pytest.importorskip("torch.fx.experimental.proxy_tensor")
    left = torch.ones(4, 3)
    plan = teir.plan("ij,jk->ik", left, RIGHT)
    for compute in (product, lambda one: plan(one, RIGHT)):
        for _ in range(3):
            assert compute(left).tolist() == [[3.0, 3.0]] * 4
        record = proxies.make_fx(compute, pre_dispatch=pre_dispatch)
        assert "the graph would not have" in refusal(lambda record=record: record(left))


def test_what_is_no_plain_tensor_is_named_as_what_it_is() -> None:
    jagged = torch.nested.nested_tensor([torch.ones(3), torch.ones(2)], layout=torch.jagged)
    plan = teir.plan("ij,jk->ik", torch.ones(4, 3), RIGHT)
    assert "a nested tensor" in refusal(lambda: plan(jagged, RIGHT))
    assert "no shape yet" in refusal(lambda: product(torch.nn.UninitializedParameter()))
    if torch.backends.mkldnn.is_available():
        assert "MKL-DNN" in refusal(lambda: plan(torch.ones(4, 3).to_mkldnn(), RIGHT))


def test_a_new_result_below_a_transform_is_not_called_out() -> None:
    left = torch.ones(4, 3)
    with pytest.raises(teir.TeirError, match="at the new result"):
        torch.func.grad(lambda one: (one * product(left)).sum())(torch.ones(()))


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "complex32"])
def test_types_that_only_ml_dtypes_names_are_refused(name: str) -> None:
    pytest.importorskip("ml_dtypes")
    left = torch.zeros(4, 3, dtype=getattr(torch, name))
    told = refusal(lambda: teir.einsum("ij,kj->ik", left, left))
    assert told == f"TEIR622 dtype torch.{name}"


def test_more_axes_than_numpy_has_are_refused_as_such() -> None:
    letters = "".join(chr(0x3B1 + number) for number in range(65))
    for _ in range(3):
        told = refusal(lambda: teir.einsum(f"{letters}->{letters}", torch.ones([1] * 65)))
        assert told == "TEIR614 65 axes"


def saved(out: Any) -> Any:
    """The sum of a product whose backward pass reads ``out``."""
    return (torch.ones(out.shape, requires_grad=True) * out).sum()


def test_writes_in_place_are_told_to_backward_passes() -> None:
    left = torch.ones(4, 3)
    plan, out = teir.plan("ij,jk->ik", left, RIGHT), torch.zeros(4, 2)
    sparse = torch.eye(4, 3).to_sparse_csr()
    diagonal = teir.Sparse.from_coo(([0, 2], [0, 2]), np.ones(2, np.float32), (4, 3))
    writes = [
        lambda: plan(left, RIGHT, out=out),
        lambda: plan(left.numpy(), RIGHT.numpy(), out=out),
        lambda: product(left, out=out),
        lambda: product(left.numpy(), out=out),
        lambda: product(sparse, out=out),
        lambda: product(diagonal, out=out),
    ]
    for write in [one for one in writes for _ in range(3)]:
        total = saved(out)
        write()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            total.backward()
    assert plan(left, RIGHT)._version == 0


def copy_program() -> teir.Program:
    return teir.loads(
        'teir 1 "copy"\ntensor in0: FP32\ntensor out: FP32\naxis i = 12: in0 4, out 4\n'
        "primitive copy = Copy(in0 -> out; M=[i], N=[])\nrun: copy\n"
    )


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_programs_tell_of_writes_too(backend: str) -> None:
    given, out = torch.ones(12), torch.zeros(12)
    total, untouched = saved(out), saved(given)
    teir.run(copy_program(), {"in0": given, "out": out}, backend=backend)
    assert out.tolist() == [1.0] * 12
    untouched.backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_programs_refuse_them_too() -> None:
    program = copy_program()
    out = np.zeros(12, np.float32)
    for tensor in (a_fake_tensor(), a_freed_tensor(), torch.ones(12, requires_grad=True)):
        told = refusal(lambda one=tensor: teir.run(program, {"in0": one, "out": out}))
        assert told.startswith("TEIR509")
    with torch.no_grad():
        teir.run(program, {"in0": torch.ones(12, requires_grad=True), "out": out})
    assert out.tolist() == [1.0] * 12


def test_sparse_tensors_of_fake_parts_are_refused() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        at, values = torch.zeros(2, 1, dtype=torch.long), torch.ones(1)
        sparse = torch.sparse_coo_tensor(at, values, (4, 3))
    assert "TEIR676 a fake tensor" in refusal(lambda: product(sparse))


@pytest.mark.parametrize("form", ["to_dense", "to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_parameters_are_taken_where_nothing_is_recorded(form: str) -> None:
    plain = torch.arange(12.0).reshape(4, 3)
    weight = getattr(plain, form)().detach().requires_grad_()
    with torch.no_grad():
        plan = teir.plan("ij,jk->ik", weight, RIGHT)
        results = [compute(weight, RIGHT) for compute in (plan, plan) for _ in range(2)]
        results += [product(weight) for _ in range(3)]
    assert all(torch.equal(one, plain @ RIGHT) for one in results)
    assert not any(one.requires_grad for one in results)
    for compute in (lambda: product(weight), lambda: plan(weight, RIGHT)):
        assert "records gradients" in refusal(compute)


def test_tangents_are_not_lost_in_silence() -> None:
    from torch.autograd import forward_ad

    plain = torch.ones(4, 3)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(plain, plain)
        assert "tangent" in refusal(lambda: product(dual))
        assert product(forward_ad.unpack_dual(dual).primal).tolist() == [[3.0, 3.0]] * 4


def test_an_out_in_bfloat16_is_written_or_refused() -> None:
    rows = torch.eye(3, dtype=torch.bfloat16).to_sparse_csr()
    right = torch.ones(3, 2, dtype=torch.bfloat16)
    turned = torch.zeros(2, 3, dtype=torch.bfloat16).T
    assert "TEIR686" in refusal(lambda: teir.einsum("ij,jk->ik", rows, right, out=turned))
    straight = torch.zeros(3, 2, dtype=torch.bfloat16)
    assert teir.einsum("ij,jk->ik", rows, right, out=straight) is straight
    assert straight.tolist() == [[1.0, 1.0]] * 3
    ml_dtypes = pytest.importorskip("ml_dtypes")
    diagonal = teir.Sparse.from_coo(([0, 2], [0, 2]), np.ones(2, ml_dtypes.bfloat16), (3, 3))
    plain = np.ones((3, 2), ml_dtypes.bfloat16)
    teir.einsum("ij,jk->ik", diagonal, plain, out=straight.zero_())
    assert straight.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]


def test_a_sparse_out_is_refused() -> None:
    rows = torch.eye(3).to_sparse_csr()
    for left in (rows, teir.Sparse.from_scipy(rows)):
        told = refusal(lambda one=left: product(one, out=torch.zeros(3, 2).to_sparse_csr()))
        assert "TEIR624 a sparse tensor" in told
