"""Check every contender, take every peer's fastest form, and time all of them interleaved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from teir.cli.peers.case import Case
from teir.cli.peers.libraries import PEERS
from teir.cli.peers.operands import Operands, agrees, randomise
from teir.cli.peers.rounds import Call, Rounds, measure, rough_seconds
from teir.dtypes import DataType

OURS = "teir"
WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to measure."""

    data_type: DataType
    rounds: int
    threads: int
    offset_bytes: int
    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The form of a contender that is timed, or why there is none."""

    call: Call | None
    form: str


def measure_contenders(
    case: Case, settings: Settings, operands: Operands, ours: Call, our_form: str
) -> tuple[Rounds, dict[str, str]]:
    """The rounds of all who give the right result, and the form of each or why it has none.

    ``operands`` hold whole numbers at first and random ones afterwards.
    """
    right = _is_right(ours, operands, settings.data_type)
    contenders = {OURS: Chosen(call=ours if right else None, form=our_form if right else WRONG)}
    chosen = {
        peer: choose_form(peer, case, settings, operands) for peer in _forking_first(settings.peers)
    }
    contenders |= {peer: chosen[peer] for peer in settings.peers}
    randomise(operands, settings.data_type)
    calls = {name: one.call for name, one in contenders.items() if one.call is not None}
    forms = {name: one.form for name, one in contenders.items()}
    rounds = measure(
        case,
        settings.data_type,
        calls,
        settings.rounds,
        settings.threads,
        settings.offset_bytes,
    )
    return rounds, forms


def _forking_first(peers: Sequence[str]) -> list[str]:
    """Threads that OpenMP has started in another peer's call would hang the processes it forks."""
    return sorted(peers, key=lambda peer: peer != "etops tuned")


def choose_form(peer: str, case: Case, settings: Settings, operands: Operands) -> Chosen:
    """The peer's fastest form that gives the right result."""
    best: tuple[float, str, Call] | None = None
    failures = []
    try:
        for form, plain in PEERS[peer].forms(case, settings.data_type, operands, settings.threads):
            call = _with_relu(plain, operands) if _lacks_relu(peer, case) else plain
            try:
                if not _is_right(call, operands, settings.data_type):
                    failures.append(f"{form}: {WRONG}")
                    continue
                taken = rough_seconds(call)
            except Exception as error:
                failures.append(f"{form}: {_reason(error)}")
                continue
            if best is None or taken < best[0]:
                best = (taken, form, call)
    except Exception as error:
        failures.append(_reason(error))
    if best is not None:
        return Chosen(call=best[2], form=best[1])
    return Chosen(call=None, form="; ".join(failures) or "cannot express it")


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0][:120] or type(error).__name__


def _lacks_relu(peer: str, case: Case) -> bool:
    return case.clears_negatives and not peer.startswith("etops")


def _with_relu(call: Call, operands: Operands) -> Call:
    def both() -> object:
        result = call()
        in_place = getattr(result, "relu_", None)
        if in_place is not None:
            return in_place()
        found = operands.out if result is None else np.asarray(result)
        return np.maximum(found, 0, out=operands.out)

    return both


def _is_right(call: Call, operands: Operands, data_type: DataType) -> bool:
    operands.out[...] = 0
    result = call()
    found = operands.out if result is None else result
    return agrees(found, operands.expected, data_type)
