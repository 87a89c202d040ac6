"""Plans called with tensors of PyTorch: native code runs on plain ones, others are looked at."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import teir

torch = pytest.importorskip("torch")
TorchFunctionMode: Any = pytest.importorskip("torch.overrides").TorchFunctionMode
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64)


def called_plan(left: Any, right: Any) -> Any:
    plan = teir.plan("ij,jk->ik", left, right)
    assert torch.equal(plan(left, right), left @ right)
    # Plans of the same program share the count, whose end would be one of these runs.
    plan.executable.native.runs_left[0] = 1000
    return plan


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_calls_give_tensors_of_every_type(dtype: Any) -> None:
    left, right = torch.arange(12).reshape(4, 3).to(dtype), torch.arange(6).reshape(3, 2).to(dtype)
    plan, out = called_plan(left, right), torch.zeros(4, 2, dtype=dtype)
    assert plan(left, right, out=out) is out
    results = [out, plan(left, right)]
    results += [teir.einsum("ij,jk->ik", left, right) for _ in range(3)]
    assert all(torch.equal(one, left @ right) for one in results)
    assert all(type(one) is torch.Tensor and one.dtype == dtype for one in results)


def test_native_code_runs_on_tensors_as_they_lie() -> None:
    left, right = torch.arange(24.0).reshape(3, 8)[:, 1::2].T, torch.ones(3, 2)
    plan = called_plan(left, right)
    run = plan.call_known
    out = torch.empty(4, 2)
    assert run((left, right), out) is out
    assert torch.equal(out, left @ right)
    assert run((left.contiguous(), right), out) is NotImplemented
    assert run((left, right, right), out) is NotImplemented
    assert run((left.numpy(), right), out) is NotImplemented
    assert run((left.double(), right), out) is NotImplemented
    assert run((left, right.to("meta")), out) is NotImplemented
    assert run((left, right.to_sparse()), out) is NotImplemented
    assert run((left, right.expand(3, 2).clone().as_subclass(Named)), out) is NotImplemented


class Named(torch.Tensor):
    """A subclass may mean more than its memory."""


def shared_with(out: Any) -> Any:
    return out.view(-1)[:6].view(3, 2)


def freed(left_bytes: int) -> Any:
    tensor = torch.ones(3, 2)
    tensor.untyped_storage().resize_(left_bytes)
    return tensor


def negated() -> Any:
    return torch.full((3, 2), 1j).conj().imag


@pytest.mark.parametrize(
    "make",
    [
        lambda _out: freed(0),
        lambda _out: freed(20),
        lambda _out: negated(),
        lambda _out: torch.ones(3, 2, requires_grad=True),
        lambda _out: torch.nn.Parameter(torch.ones(3, 2)),
        lambda _out: torch._efficientzerotensor(3, 2),
        lambda _out: torch._efficientzerotensor(4, 2)[1:],
        shared_with,
    ],
)
def test_what_is_no_plain_tensor_is_not_run(make: Callable[[Any], Any]) -> None:
    left, right = torch.ones(4, 3), torch.ones(3, 2)
    plan, out = called_plan(left, right), torch.full((4, 2), 7.0)
    unusual = make(out)
    assert plan.call_known((left, unusual), out) is NotImplemented
    assert out.tolist() == [[7.0, 7.0]] * 4
    with pytest.raises(teir.TeirError):
        plan(left, unusual, out=out)
    assert out.tolist() == [[7.0, 7.0]] * 4


def test_lazy_conjugates_are_not_run() -> None:
    left, right = torch.full((4, 3), 1j), torch.full((3, 2), 1j)
    plan, out = called_plan(left, right), torch.zeros(4, 2, dtype=torch.complex64)
    assert plan.call_known((left, right.conj()), out) is NotImplemented
    assert plan.call_known((left, right), out.conj()) is NotImplemented


def test_parameters_are_run_where_nothing_is_recorded() -> None:
    weight, right = torch.nn.Parameter(torch.ones(4, 3)), torch.ones(3, 2)
    with torch.no_grad():
        plan = called_plan(weight, right)
        out = torch.zeros(4, 2)
        assert plan.call_known((weight, right), out) is out
        assert out.tolist() == [[3.0, 3.0]] * 4
    assert plan.call_known((weight, right), out) is NotImplemented


def test_nothing_is_run_for_mapped_traced_or_dual_tensors() -> None:
    left, right = torch.ones(4, 3), torch.ones(3, 2)
    plan = called_plan(left, right)
    seen = []

    def run(one: Any) -> Any:
        seen.append(plan.call_known((one, right), None))
        return one

    torch.func.functionalize(run)(left)
    torch.func.vmap(run)(torch.ones(2, 4, 3))
    torch.func.jvp(run, (left,), (left,))
    torch.jit.trace(run, (left,), check_trace=False)
    assert len(seen) >= 4
    assert all(one is NotImplemented for one in seen)


def test_a_trace_of_a_number_is_refused() -> None:
    number = torch.ones(())
    with pytest.raises(teir.TeirError, match="traced"):
        torch.jit.trace(lambda one: teir.einsum(",i->i", one, torch.ones(3)), (number,))


def test_tensors_run_in_plans_of_arrays_that_lie_as_no_tensor_does() -> None:
    records = np.zeros(4, [("value", np.float64), ("tag", np.int8)])["value"]
    for array in (np.ones(4)[::-1], records):
        plan = teir.plan("i,i->i", array, np.ones(4))
        assert np.array_equal(plan(array, np.ones(4)), array)
        assert plan(torch.ones(4).double(), torch.ones(4).double()).tolist() == [1.0] * 4


def test_arrays_and_tensors_together_are_looked_at() -> None:
    left, right = torch.ones(4, 3), torch.ones(3, 2)
    plan, out = called_plan(left, right), torch.zeros(4, 2)
    mixed: tuple[tuple[Any, Any, Any], ...] = (
        (left.numpy(), right, out),
        (left, right.numpy(), out),
        (left, right, out.numpy()),
    )
    for first, second, target in mixed:
        assert plan.call_known((first, second), target) is NotImplemented
        assert plan.call_known((first, second), None) is NotImplemented or target is not out
    assert plan(left, right, out=out.numpy()).tolist() == [[3.0, 3.0]] * 4


def test_a_result_without_axes_is_a_tensor() -> None:
    one = torch.arange(3.0)
    plan = teir.plan("i,i->", one, one)
    for _ in range(3):
        result = plan(one, one)
        assert type(result) is torch.Tensor
        assert (result.shape, result.item()) == ((), 5.0)


def test_pytorch_is_told_of_writes_to_out_alone() -> None:
    left, right = torch.ones(4, 3), torch.ones(3, 2)
    plan, out = called_plan(left, right), torch.zeros(4, 2)
    for count in (1, 2, 3):
        assert plan.call_known((left, right), out) is out
        assert out._version == count
    assert plan.call_known((left, right), None)._version == 0
    assert (left._version, right._version) == (0, 0)


def test_nothing_is_run_where_operations_are_intercepted() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    left, right = torch.ones(4, 3), torch.ones(3, 2)
    plan, out = called_plan(left, right), torch.zeros(4, 2)
    seen = []

    def traced(one: Any) -> Any:
        seen.append(plan.call_known((left, right), out))
        return one + 1

    make_fx(traced)(left)
    make_fx(traced, pre_dispatch=True)(left)
    assert seen == [NotImplemented] * 2
    assert plan.call_known((left, right), out) is out


def test_the_run_from_which_on_specialised_code_pays_is_counted() -> None:
    left, right = torch.ones(4, 3), torch.ones(3, 2)
    plan, out = called_plan(left, right), torch.zeros(4, 2)
    assert plan.executable is not None
    left_over = plan.executable.native.runs_left
    left_over[0] = 1
    assert plan.call_known((left, right), out) is NotImplemented
    assert left_over[0] == 0
    left_over[0] = 1
    assert plan(left, right, out=out).tolist() == [[3.0, 3.0]] * 4
    assert left_over[0] != 0


def test_two_shapes_by_turns_are_both_right() -> None:
    for _ in range(3):
        for rows in (2, 5):
            left, right = torch.rand(rows, 3), torch.rand(3, 2)
            result = teir.einsum("ij,jk->ik", left, right)
            torch.testing.assert_close(result, left @ right)


def test_a_first_call_in_a_transformed_function_is_refused_as_later_ones() -> None:
    script = """
import teir, torch
one = torch.ones(3)
plan = teir.plan("i,i->", one, one)
def called(wrapped):
    for _ in range(2):
        try:
            plan(wrapped, wrapped)
        except teir.TeirError as error:
            print(error.findings[0].code)
    return wrapped.sum()
torch.func.grad(called)(one)
print(plan(one, one).item())
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.stdout.split() == ["TEIR624", "TEIR624", "3.0"], ran.stderr


class Halved(TorchFunctionMode):
    """Makes another type of new tensors than is asked for."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        others = {"dtype": torch.float16} if func is torch.empty else {}
        return func(*args, **{**(kwargs or {}), **others})


def test_nothing_is_written_to_results_of_another_type_than_asked_for() -> None:
    left, right = torch.ones(4, 3), torch.ones(3, 2)
    plan, out = called_plan(left, right), torch.zeros(4, 2)
    teir.einsum("ij,jk->ik", left, right)
    teir.einsum("ij,jk->ik", left, right)
    with Halved():
        for call in (plan, lambda *pair: teir.einsum("ij,jk->ik", *pair)):
            with pytest.raises(teir.TeirError, match=r"torch\.float16"):
                call(left, right)
        assert plan(left, right, out=out) is out
    assert torch.equal(out, left @ right)
