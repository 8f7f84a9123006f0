"""Reports on tool schemas without a gateway, by the backend's own compiler.

The compiler runs in a process of its own, because the gateway imports no engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from toolgate_core.dialects.registry import DIALECTS, REPRESENTATIVES
from toolgate_core.tools import Tool
from toolgate_core.wire import GrammarVerdict

from ...admin.schema_coverage import (
    SchemaReport,
    read_entries,
    report_by_coverage,
    report_by_verdict,
)
from ...settings import Settings
from ..output import CommandFailed

COMPILER = "toolgate_backend.grammars.offline"
ENGINE = "llguidance"
ALL_FORMS = "all forms"
_MISSING = (
    f"{ENGINE} is not installed, so this tells what the keywords of the schemas allow. A form of "
    f"calls may allow less. For that, install {ENGINE}."
)


def reports_without_gateway(
    entries: Sequence[object], settings: Settings, dialect: str | None
) -> tuple[list[SchemaReport], str]:
    """Return the reports, for a dialect or for all forms of calls, and a note about them, which is
    empty if there is none. Raises CommandFailed."""
    tools, invalid = read_entries(entries, settings)
    if dialect is not None and (dialect not in DIALECTS or DIALECTS[dialect].calls is None):
        known = ", ".join(sorted(each for each in DIALECTS if DIALECTS[each].calls is not None))
        raise CommandFailed(f"There is no dialect {dialect!r}. Known are: {known}.")
    if find_spec(ENGINE) is None:
        if dialect is not None:
            raise CommandFailed(f"--dialect needs {ENGINE}. Install it.")
        return [*map(report_by_coverage, tools), *invalid], _MISSING
    by_dialect = _compiled(tools, [dialect] if dialect else [*REPRESENTATIVES.values()])
    reports: list[SchemaReport] = []
    for tool, *verdicts in zip(tools, *by_dialect, strict=True):
        found = [_report(tool, verdict) for verdict in verdicts]
        reports += found if dialect else _by_answer(found)
    return [*reports, *invalid], ""


def _by_answer(reports: Sequence[SchemaReport]) -> list[SchemaReport]:
    """Return the different reports on one tool in all forms, each with its forms."""
    forms: dict[str, list[str]] = {}
    found: dict[str, SchemaReport] = {}
    for form, report in zip(REPRESENTATIVES, reports, strict=True):
        answer = report.model_dump_json()
        forms.setdefault(answer, []).append(form)
        found[answer] = report
    if len(found) == 1:
        forms = {answer: [ALL_FORMS] for answer in forms}
    return [report.model_copy(update={"forms": forms[answer]}) for answer, report in found.items()]


def _report(tool: Tool, verdict: GrammarVerdict) -> SchemaReport:
    """Leave out the engine and the time, which are those of a machine."""
    report = report_by_verdict(tool, verdict)
    reason = report.reason if report.status == "refused" else None
    return report.model_copy(update={"engine": None, "compile_ms": None, "reason": reason})


def _compiled(tools: Sequence[Tool], dialects: Sequence[str]) -> list[list[GrammarVerdict]]:
    """Return the verdicts on the tools, by dialect."""
    asked = {
        "dialects": dialects,
        "tools": [{"name": tool.name, "parameters": tool.parameters} for tool in tools],
    }
    done = subprocess.run(
        [sys.executable, "-m", COMPILER],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise CommandFailed(f"The schemas could not be compiled: {last[0]}")
    verdicts = [GrammarVerdict.model_validate_json(line) for line in done.stdout.splitlines()]
    return [verdicts[at : at + len(tools)] for at in range(0, len(verdicts), len(tools) or 1)]
