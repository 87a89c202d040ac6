"""``teir check FILE``: is the program well formed and safe to run?"""

from __future__ import annotations

import typer

from teir.cli.console import Json, finding_json, say, say_json, say_table
from teir.cli.options import JsonFlag, ProgramFile
from teir.cli.rules import ExitCode, exit_code
from teir.errors import Finding, TeirError
from teir.ir.check import Report
from teir.ir.check import check as check_program
from teir.ir.load import load


def check(file: ProgramFile, as_json: JsonFlag = False) -> None:
    """Check a program: every rule, then the proofs that it is safe to run.

    Exits 0 when nothing is wrong, 1 with findings, 2 when FILE holds no program.
    """
    try:
        report = check_program(load(file))
    except TeirError as error:
        if exit_code(error) is ExitCode.UNUSABLE and not as_json:
            raise
        _say_findings(error.findings, as_json)
        raise typer.Exit(exit_code(error)) from None
    if not report.ok:
        _say_findings(report.findings, as_json)
        raise typer.Exit(ExitCode.FINDINGS)
    if as_json:
        say_json(_report_json(report))
        return
    _say_report(report)


def _say_findings(findings: tuple[Finding, ...], as_json: bool) -> None:
    if as_json:
        say_json({"ok": False, "findings": [finding_json(finding) for finding in findings]})
        return
    for finding in findings:
        say(str(finding))
    say(f"{len(findings)} {'finding' if len(findings) == 1 else 'findings'}")


def _say_report(report: Report) -> None:
    say(f"{report.program.name}: well formed and safe to run")
    for note in report.notes:
        say(f"note: {note}")
    types = {name: tensor.data_type for name, tensor in report.program.tensor_table().items()}
    say()
    say_table(
        ("tensor", "type", "bytes before the base", "bytes from the base on"),
        [
            (name, types[name].value, str(need.before_bytes), str(need.after_bytes))
            for name, need in report.needs.items()
        ],
    )


def _report_json(report: Report) -> Json:
    needs: dict[str, Json] = {
        name: {"before_bytes": need.before_bytes, "after_bytes": need.after_bytes}
        for name, need in report.needs.items()
    }
    return {
        "ok": True,
        "name": report.program.name,
        "findings": [],
        "notes": list(report.notes),
        "needs": needs,
    }
