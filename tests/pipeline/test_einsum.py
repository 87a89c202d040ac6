"""einsum, tensordot, transpose and plan on arrays: results, and what bad input gets."""

from __future__ import annotations

import random
import tracemalloc
from contextlib import suppress
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import opt_einsum
import pytest

import teir
from teir.dtypes import DataType
from teir.errors import TeirError
from teir.expr.evaluate import evaluate_einsum
from teir.expr.parsing import parse_subscripts
from teir.ir.accuracy import PASS, error_bound, error_ratio
from teir.pipeline.executable import Form
from teir.pipeline.rules import EINSUM_RULES


def integers(*shape: int, dtype: object = "float32", seed: int = 0) -> np.ndarray:
    """Small integers, so that every sum is exact."""
    rng = np.random.default_rng((seed, *shape))
    return rng.integers(-3, 4, shape).astype(dtype)


def agrees(text: str, *arrays: np.ndarray, **keywords: object) -> None:
    result = teir.einsum(text, *arrays, **keywords)
    expected = np.einsum(text, *arrays)
    np.testing.assert_array_equal(result, expected, err_msg=text)
    assert np.shape(result) == np.shape(expected)


def code_of(call: object) -> str:
    with pytest.raises(TeirError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value)
    return caught.value.findings[0].code


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ij,jk", [(3, 4), (4, 5)]),
        ("ij,jk->ki", [(33, 40), (40, 50)]),
        ("ij,kj->ik", [(33, 40), (50, 40)]),
        ("ji,kj->ik", [(40, 33), (50, 40)]),
        ("trus,pqtu->pqrs", [(2, 3, 4, 17), (3, 2, 2, 4)]),
        ("bij,bjk->bik", [(3, 4, 5), (3, 5, 6)]),
        ("ijb,jkb->ikb", [(4, 5, 7), (5, 6, 7)]),
        ("ij,j->i", [(9, 12), (12,)]),
        ("i,ij->j", [(9,), (9, 12)]),
        ("i,i->", [(9,), (9,)]),
        ("i,j->ij", [(9,), (5,)]),
        ("ij,ij->ij", [(5, 6), (5, 6)]),
        ("ij,ij->", [(5, 6), (5, 6)]),
        ("ij->ji", [(5, 6)]),
        ("abcd->dcba", [(3, 4, 5, 6)]),
        ("ij->", [(5, 6)]),
        ("ij->j", [(5, 6)]),
        ("ij->i", [(5, 6)]),
        ("ii", [(5, 5)]),
        ("ii->i", [(5, 5)]),
        ("iij->j", [(5, 5, 3)]),
        ("ii,i->i", [(5, 5), (5,)]),
        ("ijk,kl->il", [(3, 4, 5), (5, 6)]),
        ("ij,kl->", [(3, 4), (5, 6)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (7, 4, 5)]),
        ("...,...", [(2, 3), (4, 1, 3)]),
        ("ij,jk", [(2, 1), (4, 5)]),
        (",", [(), ()]),
        (",ij->ji", [(), (3, 4)]),
        ("->", [()]),
        ("", [()]),
        ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 6)]),
        ("ab,bc,ac->", [(3, 4), (4, 5), (3, 5)]),
        ("i,j,k->kij", [(3,), (4,), (5,)]),
        ("ab,bc,cd,de,ef->af", [(2, 3), (3, 4), (4, 5), (5, 6), (6, 2)]),
        ("abcdefghij->jihgfedcba", [(1, 2) * 5]),
        ("ab,ab->", [(1, 1), (1, 1)]),
        ("abc,cd->abd", [(1, 1, 1), (1, 1)]),
    ],
)
def test_agrees_with_numpy(text: str, shapes: list) -> None:
    agrees(text, *[integers(*shape, seed=place) for place, shape in enumerate(shapes)])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex64", "complex128"])
def test_types(dtype: str) -> None:
    a, b = integers(5, 7, dtype=dtype), integers(7, 18, dtype=dtype)
    result = teir.einsum("ij,jk->ik", a, b)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, a @ b)


def test_bfloat16() -> None:
    a, b = integers(5, 7, dtype=ml_dtypes.bfloat16), integers(7, 18, dtype=ml_dtypes.bfloat16)
    result = teir.einsum("ij,jk->ik", a, b)
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result.astype("f4"), a.astype("f4") @ b.astype("f4"))


def test_mixed_types_are_promoted_as_numpy_does() -> None:
    a, b = integers(3, 4), integers(4, 5, dtype="complex128")
    result = teir.einsum("ij,jk", a, b)
    assert result.dtype == np.complex128
    np.testing.assert_array_equal(result, a @ b)
    mixed = teir.einsum("ij,jk", integers(3, 4, dtype="int32"), integers(4, 5))
    assert mixed.dtype == np.result_type("int32", "float32")


@pytest.mark.parametrize("dtype", [np.float64, "f8", DataType.FP64, "complex64", "bfloat16"])
def test_dtype_is_the_type_of_the_result(dtype: object) -> None:
    a, b = integers(3, 4), integers(4, 5)
    result = teir.einsum("ij,jk->ik", a, b, dtype=dtype)
    wanted = {DataType.FP64: "float64", "bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype)
    assert result.dtype == np.dtype(wanted)
    np.testing.assert_array_equal(result.astype("complex64"), (a @ b).astype("complex64"))


def test_tf32_rounds_the_inputs_of_products() -> None:
    one = np.array([1 + 2.0**-12], "float32")
    for text in ("i,i->i", "i,i->", "i,j->ij"):
        result = teir.einsum(text, one, one, dtype="TF32")
        assert result.dtype == np.float32
        assert np.all(result == 1)


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint16", "bool"])
def test_integers_go_through_numpy(dtype: str) -> None:
    a, b = integers(3, 4).astype(dtype), integers(4, 5).astype(dtype)
    result = teir.einsum("ij,jk->ik", a, b)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.einsum("ij,jk->ik", a, b))
    assert "NumPy" in teir.plan("ij,jk->ik", a, b).explain()


