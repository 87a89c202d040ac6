"""The eight kernels with a sparse operand, SpMM and SDDMM, and the data they are measured on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from teir.arrays.levels import Format, Level
from teir.cli.peers.operands import NATURAL_OFFSET, place_array
from teir.expr.index_notation_parsing import parse_index_notation
from teir.search.sparse.cost import FIBRE
from teir.search.sparse.statement import Statement, statement_of

Arrays = dict[str, np.ndarray[Any, Any]]

FOLDER = Path(__file__).parent / "data"

KERNELS = {
    "K1": "A[i,l] = B[i,j] * C[i,k] * D[j,k] * E[j,l]",
    "K2": "A[i,m] = B[i,j] * C[i,k] * D[j,k] * E[j,l] * F[l,m]",
    "K3": "A[i,l] = B[i,j] * C[j,k] * D[j,k] * E[k,l]",
    "K4": "A[i,l] = B[i,j] * C[j,k] * D[k,l]",
    "K5": "A[l,m,n] = B[i,j,k] * C[i,l] * D[j,m] * E[k,n]",
    "K6": "A[i,l,m] = B[i,j,k] * C[j,l] * D[k,m]",
    "K7": "A[i,j,m] = B[i,j,k] * C[k,l] * D[l,m]",
    "K8": "A[i,m] = B[i,k,l] * C[l,j] * D[k,j] * E[j,m]",
    "SpMM": "A[i,l] = B[i,j] * C[j,l]",
    "SDDMM": "A[i,j] = B[i,j] * C[i,k] * D[j,k]",
}
LAYOUTS = {
    "K4": KERNELS["K4"],
    "K4-Ckj": "A[i,l] = B[i,j] * C[k,j] * D[k,l]",
    "K4-Dlk": "A[i,l] = B[i,j] * C[j,k] * D[l,k]",
    "K4-Ckj-Dlk": "A[i,l] = B[i,j] * C[k,j] * D[l,k]",
}
"""K4 with its dense operands stored either way round."""
MATRICES = ("bcsstk16", "bayer10", "4elt", "fem_like")
TENSORS = ("splatt_med", "long_fibres")
IN_CACHE = "in_l2"
"""A matrix with so few columns that what SpMM gathers stays in the second cache."""
EXTENTS = (16, 32, 64, 128)
SHARES = {"K7": "B", "SDDMM": "B"}
"""Kernels whose output has the pattern of an input."""


@dataclass(frozen=True, slots=True)
class Data:
    """A sparse operand: extents by level, and the arrays B, B.pos1, B.crd1, ..."""

    extents: tuple[int, ...]
    arrays: Arrays

    @property
    def values(self) -> int:
        return self.arrays["B"].size

    @property
    def stored(self) -> dict[str, int]:
        """The coordinates stored at every compressed level, by the name of their array."""
        return {name: one.size for name, one in self.arrays.items() if ".crd" in name}

    def index_extents(self, statement: Statement, extent: int) -> dict[str, int]:
        """The extent of every index; ``extent`` for those of dense operands alone."""
        extents = dict.fromkeys(statement.indices, extent)
        return extents | dict(zip(statement.inputs[0].indices, self.extents, strict=True))

    def symbols(self, statement: Statement, extent: int) -> dict[str, float]:
        """Extents and mean fibre lengths."""
        extents = self.index_extents(statement, extent)
        known = {index: float(one) for index, one in extents.items()}
        fibres = self.extents[0]
        for level, index in enumerate(statement.inputs[0].indices[1:], 1):
            stored = self.arrays[f"B.crd{level}"].size
            known[f"{index}{FIBRE}"] = stored / fibres
            fibres = stored
        return known

    def operands(self, statement: Statement, extent: int) -> Arrays:
        """B's arrays, random dense inputs, and an output A of zeros, all in memory of their own.

        They begin where NumPy's own large arrays do in a cache line, whatever the allocator.
        """
        extents = self.index_extents(statement, extent)
        draw = np.random.default_rng(extent)
        operands = dict(self.arrays)
        for access in statement.inputs[1:]:
            operands[access.tensor] = draw.standard_normal([extents[i] for i in access.indices])
        operands["A"] = np.zeros(self.output_shape(statement, extent))
        return {name: _placed(array) for name, array in operands.items()}

    def output_shape(self, statement: Statement, extent: int) -> tuple[int, ...]:
        """The shape of A; with B's pattern, its stored positions come first."""
        extents = self.index_extents(statement, extent)
        shape = tuple(extents[index] for index in statement.output.indices)
        if statement.compressed_indices(statement.output.tensor):
            return (self.arrays["B.crd1"].size, *shape[2:])
        return shape


def _placed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = place_array(array.shape, range(array.ndim), array.dtype, NATURAL_OFFSET)
    copy[...] = array
    return copy


