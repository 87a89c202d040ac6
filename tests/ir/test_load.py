"""Inputs as such: files that are none, sizes, encodings, kinds, limits; and saving."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from teir.errors import ArgumentPlace, Finding, TeirError, TextPlace
from teir.ir.limits import ENTRIES, INPUT_BYTES, JSON_CONTAINERS, LINE_CHARACTERS, LISTED_FINDINGS
from teir.ir.load import load, loads, save
from teir.ir.nodes import InvocationNode, IterationNode, Program
from teir.ir.printing import print_program
from teir.ir.records import dumps_records

CASES = Path(__file__).parents[1] / "cases"
TEXT = (CASES / "10.7.6-gemm-contraction.teir").read_text()
PROGRAM = loads(TEXT)


def refused(data: str | bytes) -> tuple[Finding, ...]:
    with pytest.raises(TeirError) as caught:
        loads(data)
    assert str(caught.value)
    return caught.value.findings


def codes(data: str | bytes) -> list[str]:
    return [finding.code for finding in refused(data)]


def refused_file(path: Path | str) -> Finding:
    with pytest.raises(TeirError) as caught:
        load(path)
    (finding,) = caught.value.findings
    return finding


def test_every_kind_is_recognised() -> None:
    assert loads(TEXT.encode()) == PROGRAM
    assert loads(b"\n  " + dumps_records(PROGRAM)) == PROGRAM
    assert loads(bytearray(dumps_records(PROGRAM))) == PROGRAM
    assert loads("\r\n# a comment {\r\n" + TEXT.replace("\n", "\r\n")) == PROGRAM


@pytest.mark.parametrize("suffix", [".teir", ".json", ""])
def test_save_then_load(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"program{suffix}"
    save(PROGRAM, path)
    assert load(path) == PROGRAM
    assert load(str(path)) == PROGRAM
    assert path.read_bytes().startswith(b"{" if suffix == ".json" else b"teir 1")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_save_replaces_and_follows_links(tmp_path: Path) -> None:
    (tmp_path / "a.teir").write_text("old")
    (tmp_path / "link.teir").symlink_to(tmp_path / "a.teir")
    save(PROGRAM, tmp_path / "link.teir")
    assert (tmp_path / "link.teir").is_symlink()
    assert load(tmp_path / "link.teir") == load(tmp_path / "a.teir") == PROGRAM


@pytest.mark.parametrize("place", ["no/such/folder/p.teir", "", "\0"])
def test_save_where_nothing_can_be_written(tmp_path: Path, place: str) -> None:
    with pytest.raises(TeirError, match="TEIR117"):
        save(PROGRAM, tmp_path / place if place else tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_none(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, found in [
        (tmp_path / "missing.teir", "No such file"),
        (tmp_path, "directory"),
        (pipe, "a pipe"),
        (Path("/dev/zero"), "a device"),
        (tmp_path / "loop", "symbolic links"),
        ("a\0b", "null"),
        ("", "No such file"),
    ]:
        finding = refused_file(path)
        assert finding.code == "TEIR100"
        assert isinstance(finding.place, ArgumentPlace)
        assert found in finding.found


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs the files of Linux")
def test_a_file_that_opens_and_cannot_be_read() -> None:
    with pytest.raises(TeirError, match="TEIR100"):
        load("/proc/self/mem")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "secret.teir"
    path.write_text(TEXT)
    path.chmod(0)
    assert refused_file(path).code == "TEIR100"


def test_a_file_of_100_megabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.teir"
    with path.open("wb") as file:
        file.truncate(100 * 10**6)
    finding = refused_file(path)
    assert (finding.code, finding.found) == ("TEIR101", "100000000 bytes")
    assert codes(b" " * (INPUT_BYTES.largest + 1)) == ["TEIR101"]


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.encode("utf-16"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-32"),
        TEXT.encode() + b"\xff",
        TEXT.encode() + b"\xed\xa0\x80",
        TEXT + "# \ud800",
        b"\x00",
        None,
        7,
        ["teir"],
    ],
)
def test_what_is_not_utf8_text(data: bytes) -> None:
    assert codes(data) == ["TEIR102"]


@pytest.mark.parametrize(
    "data", ["", "\n", "# teir 1", "hello", "<teir/>", "# x\n{}", "PK\x03\x04"]
)
def test_no_kind(data: str) -> None:
    assert codes(data) == ["TEIR103"]


def test_an_error_is_an_ordinary_exception() -> None:
    with pytest.raises(ValueError, match="TEIR103") as caught:
        loads("{}")
    caught.value.add_note("while testing")
    assert hash(caught.value.findings) == hash(refused("{}"))


def test_names_of_256_bytes_pass() -> None:
    name = "é" * 128
    assert loads(f'teir 1 "x"\ntensor "{name}": FP32').tensors[0].name == name
    assert codes(f'teir 1 "x"\ntensor "{name}e": FP32') == ["TEIR109"]


def test_the_schedule_may_be_256_nodes_deep() -> None:
    def nested(depth: int) -> str:
        rows = [f"{' ' * level}sequential n{level} over a\n" for level in range(depth - 1)]
        return (
            'teir 1 "deep"\ntensor out: FP32\naxis a = 1\nprimitive z = Zero(out; M=[], N=[])\n'
            + "".join(rows)
            + " " * (depth - 1)
            + "z: z\n"
        )

    program = loads(nested(256))
    assert loads(dumps_records(program)) == program
    assert codes(nested(257)) == ["TEIR110"]
    assert codes(nested(3_000)) == ["TEIR110"]
    assert codes(nested(10_000)) == ["TEIR101"]


def test_too_many_entries() -> None:
    header = 'teir 1 "many"\ntensor out: FP32\n'
    rows = "".join(f"axis a{number} = 1\n" for number in range(ENTRIES.largest))
    assert codes(header + rows + "axis b = 1\n") == ["TEIR108"]
    many = [{"id": number, "extent": 1, "strides": []} for number in range(ENTRIES.largest + 1)]
    schedule = {"roots": [], "iterations": [], "invocations": []}
    record = {"teir": 1, "tensors": [], "axes": many, "schedule": schedule, "primitives": []}
    assert codes(json.dumps(record)) == ["TEIR108"]


def test_too_many_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a lower limit, for a million of them take seconds."""
    fewer = replace(JSON_CONTAINERS, largest=1_000)
    monkeypatch.setattr("teir.ir.json_scan.JSON_CONTAINERS", fewer)
    assert "TEIR108" not in codes('{"a": [' + "[]," * 997 + "[]]}")
    assert codes('{"a": [' + "[]," * 998 + "[]]}") == ["TEIR108"]


