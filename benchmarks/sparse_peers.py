"""SciPy, torch and pydata sparse on the kernels that their calls compute without a Python loop.

Row numbers and other index arrays that only depend on the pattern are made beforehand.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sparse_cases import Arrays

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Operands:
    """B as a CSR matrix of its innermost level, the dense inputs, and rows of B's parts.

    ``rows`` and ``columns``: coordinates of every stored element of a matrix; of a tensor, those of
    every fibre. ``fibres``: ones at (outermost coordinate, fibre).
    """

    matrix: Any
    dense: Arrays
    rows: np.ndarray[Any, Any]
    columns: np.ndarray[Any, Any]
    fibres: Any


def operands_of(arrays: Arrays, columns: int) -> Operands:
    """The forms peers take; ``columns`` is the extent of B's last index."""
    last = 2 if "B.pos2" in arrays else 1
    pos, crd = arrays[f"B.pos{last}"], arrays[f"B.crd{last}"]
    matrix = scipy.sparse.csr_array((arrays["B"], crd, pos), shape=(pos.size - 1, columns))
    pos, crd = arrays["B.pos1"], arrays["B.crd1"]
    rows = np.repeat(np.arange(pos.size - 1), np.diff(pos))
    fibres = scipy.sparse.csr_array(
        (np.ones(crd.size), np.arange(crd.size, dtype=np.int32), pos),
        shape=(pos.size - 1, crd.size),
    )
    dense = {name: arrays[name] for name in "CDEF" if name in arrays}
    return Operands(matrix, dense, rows, crd, fibres)


def library_calls(kernel: str, given: Operands, threads: int) -> Iterator[tuple[str, Call]]:
    """Every library's call by name; a call returns what it computed."""
    if threads == 1:
        yield from _scipy(kernel, given)
        yield from _pydata(kernel, given)
    yield from _torch(kernel, given, threads)


def _scipy(kernel: str, given: Operands) -> Iterator[tuple[str, Call]]:
    b = given.matrix
    c, d, e, f = (given.dense.get(name) for name in "CDEF")

    def sampled() -> Any:
        values = b.data * np.einsum("pk,pk->p", c[given.rows], d[given.columns])
        return scipy.sparse.csr_array((values, b.indices, b.indptr), shape=b.shape)

    calls: dict[str, dict[str, Call]] = {
        "SpMM": {"": lambda: b @ c},
        "SDDMM": {"": lambda: sampled().data},
        "K1": {"": lambda: sampled() @ e},
        "K2": {"": lambda: sampled() @ e @ f},
        "K3": {"": lambda: b @ (c * d) @ e},
        "K4": {"": lambda: b @ c @ d, ", D first": lambda: b @ (c @ d)},
        "K7": {"": lambda: b @ c @ d, ", D first": lambda: b @ (c @ d)},
        "K8": {"": lambda: given.fibres @ ((b @ c) * d[given.columns]) @ e},
    }
    for form, call in calls.get(kernel, {}).items():
        yield f"scipy{form}", call


def _pydata(kernel: str, given: Operands) -> Iterator[tuple[str, Call]]:
    try:
        import sparse
    except ImportError:
        return
    b = sparse.GCXS.from_scipy_sparse(scipy.sparse.csr_matrix(given.matrix))
    c, d, e, _ = (given.dense.get(name) for name in "CDEF")
    calls: dict[str, Call] = {
        "SpMM": lambda: b @ c,
        "K3": lambda: b @ (c * d) @ e,
        "K4": lambda: b @ c @ d,
        "K7": lambda: b @ c @ d,
    }
    if kernel in calls:
        yield "sparse", calls[kernel]


def _torch(kernel: str, given: Operands, threads: int) -> Iterator[tuple[str, Call]]:
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(threads)
    warnings.filterwarnings("ignore", "Sparse ")
    b = _torch_csr(torch, given.matrix)
    fibres = _torch_csr(torch, given.fibres)
    pos, crd = b.crow_indices(), b.col_indices()
    columns = torch.from_numpy(given.columns.astype(np.int64))
    values = torch.from_numpy(given.matrix.data)
    c, d, e, f = (
        None if name not in given.dense else torch.from_numpy(given.dense[name]) for name in "CDEF"
    )

    def sampled() -> Any:
        found = torch.sparse.sampled_addmm(b, c, d.T, beta=0).values() * values
        return torch.sparse_csr_tensor(pos, crd, found, size=b.shape, check_invariants=False)

    calls: dict[str, dict[str, Call]] = {
        "SpMM": {"": lambda: b @ c},
        "SDDMM": {"": lambda: sampled().values()},
        "K1": {"": lambda: sampled() @ e},
        "K2": {"": lambda: sampled() @ e @ f},
        "K3": {"": lambda: b @ (c * d) @ e},
        "K4": {"": lambda: b @ c @ d, ", D first": lambda: b @ (c @ d)},
        "K7": {"": lambda: b @ c @ d, ", D first": lambda: b @ (c @ d)},
        "K8": {"": lambda: fibres @ ((b @ c) * d[columns]) @ e},
    }
    for form, call in calls.get(kernel, {}).items():
        yield f"torch{form}", lambda call=call: call().numpy()


def _torch_csr(torch: Any, matrix: Any) -> Any:
    parts = (matrix.indptr, matrix.indices, matrix.data)
    return torch.sparse_csr_tensor(*map(torch.from_numpy, parts), size=matrix.shape)
