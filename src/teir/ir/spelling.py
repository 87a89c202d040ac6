"""How a name is written in the text form: as it is, or quoted as a JSON string."""

from __future__ import annotations

import json
import re

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def spell(name: str) -> str:
    """``name`` itself where it is a plain name, else a JSON string."""
    return name if PLAIN_NAME.fullmatch(name) else quote(name)


def quote(text: str) -> str:
    """``text`` as a JSON string; characters that cannot be seen are escaped."""
    return json.dumps(text, ensure_ascii=not text.isprintable())
