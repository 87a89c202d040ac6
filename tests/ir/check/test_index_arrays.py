"""Bound index arrays: each hostile array gets its rule, right ones give exact bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from teir.arrays.operand import bind_operand
from teir.ir.check import Report, check, check_operands, index_arrays, prove
from teir.ir.parsing import parse_program

SPMV = """teir 1 "sparse matrix times vector"
tensor Bp: I32
tensor Bc: I64
tensor B: FP64
tensor x: FP64
tensor out: FP64
axis i = 3: Bp 4, out 8
axis j = 5: Bc 8, B 8, x 8; segment pos Bp crd Bc by_position [B]
primitive dot = Contraction(B, x -> out; M=[], N=[], K=[])
parallel rows over i
  sequential row over j
    add: dot
"""


def checked(pos: list[int], crd: list[int], stored: int | None = None, text: str = SPMV) -> Report:
    program = parse_program(text)
    values = {
        "Bp": np.array(pos, np.int32),
        "Bc": np.array(crd, np.int64),
        "B": np.zeros(len(crd) if stored is None else stored),
        "x": np.zeros(5),
        "out": np.zeros(3),
    }
    operands = {
        tensor.name: bind_operand(tensor.name, values[tensor.name], tensor.data_type, True)
        for tensor in program.tensors
    }
    return check(program, operands)


def test_right_arrays_give_the_bytes_of_what_is_addressed_by_position() -> None:
    report = checked([0, 2, 2, 5], [1, 4, 0, 2, 3])
    assert report.ok
    assert report.needs["B"].after_bytes == 40
    assert report.needs["Bp"].after_bytes == 16
    assert "B" not in check(parse_program(SPMV)).needs


def test_positions_that_begin_later_need_nothing_before() -> None:
    report = checked([2, 2, 4, 5], [9, 9, 1, 4, 0])
    assert report.ok
    assert (report.needs["B"].low, report.needs["B"].high) == (16, 40)


def test_index_arrays_may_lie_right_behind_what_is_written() -> None:
    program = parse_program(SPMV)
    buffer = np.zeros(24 + 16, np.uint8)
    pos = buffer[24:].view(np.int32)
    pos[:] = [0, 1, 1, 1]
    values = {"Bp": pos, "Bc": np.array([3]), "B": np.zeros(1), "x": np.zeros(5)}
    values["out"] = buffer[:24].view(np.float64)
    kinds = {tensor.name: tensor.data_type for tensor in program.tensors}
    operands = {name: bind_operand(name, one, kinds[name], True) for name, one in values.items()}
    assert check(program, operands).ok
    values["out"] = buffer[8:32].view(np.float64)
    operands["out"] = bind_operand("out", values["out"], kinds["out"], True)
    assert [finding.code for finding in check(program, operands).findings] == ["TEIR407"]


@pytest.mark.parametrize(("crd", "found"), [([9, 1, 4], []), ([9, 1], ["bytes 0 to 15"])])
def test_coordinates_that_rows_move_are_read_from_the_first_filled_row_on(
    crd: list[int], found: list[str]
) -> None:
    """Row 1, the only one with positions, has its coordinates from byte 8 on."""
    text = SPMV.replace("i = 3: Bp 4", "i = 3: Bp 4, Bc 8")
    report = checked([0, 0, 2, 2], crd, stored=2, text=text)
    assert [finding.found for finding in report.findings] == found
    for finding in report.findings:
        assert finding.code == "TEIR412"
        assert finding.expected.startswith("bytes 8 to 23 of Bc")


TWO_LEVELS = """teir 1 "a cube with two compressed levels"
tensor p1: I32
tensor c1: I32
tensor p2: I32
tensor c2: I32
tensor B: FP64
tensor x: FP64
tensor out: FP64
axis j = 6: c1 4, p2 4; segment pos p1 crd c1 by_position [p2]
axis k = 5: c2 4, B 8, x 8; segment pos p2 crd c2 by_position [B]
primitive dot = Contraction(B, x -> out; M=[], N=[], K=[])
sequential outer over j
  sequential inner over k
    add: dot
