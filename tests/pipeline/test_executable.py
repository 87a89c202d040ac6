"""Compiling and running programs: backends, forms, and what every run checks again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

import teir
from teir.pipeline.executable import Executable, Form, ReferenceExecutable, compile_program
from teir.target import MANY_REGISTERS, Caches, host_target

PRODUCT = """
teir 1 "product"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis m = 8: in0 4, out 4
axis n = 4: in1 64, out 32
axis k = 16: in0 32, in1 4
primitive z = Zero(out; M=[m], N=[n])
primitive g = Contraction FP32 (in0, in1 -> out; M=[m], N=[n], K=[k])
zero: z
gemm: g
"""
SPARSE = """
teir 1 "row sums"
tensor pos: I64
tensor crd: I64
tensor in0: FP64
tensor out: FP64
axis i = 3: pos 8, out 8
axis j = 4: crd 8, in0 8; segment pos pos crd crd by_position [in0]
primitive z = Zero(out; M=[], N=[])
primitive add = Contraction FP64 (in0 -> out; M=[], N=[], K=[])
sequential i over i
  zero: z
  sequential j over j
    sum: add
"""

SPARSE_RESULT = """
teir 1 "a result for each stored element"
tensor pos: I64
tensor crd: I64
tensor in0: FP64
tensor out: FP64
axis i = 3: pos 8
axis j = 4: crd 8, in0 8, out 8; segment pos pos crd crd by_position [in0, out]
primitive keep = Copy(in0 -> out; M=[], N=[])
sequential i over i
  sequential j over j
    copy: keep
"""


def arrays() -> dict[str, Any]:
    generator = np.random.default_rng(3)
    return {
        "in0": generator.standard_normal((16, 8)).astype(np.float32),
        "in1": generator.standard_normal((4, 16)).astype(np.float32),
        "out": np.full((4, 8), np.nan, np.float32),
    }


def codes(error: pytest.ExceptionInfo[teir.TeirError]) -> list[str]:
    return [finding.code for finding in error.value.findings]


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_every_backend_gives_the_product(backend: str) -> None:
    operands = arrays()
    teir.run(teir.loads(PRODUCT), operands, backend=backend)
    np.testing.assert_allclose(operands["out"], operands["in1"] @ operands["in0"], rtol=1e-5)


def test_compiled_programs_run_often_in_every_form() -> None:
    program = teir.loads(PRODUCT)
    table = teir.compile(program, threads=1)
    reference = teir.compile(program, backend="reference")
    assert isinstance(table, Executable)
    assert isinstance(reference, ReferenceExecutable)
    expected, first, second, slow = arrays(), arrays(), arrays(), arrays()
    table.run(first)
    table.specialised().run(second)
    reference.run(slow)
    assert first["out"].tobytes() == second["out"].tobytes()
    np.testing.assert_allclose(slow["out"], expected["in1"] @ expected["in0"], rtol=1e-5)
    compile_program(program, form=Form.SPECIALISED).run(expected)
    assert expected["out"].tobytes() == first["out"].tobytes()


BLOCKED = """
teir 1 "blocked product"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
axis m = 4: in0 256, out 8192
axis n = 8: in1 262144, out 32768
axis mp = 32: in0 8, out 8
axis np = 32: in1 8192, out 256
axis k = 1024: in0 1024, in1 8
primitive g = Contraction FP64 (in0, in1 -> out; M=[mp], N=[np], K=[k])
sequential m over m
  sequential n over n
    main: g
"""


def test_short_rows_are_copied_first_where_the_third_cache_is_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In what is compiled to run often; the program says so, and the bits are the same."""
    program = teir.loads(BLOCKED)
    generator = np.random.default_rng(4)
    shapes = {"in0": (1024, 4, 32), "in1": (8, 32, 1024), "out": (8, 4, 32, 32)}
    given = {name: generator.standard_normal(shape) for name, shape in shapes.items()}
    found = {}
    for third_bytes, inputs in ((64 << 20, ("in0", "in1")), (105 << 20, ("in0_packed", "in1"))):
        caches = Caches(l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=third_bytes, source="test")
        target = replace(host_target(os.environ), caches=caches)
        monkeypatch.setattr("teir.pipeline.executable.host", lambda target=target: target)
        executable = teir.compile(program, threads=1)
        (product,) = [one for one in executable.program.primitives if len(one.inputs) == 2]
        assert product.inputs == inputs
        operands = {name: array.copy() for name, array in given.items()}
        executable.run(operands)
        found[third_bytes] = operands["out"]
        assert compile_program(program, threads=1).program is program
    near, far = found.values()
    np.testing.assert_array_equal(near, far)
    expected = given["out"] + np.einsum("kmp,nqk->nmqp", given["in0"], given["in1"])
    np.testing.assert_allclose(far, expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("data_type", [np.float32, np.float64])
def test_blocked_products_run_in_another_order_with_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, data_type: type
) -> None:
    text = files("teir").joinpath("examples", "backend-1-gemm.teir").read_text(encoding="utf-8")
    if data_type is np.float64:
        text = re.sub(r"(in0|in1|out) (\d+)", lambda m: f"{m[1]} {2 * int(m[2])}", text)
        text = text.replace("FP32", "FP64")
    program = teir.loads(text)
    generator = np.random.default_rng(5)
    shapes = {"in0": (32, 8, 32, 32), "in1": (32, 8, 32, 32), "out": (32, 32, 32, 32)}
    given = {
        name: generator.standard_normal(shape).astype(data_type) for name, shape in shapes.items()
    }
    caches = Caches(l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20, source="test")
    target = replace(host_target(os.environ), caches=caches)
    monkeypatch.setattr("teir.pipeline.executable.host", lambda: target)
    found = []
    for executable in (compile_program(program, threads=1), teir.compile(program, threads=1)):
        operands = {name: array.copy() for name, array in given.items()}
        executable.run(operands)
        found.append(operands["out"])
    np.testing.assert_array_equal(*found)
    if target.isa.vector_registers >= MANY_REGISTERS:
        assert any("in1_packed" in one.inputs for one in executable.program.primitives)


