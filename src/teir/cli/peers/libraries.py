"""The peers there are, and which of them are installed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from teir.cli.peers.etops_forms import etops_forms
from teir.cli.peers.forms import Forms
from teir.cli.peers.numpy_forms import numpy_forms, opt_einsum_forms
from teir.cli.peers.tblis_forms import tblis_forms
from teir.cli.peers.torch_forms import opt_einsum_torch_forms, torch_forms


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A library, or two together, and the modules without which it cannot be used."""

    modules: tuple[str, ...]
    forms: Forms


PEERS: Mapping[str, Peer] = {
    "NumPy": Peer(modules=("numpy",), forms=numpy_forms),
    "opt_einsum": Peer(modules=("opt_einsum",), forms=opt_einsum_forms),
    "torch": Peer(modules=("torch",), forms=torch_forms),
    "opt_einsum torch": Peer(modules=("opt_einsum", "torch"), forms=opt_einsum_torch_forms),
    "TBLIS": Peer(modules=("pytblis",), forms=tblis_forms),
    "etops": Peer(modules=("etops",), forms=partial(etops_forms, tuned=False)),
    "etops tuned": Peer(modules=("etops",), forms=partial(etops_forms, tuned=True)),
}
"""In the order of the tables."""


def installed_peers() -> tuple[str, ...]:
    """The peers whose modules can be imported here."""
    return tuple(name for name, peer in PEERS.items() if all(map(find_spec, peer.modules)))


def peer_versions() -> dict[str, str]:
    """Version of every module a peer here needs."""
    found = {}
    for module in dict.fromkeys(module for peer in PEERS.values() for module in peer.modules):
        try:
            found[module] = version(module)
        except PackageNotFoundError:
            continue
    return found