def test_integers_of_several_types_meet_in_the_type_of_the_result() -> None:
    flags, more = np.ones((5, 3), bool), np.ones(5, bool)
    bytes_, wide = np.full((3, 4), 200, "uint8"), np.full(4, 3, "int64")
    assert teir.einsum("pi,p,ij,j->", flags, more, bytes_, wide) == 5 * 3 * 4 * 200 * 3
    out = np.empty((), "int64")
    teir.einsum("pi,p,ij,j->", flags, more, bytes_, wide, out=out)
    assert out == 5 * 3 * 4 * 200 * 3


def test_types_are_promoted_all_at_once() -> None:
    one, two, three = np.ones(2, "int8"), np.ones(2, "uint8"), np.ones(2, "float16")
    assert teir.einsum("i,i,i->i", one, two, three).dtype == np.result_type(one, two, three)


def test_types_without_a_common_one_are_refused() -> None:
    narrow, counts = np.ones(2, ml_dtypes.bfloat16), np.ones(2, "int16")
    with suppress(np.exceptions.DTypePromotionError):
        np.result_type(narrow.dtype, counts.dtype)
        pytest.skip("from ml_dtypes 0.7 on they have one")
    with pytest.raises(TeirError, match=r"TEIR620 at operands.*bfloat16 and int16"):
        teir.einsum("i,i->", narrow, counts)
    assert teir.einsum("i,i->", narrow, counts, dtype="float32") == 2


def test_objects_go_through_numpy() -> None:
    a = np.array([[1, 2], [3, 10**30]], object)
    np.testing.assert_array_equal(teir.einsum("ij,jk->ik", a, a), a.dot(a))


@pytest.mark.parametrize(
    ("text", "shapes", "shape"),
    [
        ("ij,jk->ik", [(0, 4), (4, 5)], (0, 5)),
        ("ij,jk->ik", [(3, 4), (4, 0)], (3, 0)),
        ("ij,jk->ik", [(3, 0), (0, 5)], (3, 5)),
        ("bij,bjk->bik", [(0, 2, 3), (0, 3, 4)], (0, 2, 4)),
        ("i,i", [(0,), (0,)], ()),
        ("i,i", [(0,), (1,)], ()),
    ],
)
def test_empty_extents(text: str, shapes: list, shape: tuple[int, ...]) -> None:
    arrays = [np.ones(one, "float32") for one in shapes]
    result = teir.einsum(text, *arrays)
    assert np.shape(result) == shape
    assert not np.any(result)
    out = np.full(shape, 7, "float32")
    assert teir.einsum(text, *arrays, out=out) is out
    assert not out.any()


def view(name: str, array: np.ndarray) -> np.ndarray:
    """The same values in another layout."""
    rows, columns = array.shape
    match name:
        case "fortran":
            return np.asfortranarray(array)
        case "reversed rows":
            return array[::-1].copy()[::-1]
        case "reversed":
            return array[::-1, ::-1].copy()[::-1, ::-1]
        case "sliced":
            wide = np.zeros((2 * rows, 3 * columns), array.dtype)
            wide[::2, 1::3] = array
            return wide[::2, 1::3]
        case "misaligned":
            raw = np.zeros(array.nbytes + 1, np.uint8)
            skewed = raw[1:].view(array.dtype).reshape(array.shape)
            skewed[...] = array
            return skewed
        case "odd strides":
            record = np.zeros((rows, columns), np.dtype([("x", array.dtype), ("y", "u1")]))
            record["x"] = array
            return record["x"]
        case "read-only":
            array = array.copy()
            array.flags.writeable = False
            return array
        case _:
            return array


LAYOUTS = (
    "plain",
    "fortran",
    "reversed rows",
    "reversed",
    "sliced",
    "misaligned",
    "odd strides",
    "read-only",
)


@pytest.mark.parametrize("one", LAYOUTS)
@pytest.mark.parametrize("two", LAYOUTS)
def test_layouts(one: str, two: str) -> None:
    a, b = integers(6, 7), integers(7, 9, seed=1)
    agrees("ij,jk->ik", view(one, a), view(two, b))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", ["ij->ji", "ij->", "ij->i", "ij->ij", "ii->i", "ii"])
def test_layouts_of_one_operand(layout: str, text: str) -> None:
    agrees(text, view(layout, integers(7, 7)))


def test_a_copied_operand_is_explained() -> None:
    a, b = integers(6, 7)[::-1], integers(7, 9)
    assert "operand 0 is copied" in teir.plan("ij,jk->ik", a, b).explain()
    assert "copied" not in teir.plan("ij,jk->", a[:, ::-1], b[::-1]).explain()


def test_zero_strides_on_inputs() -> None:
    a = np.broadcast_to(integers(1, 7), (6, 7))
    agrees("ij,jk->ik", a, integers(7, 9))
    agrees("ij->i", a)
    agrees("ij->", a)
    agrees("ij->ji", a)
    agrees("ij,ij->ij", a, a)


def test_a_huge_virtual_operand() -> None:
    huge = np.lib.stride_tricks.as_strided(np.ones(1, "f4"), (2**40, 1), (0, 0))
    assert teir.einsum("ij,j->j", huge[:4], np.ones(1, "f4")) == 4
    assert teir.plan("ij->ij", huge).problem.bound.output_shape == (2**40, 1)


