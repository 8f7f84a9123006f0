"""Several runs beside each other, as Markdown: how many rules each server keeps, and which not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..engine.run import Result, Run
from ..terms import Api
from .summary import ORDER, count, failures

TITLES = {Api.CHAT: "chat completions", Api.RESPONSES: "Responses", Api.MESSAGES: "Messages"}


def comparison(runs: Mapping[str, Run]) -> str:
    """Compare runs by the names of their servers."""
    parts = [_overview(runs)]
    parts += [_broken(name, run) for name, run in runs.items() if failures(run.results)]
    return "\n\n".join(parts)


def _overview(runs: Mapping[str, Run]) -> str:
    rows: list[Sequence[object]] = []
    for name, run in runs.items():
        total, worst = count(run.results), Counter(r.check.severity for r in failures(run.results))
        numbers = (total.passed, total.failed, *(worst[each] for each in ORDER))
        apis = (_of_api(each for each in run.results if each.check.api == api) for api in TITLES)
        rows.append([name, total.percent, *numbers, total.refused, total.skipped, *apis])
    counted = ("kept", "passed", "broken", *map(str, ORDER), "refused", "not shown")
    return _table(("server", *counted, *TITLES.values()), rows)


def _of_api(results: Iterable[Result]) -> str:
    total = count(results)
    judged = total.passed + total.failed
    return f"{total.passed} of {judged}" if judged else "–"


def _broken(name: str, run: Run) -> str:
    """Return the broken rules of a server, the most severe first. A rule that several APIs have is
    one row."""
    rules: dict[tuple[str, str], list[str]] = {}
    for fail in failures(run.results):
        rules.setdefault((fail.check.severity, fail.check.title), []).append(f"`{fail.check.id}`")
    rows = [[severity, title, ", ".join(ids)] for (severity, title), ids in rules.items()]
    return f"## {name}: broken rules\n\n{_table(('severity', 'rule', 'checks'), rows)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines: list[Sequence[object]] = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines
    )
