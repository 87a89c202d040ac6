"""The package etops as a contender: by its default settings, and by the best of eight.

Every setting runs first in a forked process, which checks the result and times it: some settings
of etops 26.2.1 end the process for some cases.
"""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from teir.cli.peers.case import Case
from teir.cli.peers.operands import Array, Operands
from teir.cli.peers.rounds import Call, rough_seconds
from teir.dtypes import DataType

_TRIAL_SECONDS = 30
_DEFAULT = "default"
_LOOPS = "abcdef"
"""The indices m n k mp np kp of the configurations of section 5.3 in `cases.py`."""

SETTINGS: dict[str, Mapping[str, int | bool]] = {
    _DEFAULT: {},
    "no packing": {"packing_support": False},
    "no batch reduction": {"br_gemm_support": False},
    "no batched product": {"packed_gemm_support": False},
    "blocks 32 x 32 x 64": {"target_m": 32, "target_n": 32, "target_k": 64},
    "blocks 64 x 48 x 128": {"target_m": 64, "target_n": 48, "target_k": 128},
    "blocks 96 x 96 x 256": {"target_m": 96, "target_n": 96, "target_k": 256},
    "blocks 64 x 64 x 512, no packing": {
        "target_m": 64,
        "target_n": 64,
        "target_k": 512,
        "packing_support": False,
    },
}
"""What differs from the optimizer's default settings."""


def etops_forms(
    case: Case, data_type: DataType, operands: Operands, threads: int, *, tuned: bool
) -> Iterator[tuple[str, Call]]:
    """The default form, or where ``tuned`` the best of all settings that give the right result."""
    if data_type not in (DataType.FP32, DataType.FP64):
        return
    case, operands = _lanes_first(case, operands)
    config = _config(case, data_type, operands)
    if not tuned:
        yield _DEFAULT, _call(_optimized(config, {}, threads), operands)
        return
    configs = {}
    for label, setting in SETTINGS.items():
        try:
            configs[label] = _optimized(config, setting, threads)
        except RuntimeError:
            continue
    if case.program is not None:
        configs["as written"] = _as_written(case, config)
    seconds = {label: _trial(one, operands) for label, one in configs.items()}
    right = {label: taken for label, taken in seconds.items() if taken is not None}
    if right:
        label = min(right, key=lambda one: right[one])
        yield label, _call(configs[label], operands)


def _lanes_first(case: Case, operands: Operands) -> tuple[Case, Operands]:
    """The input with the output's innermost index comes first: etops blocks its M along it."""
    if len(case.inputs) != 2 or not case.output or case.output[-1] in case.inputs[0]:
        return case, operands
    swapped = replace(
        case,
        einsum=f"{case.inputs[1]},{case.inputs[0]}->{case.output}",
        shapes=case.shapes[::-1],
        orders=case.orders[::-1],
    )
    return swapped, replace(operands, inputs=operands.inputs[::-1])


def _config(case: Case, data_type: DataType, operands: Operands) -> Any:
    """One dimension per index, nothing decided. Raises ValueError where etops has no such form."""
    import etops

    extents = case.extents
    arrays = (*operands.inputs, operands.out)
    terms = (*case.inputs, case.output)
    if len(case.inputs) > 2:
        raise ValueError("more than two operands")
    if not extents:
        raise ValueError("no axes")  # ends the process
    strides = tuple(
        tuple(_stride(index, term, array) for index in extents)
        for term, array in zip(terms, arrays, strict=True)
    )
    kinds = tuple(_kind(index, case) for index in extents)
    return etops.TensorOperationConfig(
        data_type=etops.float32 if data_type is DataType.FP32 else etops.float64,
        prim_first=etops.prim.none if case.is_copy else etops.prim.zero,
        prim_main=etops.prim.copy if case.is_copy else etops.prim.gemm,
        prim_last=etops.prim.relu if case.clears_negatives else etops.prim.none,
        dim_types=kinds,
        exec_types=(etops.exec.seq,) * len(extents),
        dim_sizes=tuple(extents.values()),
        strides=(strides,),
        backend="tpp",
    )


def _stride(index: str, term: str, array: Array) -> int:
    """In elements; 0 where the array has no such axis."""
    return sum(
        array.strides[place] // array.itemsize for place, name in enumerate(term) if name == index
    )


def _kind(index: str, case: Case) -> Any:
    import etops

    if case.is_copy:
        return etops.dim.c
    members = tuple(index in term for term in (*case.inputs, case.output))
    match members:
        case (True, True, True):
            return etops.dim.c
        case (True, False, True):
            return etops.dim.m
        case (False, True, True):
            return etops.dim.n
        case (True, True, False):
            return etops.dim.k
        case _:
            raise ValueError("an index of one operand is summed")


def _optimized(config: Any, setting: Mapping[str, int | bool], threads: int) -> Any:
    import etops

    defaults = etops.backend.tpp.get_default_optimization_config()
    return etops.optimize(config, {**defaults, "num_threads": threads, **setting})


def _as_written(case: Case, config: Any) -> Any:
    """The configuration of section 5.3: the dimensions m n k mp np kp, the last ones primitive."""
    import etops

    places = [list(case.extents).index(index) for index in _LOOPS]
    primitive, loop = etops.exec.prim, etops.exec.seq
    is_batch = case.program != "backend-1-gemm"
    execution = (loop, loop, primitive if is_batch else loop, primitive, primitive, primitive)
    return replace(
        config,
        prim_first=etops.prim.zero if case.clears_negatives else etops.prim.none,
        prim_main=etops.prim.brgemm if is_batch else etops.prim.gemm,
        dim_types=tuple(config.dim_types[place] for place in places),
        exec_types=execution,
        dim_sizes=tuple(config.dim_sizes[place] for place in places),
        strides=(tuple(tuple(one[place] for place in places) for one in config.strides[0]),),
    )


def _call(config: Any, operands: Operands) -> Call:
    """FP64 arrays are handed over as FP32 ones, or etops 26.2.1 converts them and writes beyond."""
    import etops

    operation = etops.TensorOperation(config)
    flat = [_flat(array) for array in operands.inputs]
    second = flat[1] if len(flat) > 1 else None
    return partial(operation.execute, flat[0], second, _flat(operands.out))


def _flat(array: Array) -> Array:
    """All bytes of a dense array in memory order, as FP32."""
    order = np.argsort([-stride for stride in array.strides], kind="stable")
    flat = array.transpose(order).reshape(-1).view(np.float32)
    assert np.may_share_memory(flat, array)
    return flat


def _trial(config: Any, operands: Operands) -> float | None:
    """Seconds of one call in a process of its own; None where it fails or is wrong."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _run_trial(config, operands, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return struct.unpack("d", answer)[0] if len(answer) == struct.calcsize("d") else None


def _run_trial(config: Any, operands: Operands, writer: int) -> None:
    """In the forked process: never returns."""
    signal.alarm(_TRIAL_SECONDS)
    try:
        call = _call(config, operands)
        operands.out[...] = 0
        call()
        if np.array_equal(operands.out, operands.expected):
            os.write(writer, struct.pack("d", rough_seconds(call)))
    finally:
        os._exit(0)