@pytest.mark.parametrize("shape", [(2**31, 2**31), (2**32, 2**31), (2**62,), (2**64,)])
def test_extents_beyond_the_limit(shape: tuple[int, ...]) -> None:
    text = "ij"[: len(shape)]
    assert code_of(lambda: teir.plan(f"{text}->{text}", shape)) == "TEIR614"
    assert code_of(lambda: teir.plan(f"{text}->", shape)) == "TEIR614"


def test_a_result_beyond_the_limit() -> None:
    long = np.lib.stride_tricks.as_strided(np.ones(1, "f4"), (2**31,), (0,))
    assert code_of(lambda: teir.einsum("i,j->ij", long, long)) == "TEIR614"


def test_many_operands_and_indices() -> None:
    chain = [integers(2, 2, seed=place) for place in range(60)]
    flat = [part for place, one in enumerate(chain) for part in (one / 2, [place, place + 1])]
    result = teir.einsum(*flat, [0, 60])
    expected = np.linalg.multi_dot([one.astype("f8") / 2 for one in chain])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_a_thousand_operands() -> None:
    one = np.eye(2, dtype="float64")
    flat = [part for place in range(1000) for part in (one, [place, place + 1])]
    np.testing.assert_array_equal(teir.einsum(*flat, [0, 1000]), one)


def test_integers_of_a_thousand_operands_are_refused() -> None:
    ones = [np.ones(3, int)] * 1000
    text = ",".join(["i"] * len(ones)) + "->i"
    with pytest.raises(TeirError, match="TEIR644"):
        teir.einsum(text, *ones)
    np.testing.assert_array_equal(teir.einsum(text, *ones, dtype=float), np.ones(3))


def test_a_64_dimensional_tensor() -> None:
    shape = tuple(2 if place % 8 == 0 else 1 for place in range(64))
    a = integers(*shape)
    numbers = list(range(64))
    result = teir.einsum(a, numbers, numbers[::-1])
    np.testing.assert_array_equal(result, a.transpose())


def test_unicode_and_blanks() -> None:
    a, b = integers(3, 4), integers(4, 5)
    np.testing.assert_array_equal(teir.einsum(" éß , ßж -> éж ", a, b), a @ b)


def test_random_expressions_stay_within_the_bound() -> None:
    rng = random.Random(5)
    worst = 0.0
    for _ in range(150):
        worst = max(worst, _random_ratio(rng))
    assert worst < PASS


def _random_ratio(rng: random.Random) -> float:
    letters = "abcde"[: rng.randint(1, 5)]
    extents = {letter: rng.choice((1, 2, 3, 7, 9)) for letter in letters}
    count = rng.randint(1, 3)
    terms = ["".join(rng.choices(letters, k=rng.randint(0, 3))) for _ in range(count)]
    used = sorted(set("".join(terms)))
    output = "".join(rng.sample(used, rng.randint(0, len(used))))
    text = f"{','.join(terms)}->{output}"
    draw = np.random.default_rng(rng.randint(0, 2**30))
    data_type = rng.choice((DataType.FP32, DataType.FP64, DataType.C64))
    arrays = []
    for term in terms:
        array = draw.uniform(-1, 1, [extents[letter] for letter in term])
        array = array.astype(data_type.numpy_dtype())
        arrays.append(np.asarray(array.T if rng.random() < 0.3 and len(set(term)) == 1 else array))
    result = teir.einsum(text, *arrays)
    exact = evaluate_einsum(parse_subscripts(text), arrays)
    size = evaluate_einsum(parse_subscripts(text), [np.abs(array) for array in arrays])
    terms_summed = int(np.prod([extents[letter] for letter in used if letter not in output]))
    permitted = max(1, count - 1) * error_bound(
        size, terms=terms_summed, invocations=1, input_type=data_type, output_type=data_type
    )
    return error_ratio(np.asarray(result), exact, np.asarray(permitted))


# --- special values -------------------------------------------------------------------------


def test_special_values_behave_as_ieee_says() -> None:
    a = np.array([[np.nan, 1], [np.inf, 1], [1, 1]], "float32")
    b = np.array([[1.0], [1.0]], "float32")
    result = teir.einsum("ij,jk->ik", a, b)
    assert np.isnan(result[0, 0])
    assert result[1, 0] == np.inf
    assert result[2, 0] == 2
    largest = np.full((1, 2), np.finfo("float32").max)
    assert teir.einsum("ij->i", largest)[0] == np.inf
    tiny = np.full((1, 1), 1e-45, "float32")
    assert teir.einsum("ij,jk->ik", tiny, np.ones((1, 1), "float32"))[0, 0] == tiny[0, 0]


# --- out ------------------------------------------------------------------------------------


def test_out_is_written_directly() -> None:
    a, b = integers(3, 4), integers(4, 5)
    out = np.full((3, 5), np.nan, "float32")
    assert teir.einsum("ij,jk->ik", a, b, out=out) is out
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize("layout", ["fortran", "sliced", "misaligned"])
def test_out_may_have_any_forward_layout(layout: str) -> None:
    a, b = integers(6, 4), integers(4, 9)
    out = view(layout, np.zeros((6, 9), "float32"))
    assert teir.einsum("ij,jk->ik", a, b, out=out) is out
    np.testing.assert_array_equal(out, a @ b)


def test_out_walked_backwards() -> None:
    a = integers(5, 6)
    out = np.zeros((5, 6), "float32")
    assert code_of(lambda: teir.einsum("ij->ij", a, out=out[::-1])) == "TEIR634"
    teir.einsum("ij->ij", a[::-1], out=out[::-1])
    np.testing.assert_array_equal(out, a)


