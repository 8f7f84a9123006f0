"""The report as JSON: results and exchanges, without the key. It can be judged again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __name__ as package
from ..check import Check
from ..engine.run import Result, Run, judge_again, judge_all
from ..engine.target import Target
from ..exchange import Exchange, Request
from ..scenario import Evidence
from ..terms import Verdict
from .sample_metrics import metrics
from .summary import count

FORMAT = 1
HIDDEN = ("set-cookie", "authorization", "x-api-key")


class NotAReport(Exception):
    """The file is no report of this version."""


def report(run: Run, target: Target, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the report as a JSON value. `settings` are those of the run."""
    total = count(run.results)
    return {
        "format": FORMAT,
        "generator": package,
        "url": target.url,
        "model": target.model,
        "settings": settings,
        "without": sorted(target.without),
        "seconds": round(run.seconds, 2),
        "requests": run.requests,
        "counts": {**asdict(total), "pass_rate": total.rate},
        "samples": None if (numbers := metrics(run.evidence)) is None else asdict(numbers),
        "checks": [_result(each, target) for each in run.results],
        "scenarios": _scenarios(run.evidence),
        "again": _scenarios(run.again),
    }


def _scenarios(evidence: Mapping[str, Evidence]) -> dict[str, Any]:
    return {name: [_exchange(each) for each in proof.exchanges] for name, proof in evidence.items()}


def _result(result: Result, target: Target) -> dict[str, Any]:
    check = result.check
    entry = {
        "id": check.id,
        "title": check.title,
        "api": check.api,
        "suite": check.suite,
        "severity": check.severity,
        "rule": check.rule,
        "source": {"section": check.source.section, "url": check.source.url},
        "scenario": check.scenario.name,
        "verdict": result.verdict,
        "message": result.message,
        "runs": result.runs,
    }
    if result.verdict == Verdict.FAIL and result.exchange is not None:
        entry["curl"] = target.curl(result.exchange.request, check.api)
    return entry


def _exchange(exchange: Exchange) -> dict[str, Any]:
    request = asdict(exchange.request)
    headers = {name: value for name, value in exchange.headers.items() if name not in HIDDEN}
    return {
        "request": {name: value for name, value in request.items() if value not in (None, False)},
        "status": exchange.status,
        "headers": headers,
        "text": exchange.text,
        "problem": exchange.problem,
        "seconds": round(exchange.seconds, 3),
    }


def replay(path: Path, checks: Sequence[Check]) -> tuple[Run, Target]:
    """Judge the exchanges of a report again, with the checks that ran. Raise NotAReport."""
    try:
        data = json.loads(path.read_text())
        if data["format"] != FORMAT:
            raise NotAReport(f"{path} has the format {data['format']}; this version reads {FORMAT}")
        target = Target(data["url"], data["model"], without=frozenset(data["without"]))
        run = Run(seconds=data["seconds"], requests=data["requests"])
        ran = {each["id"] for each in data["checks"]}
        known = [check for check in checks if check.id in ran]
        scenarios = {check.scenario.name: check.scenario for check in known}
        for runs, kept in (("scenarios", run.evidence), ("again", run.again)):
            for name, exchanges in data.get(runs, {}).items():
                if name in scenarios:
                    answers = [_read(each) for each in exchanges]
                    kept[name] = Evidence(scenarios[name], answers)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotAReport(f"{path} is no report of `toolgate verify --json`: {error}") from error
    run.results = judge_all(known, run.evidence)
    judge_again(run)
    return run, target


def _read(value: dict[str, Any]) -> Exchange:
    return Exchange(
        Request(**value["request"]),
        value["status"],
        value["headers"],
        value["text"],
        value["problem"],
        value["seconds"],
    )