def test_a_line_that_is_too_long() -> None:
    (finding,) = refused('teir 1 "x"\n' + " " * (LINE_CHARACTERS.largest + 1))
    assert finding.code == "TEIR111"
    assert finding.place == TextPlace(line=2, column=LINE_CHARACTERS.largest + 1)


def test_a_list_of_findings_ends() -> None:
    text = 'teir 1 "x"\n' + "axis ?\n" * 100_000
    assert codes(text)[-1] == "TEIR112"
    assert len(refused(text)) == LISTED_FINDINGS.largest
    schedule = {"roots": [], "iterations": [], "invocations": []}
    record = {"teir": 1, "tensors": [None] * 90_000, "axes": [{}] * 90_000, "primitives": []}
    found = codes(json.dumps(record | {"schedule": schedule}))
    assert found[-1] == "TEIR112"
    assert len(found) == LISTED_FINDINGS.largest + 1


@pytest.mark.parametrize(
    "data",
    [
        "[" * 2**20,
        '{"a":' * 2**18,
        '{"teir":1,"a":' + '"' + "\\" * 2**20,
        '{"teir":1,' + '"\\"' * 2**19,
        '{"teir":1,"name":"' + "x" * 2**20 + '","b":"',
        '{"teir":1,"tensors":[' + "1," * 2**19 + "1]}",
        '{"teir":1,"schedule":{"roots":[' + '"a",' * 2**18 + '"a"]}}',
        '{"dim_types":[' + '"x",' * 2**18 + '"x"]}',
        "teir" + " " * 2**20 + "1",
        'teir 1 "' + "\\" * 2**20,
        'teir 1 "x"\nprimitive p = Zero(out; M=[' + "a," * 2**18,
        'teir 1 "x"\n' + "(" * 2**20,
        'teir 1 "x"\n' + "\n" * 2**20 + "?",
        "#" * 2**20,
        "# \n" * 2**18,
    ],
    ids=lambda data: data[:16],
)
def test_a_megabyte_of_repetition_is_refused(data: str) -> None:
    refused(data)


def test_a_small_program_keeps_its_huge_metadata() -> None:
    number = "9" * 20
    text = TEXT.replace("K=[u])", f'K=[u]) with {{"seed": {number}}}')
    assert loads(text).primitives[1].metadata == (("seed", number),)


def test_damaged_bytes_never_crash() -> None:
    """Any bytes end in a program or in TeirError (a small deterministic fuzzer)."""
    draw = random.Random(20)
    flat = (CASES / "flat-6-gemm-contraction.json").read_bytes()
    seeds = [TEXT.encode(), dumps_records(PROGRAM), flat]
    pieces = [
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\\",
        b"-",
        b"9" * 40,
        b"\xff",
        b"\n",
        b"null",
    ]
    accepted = 0
    for _ in range(1_500):
        data = bytearray(draw.choice(seeds))
        for _ in range(draw.randint(1, 4)):
            start = draw.randrange(len(data))
            data[start : start + draw.randint(0, 6)] = draw.choice(pieces)
        try:
            program = loads(bytes(data))
        except TeirError:
            continue
        accepted += 1
        assert loads(print_program(program).text) == program
        assert all_names_lead_somewhere(program)
    assert accepted


def all_names_lead_somewhere(program: Program) -> bool:
    axes, primitives, tensors = (
        program.axis_table(),
        program.primitive_table(),
        program.tensor_table(),
    )
    for node in program.nodes():
        assert all(term.axis in axes for term in node.guard)
        match node:
            case IterationNode():
                assert node.axis in axes
            case InvocationNode():
                primitive = primitives[node.primitive]
                assert all(name in axes for name in primitive.axes)
                assert all(name in tensors for name in primitive.operands)
    return True


def test_arguments_of_other_types_are_findings(tmp_path: Path) -> None:
    with pytest.raises(TeirError, match="TEIR118"):
        save(5, tmp_path / "p.teir")  # type: ignore[arg-type]
    for call in (lambda: save(PROGRAM, None), lambda: load(None)):  # type: ignore[arg-type]
        with pytest.raises(TeirError, match="TEIR100"):
            call()
    assert list(tmp_path.iterdir()) == []
