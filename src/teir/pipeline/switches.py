"""tune: a keyword that is yes or no, and nothing that Python takes for one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from teir.errors import Rule, refuse

TUNE = Rule(code="TEIR647", sentence="tune is True or False.", source="language reference, einsum")


def checked_tune(tune: Any) -> bool:
    """The keyword as a bool. Raises TeirError (TEIR647) for anything else: "no" would be true."""
    if not isinstance(tune, (bool, np.bool_)):
        refuse(TUNE, "tune", "True or False", repr(tune))
    return bool(tune)