def test_out_that_cannot_be_written() -> None:
    a, b = integers(3, 4), integers(4, 5)

    def refused(out: object) -> str:
        return code_of(lambda: teir.einsum("ij,jk->ik", a, b, out=out))

    frozen = np.zeros((3, 5), "float32")
    frozen.flags.writeable = False
    assert refused(frozen) == "TEIR632"
    assert refused([[0.0] * 5] * 3) == "TEIR632"
    assert refused(np.zeros((5, 3), "float32")) == "TEIR630"
    assert refused(np.zeros((3, 5), "float64")) == "TEIR631"
    assert refused(np.zeros((3, 5), ">f4")) == "TEIR623"
    assert refused(np.broadcast_to(np.zeros(5, "float32"), (3, 5)).view()) == "TEIR632"
    with pytest.raises(TeirError) as raised:
        teir.einsum("ij,jk->ik", integers(3, 4), integers(4, 5), out=[1])
    assert [finding.rule.code for finding in raised.value.findings] == ["TEIR632"]
    overlapping = np.lib.stride_tricks.as_strided(np.zeros(9, "float32"), (3, 5), (4, 4))
    assert refused(overlapping) == "TEIR633"
    still = np.lib.stride_tricks.as_strided(np.zeros(5, "float32"), (3, 5), (0, 4))
    assert refused(still) == "TEIR633"
    assert not frozen.any()


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("ij,kj->ik", (np.ones((3, 2), int), np.ones((3, 2), int))),
        ("ij,kj->ik", (np.ones((3, 0)), np.ones((3, 0)))),
        ("ij,kj->ik", (np.ones((3, 2)), np.ones((3, 2)))),
    ],
)
def test_out_whose_elements_share_bytes(text: str, operands: tuple) -> None:
    memory = np.full(9, 7, operands[0].dtype)
    out = np.lib.stride_tricks.as_strided(memory, (3, 3), (8, 8))
    with pytest.raises(TeirError) as caught:
        teir.einsum(text, *operands, out=out)
    assert [finding.code for finding in caught.value.findings] == ["TEIR633"]
    np.testing.assert_array_equal(memory, 7)


@pytest.mark.parametrize("wrap", [np.ma.masked_array, memoryview])
def test_known_calls_look_at_the_kind_of_out(wrap: object) -> None:
    a = np.ones((3, 3))
    plan = teir.plan("ij,jk->ik", a, a)
    teir.einsum("ij,jk->ik", a, a)
    for call in (plan, lambda *given, **named: teir.einsum("ij,jk->ik", *given, **named)):
        out = np.full((3, 3), 7.0)
        with pytest.raises(TeirError):
            call(a, a, out=wrap(out))
        np.testing.assert_array_equal(out, 7)
    if wrap is np.ma.masked_array:
        with pytest.raises(TeirError, match="TEIR624"):
            plan(wrap(a), a, out=np.zeros((3, 3)))


@pytest.mark.parametrize("threads", [0, -1, True, "2", 1.5, [1]])
def test_threads_that_are_no_count(threads: object) -> None:
    a = np.ones((2, 2))
    teir.einsum("ij,jk->ik", a, a, threads=1)
    with pytest.raises(TeirError, match="TEIR703"):
        teir.einsum("ij,jk->ik", a, a, threads=threads)


def test_threads_of_an_integer_of_numpy() -> None:
    a = np.ones((2, 2))
    assert teir.plan("ij,jk->ik", a, a, threads=np.int64(1)).threads == 1


def test_sublists_may_be_vectors_of_integers() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    result = teir.einsum(a, np.array([0, 1]), b, np.array([1, 2]), np.array([2, 0]))
    np.testing.assert_array_equal(result, (a @ b).T)


def test_objects_stay_objects() -> None:
    assert type(teir.einsum("i->", np.array([1, 2], object))) is int


def test_axes_that_are_no_list() -> None:
    a = np.ones((2, 2))
    with pytest.raises(TeirError, match="TEIR615"):
        teir.transpose(a, 5)
    with pytest.raises(TeirError, match="TEIR621"):
        teir.tensordot([[1.0], [2.0, 3.0]], a)
    with pytest.raises(TeirError, match="TEIR621"):
        teir.tensordot(None, a)


def test_out_apart_from_the_operands() -> None:
    a = integers(4, 4)
    before = a.copy()
    assert code_of(lambda: teir.einsum("ij,jk->ik", a, a, out=a)) == "TEIR635"
    assert code_of(lambda: teir.einsum("ij->ij", a, out=a)) == "TEIR635"
    raw = np.zeros(31, np.uint8)
    low, high = raw[:16].view("float32"), raw[15:31].view("float32")
    assert code_of(lambda: teir.einsum("i->i", low, out=high)) == "TEIR635"
    np.testing.assert_array_equal(a, before)
    memory = integers(4, 8)
    expected = memory[:, ::2].copy()
    teir.einsum("ij->ij", memory[:, ::2], out=memory[:, 1::2])
    np.testing.assert_array_equal(memory[:, 1::2], expected)


# --- operands that are refused --------------------------------------------------------------