"""


@pytest.mark.parametrize(
    ("code", "p2", "c2"),
    [
        (None, [0, 2, 3], [1, 4, 0]),
        ("TEIR411", [0, 2, 1], [1, 4, 0]),
        ("TEIR413", [0, 2, 3], [1, 4, 5]),
        ("TEIR410", [0, 2], [1, 4]),
    ],
)
def test_fibres_of_a_stored_level(code: str | None, p2: list[int], c2: list[int]) -> None:
    """The second level has as many fibres as the first has positions."""
    program = parse_program(TWO_LEVELS)
    values = {"p1": [0, 2], "c1": [1, 5], "p2": p2, "c2": c2}
    arrays: dict[str, np.ndarray] = {name: np.array(one, np.int32) for name, one in values.items()}
    arrays |= {"B": np.zeros(len(c2)), "x": np.zeros(5), "out": np.zeros(1)}
    kinds = {tensor.name: tensor.data_type for tensor in program.tensors}
    operands = {name: bind_operand(name, one, kinds[name], True) for name, one in arrays.items()}
    report = check(program, operands)
    assert [finding.code for finding in report.findings] == ([] if code is None else [code])
    if code is None:
        assert (report.needs["B"].low, report.needs["B"].high) == (0, 24)


def test_fibres_that_begin_later_need_only_their_own_bounds() -> None:
    """The outer level walks positions 1 and 2: only fibres 1 and 2 of the inner level are read."""
    program = parse_program(TWO_LEVELS)
    bounds = np.array([0, 0, 2, 3], np.int32)
    arrays: dict[str, np.ndarray] = {"p1": np.array([1, 3], np.int32), "p2": bounds[1:]}
    arrays |= {"c1": np.array([9, 1, 5], np.int32), "c2": np.array([1, 4, 0], np.int32)}
    arrays |= {"B": np.zeros(3), "x": np.zeros(5), "out": np.zeros(1)}
    kinds = {tensor.name: tensor.data_type for tensor in program.tensors}
    operands = {name: bind_operand(name, one, kinds[name], True) for name, one in arrays.items()}
    report = check(parse_program(TWO_LEVELS.replace("p2 4;", "p2 4 - 4;")), operands)
    assert report.ok, report.findings
    assert (report.needs["B"].low, report.needs["B"].high) == (0, 24)
    assert [one.code for one in check(program, operands).findings] == ["TEIR410"]
    bound = operands["p2"]
    whole = bind_operand("p2", bounds, kinds["p2"], True)
    operands["p2"] = replace(whole, address=bound.address, before_bytes=4, after_bytes=12)
    assert check(parse_program(TWO_LEVELS.replace("p2 4;", "p2 4 - 4;")), operands).ok
    bounds[1:] = [0, 3, 2]
    (finding,) = check(parse_program(TWO_LEVELS.replace("p2 4;", "p2 4 - 4;")), operands).findings
    assert finding.found == "p2 holds 3 at byte 4 and 2 at byte 8"


def test_one_axis_walked_twice_visits_the_positions_of_both_walks() -> None:
    """Rows 0 and 1 by one loop, row 2 by another: three stored values are needed, not two."""
    text = SPMV.replace("axis j", "axis last = 1: Bp 4 + 8, out 8 + 16\naxis j")
    text = (
        text.replace("i = 3", "i = 2")
        + """parallel last_rows over last
  sequential last_row over j
    add_last: dot
