"""The evaluator against the specification's numbers, NumPy and the exact interpreter."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from strategies.programs import programs
from teir.dtypes import DataType
from teir.ir.accuracy import PASS
from teir.ir.evaluate import evaluate
from teir.ir.exact import evaluate_exact, worst_ratio
from teir.ir.nodes import (
    Axis,
    Bytes,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Segment,
    Tensor,
)
from teir.soak.operands import differences, draw_images
from teir.soak.parts import DrawnProgram

FLOATS = tuple(kind for kind in DataType if not kind.is_index)


def axis(name: str, extent: int, strides: dict[str, int], offsets: dict[str, int] | None = None):
    return Axis(name=name, extent=extent, strides=Bytes(strides), offsets=Bytes(offsets or {}))


def loop(name: str, *children: Node, policy: Policy = Policy.SEQUENTIAL, scratch=()) -> Node:
    return IterationNode(name=name, axis=name, policy=policy, children=children, scratch=scratch)


def leaf(primitive: str, *guard: GuardTerm) -> Node:
    return InvocationNode(name=f"call_{primitive}", primitive=primitive, guard=guard)


def one_call(primitive: Primitive, tensors: dict[str, DataType], axes: tuple[Axis, ...]) -> Program:
    return Program(
        name="",
        tensors=tuple(Tensor(name=name, data_type=kind) for name, kind in tensors.items()),
        axes=axes,
        primitives=(primitive,),
        roots=(leaf(primitive.name),),
    )


def unary(operation: Operation, in_type: DataType, out_type: DataType, extent: int) -> Program:
    primitive = Primitive(
        name="p", operation=operation, inputs=("in0",), output="out", m=("m",), n=()
    )
    strides = {"in0": in_type.width, "out": out_type.width}
    return one_call(primitive, {"in0": in_type, "out": out_type}, (axis("m", extent, strides),))


def test_negative_offset_reads_before_the_base() -> None:
    primitive = Primitive(
        name="p", operation=Operation.COPY, inputs=("in0",), output="out", m=("m",)
    )
    axes = (axis("m", 3, {"in0": 4, "out": 4}, {"in0": -8}),)
    program = one_call(primitive, {"in0": DataType.FP32, "out": DataType.FP32}, axes)
    source, out = np.arange(5, dtype=np.float32), np.zeros(3, np.float32)
    evaluate(program, {"in0": source, "out": out}, bases={"in0": 12})
    assert out.tolist() == [1, 2, 3]
    with pytest.raises(IndexError):
        evaluate(program, {"in0": source, "out": out}, bases={"in0": 4})
    with pytest.raises(IndexError):
        evaluate(program, {"in0": source, "out": out}, bases={"in0": 20})


def test_base_may_have_any_alignment() -> None:
    source = np.zeros(4 * 7 + 3, np.uint8)
    source[3:] = np.arange(7, dtype=np.float32).view(np.uint8)
    out = np.zeros(7, np.float32)
    program = unary(Operation.COPY, DataType.FP32, DataType.FP32, 7)
    evaluate(program, {"in0": source, "out": out}, bases={"in0": 3})
    assert out.tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_missing_and_non_contiguous_operands_are_refused() -> None:
    program = unary(Operation.COPY, DataType.FP32, DataType.FP32, 2)
    with pytest.raises(LookupError):
        evaluate(program, {"in0": np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match="contiguous"):
        evaluate(program, {"in0": np.zeros((4, 4), np.float32)[::2, ::2], "out": np.zeros(2)})


def test_fortran_order_is_memory_order() -> None:
    program = unary(Operation.COPY, DataType.FP64, DataType.FP64, 6)
    source, out = np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros(6)
    evaluate(program, {"in0": source, "out": out})
    assert out.tolist() == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize(
    ("in_type", "out_type"),
    [(one, two) for one in FLOATS for two in FLOATS if two.is_complex or not one.is_complex],
)
def test_copy_rounds_once_to_nearest_even(in_type: DataType, out_type: DataType) -> None:
    numbers = np.random.default_rng(5).standard_normal(500) * 2.0 ** np.arange(-250, 250, 1)[:500]
    source = numbers.clip(-6e4, 6e4).astype(in_type.numpy_dtype())
    out = np.zeros(500, out_type.numpy_dtype())
    evaluate(unary(Operation.COPY, in_type, out_type, 500), {"in0": source, "out": out})
    wide = np.complex128 if out_type.is_complex else np.float64
    exact, found = source.astype(wide), out.astype(wide)
    if in_type is DataType.FP64 and out_type is DataType.BF16:
        last_place = 2.0 ** np.maximum(np.frexp(exact)[1] - 8, -133)
        assert (np.abs(found - exact) <= last_place / 2).all()
    else:
        assert np.array_equal(found, source.astype(out_type.numpy_dtype()).astype(wide))


def test_copy_to_bfloat16_has_no_second_rounding() -> None:
    just_above_half = np.array([1.00390625 + 2.0**-40])
    out = np.zeros(1, ml_dtypes.bfloat16)
    evaluate(
        unary(Operation.COPY, DataType.FP64, DataType.BF16, 1), {"in0": just_above_half, "out": out}
    )
    assert float(out[0]) == 1.0078125


@pytest.mark.parametrize("operation", [Operation.RELU, Operation.MIN, Operation.MAX])
@pytest.mark.parametrize("data_type", [t for t in FLOATS if not t.is_complex])
def test_nan_goes_through(operation: Operation, data_type: DataType) -> None:
    inputs = ("in0",) if operation is Operation.RELU else ("in0", "in1")
    primitive = Primitive(name="p", operation=operation, inputs=inputs, output="out", m=("m",))
    width = data_type.width
    axes = (axis("m", 4, dict.fromkeys((*inputs, "out"), width)),)
    program = one_call(primitive, dict.fromkeys((*inputs, "out"), data_type), axes)
    first = np.array([np.nan, -1, 2, -np.inf]).astype(data_type.numpy_dtype())
    second = np.array([1, np.nan, -3, 5]).astype(data_type.numpy_dtype())
    out = np.zeros(4, data_type.numpy_dtype())
    evaluate(program, {"in0": first, "in1": second, "out": out})
    expected = {
        Operation.RELU: [np.nan, 0, 2, 0],
        Operation.MIN: [np.nan, np.nan, -3, -np.inf],
        Operation.MAX: [np.nan, np.nan, 2, 5],
    }[operation]
    assert np.array_equal(out.astype(np.float64), np.array(expected), equal_nan=True)


@pytest.mark.parametrize("data_type", [DataType.C64, DataType.C128])
@pytest.mark.parametrize("operation", [Operation.RELU, Operation.MAX])
def test_complex_numbers_have_no_order(operation: Operation, data_type: DataType) -> None:
    inputs = ("in0",) if operation is Operation.RELU else ("in0", "in0")
    primitive = Primitive(name="p", operation=operation, inputs=inputs, output="out")
    program = one_call(primitive, dict.fromkeys(("in0", "out"), data_type), ())
    operand = np.zeros(1, data_type.numpy_dtype())
    with pytest.raises(ValueError, match="no order"):
        evaluate(program, {"in0": operand, "out": operand.copy()})


def test_tf32_rounds_the_factors_of_a_product_and_nothing_else() -> None:
    def result(inputs: tuple[str, ...]) -> float:
        primitive = Primitive(
            name="p", operation=Operation.CONTRACTION, inputs=inputs, output="out"
        )
        program = one_call(primitive, dict.fromkeys(("in0", "in1", "out"), DataType.TF32), ())
        out = np.zeros(1, np.float32)
        factor = np.array([1 + 2.0**-11 + 2.0**-20], np.float32)
        evaluate(program, {"in0": factor, "in1": np.ones(1, np.float32), "out": out})
        return float(out[0])

    assert result(("in0", "in1")) == 1 + 2.0**-10
    assert result(("in0",)) == np.float32(1 + 2.0**-11 + 2.0**-20)


def test_narrow_types_sum_in_fp32_and_round_once_per_invocation() -> None:
    strides = {"in0": 2, "in1": 0, "out": 0}
    primitive = Primitive(
        name="p", operation=Operation.CONTRACTION, inputs=("in0", "in1"), output="out", k=("k",)
    )
    tensors = dict.fromkeys(("in0", "in1", "out"), DataType.BF16)
    ones = np.ones(512, ml_dtypes.bfloat16)
    whole = np.zeros(1, ml_dtypes.bfloat16)
    program = one_call(primitive, tensors, (axis("k", 512, strides),))
    evaluate(program, {"in0": ones, "in1": ones[:1].copy(), "out": whole})
    assert float(whole[0]) == 512
    singly = np.zeros(1, ml_dtypes.bfloat16)
    scalar = Primitive(
        name="p", operation=Operation.CONTRACTION, inputs=("in0", "in1"), output="out"
    )
    looped = Program(
        name="",
        tensors=program.tensors,
        axes=program.axes,
        primitives=(scalar,),
        roots=(loop("k", leaf("p")),),
    )
    evaluate(looped, {"in0": ones, "in1": ones[:1].copy(), "out": singly})
    assert float(singly[0]) == 256


def test_a_written_tile_that_overlaps_itself_adds_in_order() -> None:
    """The adjoint of a convolution: out[i + j] += in0[i] * in1[j]."""
    primitive = Primitive(
        name="p",
        operation=Operation.CONTRACTION,
        inputs=("in0", "in1"),
        output="out",
        m=("i",),
        n=("j",),
    )
    axes = (axis("i", 4, {"in0": 8, "out": 8}), axis("j", 3, {"in1": 8, "out": 8}))
    program = one_call(primitive, dict.fromkeys(("in0", "in1", "out"), DataType.FP64), axes)
    left, right, out = np.array([1.0, 2, 3, 4]), np.array([1.0, 10, 100]), np.zeros(6)
    evaluate(program, {"in0": left, "in1": right, "out": out})
    assert out.tolist() == np.convolve(left, right).tolist()


def test_guards_and_scratch_poison() -> None:
    """Scratch is undefined again at every iteration of its owner: it must not carry over."""
    fill = Primitive(name="fill", operation=Operation.COPY, inputs=("in0",), output="T")
    drain = Primitive(name="drain", operation=Operation.COPY, inputs=("T",), output="out")
    scratch = (Tensor(name="T", data_type=DataType.FP64),)
    program = Program(
        name="",
        tensors=tuple(Tensor(name=n, data_type=DataType.FP64) for n in ("in0", "out")),
        axes=(axis("i", 3, {"in0": 8, "out": 8}),),
        primitives=(fill, drain),
        roots=(
            loop(
                "i",
                leaf("fill", GuardTerm(kind=GuardKind.LAST, axis="i")),
                leaf("drain"),
                scratch=scratch,
            ),
        ),
    )
    out = np.zeros(3)
    evaluate(program, {"in0": np.array([5.0, 6, 7]), "out": out})
    assert np.array_equal(out, [np.nan, np.nan, 7], equal_nan=True)


def test_parallel_order_follows_the_seed() -> None:
    """A racy program shows the order: the last iteration to run wins."""
    copy = Primitive(name="copy", operation=Operation.COPY, inputs=("in0",), output="out")
    program = Program(
        name="",
        tensors=tuple(Tensor(name=n, data_type=DataType.FP64) for n in ("in0", "out")),
        axes=(axis("i", 50, {"in0": 8}),),
        primitives=(copy,),
        roots=(loop("i", leaf("copy"), policy=Policy.PARALLEL),),
    )
    winners = []
    for seed in (0, 1, 2, 3, 0):
        out = np.zeros(1)
        evaluate(program, {"in0": np.arange(50.0), "out": out}, seed=seed)
        winners.append(out[0])
    assert len(set(winners)) > 2
    assert winners[0] == winners[-1]


def csr(dense: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, columns = np.nonzero(dense)
    pos = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=dense.shape[0]))])
    return pos.astype(np.int32), columns.astype(np.int32), dense[rows, columns]


def test_sddmm_then_spmm() -> None:
    """A_il = sum B_ij C_ik D_jk E_jl with B in CSR, a scratch element per stored position."""
    rng = np.random.default_rng(2)
    b = rng.integers(-3, 4, (4, 5)) * (rng.random((4, 5)) < 0.5) * 1.0
    c, d, e = (rng.integers(-3, 4, shape) * 1.0 for shape in ((4, 8), (5, 8), (5, 8)))
    pos, crd, values = csr(b)
    kinds = {"Bp": DataType.I32, "Bc": DataType.I32} | dict.fromkeys("BCDEA", DataType.FP64)
    zero_a = Primitive(name="za", operation=Operation.ZERO, inputs=(), output="A", m=("l",))
    zero_t = Primitive(name="zt", operation=Operation.ZERO, inputs=(), output="t")
    first = Primitive(
        name="f", operation=Operation.CONTRACTION, inputs=("B", "C", "D"), output="t", k=("k",)
    )
    second = Primitive(
        name="s", operation=Operation.CONTRACTION, inputs=("t", "E"), output="A", m=("l",)
    )
    sparse = Axis(
        name="j",
        extent=5,
        strides=Bytes({"Bc": 4, "B": 8, "D": 64, "E": 64}),
        segments=(Segment(pos="Bp", crd="Bc", by_position=("B",)),),
    )
    program = Program(
        name="",
        tensors=tuple(Tensor(name=n, data_type=t) for n, t in kinds.items()),
        axes=(
            axis("i", 4, {"Bp": 4, "C": 64, "A": 64}),
            sparse,
            axis("k", 8, {"C": 8, "D": 8}),
            axis("l", 8, {"E": 8, "A": 8}),
        ),
        primitives=(zero_a, zero_t, first, second),
        roots=(
            loop(
                "i",
                leaf("za"),
                loop(
                    "j",
                    leaf("zt"),
                    leaf("f"),
                    leaf("s"),
                    scratch=(Tensor(name="t", data_type=DataType.FP64),),
                ),
                policy=Policy.PARALLEL,
            ),
        ),
    )
    operands = {"Bp": pos, "Bc": crd, "B": values, "C": c, "D": d, "E": e}
    out = np.full((4, 8), np.nan)
    evaluate(program, {**operands, "A": out})
    assert np.array_equal(out, np.einsum("ij,ik,jk,jl->il", b, c, d, e))
    exact = evaluate_exact(program, {**operands, "A": out})
    assert {at: float(x.value[0]) for at, x in exact["A"].items()} == {
        8 * at: value for at, value in enumerate(out.reshape(-1))
    }
    broken = crd.copy()
    broken[0] = 5
    with pytest.raises(IndexError):
        evaluate(program, {**operands, "Bc": broken, "A": out})


def sparse_dot(policy_guard: tuple[GuardTerm, ...] = ()) -> Program:
    """out = sum over the coordinates that x and y share of x[i] * y[i] * dense[i]."""
    kinds = dict.fromkeys(("xp", "xc", "yp", "yc"), DataType.I64)
    kinds |= dict.fromkeys(("x", "y", "dense", "out"), DataType.FP64)
    product = Primitive(
        name="p", operation=Operation.CONTRACTION, inputs=("x", "y", "dense"), output="out"
    )
    shared = Axis(
        name="i",
        extent=20,
        strides=Bytes(dict.fromkeys(("xc", "yc", "x", "y", "dense"), 8)),
        segments=(
            Segment(pos="xp", crd="xc", by_position=("x",)),
            Segment(pos="yp", crd="yc", by_position=("y",)),
        ),
    )
    return Program(
        name="",
        tensors=tuple(Tensor(name=n, data_type=t) for n, t in kinds.items()),
        axes=(shared,),
        primitives=(product,),
        roots=(loop("i", leaf("p", *policy_guard)),),
    )


def test_several_segments_mean_intersection_in_ascending_coordinates() -> None:
    x_at, y_at = np.array([1, 4, 7, 9, 19]), np.array([0, 4, 9, 11, 19])
    operands = {
        "xp": np.array([0, 5]),
        "xc": x_at,
        "yp": np.array([0, 5]),
        "yc": y_at,
        "x": np.arange(1.0, 6),
        "y": np.arange(10.0, 15),
        "dense": np.arange(20.0),
    }
    out = np.zeros(1)
    evaluate(sparse_dot(), {**operands, "out": out})
    x, y = np.zeros(20), np.zeros(20)
    x[x_at], y[y_at] = operands["x"], operands["y"]
    assert out[0] == np.einsum("i,i,i->", x, y, operands["dense"])
    first = np.zeros(1)
    guard = (GuardTerm(kind=GuardKind.FIRST, axis="i"),)
    evaluate(sparse_dot(guard), {**operands, "out": first})
    assert first[0] == 2 * 11 * 4
    empty = np.zeros(1)
    evaluate(sparse_dot(), {**operands, "xp": np.array([2, 2]), "out": empty})
    assert empty[0] == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [("xc", [1, 4, 4, 9, 19]), ("xc", [1, -4, 7, 9, 19]), ("xp", [0, 6]), ("yp", [-1, 3])],
)
def test_wrong_index_arrays_are_refused(name: str, content: list[int]) -> None:
    five = np.arange(5)
    operands = {"xp": np.array([0, 5]), "xc": five, "yp": np.array([0, 5]), "yc": five}
    operands |= {"x": np.ones(5), "y": np.ones(5), "dense": np.ones(20), "out": np.zeros(1)}
    with pytest.raises(IndexError):
        evaluate(sparse_dot(), {**operands, name: np.array(content)})


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(work=1500))
def test_integers_are_exact_in_any_parallel_order(drawn: DrawnProgram) -> None:
    images = draw_images(drawn.program, 3, drawn.largest, drawn.divisors)
    bases = {name: image.base for name, image in images.items()}
    runs = [{name: image.copy() for name, image in images.items()} for _ in range(2)]
    for seed, run in enumerate(runs):
        content = {name: image.content for name, image in run.items()}
        evaluate(drawn.program, content, seed=seed, bases=bases)
    assert list(differences(*runs)) == []
    expected = evaluate_exact(
        drawn.program, {name: image.content for name, image in images.items()}, bases=bases
    )
    for name, image in runs[0].items():
        dtype = image.data_type.numpy_dtype()
        start = image.base % dtype.itemsize
        grid = image.content[start:].view(dtype)
        for address, element in expected[name].items():
            found = complex(grid[(image.base + address) // dtype.itemsize])
            assert found == complex(float(element.value[0]), float(element.value[1]))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(work=800))
def test_rounded_results_pass_the_bound(drawn: DrawnProgram) -> None:
    images = draw_images(drawn.program, 4, drawn.largest, drawn.divisors)
    numbers = np.random.default_rng(1)
    for name, image in images.items():
        values = numbers.uniform(-1, 1, image.elements().size)
        if name in drawn.divisors:
            values = values + np.where(values < 0, -1, 1)
        if image.data_type.is_complex:
            values = values.view(np.complex128)
        image.content[:] = values.astype(image.data_type.numpy_dtype()).view(np.uint8)
    bases = {name: image.base for name, image in images.items()}
    before = {name: image.content for name, image in images.items()}
    after = {name: image.copy().content for name, image in images.items()}
    evaluate(drawn.program, after, bases=bases)
    assert worst_ratio(drawn.program, before, after, bases=bases) < PASS


@pytest.mark.parametrize("operation", [Operation.ADD, Operation.SUB, Operation.MUL, Operation.DIV])
@pytest.mark.parametrize("data_type", FLOATS)
def test_binary_operations_are_rounded_once(operation: Operation, data_type: DataType) -> None:
    inputs = ("in0", "in1")
    primitive = Primitive(name="p", operation=operation, inputs=inputs, output="out", m=("m",))
    strides = dict.fromkeys((*inputs, "out"), data_type.width)
    program = one_call(
        primitive, dict.fromkeys((*inputs, "out"), data_type), (axis("m", 40, strides),)
    )
    numbers = np.random.default_rng(8)
    parts = 2 if data_type.is_complex else 1
    before = {}
    for name in (*inputs, "out"):
        values = numbers.uniform(1, 2, 40 * parts) * numbers.choice([-1, 1], 40 * parts)
        wide = values.view(np.complex128) if data_type.is_complex else values
        before[name] = wide.astype(data_type.numpy_dtype())
    after = {name: array.copy() for name, array in before.items()}
    evaluate(program, after)
    assert worst_ratio(program, before, after) < PASS
    after["out"][7] = after["out"][7] * after["out"].dtype.type(1.02)
    assert worst_ratio(program, before, after) > PASS
    after["out"][7] = np.nan
    assert worst_ratio(program, before, after) == np.inf


def test_a_complex_number_has_no_real_copy() -> None:
    program = unary(Operation.COPY, DataType.C64, DataType.FP32, 2)
    with pytest.raises(ValueError, match="no value"):
        evaluate(program, {"in0": np.ones(2, np.complex64), "out": np.ones(2, np.float32)})


def test_wrong_number_of_inputs_is_refused() -> None:
    primitive = Primitive(name="p", operation=Operation.ADD, inputs=("in0",), output="out")
    program = one_call(primitive, dict.fromkeys(("in0", "out"), DataType.FP64), ())
    with pytest.raises(ValueError, match="does not take 1 inputs"):
        evaluate(program, {"in0": np.ones(1), "out": np.ones(1)})


def test_exact_results_need_their_operands() -> None:
    program = unary(Operation.COPY, DataType.FP32, DataType.FP32, 3)
    with pytest.raises(IndexError):
        evaluate_exact(program, {"in0": np.ones(2, np.float32), "out": np.ones(3, np.float32)})


def test_scratch_may_be_addressed_by_position() -> None:
    """t holds one value per stored element of a row, addressed by its position."""
    fill = Primitive(name="fill", operation=Operation.MUL, inputs=("B", "c"), output="t")
    drain = Primitive(name="drain", operation=Operation.CONTRACTION, inputs=("t",), output="y")
    kinds = {"p": DataType.I32, "j": DataType.I32} | dict.fromkeys("Bcy", DataType.FP64)
    stored = Axis(
        name="j",
        extent=9,
        strides=Bytes({"j": 4, "B": 8, "c": 8, "t": 8}),
        segments=(Segment(pos="p", crd="j", by_position=("B", "t")),),
    )
    program = Program(
        name="",
        tensors=tuple(Tensor(name=n, data_type=t) for n, t in kinds.items()),
        axes=(stored,),
        primitives=(fill, drain),
        roots=(
            loop("j", leaf("fill")),
            IterationNode(
                name="again", axis="j", policy=Policy.SEQUENTIAL, children=(leaf("drain"),)
            ),
        ),
        scratch=(Tensor(name="t", data_type=DataType.FP64),),
    )
    y = np.zeros(1)
    operands = {
        "p": np.array([0, 3], np.int32),
        "j": np.array([2, 5, 8], np.int32),
        "B": np.array([1.0, 2, 3]),
        "c": np.arange(9.0),
    }
    evaluate(program, {**operands, "y": y})
    assert y[0] == 1 * 2 + 2 * 5 + 3 * 8


def test_scratch_takes_room_for_its_bytes_only() -> None:
    """A large offset on scratch moves its base away, it does not make it large."""
    fill = Primitive(name="fill", operation=Operation.COPY, inputs=("in0",), output="T", m=("i",))
    drain = Primitive(name="drain", operation=Operation.COPY, inputs=("T",), output="out", m=("i",))
    program = Program(
        name="",
        tensors=tuple(Tensor(name=n, data_type=DataType.FP64) for n in ("in0", "out")),
        axes=(axis("i", 3, {"in0": 8, "out": 8, "T": 16}, {"T": 2**61}),),
        primitives=(fill, drain),
        roots=(leaf("fill"), leaf("drain")),
        scratch=(
            Tensor(name="T", data_type=DataType.FP64),
            Tensor(name="unused", data_type=DataType.FP32),
        ),
    )
    out = np.zeros(3)
    evaluate(program, {"in0": np.arange(3.0), "out": out})
    assert out.tolist() == [0, 1, 2]


MANY = tuple(f"i{place}" for place in range(100))


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (Operation.ZERO, [0, 0, 0, 0]),
        (Operation.COPY, [-2, -1, 0, 1]),
        (Operation.RELU, [0, 0, 0, 1]),
        (Operation.CONTRACTION, [8, 10, 12, 14]),
    ],
)
@pytest.mark.parametrize("lanes", [False, True])
def test_tiles_of_more_axes_than_arrays_have(
    operation: Operation, expected: list[float], lanes: bool
) -> None:
    sums = operation is Operation.CONTRACTION
    steps = {"i7": 8, "i98": 4}
    free = tuple(
        axis(name, 2 if name in steps else 1, {"a": steps.get(name, 4), "out": steps.get(name, 4)})
        for name in MANY
    )
    summed = tuple(axis(f"k{name}", 2 if name == "i5" else 1, {"a": 0}) for name in MANY)
    leaf = Primitive(
        name="leaf",
        operation=operation,
        inputs=() if operation is Operation.ZERO else ("a",),
        output="out",
        m=MANY,
        k=tuple(one.name for one in summed) if sums else (),
        metadata=(("lanes", "2"),) if sums and lanes else (),
    )
    program = Program(
        name="many axes",
        tensors=tuple(Tensor(name=name, data_type=DataType.FP32) for name in ("a", "out")),
        axes=(*free, *summed) if sums else free,
        primitives=(leaf,),
        roots=(InvocationNode(name="do", primitive="leaf"),),
    )
    out = np.full(4, 12, np.float32)
    evaluate(program, {"a": np.arange(-2, 2, dtype=np.float32), "out": out})
    assert out.tolist() == expected
