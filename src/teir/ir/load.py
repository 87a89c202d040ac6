"""Programs from files and to files; the kind of an input is found from its content.

    teir 1 "name" ...                      text form
    {"teir": 1, ...}                       records
    {"teir_flat": 1, ...}                  flat form
    {"backend": ..., "dim_types": ...}     etops configuration

What is read obeys every rule of the form it came in, and every name in it leads somewhere;
`teir.check` judges guards, roles and values, and proves the program safe.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat

from teir.errors import Finding, RecordPlace, TeirError, TextPlace, at_argument
from teir.ir.etops import program_from_etops
from teir.ir.flat import program_from_flat
from teir.ir.limits import INPUT_BYTES
from teir.ir.name_rules import shown
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.ir.printing import print_program
from teir.ir.reading_rules import (
    ENCODING,
    INPUT_SIZE,
    KIND,
    READABLE_FILE,
    SAVED_VALUE,
    WRITABLE_FILE,
)
from teir.ir.records import decode_object, decode_text, dumps_records, program_from_records

_FIRST_WORD = re.compile(r"(?:[ \t\r\n]|#[^\n]*+(?:\n|\Z))*+([^\s#]{0,16})")


def load(path: str | os.PathLike[str]) -> Program:
    """The program in the file at ``path``, of any kind.

    Raises `TeirError`: the path is no regular file, the file is too large, or what `loads` finds.
    A symbolic link is followed.
    """
    return loads(read_file(_path_text(path)))


def loads(data: str | bytes) -> Program:
    """The program that ``data`` holds, of any kind.

    Raises `TeirError` with every finding: at a line and column of the text form, at a JSON path
    of the others.
    """
    match data:
        case str():
            raw = _encode(data)
        case bytes() | bytearray() | memoryview():
            raw = bytes(data)
        case _:
            raise TeirError((at_argument(ENCODING, "data", "text or bytes", type(data).__name__),))
    if len(raw) > INPUT_BYTES.largest:
        expected = f"at most {INPUT_BYTES.largest} bytes"
        raise TeirError((at_argument(INPUT_SIZE, "data", expected, f"{len(raw)} bytes"),))
    text = decode_text(raw)
    first = _FIRST_WORD.match(text)
    word = first.group(1) if first else ""
    if word.startswith(("{", "[")) and text.lstrip(" \t\r\n").startswith(("{", "[")):
        return _from_json(raw)
    if word.startswith("teir"):
        return parse_program(text)
    place = TextPlace(line=1, column=1)
    found = shown(word) if word else "nothing"
    raise TeirError((Finding(rule=KIND, place=place, expected="teir or {", found=found),))


def save(program: Program, path: str | os.PathLike[str]) -> None:
    """Writes the program: records where the name ends in ``.json``, else the text form.

    The file is replaced as a whole or not at all. Raises `TeirError` where it cannot be written.
    """
    target = _path_text(path)
    if not isinstance(program, Program):
        found = type(program).__name__
        raise TeirError((at_argument(SAVED_VALUE, "program", "a teir.Program", found),))
    if target.endswith(".json"):
        data = dumps_records(program)
    else:
        data = print_program(program).text.encode()
    try:
        _replace(os.path.realpath(target), data)
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise TeirError((at_argument(WRITABLE_FILE, target, "a file to write", found),)) from error


def _path_text(path: str | os.PathLike[str]) -> str:
    if isinstance(path, (str, os.PathLike)):
        return os.fsdecode(path)
    found = type(path).__name__
    raise TeirError((at_argument(READABLE_FILE, "path", "the path of a file", found),))


def _from_json(raw: bytes) -> Program:
    document = decode_object(raw)
    if "teir" in document:
        return program_from_records(document)
    if "teir_flat" in document:
        return program_from_flat(document)
    if "dim_types" in document:
        return program_from_etops(document)
    fields = ", ".join(shown(key) for key in list(document)[:8]) or "no field"
    raise TeirError(
        (
            Finding(
                rule=KIND,
                place=RecordPlace(path="$"),
                expected="the field teir, teir_flat or dim_types",
                found=fields,
            ),
        )
    )


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        found = f"a lone surrogate at character {error.start}"
        raise TeirError((at_argument(ENCODING, "data", "UTF-8 text", found),)) from error


def read_file(path: str) -> bytes:
    """The bytes of a regular file; a pipe or a device is never waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise TeirError((at_argument(READABLE_FILE, path, "a readable file", found),)) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        kind = _kind_of(status.st_mode)
        raise TeirError((at_argument(READABLE_FILE, path, "a regular file", kind),))
    try:
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(INPUT_BYTES.largest + 1)
    except OSError as error:
        found = error.strerror or str(error)
        raise TeirError((at_argument(READABLE_FILE, path, "a readable file", found),)) from error
    if len(data) > INPUT_BYTES.largest:
        size = max(status.st_size, len(data))
        expected = f"at most {INPUT_BYTES.largest} bytes"
        raise TeirError((at_argument(INPUT_SIZE, path, expected, f"{size} bytes"),))
    return data


def _kind_of(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"


def _replace(target: str, data: bytes) -> None:
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError("not a regular file")
    temporary = f"{target}.{os.getpid()}-{secrets.token_hex(4)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, target)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
