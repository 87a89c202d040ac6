"""In which order peers choose their forms."""

from __future__ import annotations

from teir.cli.peers.choosing import _forking_first
from teir.cli.peers.libraries import PEERS


def test_the_peer_that_forks_chooses_before_any_starts_threads() -> None:
    order = _forking_first(tuple(PEERS))
    assert order[0] == "etops tuned"
    assert sorted(order) == sorted(PEERS)
    assert _forking_first(("TBLIS", "NumPy")) == ["TBLIS", "NumPy"]
