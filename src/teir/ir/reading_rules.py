"""The rules that bind every reader: input as such, the text form, names.

Codes ``TEIR100`` to ``TEIR129``. The rules of section 10.5 stand in `teir.ir.record_rules`.
"""

from __future__ import annotations

from teir.errors import Rule
from teir.ir.limits import (
    ENTRIES,
    IDENTIFIER_BYTES,
    INPUT_BYTES,
    JSON_CONTAINERS,
    JSON_NESTING,
    LINE_CHARACTERS,
    LISTED_FINDINGS,
    NUMBER_CHARACTERS,
    SCHEDULE_DEPTH,
)

_REFERENCE = "language reference"
_LIMITS = "language reference, limits"

READABLE_FILE = Rule(
    code="TEIR100",
    sentence="An input file is a regular file that can be opened for reading.",
    source=_REFERENCE,
)
INPUT_SIZE = Rule(
    code="TEIR101",
    sentence=f"An input has at most {INPUT_BYTES.largest} bytes.",
    source=_LIMITS,
)
ENCODING = Rule(
    code="TEIR102",
    sentence="An input is UTF-8 text without a byte order mark and without lone surrogates.",
    source=_REFERENCE,
)
KIND = Rule(
    code="TEIR103",
    sentence=(
        "An input is the text form, which starts with the word teir, or a JSON object with the "
        "field teir, teir_flat or dim_types."
    ),
    source=_REFERENCE,
)
JSON_SYNTAX = Rule(
    code="TEIR104",
    sentence="A JSON input is one JSON value as RFC 8259 defines it, with nothing after it.",
    source=_REFERENCE,
)
JSON_DEPTH = Rule(
    code="TEIR105",
    sentence=f"JSON is nested at most {JSON_NESTING.largest} levels deep.",
    source=_LIMITS,
)
DUPLICATE_KEY = Rule(
    code="TEIR106",
    sentence="No JSON object has the same key twice.",
    source=_REFERENCE,
)
NUMBER_LENGTH = Rule(
    code="TEIR107",
    sentence=f"A number has at most {NUMBER_CHARACTERS.largest} characters.",
    source=_LIMITS,
)
COUNTS = Rule(
    code="TEIR108",
    sentence=(
        f"A program has at most {ENTRIES.largest} axes and as many nodes, primitives and tensors, "
        f"and a JSON input at most {JSON_CONTAINERS.largest} objects and arrays."
    ),
    source=_LIMITS,
)
IDENTIFIER_LENGTH = Rule(
    code="TEIR109",
    sentence=f"An identifier has at most {IDENTIFIER_BYTES.largest} bytes in UTF-8.",
    source=_LIMITS,
)
DEPTH = Rule(
    code="TEIR110",
    sentence=f"A path of the schedule has at most {SCHEDULE_DEPTH.largest} nodes.",
    source=_LIMITS,
)
LINE_LENGTH = Rule(
    code="TEIR111",
    sentence=f"A line of the text form has at most {LINE_CHARACTERS.largest} characters.",
    source=_LIMITS,
)
TOO_MANY_FINDINGS = Rule(
    code="TEIR112",
    sentence=f"At most {LISTED_FINDINGS.largest} findings are listed at once.",
    source=_LIMITS,
)
TEXT_SYNTAX = Rule(
    code="TEIR113",
    sentence="A line of the text form follows the grammar of the language reference.",
    source=_REFERENCE,
)
HEADER = Rule(
    code="TEIR114",
    sentence='The text form starts with the line teir 1 "name".',
    source=_REFERENCE,
)
INDENTATION = Rule(
    code="TEIR115",
    sentence=(
        "Children stand deeper than their iteration node, all at the same depth, and are indented "
        "with spaces."
    ),
    source=_REFERENCE,
)
DECLARATIONS_FIRST = Rule(
    code="TEIR116",
    sentence="Tensors, axes and primitives are declared before the schedule, without indentation.",
    source=_REFERENCE,
)

WRITABLE_FILE = Rule(
    code="TEIR117",
    sentence="A program is saved to a file that can be written, as a whole or not at all.",
    source=_REFERENCE,
)
SAVED_VALUE = Rule(
    code="TEIR118",
    sentence="What is saved is a teir.Program.",
    source=_REFERENCE,
)

READING_RULES = (
    READABLE_FILE,
    INPUT_SIZE,
    ENCODING,
    KIND,
    JSON_SYNTAX,
    JSON_DEPTH,
    DUPLICATE_KEY,
    NUMBER_LENGTH,
    COUNTS,
    IDENTIFIER_LENGTH,
    DEPTH,
    LINE_LENGTH,
    TOO_MANY_FINDINGS,
    TEXT_SYNTAX,
    HEADER,
    INDENTATION,
    DECLARATIONS_FIRST,
    WRITABLE_FILE,
    SAVED_VALUE,
)