@pytest.mark.parametrize(
    ("operand", "code"),
    [
        (None, "TEIR621"),
        (object(), "TEIR621"),
        ([[1.0, 2.0], [3.0]], "TEIR621"),
        (np.zeros((2, 2), ">f4"), "TEIR623"),
        (np.zeros((2, 2), "datetime64[s]"), "TEIR622"),
        (np.zeros((2, 2), "timedelta64[s]"), "TEIR622"),
        (np.zeros((2, 2), [("x", "f4")]), "TEIR622"),
        (np.zeros((2, 2), "U3"), "TEIR622"),
        (np.ma.masked_array(np.zeros((2, 2)), mask=True), "TEIR624"),
        (np.zeros((2, 2)).view(np.matrix), "TEIR624"),
        (np.zeros((2, 2)).view(np.recarray), "TEIR624"),
    ],
)
def test_operands_that_are_refused(operand: object, code: str) -> None:
    assert code_of(lambda: teir.einsum("ij,jk->ik", np.ones((2, 2)), operand)) == code
    assert code_of(lambda: teir.plan("ij,jk->ik", np.ones((2, 2)), operand)) == code


def test_wrong_keywords() -> None:
    a = integers(3, 3)
    assert code_of(lambda: teir.einsum("ij,jk", a, a, dtype="nonsense")) == "TEIR613"
    assert code_of(lambda: teir.einsum("ij,jk", a + 1j, a, dtype="f4")) == "TEIR613"
    assert code_of(lambda: teir.einsum("ij,jk", a, a, dtype=">f4")) == "TEIR613"
    assert code_of(lambda: teir.einsum("ij,jk", a, a, dtype=np.int32)) == "TEIR613"
    assert code_of(lambda: teir.einsum("ij->ji", a, dtype=bool)) == "TEIR613"
    whole = teir.einsum("ij->ji", np.arange(6, dtype=np.int64).reshape(2, 3), dtype=np.int32)
    assert whole.dtype == np.int32
    assert code_of(lambda: teir.einsum("ij,jk", a, a, threads=0)) == "TEIR703"
    assert code_of(lambda: teir.einsum("ij,jk,kl", a, a, a, optimize="nonsense")) == "TEIR612"
    assert code_of(lambda: teir.einsum("ij,jk,kl", a, a, a, optimize=[(0, 1)])) == "TEIR612"
    assert code_of(lambda: teir.einsum("ij,jk", a, a, optimize=[(0, 0)])) == "TEIR612"
    for arrays in ((a, a, a), (a.astype(int),) * 3, (a[:0], a[:0].T, a[:0])):
        for wrong in ([(0, 9)], "nonsense", 3.5, b"greedy", ("greedy", -1)):
            call = partial(teir.einsum, "ij,jk,kl", *arrays, optimize=wrong)
            assert code_of(call) == "TEIR612", (arrays, wrong)
    for wrong in ([(0, 9)], "nonsense", 3.5):
        assert code_of(partial(teir.einsum, "ij->ji", a, optimize=wrong)) == "TEIR612"
    assert code_of(lambda: teir.einsum(a, "ij")) == "TEIR611"
    assert code_of(lambda: teir.einsum(5)) == "TEIR611"
    with pytest.raises(TeirError, match="found values of the types NoneType, ndarray, ndarray"):
        teir.einsum(None, a, a)


@pytest.mark.parametrize(
    "path",
    [
        np.array([[0, 1], [0, 1]]),
        [np.array([1, 2]), np.array([0, 1])],
        [(np.int64(0), np.int64(2)), (0, 1)],
        ["einsum_path", (0, 1), (0, 1)],
        ("greedy", 10_000),
        ("optimal", np.int64(6)),
    ],
    ids=str,
)
def test_a_path_as_numpy_writes_it(path: object) -> None:
    a = np.arange(9.0).reshape(3, 3)
    for _ in range(2):
        np.testing.assert_array_equal(teir.einsum("ij,jk,kl", a, a, a, optimize=path), a @ a @ a)
    made = teir.plan("ij,jk,kl", a, a, a, optimize=path)
    np.testing.assert_array_equal(made(a, a, a), a @ a @ a)


@pytest.mark.parametrize("path", [("greedy", 0), ("greedy", "x"), np.ones(3), [("a", "b")]])
def test_a_path_that_is_none_is_refused(path: object) -> None:
    a = np.ones((3, 3))
    assert code_of(lambda: teir.einsum("ij,jk,kl", a, a, a, optimize=path)) == "TEIR612"


# --- plan -----------------------------------------------------------------------------------


def test_a_plan_is_called_often() -> None:
    a, b = integers(3, 4), integers(4, 5)
    made = teir.plan("ij,jk->ik", a, b)
    out = np.empty((3, 5), "float32")
    for _ in range(3):
        assert made(a, b, out=out) is out
        np.testing.assert_array_equal(out, a @ b)
        np.testing.assert_array_equal(made(a, b), a @ b)
    np.testing.assert_array_equal(made(np.asfortranarray(a), b[:, ::-1]), a @ b[:, ::-1])
    assert "Contraction" in made.explain()
    assert made.program.tensors[-1].name == "out"
    assert "define" in made.llvm()
    assert made.assembly()


def test_a_plan_of_shapes() -> None:
    made = teir.plan("ij,jk->ik", (3, 4), (4, 5), dtype="float32", threads=1)
    a, b = integers(3, 4), integers(4, 5)
    np.testing.assert_array_equal(made(a, b), a @ b)
    assert teir.plan("i->", (3,))(np.ones(3)) == 3
    assert code_of(lambda: teir.plan("i->", (-1,))) == "TEIR616"
    assert code_of(lambda: teir.plan("ij->", (3, 4.0))) == "TEIR616"
    assert teir.plan("ij->", ((3.0, 4.0), (1.0, 2.0)))([[1.0, 2.0], [3.0, 4.0]]) == 10


