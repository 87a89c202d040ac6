"""``teir optimize``: the program after every pass."""

from __future__ import annotations

from pathlib import Path

from cli.command_line import PRODUCT, Teir

SCALAR = (
    PRODUCT.replace("M=[m], N=[n]", "M=[], N=[]")
    .replace("K=[k]", "K=[]")
    .replace("z: zero\ng: gemm\n", "")
    + "sequential m over m\n  sequential n over n\n    sequential k over k\n"
    + "      z: zero if first(k)\n      g: gemm\n"
)


def test_every_pass_is_named(teir: Teir, product: Path) -> None:
    product.write_text(SCALAR, encoding="utf-8")
    done = teir("optimize", "--threads", "1", product)
    assert done.code == 0
    assert [line for line in done.out.splitlines() if line.startswith("# pass")] == [
        "# pass 1, drop trivial axes: nothing to do",
        "# pass 2, fuse axes: nothing to do",
        "# pass 3, split axes: nothing to do",
        "# pass 4, identify primitives",
        "# pass 5, lift zero: nothing to do",
        "# pass 6, order axes: nothing to do",
        "# pass 7, promote batch: nothing to do",
        "# pass 8, parallelise: nothing to do",
        "# pass 9, block caches: nothing to do",
        "# pass 10, pack operands: nothing to do",
    ]
    assert "Contraction FP32 (in0, in1 -> out; M=[m], N=[n], K=[k])" in done.out


def test_the_result_is_a_program(teir: Teir, product: Path, tmp_path: Path) -> None:
    product.write_text(SCALAR, encoding="utf-8")
    result = tmp_path / "result.teir"
    done = teir("optimize", "--result", "--max-kernel-size", "2", product)
    result.write_text(done.out, encoding="utf-8")
    assert teir("check", result).code == 0
    shown = teir("optimize", "--result", "--max-kernel-size", "2", "--json", product).json()
    assert shown == {"program": done.out.rstrip("\n")}
    assert "= 2: in0 4, out 4" in done.out


def test_json_holds_every_step(teir: Teir, product: Path) -> None:
    document = teir("optimize", "--json", "--threads", "1", product).json()
    assert document["program"] + "\n" == PRODUCT
    assert [step["pass"] for step in document["passes"]][:2] == ["drop trivial axes", "fuse axes"]
    assert len(document["passes"]) == 10


def test_a_wrong_program_is_refused(teir: Teir, product: Path) -> None:
    product.write_text(PRODUCT.replace("axis k = 7", "axis k = 0"), encoding="utf-8")
    assert teir("optimize", product).code == 1