"""
    )
    assert checked([0, 1, 2, 3], [1, 4, 0], text=text).ok
    report = checked([0, 1, 2, 3], [1, 4, 0], stored=2, text=text)
    assert [finding.code for finding in report.findings] == ["TEIR402"]


def test_an_empty_segment_may_overlap_the_next_one() -> None:
    """Every row has its bounds by itself: row 0 from 3 to 3, row 1 from 1 to 2."""
    text = SPMV.replace("i = 3: Bp 4", "i = 2: Bp 8")
    (finding,) = checked([3, 3, 1, 2], [0, 1, 2], text=text).findings
    assert finding.code == "TEIR411"
    assert finding.found == "the segment at byte 0 of Bp overlaps the next one"


def test_empty_rows_pass() -> None:
    assert checked([0, 0, 0, 0], []).ok


@pytest.mark.parametrize(
    ("code", "pos", "crd", "witness"),
    [
        ("TEIR410", [0, 2, 2], [1, 4], "bytes 0 to 11"),
        ("TEIR411", [0, 2, 1, 2], [1, 4], "holds 2 at byte 4 and 1 at byte 8"),
        ("TEIR411", [-1, 2, 2, 2], [1, 4], "holds -1"),
        ("TEIR412", [0, 2, 2, 3], [1, 4], "bytes 0 to 15"),
        ("TEIR412", [0, 2, 2, 2**31 - 1], [1, 4], "bytes 0 to 15"),
        ("TEIR413", [0, 2, 2, 2], [1, 5], "5 at position 1"),
        ("TEIR413", [0, 2, 2, 2], [-1, 4], "-1 at position 0"),
        ("TEIR413", [0, 0, 0, 1], [2**62], f"{2**62} at position 0"),
        ("TEIR414", [0, 2, 2, 2], [4, 1], "1 after 4 at position 1"),
        ("TEIR414", [0, 1, 3, 3], [4, 2, 2], "2 after 2 at position 2"),
    ],
)
def test_hostile_arrays(code: str, pos: list[int], crd: list[int], witness: str) -> None:
    report = checked(pos, crd)
    assert [finding.code for finding in report.findings] == [code]
    assert witness in report.findings[0].found
    assert (report.findings[0].line or "").startswith("axis j")
    if code == "TEIR410":
        assert report.findings[0].expected == "bytes 0 to 15 of Bp"
    if code == "TEIR413":
        assert report.findings[0].expected == "coordinates 0 to 4"


def test_too_few_stored_values() -> None:
    report = checked([0, 2, 2, 5], [1, 4, 0, 2, 3], stored=4)
    assert [finding.code for finding in report.findings] == ["TEIR402"]


SDDMM = """teir 1 "sampled product"
tensor Bp: I32
tensor Bc: I32
tensor C: FP64
tensor D: FP64
tensor out: FP64
axis i = 4: Bp {pos}, C 64
axis j = 5: Bc 4, D 64, out 8; segment pos Bp crd Bc by_position [out]
axis k = 8: C 8, D 8
primitive dot = Contraction(C, D -> out; M=[], N=[], K=[k])
parallel rows over i
  sequential row over j
    add: dot
