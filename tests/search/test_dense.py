"""Every program the dense search emits is proved safe and means what NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from search.planned import USUAL, of_shapes
from strategies.contractions import Drawn, draw, draw_terms
from teir.dtypes import DataType
from teir.ir.accuracy import PASS, error_bound, error_ratio
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.nodes import IterationNode
from teir.ir.printing import print_program
from teir.search.machine import Machine
from teir.search.tree import contraction_program

TINY = Machine(vector_bytes=16, l1_bytes=256, l2_bytes=1024, threads=1, threaded_work=1)
"""Caches so small that small tensors are cut, packed and left with remainders."""
MACHINES = {
    "usual": USUAL,
    "tiny": TINY,
    "tiny, three threads": replace(TINY, threads=3),
}


def run(drawn: Drawn, machine: Machine) -> None:
    tree = contraction_program(drawn.contraction, drawn.path, machine)
    report = check(tree.program)
    assert report.ok, print_program(tree.program).text + "\n".join(map(str, report.findings))
    drawn.out[...] = 7
    evaluate(tree.program, drawn.memory)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("operands", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(25))
def test_integers_are_exact(seed: int, operands: int, machine: Machine) -> None:
    types = (DataType.FP32, DataType.FP64, DataType.C64)
    drawn = draw(1000 * operands + seed, types[seed % 3], operands)
    run(drawn, machine)
    np.testing.assert_array_equal(drawn.out, drawn.expected, err_msg=drawn.text)


@pytest.mark.parametrize("seed", range(30))
def test_long_narrow_sums_stay_within_the_bound(seed: int) -> None:
    """BF16 and FP16 outputs whose reduction is cut are summed in FP32 scratch."""
    data_type = (DataType.BF16, DataType.FP16)[seed % 2]
    extents = {"a": 3, "b": 5, "c": 2, "k": (40, 3100, 6200)[seed % 3]}
    drawn = draw_terms(seed, data_type, ["ck" + "a", "kbc"], "abc"[: 2 + seed % 2], extents)
    run(drawn, MACHINES[("usual", "tiny", "tiny, three threads")[seed // 10]])
    summed = extents["k"] * (1 if "c" in drawn.text.split("->")[1] else extents["c"])
    bound = error_bound(
        drawn.magnitude.real,
        terms=summed,
        invocations=1,
        input_type=data_type,
        output_type=data_type,
    )
    found = drawn.out.astype(np.float64)
    assert error_ratio(found, drawn.expected.real, np.asarray(bound)) < PASS


def operations(text: str, *shapes: tuple[int, ...], threads: int = 1) -> list[str]:
    """The operations of the primitives of a float32 einsum, in order."""
    machine = replace(USUAL, threads=threads)
    path = ((0, 1),) if len(shapes) == 2 else ((0,),)
    program = contraction_program(of_shapes(text, shapes), path, machine).program
    return [primitive.operation.value for primitive in program.primitives]


def test_operands_are_packed_where_it_pays() -> None:
    product = ["Zero", "Contraction"]
    assert operations("ij,jk->ik", (8, 8), (8, 8)) == product
    assert operations("ij,jk->ik", (64, 64), (64, 64)) == product
    assert operations("trus,pqtu->pqrs", (4, 3, 16, 64), (3, 5, 4, 16)) == product
    assert operations("ij,kj->ik", (64, 64), (64, 64)) == ["Copy", *product]
    assert set(operations("ij,jk->ik", (960, 960), (960, 960))) == {"Copy", *product}
    assert operations("ij,jk->ik", (1024, 1024), (1024, 1024)) == ["Copy", "Copy", *product]
    assert operations("ji,jk->ik", (1024, 1024), (1024, 1024)) == ["Copy", "Copy", *product]


def test_what_is_no_product_of_matrices() -> None:
    assert operations("i,j->ij", (5,), (6,)) == ["Mul"]
    assert operations("ij,ij->ij", (5, 6), (5, 6)) == ["Mul"]
    assert operations("ij->ji", (5, 6)) == ["Copy"]
    assert operations("ij->j", (5, 6)) == ["Zero", "Contraction"]
    assert operations("ijb,jkb->ikb", (5, 6, 32), (6, 7, 32)) == ["Zero", "Contraction"]
    assert operations("ijk,kl->il", (5, 6, 7), (7, 8)) == ["Zero", "Contraction"] * 2


def test_threads_share_the_outer_loops() -> None:
    def policies(text: str, *shapes: tuple[int, ...]) -> set[str]:
        path = ((0, 1),) if len(shapes) == 2 else ((0,),)
        tree = contraction_program(of_shapes(text, shapes), path, replace(USUAL, threads=2))
        assert check(tree.program).ok
        return {n.policy.value for n in tree.program.nodes() if isinstance(n, IterationNode)}

    assert "parallel" in policies("ij,jk->ik", (512, 512), (512, 512))
    assert "parallel" in policies("ij,jk->ik", (8, 512), (512, 4096))
    assert "parallel" in policies("bij,bjk->bik", (64, 32, 32), (64, 32, 32))
    assert "parallel" in policies("ij->ji", (512, 512))
    assert "parallel" in policies("i,i->i", (10**6,), (10**6,))
    assert "parallel" in policies("ij->i", (512, 512))
    assert "parallel" not in policies("ij,jk->ik", (8, 8), (8, 8))
