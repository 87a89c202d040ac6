"""The steps of the paper's figures 2 to 4, and what is refused."""

from __future__ import annotations

import pytest

from search.sparse.kernels import KERNELS
from teir.errors import Finding
from teir.search.sparse.cost import cost_of, print_memory, print_time, value
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.moves import inline, loopfuse, reorder

TTMC = KERNELS["K5"].statement
SDDMM = KERNELS["K1"].statement


def moved(graph: IterationGraph | Finding) -> IterationGraph:
    assert isinstance(graph, IterationGraph)
    return graph


def start() -> IterationGraph:
    """Figure 1(a) and 2(a)."""
    return linear(TTMC, ("l", "m", "i", "j", "k", "n"))


def with_row() -> IterationGraph:
    """Figure 1(b): a temporary over k, split after three inputs."""
    return moved(loopfuse(start(), 3, True))


def with_matrix() -> IterationGraph:
    """Figure 1(c): a temporary over j and k, and a scalar below."""
    split = moved(loopfuse(start(), 2, True))
    ordered = moved(reorder(split, ("m", "k", "n", "j"), (1,)))
    return moved(loopfuse(ordered, 2, True, (1,)))


def test_figure_2_with_a_row() -> None:
    assert str(with_row()) == (
        "l, m < T1[k]; i, j', k': T1[k] += B[i,j,k] C[i,l] D[j,m], k, n: A[l,m,n] += T1[k] E[k,n] >"
    )
    assert with_row().tree == "(l, m, (i, j, k), (k, n))"


def test_figures_2_and_4_step_by_step() -> None:
    split = moved(loopfuse(start(), 2, True))
    assert split.tree == "(l, (i, j, k), (m, j, k, n))"
    ordered = moved(reorder(split, ("m", "k", "n", "j"), (1,)))
    assert ordered.tree == "(l, (i, j, k), (m, k, n, j))"
    assert str(with_matrix()) == (
        "l < T1[j,k]; i, j', k': T1[j,k] += B[i,j,k] C[i,l], "
        "m, k < T2; j: T2 += T1[j,k] D[j,m], n: A[l,m,n] += T2 E[k,n] > >"
    )


def test_the_temporary_of_sddmm_has_the_producers_indices() -> None:
    """Line 10 of algorithm 1 with its roles exchanged would give a temporary over j and l."""
    graph = moved(loopfuse(linear(SDDMM, ("i", "j", "k", "l")), 3, True))
    assert str(graph) == ("i, j' < T1; k: T1 += B[i,j] C[i,k] D[j,k], l: A[i,l] += T1 E[j,l] >")
    back = moved(loopfuse(linear(SDDMM, ("i", "k", "l", "j")), 3, False))
    assert str(back) == (
        "< T1[l,j]; l, j: T1[l,j] += E[j,l], i, k, l, j': A[i,l] += B[i,j] C[i,k] D[j,k] T1[l,j] >"
    )


def test_costs_are_printed_as_in_the_paper() -> None:
    found = [
        (print_time(TTMC, cost_of(graph).time), print_memory(cost_of(graph).memory))
        for graph in (start(), with_row(), with_matrix())
    ]
    assert found == [
        ("nnz(B_ijk) LMN", "0"),
        ("LM(nnz(B_ijk) + KN)", "K"),
        ("L(nnz(B_ijk) + JKM + KMN)", "JK"),
    ]


CASES = [
    ({"i": 1800, "j": 800, "k": 1000, "l": 64, "m": 16, "n": 32}, 0.008, (237.5, 7.5, 1.0)),
    ({"i": 1800, "j": 1600, "k": 2000, "l": 64, "m": 16, "n": 32}, 0.002, (92.5, 3.0, 1.0)),
    ({"i": 265, "j": 1207, "k": 479, "l": 251, "m": 234, "n": 42}, 0.0033, (40.4, 1.0, 1.14)),
]


@pytest.mark.parametrize(("extents", "density", "ratios"), CASES)
def test_the_ratios_of_section_3_1(
    extents: dict[str, int], density: float, ratios: tuple[float, float, float]
) -> None:
    sizes = {**extents, "jpos": extents["j"], "kpos": extents["k"] * density}
    times = [value(cost_of(graph).time, sizes) for graph in (start(), with_row(), with_matrix())]
    assert [time / min(times) for time in times] == pytest.approx(ratios, rel=0.04)


def test_half_of_the_cache_decides_case_2() -> None:
    """The matrix fits in case 1 and not in case 2: 3.05 and 12.21 MiB of 4-byte numbers."""
    memory = cost_of(with_matrix()).memory
    cache_bytes = 19.25 * 2**20
    sizes = [value(memory, extents) * 4 for extents, _, _ in CASES]
    assert [round(size / 2**20, 2) for size in sizes] == [3.05, 12.21, 2.21]
    assert [size < cache_bytes / 2 for size in sizes] == [True, False, True]


def test_inlining_undoes_every_split() -> None:
    graph = inline(with_matrix())
    assert graph == linear(TTMC, graph.root.loops)
    assert inline(graph) is graph


@pytest.mark.parametrize(
    ("finding", "code"),
    [
        (reorder(start(), ("l", "m", "j", "i", "k", "n")), "TEIR665"),
        (reorder(start(), ("l", "m", "i", "j", "k")), "TEIR665"),
        (reorder(start(), ("l", "m", "i", "j", "k", "n"), (0,)), "TEIR664"),
        (reorder(with_row(), ("l", "m"), (2,)), "TEIR664"),
        (loopfuse(start(), 0, True), "TEIR666"),
        (loopfuse(start(), 4, True), "TEIR666"),
        (loopfuse(with_row(), 1, True), "TEIR664"),
    ],
)
def test_an_illegal_step_is_a_finding(finding: IterationGraph | Finding, code: str) -> None:
    assert isinstance(finding, Finding)
    assert finding.code == code


def test_nothing_to_do_is_the_same_graph() -> None:
    graph = start()
    assert reorder(graph, ("l", "m", "i", "j", "k", "n")) is graph
