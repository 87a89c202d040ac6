"""Schedules as plain C: loops as written, temporaries as local arrays, for comparison only.

Sums over the innermost loops are formed in a local variable. Compiled with gcc -O3 -march=native
-ffast-math, with and without -fno-loop-unroll-and-jam and -fno-loop-interchange; the faster counts.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from teir.expr.index_notation import Access
from teir.search.sparse.graph import Branch, IterationGraph, Nest, Node, branches, sparse_loops
from teir.search.sparse.statement import Statement

_FLAGS = (
    (),
    ("-fno-loop-unroll-and-jam", "-fno-loop-interchange"),
)


def compiled_nests(
    graph: IterationGraph, extents: Mapping[str, int], operands: Mapping[str, np.ndarray[Any, Any]]
) -> list[Callable[[], None]]:
    """The schedule on ``operands`` as calls without arguments, one per set of flags."""
    text = _Nests(graph, extents).text(sorted(operands))
    calls = []
    for flags in _FLAGS:
        function = ctypes.CDLL(str(_library(text, flags))).nest
        function.restype = None
        addresses = [ctypes.c_void_p(operands[name].ctypes.data) for name in sorted(operands)]
        calls.append(lambda function=function, addresses=addresses: function(*addresses))
    return calls


def compile_nests(
    graph: IterationGraph, extents: Mapping[str, int], operands: Mapping[str, object]
) -> None:
    """Compile what `compiled_nests` loads."""
    for flags in _FLAGS:
        _library(_Nests(graph, extents).text(sorted(operands)), flags)


def _library(text: str, flags: tuple[str, ...]) -> Path:
    """The library of a text, compiled where it is not there yet."""
    command = ["gcc", "-O3", "-march=native", "-ffast-math", "-std=gnu11", "-shared", "-fPIC"]
    command += flags
    name = hashlib.sha256(" ".join((platform.node(), *command, text)).encode()).hexdigest()[:24]
    folder = Path(tempfile.gettempdir()) / "teir-benchmarks" / "c"
    folder.mkdir(parents=True, exist_ok=True)
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    if not library.exists():
        source.write_text(text, encoding="utf-8")
        made = library.with_suffix(".tmp")
        subprocess.run([*command, str(source), "-o", str(made)], check=True)
        made.rename(library)
    return library


class _Nests:
    """The C text of one graph."""

    def __init__(self, graph: IterationGraph, extents: Mapping[str, int]) -> None:
        self._graph = graph
        self._statement: Statement = graph.statement
        self._extents = extents
        self._lines: list[str] = []

    def text(self, operands: list[str]) -> str:
        parameters = []
        for name in operands:
            kind = "int" if "." in name else "double"
            parameters.append(f"{kind} *restrict {name.replace('.', '_')}")
        self._lines = ["#include <string.h>", "#include <stdlib.h>"]
        made = [branch.temporary for branch in branches(self._graph.root)]
        for temporary in made:
            self._lines.append(f"static double {temporary.tensor}_[{self._size(temporary)}];")
        self._lines.append(f"void nest({', '.join(parameters)}) {{")
        for temporary in made:
            name = temporary.tensor
            self._lines.append(f"double *restrict {name} = {name}_;")
        output = self._statement.output
        count = self._output_size(output)
        self._lines.append(f"memset({output.tensor}, 0, sizeof(double) * {count});")
        self._node(self._graph.root)
        self._lines.append("}")
        return "\n".join(self._lines)

    def _size(self, access: Access) -> int:
        return prod(self._extents[index] for index in access.indices)

    def _output_size(self, access: Access) -> str:
        compressed = self._statement.compressed_indices(access.tensor)
        if not compressed:
            return str(self._size(access))
        dense = prod(self._extents[i] for i in access.indices if self._after(access, i))
        return f"(long)B_pos1[{self._extents[access.indices[0]]}] * {dense}"

    def _after(self, access: Access, index: str) -> bool:
        levels = self._statement.level_indices(access.tensor)
        last = max(levels.index(one) for one in self._statement.compressed_indices(access.tensor))
        return levels.index(index) > last

    def _node(self, node: Node) -> None:
        walked = sparse_loops(self._statement, node)
        summed = _summed_loops(node)
        for number, index in enumerate(node.loops):
            if summed and number == len(node.loops) - summed:
                self._lines.append("{ double sum_ = 0;")
            self._open(index, index in walked)
        if isinstance(node, Nest):
            product = " * ".join(self._element(access) for access in node.inputs)
            if summed:
                self._lines.append(f"sum_ += {product};{'}' * summed}")
                self._lines.append(f"{self._element(node.output)} += sum_; }}")
                self._lines.append("}" * (len(node.loops) - summed))
                return
            self._lines.append(f"{self._element(node.output)} += {product};")
        elif isinstance(node, Branch):
            name = node.temporary.tensor
            if node.temporary.indices:
                size = self._size(node.temporary)
                self._lines.append(f"memset({name}, 0, sizeof(double) * {size}L);")
            else:
                self._lines.append(f"double {name}_local = 0;")
            self._node(node.producer)
            self._node(node.consumer)
        self._lines.append("}" * len(node.loops))

    def _open(self, index: str, is_walked: bool) -> None:
        if not is_walked:
            extent = self._extents[index]
            self._lines.append(f"for (long {index} = 0; {index} < {extent}; ++{index}) {{")
            return
        levels = self._statement.level_indices("B")
        place = levels.index(index)
        above = levels[0] if place == 1 else f"p{place - 1}"
        p = f"p{place}"
        bounds = f"long {p} = B_pos{place}[{above}]; {p} < B_pos{place}[{above} + 1]; ++{p}"
        self._lines.append(f"for ({bounds}) {{ long {index} = B_crd{place}[{p}];")

    def _element(self, access: Access) -> str:
        if access.tensor == "B":
            return f"B[p{len(access.indices) - 1}]"
        if not access.indices:
            return f"{access.tensor}_local"
        compressed = ()
        if access.tensor == self._statement.output.tensor:
            compressed = self._statement.compressed_indices(access.tensor)
        place = ""
        for index in access.indices:
            if compressed and not self._after(access, index):
                place = "p1"
                continue
            place = f"({place}) * {self._extents[index]}L + {index}" if place else index
        return f"{access.tensor}[{place}]"


def _summed_loops(node: Node) -> int:
    """How many of the innermost loops of a nest move no index of its output."""
    if not isinstance(node, Nest):
        return 0
    count = 0
    while count < len(node.loops) and node.loops[-1 - count] not in node.output.indices:
        count += 1
    return count