def test_bytes_stand_for_a_tensor_whatever_their_shape() -> None:
    operands = arrays()
    expected = operands["in1"] @ operands["in0"]
    operands["in0"] = operands["in0"].reshape(-1).view(np.uint8).reshape(2, -1)
    teir.run(teir.loads(PRODUCT), operands)
    np.testing.assert_allclose(operands["out"], expected, rtol=1e-5)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_room_before_the_base_serves_negative_offsets(backend: str) -> None:
    text = PRODUCT.replace("axis m = 8: in0 4, out 4", "axis m = 8: in0 4, out 4 + -32")
    operands = arrays()
    expected = operands["in1"] @ operands["in0"]
    room = np.zeros(32, np.float32)
    operands["out"] = teir.Operand(room, base_bytes=32)
    teir.run(teir.loads(text), operands, backend=backend)
    np.testing.assert_allclose(room.reshape(4, 8), expected, rtol=1e-5)


def test_every_run_checks_its_operands_and_writes_nothing_when_one_is_wrong() -> None:
    executable = teir.compile(teir.loads(PRODUCT))
    operands = arrays()
    short = operands | {"in0": operands["in0"].reshape(-1)[:127]}
    with pytest.raises(teir.TeirError) as error:
        executable.run(short)
    assert codes(error) == ["TEIR402"]
    shared = np.zeros(200, np.float32)
    with pytest.raises(teir.TeirError) as error:
        executable.run(operands | {"in0": shared[:128], "out": shared[127:159]})
    assert codes(error) == ["TEIR407"]
    assert np.isnan(operands["out"]).all()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"in0": None}, "TEIR501"),
        ({"in2": np.zeros(1, np.float32)}, "TEIR704"),
        ({"in0": np.zeros(128)}, "TEIR504"),
        ({"in0": np.zeros(256, np.float32)[::2]}, "TEIR503"),
    ],
)
def test_operands_that_are_none(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(teir.TeirError) as error:
        teir.run(teir.loads(PRODUCT), arrays() | change)
    assert codes(error) == [expected]


def test_all_wrong_operands_are_named_at_once() -> None:
    with pytest.raises(teir.TeirError) as error:
        teir.run(teir.loads(PRODUCT), {"in0": None, "other": 1})
    assert codes(error) == ["TEIR704", "TEIR501", "TEIR501", "TEIR501"]
    found = [finding.found for finding in error.value.findings[1:]]
    assert found == ["None", "none given by this name", "none given by this name"]


def test_arguments_of_other_types_are_findings() -> None:
    program = teir.loads(PRODUCT)
    wrong: list[tuple[str, Any]] = [
        ("TEIR701", lambda: teir.run(program, arrays(), backend="gpu")),
        ("TEIR703", lambda: teir.run(program, arrays(), threads=0)),
        ("TEIR703", lambda: teir.run(program, arrays(), threads=True)),
        ("TEIR703", lambda: teir.run(program, arrays(), threads=1025)),
        ("TEIR703", lambda: teir.run(program, arrays(), threads=2**70)),
        ("TEIR703", lambda: teir.run(program, arrays(), threads=np.ones(2, np.int64))),  # type: ignore[arg-type]
        ("TEIR705", lambda: teir.run(program, [1, 2])),  # type: ignore[arg-type]
        ("TEIR706", lambda: teir.run(PRODUCT, arrays())),  # type: ignore[arg-type]
        ("TEIR706", lambda: teir.check(PRODUCT)),  # type: ignore[arg-type]
        ("TEIR706", lambda: teir.compile(None)),  # type: ignore[arg-type]
        ("TEIR708", lambda: teir.compile(program, form="table")),  # type: ignore[arg-type]
    ]
    for code, call in wrong:
        with pytest.raises(teir.TeirError) as error:
            call()
        assert codes(error) == [code]


def test_a_program_that_is_not_safe_is_not_compiled() -> None:
    guarded = PRODUCT.replace("zero: z", "zero: z if first(k)")
    with pytest.raises(teir.TeirError) as error:
        teir.compile(teir.loads(guarded))
    assert codes(error) == ["TEIR318"]
    (finding,) = error.value.findings
    assert finding.line is not None
    assert "first(k)" in finding.line


def test_sparse_programs_run_on_the_evaluator_and_natively() -> None:
    program = teir.loads(SPARSE)
    operands = {
        "pos": np.array([0, 2, 2, 3]),
        "crd": np.array([1, 3, 0]),
        "in0": np.array([1.0, 2.0, 4.0]),
        "out": np.zeros(3),
    }
    teir.run(program, operands, backend="reference")
    np.testing.assert_array_equal(operands["out"], [3, 0, 4])
    operands["out"][:] = 0
    teir.run(program, operands)
    np.testing.assert_array_equal(operands["out"], [3, 0, 4])


def sparse_operands(**changed: Any) -> dict[str, Any]:
    operands = {
        "pos": np.array([0, 2, 2, 3]),
        "crd": np.array([1, 3, 0]),
        "in0": np.array([1.0, 2.0, 4.0]),
        "out": np.zeros(3),
    }
    return operands | changed


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"crd": np.array([1, 2**30, 0])}, "TEIR413"),
        ({"crd": np.array([1, -1, 0])}, "TEIR413"),
        ({"pos": np.array([0, 2, 2, 2**30])}, "TEIR412"),
        ({"pos": np.array([0, 2, 1, 3])}, "TEIR411"),
        ({"in0": np.ones(2)}, "TEIR402"),
    ],
)
def test_every_run_looks_at_the_index_arrays_first(
    backend: str, changed: dict[str, Any], code: str
) -> None:
    executable = teir.compile(teir.loads(SPARSE), backend=backend)
    good, wrong = sparse_operands(), sparse_operands(**changed)
    executable.run(good)
    with pytest.raises(teir.TeirError) as caught:
        executable.run(wrong)
    assert code in {finding.rule.code for finding in caught.value.findings}
    np.testing.assert_array_equal(wrong["out"], 0)