def test_a_plan_refuses_other_arrays() -> None:
    made = teir.plan("ij,jk->ik", (3, 4), (4, 5), dtype="float32")
    a, b = integers(3, 4), integers(4, 5)
    assert code_of(lambda: made(a)) == "TEIR641"
    assert code_of(lambda: made(a.astype("f8"), b)) == "TEIR641"
    assert code_of(lambda: made(a.T, b)) == "TEIR641"
    assert code_of(lambda: made(a, b, out=np.zeros((5, 3), "f4"))) == "TEIR630"
    integral = teir.plan("ij->ji", np.zeros((2, 2), "int64"))
    assert code_of(lambda: integral.program) == "TEIR642"


def test_a_plan_is_saved(tmp_path: object) -> None:
    made = teir.plan("ij,jk->ik", (3, 4), (4, 5), dtype="float32")
    path = tmp_path / "product.json"  # type: ignore[operator]
    made.save(path)
    assert teir.load(path) == made.program


# --- the other functions, and the libraries that call ours ------------------------------------


@pytest.mark.parametrize(
    "axes", [0, 1, 2, ([1, 0], [0, 1]), (1, 0), ([-1], [0]), np.array([[1], [0]]), np.array([1, 0])]
)
def test_tensordot(axes: object) -> None:
    shape = {0: (2, 3), 1: (3, 4), 2: (2, 3)}.get(axes if isinstance(axes, int) else -1, (3, 2))
    a, b = integers(2, 3), integers(*shape)
    np.testing.assert_array_equal(teir.tensordot(a, b, axes), np.tensordot(a, b, axes))


def test_tensordot_refuses_axes() -> None:
    a = integers(2, 3)
    assert code_of(lambda: teir.tensordot(a, a, 3)) == "TEIR615"
    assert code_of(lambda: teir.tensordot(a, a, ([0, 0], [0, 1]))) == "TEIR615"
    assert code_of(lambda: teir.tensordot(a, a, "x")) == "TEIR615"
    assert code_of(lambda: teir.tensordot(a, a, ([5], [0]))) == "TEIR615"
    assert code_of(lambda: teir.tensordot(a, a, ([np.array([0, 1])], [0]))) == "TEIR615"
    assert code_of(lambda: teir.tensordot(a, a, np.array(1.5))) == "TEIR615"


def test_tensordot_repeats_no_extent_of_1() -> None:
    narrow, wide = integers(2, 1), integers(3, 2)
    with pytest.raises(TeirError, match=r"TEIR626 at axes: .*\(1,\) of the axes.*\(3,\)"):
        teir.tensordot(narrow, wide, 1)
    with pytest.raises(TeirError, match="TEIR626"):
        teir.tensordot(wide, [[1.0], [2.0]], ([0], [0]))


@pytest.mark.parametrize("axes", [None, (0, 1, 2), (2, 0, 1), (-1, 0, 1)])
def test_transpose(axes: tuple[int, ...] | None) -> None:
    a = integers(3, 17, 20)
    result = teir.transpose(a, axes)
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(result, np.transpose(a, axes))


def test_transpose_refuses_axes() -> None:
    assert code_of(lambda: teir.transpose(integers(2, 3), (0, 0))) == "TEIR615"
    assert code_of(lambda: teir.transpose(integers(2, 3), (0, 2))) == "TEIR615"
    assert code_of(lambda: teir.transpose(integers(2, 3), [np.array([1, 0]), 0])) == "TEIR615"
    assert code_of(lambda: teir.transpose(integers(2, 3), np.array(0))) == "TEIR615"
    assert code_of(lambda: teir.transpose(integers(2, 3), np.array(0.5))) == "TEIR615"


def test_plan_refuses_extents_that_are_no_integers() -> None:
    for extent in (2.5, np.array(2.5), np.array([2, 3]), np.array("2"), int):
        with pytest.raises(TeirError):
            teir.plan("ij,jk->ik", (extent, 3), (3, 4))
    assert teir.plan("ij,jk->ik", (np.int8(2), np.array(3)), (3, 4)) is not None


@pytest.mark.parametrize("optimize", [True, False, "greedy", [(1, 2), (0, 1)]])
def test_paths(optimize: object) -> None:
    arrays = integers(3, 4), integers(4, 5), integers(5, 6)
    result = teir.einsum("ij,jk,kl->il", *arrays, optimize=optimize)
    np.testing.assert_array_equal(result, arrays[0] @ arrays[1] @ arrays[2])


def test_opt_einsum_runs_on_us() -> None:
    arrays = integers(3, 4, 2), integers(4, 5), integers(5, 6, 2), integers(6)
    text = "iab,aj,jkb,k->ib"
    result = opt_einsum.contract(text, *arrays, backend="teir")
    np.testing.assert_allclose(result, np.einsum(text, *arrays), rtol=1e-6)


def test_cotengra_runs_on_us() -> None:
    cotengra = pytest.importorskip("cotengra")
    arrays = integers(3, 4), integers(4, 5), integers(5, 6)
    result = cotengra.einsum("ij,jk,kl->il", *arrays, implementation=(teir.einsum, teir.tensordot))
    np.testing.assert_array_equal(result, arrays[0] @ arrays[1] @ arrays[2])
    shapes = [array.shape for array in arrays]
    tree = cotengra.einsum_tree("ij,jk,kl->il", *shapes)
    planned = teir.einsum("ij,jk,kl->il", *arrays, optimize=tree)
    np.testing.assert_array_equal(planned, result)