def statement_for(kernel: str) -> Statement:
    """The statement; B is compressed below its first index, outputs with B's pattern too."""
    assignment = parse_index_notation((LAYOUTS | KERNELS)[kernel])
    rank = len(assignment.inputs["B"].indices)
    formats = {"B": _format("dss"[:rank])}
    if kernel in SHARES:
        formats["A"] = _format("dsd"[: len(assignment.output.indices)])
    return statement_of(assignment, formats)


def _format(levels: str) -> Format:
    kinds = {"d": Level.DENSE, "s": Level.COMPRESSED}
    return Format(
        levels=tuple(kinds[level] for level in levels), mode_order=tuple(range(len(levels)))
    )


def load(name: str) -> Data:
    """Generated shapes, or ``data/NAME.npz``: CSR arrays, or coordinates of a tensor."""
    if name == "fem_like":
        return _fem_like()
    if name == "long_fibres":
        return _long_fibres()
    if name == IN_CACHE:
        return _few_columns()
    with np.load(FOLDER / f"{name}.npz") as file:
        extents = tuple(map(int, file["shape"]))
        if "indptr" in file:
            pos, crd = file["indptr"].astype(np.int32), file["indices"].astype(np.int32)
            arrays = {"B.pos1": pos, "B.crd1": crd, "B": file["data"].astype(np.float64)}
            return Data(extents, arrays)
        return _compressed(extents, file["coords"], file["data"].astype(np.float64))


def _compressed(extents: tuple[int, ...], coords: np.ndarray[Any, Any], values: Any) -> Data:
    """Sorted coordinates of a tensor of three indices as levels dss."""
    fibre = coords[:, 0].astype(np.int64) * extents[1] + coords[:, 1]
    starts = np.flatnonzero(np.concatenate([[True], fibre[1:] != fibre[:-1]]))
    arrays = {
        "B.pos1": np.searchsorted(coords[starts, 0], np.arange(extents[0] + 1)),
        "B.crd1": coords[starts, 1],
        "B.pos2": np.append(starts, len(coords)),
        "B.crd2": coords[:, 2],
    }
    return Data(
        extents, {name: one.astype(np.int32) for name, one in arrays.items()} | {"B": values}
    )


def _fem_like() -> Data:
    """Dense 6 x 6 blocks in a band, half a million stored elements."""
    draw = np.random.default_rng(0)
    blocks = 10_974 // 6
    pairs = np.concatenate(
        [
            np.stack([np.full(columns.size, row), columns], 1)
            for row in range(blocks)
            for columns in [
                np.unique(np.clip(row + np.append(draw.integers(-40, 41, 7), 0), 0, blocks - 1))
            ]
        ]
    )
    inside = np.stack(np.meshgrid(np.arange(6), np.arange(6), indexing="ij"), -1).reshape(-1, 2)
    coords = (6 * pairs[:, None, :] + inside[None]).reshape(-1, 2)
    coords = coords[np.lexsort((coords[:, 1], coords[:, 0]))]
    extent = 6 * blocks
    arrays = {
        "B.pos1": np.searchsorted(coords[:, 0], np.arange(extent + 1)).astype(np.int32),
        "B.crd1": coords[:, 1].astype(np.int32),
        "B": draw.standard_normal(len(coords)),
    }
    return Data((extent, extent), arrays)


def _long_fibres() -> Data:
    """Few, long fibres of very different lengths."""
    draw = np.random.default_rng(1)
    extents = (600, 400, 28_800)
    parts = []
    for i in range(extents[0]):
        count = max(1, int(draw.pareto(1.5) * 12) % extents[1] + 1)
        for j in draw.choice(extents[1], count, replace=False):
            length = min(extents[2], int(2 + draw.pareto(1.3) * 18))
            ks = np.unique(draw.integers(0, extents[2], length))
            parts.append(np.stack([np.full(ks.size, i), np.full(ks.size, j), ks], 1))
    coords = np.concatenate(parts)
    coords = coords[np.lexsort((coords[:, 2], coords[:, 1], coords[:, 0]))]
    return _compressed(extents, coords, draw.standard_normal(len(coords)))


def _few_columns() -> Data:
    """32 of 512 columns stored in each of 4000 rows."""
    draw = np.random.default_rng(2)
    rows, columns, stored = 4000, 512, 32
    coords = np.sort(np.argsort(draw.random((rows, columns)), axis=1)[:, :stored], axis=1)
    arrays = {
        "B.pos1": np.arange(rows + 1, dtype=np.int32) * stored,
        "B.crd1": coords.reshape(-1).astype(np.int32),
        "B": draw.standard_normal(rows * stored),
    }
    return Data((rows, columns), arrays)