def test_results_by_position_are_covered_by_their_operand() -> None:
    """As many elements as the index arrays say, and no more, may be written."""
    program = teir.loads(SPARSE_RESULT)
    index = {"pos": np.array([0, 2, 2, 3]), "crd": np.array([1, 3, 0])}
    room = np.full(8, -7.0)
    teir.run(program, index | {"in0": np.array([1.0, 2.0, 4.0]), "out": room[:3]})
    np.testing.assert_array_equal(room, [1, 2, 4, *[-7] * 5])
    with pytest.raises(teir.TeirError, match="TEIR402"):
        teir.run(program, index | {"in0": np.ones(3), "out": room[:1]})
    np.testing.assert_array_equal(room, [1, 2, 4, *[-7] * 5])


def test_check_reports_needs_and_looks_at_operands_when_given() -> None:
    program = teir.loads(PRODUCT)
    needs = teir.check(program).needs
    assert (needs["in0"].low, needs["in0"].high) == (0, 512)
    assert teir.check(program, arrays()).ok
    short = arrays() | {"out": np.zeros(31, np.float32)}
    assert [finding.code for finding in teir.check(program, short).findings] == ["TEIR402"]


@pytest.mark.parametrize(
    ("wanted", "shown"), [("plain", "plain"), ("PLAIN", "plain"), ("vax", "TEIR801")]
)
def test_the_environment_may_name_the_instruction_set(wanted: str, shown: str) -> None:
    script = (
        "import numpy as np, teir\n"
        "try:\n"
        "    print(teir.plan('ij,jk->ik', (3, 4), (4, 5)).executable.isa.value)\n"
        "except teir.TeirError as error:\n"
        "    print(error.findings[0].code)\n"
    )
    environment = os.environ | {"TEIR_ISA": wanted}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == shown


@pytest.mark.parametrize("backend", [None, [], 1, "gpu"])
def test_a_backend_that_is_none(backend: object) -> None:
    with pytest.raises(teir.TeirError, match="TEIR701"):
        teir.run(teir.loads('teir 1 "x"'), {}, backend=backend)


def test_threads_are_looked_at_whatever_runs() -> None:
    with pytest.raises(teir.TeirError, match="TEIR703"):
        teir.run(teir.loads('teir 1 "x"'), {}, backend="reference", threads=0)


@pytest.mark.parametrize("timeout", ["1", float("nan"), []])
def test_a_timeout_that_is_no_number(timeout: object) -> None:
    with pytest.raises(teir.TeirError, match="TEIR707"):
        teir.run(teir.loads('teir 1 "x"'), {}, timeout=timeout)


@pytest.mark.parametrize("timeout", [10**400, -(10**400), 10**5000], ids=["long", "less", "longer"])
def test_a_timeout_that_no_float_holds(timeout: int) -> None:
    with pytest.raises(teir.TeirError, match="TEIR707"):
        teir.run(teir.loads('teir 1 "x"'), {}, timeout=timeout)


@pytest.mark.parametrize(
    "timeout", [10**300, 1e300, float("inf")], ids=["long", "float", "endless"]
)
def test_a_timeout_beyond_every_clock(timeout: float) -> None:
    teir.run(teir.loads('teir 1 "x"'), {}, timeout=timeout)