class TestSlicedTrees:
    cotengra = pytest.importorskip("cotengra")
    text = "ij,jk,kl->il"
    arrays = integers(12, 20), integers(20, 30), integers(30, 9)

    def tree(self, *indices: str) -> Any:
        tree = self.cotengra.einsum_tree("xy,yz,zw->xw", *(one.shape for one in self.arrays))
        for index in indices:
            tree = tree.remove_ind(index)
        return tree

    @pytest.mark.parametrize(
        ("theirs", "ours"), [(("y",), "j"), (("z",), "k"), (("x", "z"), "ik"), ((), "")]
    )
    def test_what_the_tree_slices_is_sliced(self, theirs: tuple[str, ...], ours: str) -> None:
        """Whatever names it gives the indices."""
        plan = teir.plan(self.text, *self.arrays, optimize=self.tree(*theirs))
        for index in "ijkl":
            line = f"sliced: {index} in blocks of 1, as the tree says"
            assert (line in plan.explain()) == (index in ours)
        expected = np.linalg.multi_dot(self.arrays)
        np.testing.assert_array_equal(plan(*self.arrays), expected)

    def test_a_limit_slices_further(self) -> None:
        tree = self.tree("z")
        need = teir.plan(self.text, *self.arrays, optimize=tree, threads=1).memory_bytes
        limit = need // 2 + 12 * 9 * 4
        plan = teir.plan(self.text, *self.arrays, optimize=tree, memory_limit=limit, threads=1)
        assert "sliced: k in blocks of 1" in plan.explain()
        assert plan.memory_bytes < need
        np.testing.assert_array_equal(plan(*self.arrays), np.linalg.multi_dot(self.arrays))

    def test_narrow_sums_are_not_cut(self) -> None:
        halves = [one.astype(np.float16) for one in self.arrays]
        with pytest.raises(teir.TeirError, match=r"TEIR612.*summed index 'z'"):
            teir.plan(self.text, *halves, optimize=self.tree("z"))
        assert "sliced: i" in teir.plan(self.text, *halves, optimize=self.tree("x")).explain()

    def test_a_tree_of_other_operands_is_refused(self) -> None:
        tree = self.cotengra.einsum_tree("xyv,yz,zwv->xw", (2, 3, 2), (3, 4), (4, 5, 2))
        with pytest.raises(teir.TeirError, match=r"TEIR612.*a tree of these operands"):
            teir.plan(self.text, *self.arrays, optimize=tree.remove_ind("y"))


class TestTorch:
    torch = pytest.importorskip("torch")

    def test_results_are_tensors(self) -> None:
        torch = self.torch
        a, b = torch.arange(12.0).reshape(3, 4), torch.arange(20.0).reshape(4, 5)
        result = teir.einsum("ij,jk->ik", a, b)
        assert isinstance(result, torch.Tensor)
        assert torch.equal(result, a @ b)
        assert torch.equal(teir.einsum("ij,jk->ik", b.T, a.T), (a @ b).T)
        out = torch.zeros(3, 5)
        assert teir.einsum("ij,jk->ik", a, b, out=out) is out
        assert torch.equal(out, a @ b)

    @pytest.mark.parametrize("name", ["bfloat16", "float16", "float64", "complex64", "int64"])
    def test_types(self, name: str) -> None:
        torch = self.torch
        dtype = getattr(torch, name)
        a = torch.arange(6).reshape(2, 3).to(dtype)
        result = teir.einsum("ij,kj->ik", a, a)
        assert result.dtype == dtype
        assert result.tolist() == [[5, 14], [14, 50]]

    def test_tensors_that_are_refused(self) -> None:
        torch = self.torch
        a = torch.ones(2, 2)
        for tensor in (
            torch.ones(2, 2, requires_grad=True),
            torch.ones(2, 2, dtype=torch.complex64).conj(),
        ):
            assert code_of(lambda one=tensor: teir.einsum("ij,jk", a, one)) == "TEIR624"
        assert code_of(lambda: teir.einsum("ij,jk", a, torch.ones(2, 2, device="meta"))) in (
            "TEIR625",
        )
        assert code_of(lambda: teir.einsum("ij->ij", a, out=a)) == "TEIR635"


class Producer:
    """An array that speaks DLPack only, on a device of one's choice."""

    def __init__(self, array: np.ndarray, device: tuple[int, int]) -> None:
        self.array, self.device = array, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **keywords: object) -> object:
        return self.array.__dlpack__(**keywords)  # type: ignore[arg-type]


def test_dlpack() -> None:
    a = integers(3, 4)
    np.testing.assert_array_equal(teir.einsum("ij->ji", Producer(a, (1, 0))), a.T)
    assert code_of(lambda: teir.einsum("ij->ji", Producer(a, (2, 0)))) == "TEIR625"
    read_only = a.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(teir.einsum("ij->ji", Producer(read_only, (1, 0))), a.T)


def test_a_broken_producer_is_a_finding() -> None:
    class Closed(Producer):
        def __dlpack__(self, **keywords: object) -> object:
            raise BufferError("the capsule is closed")

    assert code_of(lambda: teir.einsum("ij->ji", Closed(integers(2, 2), (1, 0)))) == "TEIR621"
    assert code_of(lambda: teir.einsum("ij->ji", Producer(integers(2, 2), ()))) == "TEIR621"


@pytest.mark.parametrize("protocol", ["__array_interface__", "__dlpack__", "__array__"])
def test_a_protocol_that_raises_when_it_is_looked_for(protocol: str) -> None:
    def closed(_: object) -> None:
        raise RuntimeError("the file is closed")

    value = type("Closed", (), {protocol: property(closed)})()
    assert code_of(lambda: teir.einsum("ij->ji", value)) == "TEIR621"


def test_array_interface_and_memory_maps(tmp_path: object) -> None:
    class Wrapped:
        def __init__(self, array: np.ndarray) -> None:
            self.__array_interface__ = array.__array_interface__
            self.kept = array

    a = integers(3, 4)
    np.testing.assert_array_equal(teir.einsum("ij->ji", Wrapped(a)), a.T)
    np.save(tmp_path / "a.npy", a)  # type: ignore[operator]
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")  # type: ignore[operator]
    np.testing.assert_array_equal(teir.einsum("ij->ji", mapped), a.T)


