"""The record form: defaults, identifiers, all findings at once, the published schema."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tests.strategies.any_programs import any_programs
from tests.strategies.programs import programs

from teir.dtypes import DataType
from teir.errors import RecordPlace, TeirError
from teir.ir.nodes import Axis, Bytes, GuardKind, GuardTerm, Program, Tensor
from teir.ir.record_schema import schema, schema_text
from teir.ir.records import dumps_records, loads_records
from teir.soak.programs import DrawnProgram

SCHEMA = Path(__file__).parents[2] / "schema" / "teir-1.schema.json"

DESIGN: dict[str, Any] = {
    "teir": 1,
    "name": "trus,pqtu->pqrs",
    "tensors": [
        {"id": "in0", "data_type": "FP32"},
        {"id": "in1", "data_type": "FP32"},
        {"id": "out", "data_type": "FP32"},
    ],
    "axes": [
        {"id": "p", "extent": 4, "strides": [0, 768, 576], "offsets": [0, 0, 0]},
        {"id": "t", "extent": 2, "strides": [1536, 64, 0]},
        {"id": "s", "extent": 8, "strides": [4, 0, 4], "offsets": [0, 0, -64]},
        {"id": "q", "extent": 6, "strides": [0, 128, 96]},
        {"id": "u", "extent": 16, "strides": [32, 4, 0]},
    ],
    "schedule": {
        "roots": ["p"],
        "iterations": [
            {"id": "p", "axis": "p", "policy": "parallel", "children": ["t"], "guard": None},
            {"id": "t", "axis": "t", "policy": "sequential", "children": ["zero", "gemm"]},
        ],
        "invocations": [
            {"id": "zero", "primitive": "zero_sq", "guard": [{"first": "t"}, {"last": "p"}]},
            {"id": "gemm", "primitive": "gemm_squ", "guard": []},
        ],
    },
    "primitives": [
        {"id": "zero_sq", "operation": "Zero", "axes": {"M": ["s"], "N": ["q"]}},
        {
            "id": "gemm_squ",
            "operation": "Contraction",
            "axes": {"M": ["s"], "N": ["q"], "K": ["u"]},
            "metadata": {
                "data_type": "FP32",
                "operands": {"in": ["in0", "in1"], "out": "out"},
                "lanes": 8,
                "a": {"b": [1.5, None]},
            },
        },
    ],
}


def load(document: dict[str, Any]) -> Program:
    return loads_records(json.dumps(document).encode())


def edited(edit: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    document = copy.deepcopy(DESIGN)
    edit(document)
    return document


def faults(document: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(TeirError) as caught:
        load(document)
    assert all(isinstance(finding.place, RecordPlace) for finding in caught.value.findings)
    return [(finding.code, str(finding.place)) for finding in caught.value.findings]


def test_every_field_is_read() -> None:
    program = load(DESIGN)
    assert program.name == "trus,pqtu->pqrs"
    assert program.tensors[1] == Tensor(name="in1", data_type=DataType.FP32)
    strides, offsets = Bytes({"in0": 4, "out": 4}), Bytes({"out": -64})
    assert program.axes[2] == Axis(name="s", extent=8, strides=strides, offsets=offsets)
    assert [node.name for node in program.nodes()] == ["p", "t", "zero", "gemm"]
    zero = next(leaf for _, leaf in program.invocations() if leaf.name == "zero")
    first = GuardTerm(kind=GuardKind.FIRST, axis="t")
    assert zero.guard == (first, GuardTerm(kind=GuardKind.LAST, axis="p"))
    gemm = program.primitives[1]
    assert gemm.metadata == (("a", '{"b":[1.5,null]}'), ("lanes", "8"))
    assert (gemm.data_type, gemm.m, gemm.n, gemm.k) == (DataType.FP32, ("s",), ("q",), ("u",))


def test_an_integer_identifier_is_its_decimal_text() -> None:
    document = json.loads(json.dumps(DESIGN).replace('"p"', "1").replace('["t"]', '["t"]'))
    program = load(document)
    assert program.axes[0].name == "1"
    assert program.roots[0].name == "1"
    document["schedule"]["roots"] = ["1"]
    assert load(document) == program


@pytest.mark.parametrize(
    ("tensors", "operation", "contracts", "inputs"),
    [
        (["out"], "Zero", False, ()),
        (["in0", "out"], "Copy", False, ("in0",)),
        (["in0", "out"], "ReLU", False, ("in0",)),
        (["in0", "out"], "ReLU", True, ("out",)),
        (["in1", "out", "in0"], "Add", False, ("in0", "in1")),
        (["in10", "in2", "out", "in0"], "Contraction", True, ("in0", "in2", "in10")),
    ],
)
def test_operand_defaults(
    tensors: list[str], operation: str, contracts: bool, inputs: tuple[str, ...]
) -> None:
    def entry(name: str, operation: str) -> dict[str, Any]:
        return {"id": name, "operation": operation, "axes": {"M": [], "N": [], "K": []}}

    one = entry("one", operation)
    if operation != "Contraction":
        del one["axes"]["K"]
    document = {
        "teir": 1,
        "tensors": [{"id": name, "data_type": "FP32"} for name in tensors],
        "axes": [],
        "schedule": {"roots": [], "iterations": [], "invocations": []},
        "primitives": [one, *([entry("other", "Contraction")] if contracts else [])],
    }
    primitive = load(document).primitives[0]
    assert (primitive.inputs, primitive.output) == (inputs, "out")


def test_scratch_hangs_on_its_node() -> None:
    def edit(document: dict[str, Any]) -> None:
        for name, owner in (("all", None), ("mine", "t"), ("more", "t")):
            document["tensors"].append({"id": name, "data_type": "BF16", "scratch": owner})
        for axis in document["axes"]:
            axis["strides"] += [0, 2, 0]
            axis.pop("offsets", None)
        document["primitives"][0]["metadata"] = {"operands": {"out": "mine"}}

    program = load(edited(edit))
    assert [tensor.name for tensor in program.tensors] == ["in0", "in1", "out"]
    assert [tensor.name for tensor in program.scratch] == ["all"]
    owner = next(node for node in program.nodes() if node.name == "t")
    assert [tensor.name for tensor in owner.scratch] == ["mine", "more"]  # type: ignore[union-attr]
    assert program.axes[0].strides["mine"] == 2
    assert loads_records(dumps_records(program)) == program


def test_all_findings_come_at_once_in_file_order() -> None:
    def edit(document: dict[str, Any]) -> None:
        document["tensors"][0]["data_type"] = "FP31"
        document["axes"][0] |= {"extent": "4", "strides": [0, 1.0, 576], "more": 1}
        document["axes"][1]["extent"] = 0
        document["schedule"]["iterations"][1] |= {"policy": "random", "children": []}
        document["schedule"]["invocations"][0]["guard"] = [{"first": "nowhere"}]
        document["primitives"][0]["operation"] = "Fill"

    assert faults(edited(edit)) == [
        ("TEIR144", "$.tensors[0].data_type"),
        ("TEIR140", "$.axes[0].extent"),
        ("TEIR142", "$.axes[0].more"),
        ("TEIR140", "$.axes[0].strides[1]"),
        ("TEIR145", "$.axes[1].extent"),
        ("TEIR154", "$.schedule.iterations[1].policy"),
        ("TEIR160", "$.primitives[0].operation"),
    ]


def test_an_unreadable_entry_has_no_follow_ups() -> None:
    """The names of a section count as unknown only where every entry could be read."""
    assert faults(edited(lambda document: document["axes"][0].pop("id"))) == [
        ("TEIR141", "$.axes[0].id")
    ]


def test_a_long_path_of_wrong_values_is_linear() -> None:
    def edit(document: dict[str, Any]) -> None:
        document["axes"][0]["strides"] = [None] * 100_000

    found = faults(edited(edit))
    assert found[0] == ("TEIR140", "$.axes[0].strides[0]")
    assert found[-1][0] == "TEIR112"


def test_records_have_no_place_for_an_undeclared_tensor() -> None:
    axis = Axis(name="a", extent=2, strides=Bytes({"nobody": 4}))
    program = Program(name="", tensors=(), axes=(axis,), primitives=(), roots=())
    with pytest.raises(TeirError, match="TEIR134 at axis a"):
        dumps_records(program)


@given(any_programs(records=True))
def test_write_then_read_is_the_identity(program: Program) -> None:
    data = dumps_records(program)
    assert loads_records(data) == program
    assert dumps_records(loads_records(data)) == data


@given(programs())
def test_meaningful_programs_round_trip(drawn: DrawnProgram) -> None:
    assert loads_records(dumps_records(drawn.program)) == drawn.program


def test_the_published_schema_is_up_to_date() -> None:
    assert SCHEMA.read_text() == schema_text(), "run python -m teir.ir.record_schema"


def test_the_schema_describes_what_is_read() -> None:
    definitions = schema()["$defs"]
    assert definitions["AxisRecord"]["required"] == ["id", "extent", "strides"]
    assert definitions["IterationRecord"]["properties"]["policy"] == {"$ref": "#/$defs/Policy"}
    assert definitions["Policy"]["enum"] == ["parallel", "sequential"]
    assert definitions["AxisRecord"]["additionalProperties"] is False
    assert "additionalProperties" not in definitions["MetadataRecord"]


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("name", 3, "$.name"),
        ("tensors", {}, "$.tensors"),
        ("axes", None, "$.axes"),
        ("schedule", [], "$.schedule"),
        ("primitives", "none", "$.primitives"),
    ],
)
def test_a_section_of_the_wrong_type(field: str, value: object, path: str) -> None:
    assert faults(DESIGN | {field: value}) == [("TEIR140", path)]


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("primitives", 0, "axes"), []),
        (("primitives", 0, "axes", "M"), "s"),
        (("primitives", 0, "axes", "M"), [True]),
        (("primitives", 0, "metadata"), "FP32"),
        (("primitives", 1, "metadata", "operands"), []),
        (("primitives", 1, "metadata", "operands", "in"), "in0"),
        (("schedule", "roots"), "p"),
        (("schedule", "roots"), [None]),
        (("schedule", "iterations", 0, "children"), "t"),
        (("schedule", "invocations", 0, "guard"), {"first": "t"}),
        (("axes", 0, "segments"), {}),
        (("tensors", 0, "scratch"), 1.5),
        (("tensors", 0), None),
    ],
)
def test_a_field_of_the_wrong_type(keys: tuple[str | int, ...], value: object) -> None:
    def edit(document: dict[str, Any]) -> None:
        holder: Any = document
        for key in keys[:-1]:
            holder = holder.setdefault(key, {}) if isinstance(key, str) else holder[key]
        holder[keys[-1]] = value

    path = "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    ((code, found),) = faults(edited(edit))
    assert (code, found.removesuffix("[0]")) == ("TEIR140", path.removesuffix("[0]"))


def test_many_unknown_fields_are_cut_short() -> None:
    many = {f"field{number}": 1 for number in range(5_000)}
    assert len(faults(DESIGN | many)) <= 1_001
    assert len(faults(edited(lambda document: document["axes"][0].update(many)))) <= 1_001
