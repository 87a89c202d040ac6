"""Roles, dimensions and findings of inference, and what the consumer's loops may be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from teir.errors import TeirError
from teir.tma.case_form import transfer_of, transfers_of
from teir.tma.check import Report, check
from teir.tma.dimensions import Kind, dimensions_of
from teir.tma.inference import Inferred
from teir.tma.nodes import Parallel
from teir.tma.refusal import Refusal
from teir.tma.steps import mapping_of
from teir.tma.tensor_map import Fill, check_tensor_map

FOLDER = Path(__file__).parent


def case(**fields: Any) -> dict[str, Any]:
    return {"id": "case", "dtype": "f32", "parallel": {}, "schedule": [], **fields}


def report(**fields: Any) -> Report:
    return check(transfer_of(case(**fields), "$"))


def inferred(**fields: Any) -> Inferred:
    found = report(**fields).inferred
    assert found is not None
    return found


def codes(found: Report) -> list[str]:
    return [refusal.finding.code for refusal in found.refusals]


def test_roles_of_a_strided_tile() -> None:
    """Figure 12: boxing split, striding split; names say which IterDomain is which."""
    schedule = [["split", 1, 8], ["split", 0, 4], ["split", 1, 3]]
    found = inferred(shape=[16, 12], schedule=schedule, parallel={"1": "Bulk", "4": "Bulk"})
    inner, outer = found.dimensions
    assert (inner.size, inner.box, inner.element_stride, inner.tile) == (12, 8, 1, 8)
    assert (outer.size, outer.box, outer.element_stride, outer.tile) == (16, 4, 3, 2)
    assert outer.kinds == (Kind.PARTITIONED,)
    assert [one.extent for one in outer.tiles] == [2]
    assert outer.stride is not None
    assert outer.stride.extent == 3


def test_mixture_of_all_ways_in_one_tensor() -> None:
    """From the innermost on: partitioned, strided, rotated, composited."""
    found = inferred(
        shape=[4, 3, 40, 24, 64],
        gmem_strides=[300000, 100000, 2048, 64, 1],
        schedule=[
            ["split", 4, 8],
            ["split", 3, 6],
            ["split", 4, 3],
            ["split", 2, 4],
            ["split", 2, 2],
        ],
        parallel={"1": "Bulk", "3": "Bulk", "4": "Bulk", "6": "Bulk", "9": "Bulk"},
    )
    assert found.tensor_map.sizes == (64, 24, 40, 12)
    assert found.tensor_map.strides_bytes == (256, 8192, 400000)
    assert found.tensor_map.box == (8, 6, 8, 3)
    assert found.tensor_map.element_strides == (1, 3, 1, 1)
    partitioned, coordinate, box = Kind.PARTITIONED, Kind.COORDINATE, Kind.DENSE_BOX
    assert [one.kinds for one in found.dimensions] == [(partitioned,)] * 3 + [(coordinate, box)]


@pytest.mark.parametrize(
    ("fields", "code", "named"),
    [
        (
            {"shape": [1000], "schedule": [["split", 0, 32], ["split", 1, 12]], "bulk": "2"},
            "TEIR906",
            "I1{1000}",
        ),
        (
            {
                "shape": [8, 128],
                "gmem_strides": [144, 1],
                "schedule": [["merge", 0], ["split", 0, 16]],
                "bulk": "1",
            },
            "TEIR907",
            "I1{8}, I2{128}",
        ),
        (
            {
                "shape": [4096],
                "schedule": [["split", 0, 16], ["split", 0, 16], ["swizzle", 1, 2]],
                "bulk": "2",
            },
            "TEIR946",
            "I5{16}, I3{16}, I6{16}, I7{16}",
        ),
        (
            {
                "shape": [16, 32],
                "gmem_strides": [40, 1],
                "schedule": [["split", 1, 8], ["split", 0, 4], ["merge", 1], ["split", 1, 2]],
                "bulk": "2",
            },
            "TEIR946",
            "I6{4}, I3{4}, I7{16}",
        ),
        (
            {"shape": [62], "schedule": [["resize", 0, 0, 2], ["split", 0, 16]], "bulk": "1"},
            "TEIR905",
            "I1{62}, I2{64}",
        ),
        (
            {"shape": [64], "schedule": [["split", 0, 1], ["resize", 1, 1, 0]], "bulk": "1"},
            "TEIR905",
            "I3{1}, I4{2}",
        ),
        (
            {
                "shape": [64, 64],
                "schedule": [
                    ["split", 0, 1],
                    ["resize", 1, 1, 0],
                    ["split", 2, 1],
                    ["resize", 3, 1, 0],
                ],
                "bulk": "1",
            },
            "TEIR905",
            "I4{1}, I5{2}",
        ),
        ({"shape": [32, 64], "gmem_strides": [128, 2], "bulk": "1"}, "TEIR910", "I2{64}"),
        (
            {"shape": [128], "schedule": [["split", 0, 32], ["split", 1, 2]], "bulk": "1"},
            "TEIR911",
            "I1{128}",
        ),
        ({"shape": [512], "schedule": [["split", 0, 512]], "bulk": "1"}, "TEIR917", "I1{512}"),
        ({"shape": [128], "schedule": [["split", 0, 2]], "bulk": "1"}, "TEIR918", "I1{128}"),
    ],
)
def test_findings_name_the_iter_domains(fields: dict[str, Any], code: str, named: str) -> None:
    found = report(**{**fields, "parallel": {fields["bulk"]: "Bulk"}})
    (refusal,) = found.refusals
    assert refusal.finding.code == code
    assert str(refusal.finding.place) == f"IterDomain {named}"
    assert named in str(refusal.finding)


@pytest.mark.parametrize(("left", "tile"), [(0, "1"), (1, "0")])
def test_what_is_left_of_a_split_may_be_resized_where_no_tile_loses_it(
    left: int, tile: str
) -> None:
    """Behind its one position, and before it where the position is no part of a tile."""
    schedule = [["split", 0, 1], ["resize", 1, left, 1]]
    found = report(shape=[64], schedule=schedule, parallel={tile: "Bulk"})
    assert "TEIR905" not in {one.finding.code for one in found.refusals}


def test_descriptor_findings_are_collected() -> None:
    found = report(
        shape=[512, 6],
        gmem_strides=[6, 1],
        contiguity=[False, True],
        base_address_mod_128=4,
        parallel={"0": "Bulk", "1": "Bulk"},
    )
    assert codes(found) == ["TEIR913", "TEIR915", "TEIR917", "TEIR918"]


def test_limits_that_no_schedule_breaks() -> None:
    found = inferred(shape=[16, 32], schedule=[["split", 1, 16]], parallel={"2": "Bulk"})
    concerned = tuple(one.raw for one in found.dimensions)
    broken = replace(
        found.tensor_map,
        element_strides=(2, 1),
        swizzle_bytes=16,
        interleave_bytes=32,
        address=16,
        fill=Fill.NAN,
    )
    codes_found = [one.finding.code for one in check_tensor_map(broken, concerned, False)]
    assert codes_found == ["TEIR912", "TEIR913", "TEIR911", "TEIR920", "TEIR921"]


def test_strides_in_any_order_are_a_fact_of_the_driver() -> None:
    transfer = transfer_of(
        case(
            shape=[8, 4, 32],
            gmem_strides=[32, 256, 1],
            contiguity=[False, False, True],
            parallel={"2": "Bulk"},
        ),
        "$",
    )
    assert check(transfer).ok
    assert codes(check(transfer, strides_must_ascend=True)) == ["TEIR916"]


def test_who_issues_which_tile() -> None:
    found = inferred(
        shape=[64, 64],
        schedule=[["split", 1, 32], ["split", 0, 4]],
        parallel={"0": "BIDx", "1": "TIDx", "3": "Bulk"},
    )
    mapping = mapping_of(found)
    assert [(kind, one.extent) for kind, one in mapping.blocks] == [(Parallel.BLOCK_X, 16)]
    assert [(kind, one.extent) for kind, one in mapping.threads] == [(Parallel.THREAD_X, 4)]
    assert [one.extent for one in mapping.serial] == [2]
    assert not mapping.elects


CIRCULAR = {"stages": 4, "warp_specialised": True}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"instruction": "plain", "parallel": {"1": "Bulk"}}, "TEIR940"),
        ({"broadcast_axes": [0], "parallel": {"0": "Bulk", "1": "Bulk"}}, "TEIR941"),
        ({"parallel": {"0": "Vectorize", "1": "Bulk"}}, "TEIR942"),
        ({"parallel": {"0": "TIDx", "1": "Bulk"}, "circular_buffer": CIRCULAR}, "TEIR943"),
        ({"parallel": {"1": "Bulk"}, "threads": 31}, "TEIR944"),
        ({"parallel": {"0": "TIDx", "1": "TIDx"}}, "TEIR945"),
        ({"instruction": "bulk", "parallel": {"0": "Bulk", "1": "Bulk"}}, "TEIR950"),
        ({"instruction": "bulk", "parallel": {"1": "Bulk"}, "circular_buffer": None}, "TEIR954"),
    ],
)
def test_loops_the_consumer_may_not_have(fields: dict[str, Any], code: str) -> None:
    shape = {"shape": [8, 32]} | ({"circular_buffer": CIRCULAR} if code == "TEIR950" else {})
    assert codes(report(**{**shape, **fields})) == [code]


def test_thirty_two_threads_elect_one() -> None:
    assert not report(shape=[8, 32], parallel={"1": "Bulk"}, threads=32).refusals


def test_a_thread_index_of_one_value_is_one_thread() -> None:
    one = {"parallel": {"0": "TIDx", "1": "Bulk"}, "circular_buffer": CIRCULAR}
    assert not report(shape=[1, 32], **one).refusals


def test_an_iter_domain_of_no_kind_is_refused() -> None:
    """Neither Bulk nor not, neither partitioned nor box: what mixing tile and loops leaves."""
    found = inferred(shape=[64], schedule=[["split", 0, 16]], parallel={"1": "Bulk"})
    nothing = replace(found.roles, bulk=frozenset(), not_bulk=frozenset(), boxed=())
    refusal = dimensions_of(found.raw, nothing, 0)
    assert isinstance(refusal, Refusal)
    assert refusal.finding.code == "TEIR909"
    assert refusal.reason == "I1{64} mixes tile and non-tile IterDomains"


def test_off_the_way_to_memory() -> None:
    """A tile merged with what an extent of 1 was split into."""
    schedule = [
        ["split", 0, 8],
        ["outer_split", 0, 1],
        ["split", 0, 8],
        ["merge", 1],
        ["split", 1, 3],
    ]
    found = report(shape=[32], schedule=schedule, parallel={"2": "Bulk", "3": "Bulk"})
    assert codes(found) == ["TEIR946"]


def test_broadcast_axes_are_not_in_memory() -> None:
    fields = {"shape": [4, 8, 32], "gmem_strides": [0, 32, 1], "broadcast_axes": [0]}
    schedule = [["merge", 0], ["split", 0, 16]]
    found = report(**fields, schedule=schedule, parallel={"1": "Bulk", "2": "Bulk"})
    assert codes(found) == ["TEIR908"]


@pytest.mark.parametrize(
    "fields",
    [
        {"parallel": {"2": "Bulk"}},
        {"parallel": {"1": "Bulk", "-1": "BIDx"}},
        {"smem_allocation": "loop", "smem_unallocated_axes": [2]},
        {"schedule": [["flatten", 0, 3]]},
    ],
)
def test_positions_beyond_the_domain(fields: dict[str, Any]) -> None:
    with pytest.raises(TeirError, match="TEIR901"):
        report(**{"shape": [8, 32], **fields})


def test_domains_stay_countable() -> None:
    with pytest.raises(TeirError, match="TEIR902"):
        report(shape=[8], schedule=[["split", 0, 2**40], ["split", 0, 2**40]])


@pytest.mark.parametrize(("size", "found"), [(8, []), (20, ["TEIR960"])])
def test_strong_correctness_asked_for(size: int, found: list[str]) -> None:
    """Element stride 3 in boxes of 8: possible only where one box covers all."""
    schedule = [["split", 0, 8], ["split", 1, 3]]
    bulk = {"1": "Bulk", "3": "Bulk"}
    answer = report(dtype="f64", shape=[size, 2], schedule=schedule, parallel=bulk, strong=True)
    assert codes(answer) == found


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], "$"),
        ({"cases": [3]}, "$.cases[0]"),
        ({"cases": [case(shape=[])]}, "$.cases[0].shape"),
        ({"cases": [case(shape=[4], dtype="f128")]}, "$.cases[0].dtype"),
        ({"cases": [case(shape=[4], schedule=[["split", 0]])]}, "$.cases[0].schedule[0]"),
        ({"cases": [case(shape=[4], contiguity=[True, True])]}, "$.cases[0].contiguity"),
        ({"cases": [case(shape=[4], parallel={"0": "Warp"})]}, "$.cases[0].parallel.0"),
        ({"cases": [case(shape=[4], parallel={"zero": "Bulk"})]}, "$.cases[0].parallel"),
        ({"cases": [case(shape=[4], gmem_strides=[True])]}, "$.cases[0].gmem_strides"),
        ({"cases": [case(shape=[2**40, 2**40])]}, "$.cases[0].shape"),
    ],
)
def test_cases_that_are_none(document: object, path: str) -> None:
    with pytest.raises(TeirError) as raised:
        transfers_of(document)
    (finding,) = raised.value.findings
    assert finding.code == "TEIR900"
    assert str(finding.place) == path


def test_every_refusal_of_the_case_files_has_its_finding() -> None:
    for name in ("cases.json", "more_cases.json"):
        for one in json.loads((FOLDER / name).read_text())["cases"]:
            if one["id"].startswith("bad-"):
                continue
            found = check(transfer_of(one, "$"))
            assert found.ok == one["expect"]["valid"]
            for refusal in found.refusals:
                assert refusal.finding.code.startswith("TEIR9")
                assert refusal.finding.found == refusal.reason


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("size-too-large", "TEIR914"),
        ("stride-too-large", "TEIR915"),
        ("rank-6", "TEIR912"),
        ("swizzle-too-wide", "TEIR920"),
        ("copy-1d-indivisible", "TEIR951"),
        ("copy-1d-bytes", "TEIR952"),
        ("copy-1d-strided", "TEIR953"),
        ("copy-1d-address", "TEIR955"),
    ],
)
def test_codes_of_cases(name: str, code: str) -> None:
    listed = json.loads((FOLDER / "more_cases.json").read_text())["cases"]
    (one,) = (each for each in listed if each["id"] == name)
    assert codes(check(transfer_of(one, "$"))) == [code]


def test_limits_of_whole_tiles() -> None:
    found = inferred(shape=[64, 64], dtype="u8", parallel={"0": "Bulk", "1": "Bulk"})
    concerned = tuple(one.raw for one in found.dimensions)
    plain = found.tensor_map
    wrong = replace(plain, fill=Fill.NAN, element_strides=(1, 9))
    assert [one.finding.code for one in check_tensor_map(wrong, concerned, False)] == [
        "TEIR919",
        "TEIR922",
    ]
    large = replace(plain, sizes=(256,) * 3, box=(256, 256, 16), element_strides=(1,) * 3)
    large = replace(large, strides_bytes=(256, 65536))
    three = (*concerned, concerned[0])
    assert [one.finding.code for one in check_tensor_map(large, three, True)] == ["TEIR923"]
    fitting = replace(large, box=(256, 256, 15))
    assert check_tensor_map(fitting, three, True) == ()
