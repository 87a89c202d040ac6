"""``teir tma CASES.json``: what tile-load schedules mean, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from teir.cli.console import Json, finding_json, say, say_json, say_table
from teir.cli.options import JsonFlag, SeedOption
from teir.cli.rules import ExitCode
from teir.errors import Finding, TeirError, refuse
from teir.ir.load import read_file
from teir.ir.reading_rules import READABLE_FILE
from teir.ir.records import decode_object
from teir.tma.answer import Record, expectation_of, refused_schedule
from teir.tma.case_form import case_list, transfer_of
from teir.tma.check import check
from teir.tma.correctness import Predicate, StrongCorrectness, predicates
from teir.tma.soundness import measure_soundness
from teir.tma.text import print_transfer

CaseFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="[CASES.json]",
        help='Schedules: {"cases": [{"id", "dtype", "shape", "schedule", "parallel", ...}]}.',
        show_default=False,
    ),
]
FindingsFlag = Annotated[
    bool,
    typer.Option("--findings", help="Add all findings, with their IterDomains, and predicates."),
]
_NEEDS_PREDICATE = StrongCorrectness.NEEDS_PREDICATE.value
DrawsOption = Annotated[
    int,
    typer.Option("--draws", min=0, help="Also compare so many random schedules with themselves."),
]


def tma(
    file: CaseFile = None,
    findings: FindingsFlag = False,
    draws: DrawsOption = 0,
    seed: SeedOption = 0,
    as_json: JsonFlag = False,
) -> None:
    """Infer tensor maps from tile-load schedules and walk their tiles.

    Where a case states what it expects, the answer is compared; exits 1 where one differs. With
    --draws, random schedules are run by the emulator and compared with their own meaning.
    """
    if file is None and not draws:
        refuse(READABLE_FILE, "CASES.json", "a case file, or --draws", "neither")
    document: dict[str, Json] = {}
    is_right = True
    if file is not None:
        is_right = _answer_file(file, findings, document if as_json else None)
    if draws:
        is_right &= _compare_draws(draws, seed, document if as_json else None)
    if as_json:
        say_json(document)
    if not is_right:
        raise typer.Exit(ExitCode.FINDINGS)


def _answer_file(file: Path, findings: bool, document: dict[str, Json] | None) -> bool:
    """Say the answers, or put them into the document; False where a case expects another."""
    cases = case_list(decode_object(read_file(str(file))))
    answers = [_answer(case, f"$.cases[{at}]", findings) for at, case in enumerate(cases)]
    if document is None:
        _say_answers(cases, answers)
    else:
        document["cases"] = list(answers)
    return not any(_differs(case, answer) for case, answer in zip(cases, answers, strict=True))


def _compare_draws(draws: int, seed: int, document: dict[str, Json] | None) -> bool:
    """Say what was compared, or put it into the document; False where something differs."""
    measured = measure_soundness(draws, seed)
    wrong = [f"{reason}:\n{print_transfer(transfer)}" for transfer, reason in measured.wrong]
    classes = {kind.value: count for kind, count in measured.classes}
    if document is None:
        for line in wrong:
            say(line)
        say(f"{measured.compared} of {measured.drawn} drawn schedules have a tensor map")
        say(f"{measured.elements} elements compared, {len(wrong)} disagreements")
        say("strong correctness: " + ", ".join(f"{n} {kind}" for kind, n in classes.items()))
    else:
        document |= {
            "compared": measured.compared,
            "elements": measured.elements,
            "wrong": list(wrong),
        }
    return not wrong


def _answer(case: object, path: str, with_findings: bool) -> dict[str, Any]:
    name = case.get("id") if isinstance(case, dict) else None
    found: tuple[Finding, ...]
    asked: tuple[Predicate, ...] = ()
    try:
        report = check(transfer_of(case, path))
        expect: Record = expectation_of(report)
        found = tuple(refusal.finding for refusal in report.refusals)
        if with_findings and expect.get("strong_correctness") == _NEEDS_PREDICATE:
            assert report.inferred is not None
            asked = predicates(report.inferred)
    except TeirError as error:
        expect = refused_schedule(error.findings[0])
        found = error.findings
    answer = {"id": name, "expect": expect}
    if with_findings:
        answer["findings"] = [finding_json(finding) for finding in found]
        answer["predicates"] = [str(predicate) for predicate in asked]
    return answer


def _differs(case: object, answer: dict[str, Any]) -> bool:
    expected = _expected(case)
    return expected is not None and answer["expect"] != expected


def _expected(case: object) -> dict[str, Any] | None:
    """The answer that a case gives; None where it gives none, and is not judged."""
    found = case.get("expect") if isinstance(case, dict) else None
    return found if isinstance(found, dict) else None


def _say_answers(cases: list[object], answers: list[dict[str, Any]]) -> None:
    rows = []
    for case, answer in zip(cases, answers, strict=True):
        verdict = "WRONG" if _differs(case, answer) else "OK"
        if _expected(case) is None:
            verdict = ""
        rows.append((str(answer["id"]), verdict, _summary(answer["expect"])))
    say_table(("case", "", "meaning"), rows)
    for answer in answers:
        for finding in answer.get("findings", ()):
            say(f"{answer['id']}: {finding['code']} {finding['place']}: {finding['found']}")
        for predicate in answer.get("predicates", ()):
            say(f"{answer['id']}: strongly correct where each tile is loaded if {predicate}")


def _summary(expect: Record) -> str:
    if not expect["valid"]:
        return f"refused ({expect['rejected_at']}): {expect['reason']}"
    if "tensor_map" not in expect:
        copies = expect.get("copies")
        return "no tensor map" if copies is None else f"{copies} x {expect['copy_bytes']} bytes"
    tensor_map = expect["tensor_map"]
    box = "x".join(map(str, reversed(tensor_map["boxDim"])))
    sizes = "x".join(map(str, reversed(tensor_map["globalDim"])))
    return f"box {box} of {sizes}, {expect['tile_bytes']} bytes"
