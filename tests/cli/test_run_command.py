"""``teir run``: operands in, results out, compared with the evaluator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.command_line import PRODUCT, Teir
from teir.cli.operands import dense_shape
from teir.ir.parsing import parse_program


def save(folder: Path, name: str, array: np.ndarray) -> str:  # type: ignore[type-arg]
    path = folder / f"{name}.npy"
    np.save(path, array)
    return f"{name}={path}"


def test_given_operands_give_the_product(teir: Teir, product: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    in0 = generator.integers(-8, 8, (7, 5)).astype(np.float32)
    in1 = generator.integers(-8, 8, (3, 7)).astype(np.float32)
    out = tmp_path / "out.npy"
    done = teir(
        "run",
        product,
        "--operand",
        save(tmp_path, "in0", in0),
        "--operand",
        save(tmp_path, "in1", in1),
        "--out",
        out,
        "--compare",
    )
    assert (done.code, done.err) == (0, "")
    assert "out: float32 3×5" in done.out
    assert f"saved {out}" in done.out
    assert "compared with the evaluator: OK" in done.out
    assert np.array_equal(np.load(out), in1 @ in0)


@pytest.mark.parametrize("as_bytes", [False, True], ids=["numbers", "bytes"])
def test_arrays_in_fortran_order_are_compared_by_the_bytes_that_the_program_walks(
    as_bytes: bool, teir: Teir, tmp_path: Path
) -> None:
    path = tmp_path / "adding.teir"
    path.write_text(PRODUCT.replace("z: zero\n", ""))
    draw = np.random.default_rng(2)
    shapes = {"in0": (7, 5), "in1": (3, 7), "out": (3, 5)}
    given = [np.abs(draw.standard_normal(shape)).astype(np.float32) for shape in shapes.values()]
    if as_bytes:
        given = [one.view(np.uint8).reshape(4, -1) for one in given]
    turned = zip(shapes, map(np.asfortranarray, given), strict=True)
    operands = [save(tmp_path, name, array) for name, array in turned]
    options = [word for operand in operands for word in ("--operand", operand)]
    done = teir("run", path, *options, "--compare")
    assert (done.code, done.err) == (0, "")
    assert "compared with the evaluator: OK" in done.out


def test_a_given_output_is_added_to(teir: Teir, tmp_path: Path) -> None:
    path = tmp_path / "adding.teir"
    path.write_text(PRODUCT.replace("z: zero\n", ""))
    out = tmp_path / "result.npy"
    operands = [
        save(tmp_path, "in0", np.ones((7, 5), np.float32)),
        save(tmp_path, "in1", np.ones((3, 7), np.float32)),
        save(tmp_path, "out", np.full((3, 5), 100, np.float32)),
    ]
    options = [word for operand in operands for word in ("--operand", operand)]
    assert teir("run", path, *options, "--out", out).code == 0
    assert np.array_equal(np.load(out), np.full((3, 5), 107))


@pytest.mark.parametrize("data_type", ["FP64", "FP32", "TF32", "BF16", "FP16", "C64", "C128"])
@pytest.mark.parametrize("reference", [(), ("--reference",)])
def test_drawn_operands_of_every_type(
    teir: Teir, tmp_path: Path, data_type: str, reference: tuple[str, ...]
) -> None:
    path = tmp_path / "typed.teir"
    width = {"FP64": 8, "BF16": 2, "FP16": 2, "C64": 8, "C128": 16}.get(data_type, 4)
    text = PRODUCT.replace("FP32", data_type)
    for stride in (28, 20, 4):
        text = text.replace(f" {stride},", f" {stride * width // 4},")
        text = text.replace(f" {stride}\n", f" {stride * width // 4}\n")
    path.write_text(text)
    done = teir("run", path, "--random", "--compare", "--json", *reference)
    assert done.code == 0, done.err
    answer = done.json()
    assert answer["ok"] is True
    assert answer["difference_over_bound"] < 1
    assert answer["outputs"]["out"]["shape"] == [3, 5]


def test_negative_offsets_get_room_before_the_base(teir: Teir, tmp_path: Path) -> None:
    path = tmp_path / "offset.teir"
    path.write_text(
        'teir 1 "offset"\ntensor in0: FP32\ntensor out: FP32\n'
        "axis i = 4: in0 4 - 8, out 4 + 16\n"
        "primitive copy = Copy(in0 -> out; M=[i], N=[])\nc: copy\n"
    )
    assert teir("run", path, "--random", "--compare").code == 0


def test_a_wrong_result_exits_1(teir: Teir, product: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from teir.pipeline import executable

    def broken(_program: object, operands: object, **_: object) -> None:
        operands["out"].buffer[0] = 1000.0  # type: ignore[index]

    monkeypatch.setattr(executable, "run", broken)
    done = teir("run", product, "--random", "--compare")
    assert done.code == 1
    assert "WRONG" in done.out
    assert "differs" in done.err


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], "TEIR804"),
        (["--operand", "in0"], "TEIR802"),
        (["--operand", "in7=x.npy", "--random"], "TEIR802"),
        (["--operand", "in0=a.npy", "--operand", "in0=b.npy"], "TEIR802"),
        (["--operand", "in0=missing.npy", "--random"], "TEIR803"),
        (["--random", "--out", "result.txt"], "TEIR807"),
        (["--random", "--out", "missing/result.npy"], "TEIR807"),
    ],
)
def test_unusable_options_exit_2(teir: Teir, product: Path, options: list[str], code: str) -> None:
    done = teir("run", product, *options)
    assert done.code == 2
    assert done.err.startswith(code)


def test_unusable_operands_exit_2(teir: Teir, product: Path, tmp_path: Path) -> None:
    bad = {
        "TEIR504": np.zeros(35, np.float64),
        "TEIR402": np.zeros(34, np.float32),
    }
    for code, array in bad.items():
        done = teir("run", product, "--random", "--operand", save(tmp_path, "in0", array))
        assert done.code == 2
        assert code in done.err
    pickled = tmp_path / "pickled.npy"
    np.save(pickled, np.array([{}], object), allow_pickle=True)
    done = teir("run", product, "--random", "--operand", f"in0={pickled}")
    assert done.code == 2
    assert done.err.startswith("TEIR803")


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04junk", b"\x93NUMPY"])
def test_a_file_of_another_kind_is_said_to_be_one(
    teir: Teir, product: Path, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    done = teir("run", product, "--operand", f"in0={path}", "--random")
    assert done.code == 2
    assert done.err.startswith("TEIR803")
    assert "pickle" not in done.err.splitlines()[0]


@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        ("axis i = 2: out 12\naxis j = 3: out 4", (2, 3)),
        ("axis i = 2: out 4\naxis j = 3: out 8", (3, 2)),
        ("axis i = 2: out 16\naxis j = 3: out 4", (7,)),
        ("axis i = 2: out 12\naxis j = 1: out 4", (4,)),
    ],
)
def test_results_have_the_shape_the_axes_give(axes: str, shape: tuple[int, ...]) -> None:
    program = parse_program(
        f'teir 1 "x"\ntensor out: FP32\n{axes}\nprimitive zero = Zero(out; M=[i], N=[j])\nz: zero\n'
    )
    elements = shape[0] * (shape[1] if len(shape) > 1 else 1)
    assert dense_shape(program, "out", elements) == shape


def test_results_have_no_more_axes_than_arrays_can_have(teir: Teir, tmp_path: Path) -> None:
    names = [f"i{place}" for place in range(100)]
    steps = {"i7": 8, "i98": 4}
    axes = [
        f"axis {name} = {2 if name in steps else 1}: out {steps.get(name, 4)}" for name in names
    ]
    path = tmp_path / "many.teir"
    head = 'teir 1 "many"\ntensor out: FP32\n' + "\n".join(axes)
    path.write_text(f"{head}\nprimitive zero = Zero(out; M=[{', '.join(names)}], N=[])\nz: zero\n")
    for option in ((), ("--reference",)):
        done = teir("run", path, *option)
        assert done.code == 0
        assert "2×2" in done.out