def test_numbers_and_sequences() -> None:
    assert teir.einsum(",->", 2.0, 3.0) == 6
    np.testing.assert_array_equal(teir.einsum("i,i->i", [1.0, 2.0], (3.0, 4.0)), [3, 8])


def test_every_rule_has_its_own_code() -> None:
    codes = [rule.code for rule in EINSUM_RULES]
    assert len(set(codes)) == len(codes)
    assert all(code.startswith("TEIR6") for code in codes)


def test_repeated_calls_look_at_their_own_arrays() -> None:
    for seed in range(4):
        a, b = integers(3, 4, seed=seed), integers(4, 5, seed=seed + 9)
        out = np.empty((3, 5), "float32")
        np.testing.assert_array_equal(teir.einsum("ij,jk->ik", a, b), a @ b)
        assert teir.einsum("ij,jk->ik", a, b, out=out) is out
        np.testing.assert_array_equal(out, a @ b)
        backwards = teir.einsum("ij,jk->ik", a[::-1], b)
        np.testing.assert_array_equal(backwards, a[::-1] @ b)
        scalar = teir.einsum("ij,ij->", a, a)
        assert isinstance(scalar, np.float32)
        assert scalar == (a * a).sum()


@pytest.mark.parametrize("rows", [70, 600])
@pytest.mark.parametrize("columns", [90, 300])
@pytest.mark.parametrize("text", ["ij,jk->ik", "ji,jk->ik", "ij,kj->ki"])
def test_both_operands_packed(text: str, rows: int, columns: int) -> None:
    """Neither operand has adjacent elements anywhere, so both are packed."""
    extents = {"i": columns, "j": 290, "k": rows}
    one, two = (
        view("sliced", integers(*[extents[index] for index in term]))
        for term in text.split("->")[0].split(",")
    )
    assert "Copy(in0" in teir.plan(text, one, two).explain()
    agrees(text, one, two)


@pytest.mark.parametrize("expression", ["eac,adcbe->deca", "eac,adcbe->decba", "abc,cba->bca"])
def test_an_index_that_both_operands_repeat(expression: str) -> None:
    extents = {"e": 2, "b": 2, "a": 8, "d": 3, "c": 5}
    left, right = expression.partition("->")[0].split(",")
    numbers = np.arange(400.0) % 7
    operands = []
    for term in (left, right):
        shape = tuple(1 if letter == "c" else extents[letter] for letter in term)
        small = numbers[: int(np.prod(shape))].reshape(shape)
        operands.append(np.broadcast_to(small, [extents[letter] for letter in term]))
    np.testing.assert_array_equal(
        teir.einsum(expression, *operands), np.einsum(expression, *operands)
    )


def test_plans_and_reports_are_shown_in_a_line() -> None:
    plan = teir.plan("ij,jk->ik", (3, 4), (4, 5), dtype="float32", threads=1)
    text = "<Plan 'ij,jk->ik': float32 (3, 4), float32 (4, 5) -> float32 (3, 5), native, "
    assert repr(plan) == text + "1 thread(s)>"
    assert repr(teir.check(plan.program)) == "<Report on 'ij,jk->ik': ok>"
    assert teir.loads(str(plan.program)) == plan.program
    nothing = teir.plan("ij->i", (3, 0))
    assert repr(nothing) == "<Plan 'ij->i': float64 (3, 0) -> float64 (3,), zeros, 1 thread(s)>"


@pytest.mark.parametrize(
    "shape", [(1003, 300), (70, 5000), (4999, 901), (4200, 100), (9001, 50), (12_007, 17)]
)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_sums_over_rows_are_one_chain_in_whichever_runs(shape: tuple[int, int], dtype: str) -> None:
    """Sums in runs of rows, by the size of the matrix, have the bits of adding row after row."""
    rows = np.random.default_rng(3).standard_normal(shape).astype("float32").astype(dtype)
    expected = np.zeros(shape[1], dtype)
    for row in rows:
        expected += row
    for form in Form:
        program = teir.plan("ij->j", rows, threads=1).program
        result = np.full_like(expected, 7)
        teir.compile(program, threads=1, form=form).run({"in0": rows, "out": result})
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", [np.int64, np.longdouble])
def test_numpy_makes_the_result_in_the_order_asked_for(dtype: type[np.generic]) -> None:
    a, b = np.ones((200, 100), dtype).T, np.ones(5, dtype)
    limit = 100 * 200 * 5 * np.dtype(dtype).itemsize
    result = teir.einsum("ij,k->ijk", a, b, memory_limit=limit)
    tracemalloc.start()
    teir.einsum("ij,k->ijk", a, b, memory_limit=limit)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.flags.c_contiguous
    assert peak < 1.2 * limit


def test_objects_whose_intermediate_has_no_axes() -> None:
    two, one = np.asarray(2, object), np.asarray(1, object)
    rest = [np.ones(shape, object) for shape in ((4,), (4, 3), (3,))]
    found = teir.einsum(",,a,ab,b->b", two, one, *rest)
    np.testing.assert_array_equal(found, [8, 8, 8])


def test_a_result_of_more_axes_than_numpy_has_is_refused() -> None:
    symbols = [opt_einsum.get_symbol(number) for number in range(65)]
    text, ones = f"{','.join(symbols)}->{''.join(symbols)}", [np.ones(1)] * 65
    assert code_of(lambda: teir.plan(text, *ones)) == "TEIR614"
    assert code_of(lambda: teir.einsum(text, *ones)) == "TEIR614"