"""


def test_outputs_by_position_are_apart_because_segments_are() -> None:
    assert check(parse_program(SDDMM.format(pos=4))).ok


MATRICES = SDDMM.format(pos=4).replace("axis i", "axis b = 2: Bp 16, C 256\naxis i")
MATRICES = MATRICES.replace("parallel rows", "parallel matrices over b\n  parallel rows")
MATRICES = MATRICES.replace("\n    add", "\n      add").replace("\n  seq", "\n    seq")


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("Bp 16", "Bp 16", []),
        ("Bp 16", "Bp 12", ["node add writing what may be one byte of out at b=1"]),
        ("i = 4: Bp 4, ", "i = 4: ", ["node add writing what may be one byte of out at i=1"]),
    ],
)
def test_every_axis_above_tells_segments_apart(before: str, after: str, found: list[str]) -> None:
    """The last fibre of a matrix is the first of the next where both are 12 bytes further on."""
    report = check(parse_program(MATRICES.replace(before, after)))
    assert [finding.found.split(" and ")[0] for finding in report.findings] == found


def test_one_segment_for_all_iterations_is_a_race() -> None:
    report = check(parse_program(SDDMM.format(pos=0).replace("Bp 0, ", "")))
    assert [finding.code for finding in report.findings] == ["TEIR403"]


@pytest.mark.parametrize(
    ("tile", "step", "found"),
    [
        (2, 8, ["TEIR403"]),
        (2, 16, []),
        (4, 16, ["TEIR403"]),
        (4, 24, ["TEIR403"]),
        (4, 32, []),
    ],
)
def test_positions_closer_than_a_tile_are_a_race(tile: int, step: int, found: list[str]) -> None:
    """Closer than a tile, the last tile of a row meets the first of the next."""
    text = SDDMM.format(pos=4).replace("out 8", f"out {step}")
    text = text.replace("axis k", f"axis m = {tile}: C 256, out 8\naxis k").replace("M=[]", "M=[m]")
    assert [finding.code for finding in check(parse_program(text)).findings] == found


@pytest.mark.parametrize(("offset", "found"), [(8, []), (16, ["TEIR403"]), (32, ["TEIR403"])])
def test_what_lies_behind_a_position_may_be_the_next_one(offset: int, found: list[str]) -> None:
    text = SDDMM.format(pos=4).replace("out 8", "out 16")
    text = text.replace("axis k", f"axis behind = 1: out 0 + {offset}\naxis k")
    text = (
        text.replace(
            "parallel",
            "primitive more = Contraction(C, D -> out; M=[behind], N=[], K=[k])\nparallel",
        )
        + "    add_more: more\n"
    )
    assert [finding.code for finding in check(parse_program(text)).findings] == found


@pytest.mark.parametrize(("begin", "found"), [(320, ["TEIR407"]), (360, [])])
def test_operands_before_and_behind_their_base_lie_apart(begin: int, found: list[str]) -> None:
    """Out is handed over by its middle: 16 bytes before its base belong to it.

    Without its coordinates nobody knows what is written of it.
    """
    program = parse_program(SDDMM.format(pos=4))
    buffer = np.zeros(400, np.uint8)
    values = {"Bp": np.zeros(5, np.int32), "C": np.zeros(32)}
    values |= {"D": buffer[16:336].view(np.float64), "out": buffer[begin:][:40].view(np.float64)}
    kinds = {tensor.name: tensor.data_type for tensor in program.tensors}
    operands = {name: bind_operand(name, one, kinds[name], True) for name, one in values.items()}
    out = operands["out"]
    operands["out"] = replace(out, address=out.address + 16, before_bytes=16, after_bytes=24)
    report = check_operands(prove(program), operands)
    assert [finding.code for finding in report.findings] == ["TEIR511", *found]


@pytest.mark.parametrize(("begin", "found"), [(0, ["TEIR407"]), (320, [])])
def test_operands_at_unknown_positions_lie_apart_as_a_whole(begin: int, found: list[str]) -> None:
    """Without coordinates nobody knows what is written: it may be all of out."""
    program = parse_program(SDDMM.format(pos=4))
    buffer = np.zeros(320 + 40, np.uint8)
    values = {"Bp": np.zeros(5, np.int32), "C": np.zeros(32)}
    values |= {"D": buffer[:320].view(np.float64), "out": buffer[begin:][:40].view(np.float64)}
    kinds = {tensor.name: tensor.data_type for tensor in program.tensors}
    operands = {name: bind_operand(name, one, kinds[name], True) for name, one in values.items()}
    report = check_operands(prove(program), operands)
    assert [finding.code for finding in report.findings] == ["TEIR511", *found]


@pytest.mark.parametrize(("most", "codes"), [(3, []), (2, ["TEIR415"])])
def test_as_many_segments_as_are_looked_at(
    most: int, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_arrays, "_SEGMENTS", most)
    report = checked([0, 2, 2, 5], [1, 4, 0, 2, 3])
    assert [finding.code for finding in report.findings] == codes


@pytest.mark.parametrize(("most", "codes"), [(2, []), (1, ["TEIR415"])])
def test_segments_are_counted_from_where_the_level_above_begins(
    most: int, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions 1 and 2 of the outer level: two fibres of the inner one."""
    monkeypatch.setattr(index_arrays, "_SEGMENTS", most)
    program = parse_program(TWO_LEVELS)
    arrays: dict[str, np.ndarray] = {"p1": np.array([1, 3], np.int32)}
    arrays |= {"c1": np.array([9, 1, 5], np.int32), "p2": np.array([0, 0, 2, 3], np.int32)}
    arrays |= {"c2": np.array([1, 4, 0], np.int32), "B": np.zeros(3)}
    arrays |= {"x": np.zeros(5), "out": np.zeros(1)}
    kinds = {tensor.name: tensor.data_type for tensor in program.tensors}
    operands = {name: bind_operand(name, one, kinds[name], True) for name, one in arrays.items()}
    assert [finding.code for finding in check(program, operands).findings] == codes


@pytest.mark.parametrize(("pos", "codes"), [([0, 1, 1, 2], []), ([0, 2, 2, 2], ["TEIR414"])])
def test_one_coordinate_may_serve_segments_of_one_element(pos: list[int], codes: list[str]) -> None:
    text = SPMV.replace("axis j = 5: Bc 8,", "axis j = 5: Bc 0,")
    report = checked(pos, [3], stored=2, text=text)
    assert [finding.code for finding in report.findings] == codes
