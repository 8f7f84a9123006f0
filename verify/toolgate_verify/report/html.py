"""The report as one HTML file: no scripts, no requests, plots inline. The text of plots has the
size of the page's in windows of any width."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from ..engine.run import Result, Run
from ..engine.target import Target
from ..scenario import brief
from .summary import Count, count, failures, groups

COLOURS = {"passed": "#2e9e5b", "failed": "#d64545", "refused": "#e0a030", "skipped": "#9aa3ad"}
NAMES = {"skipped": "not shown"}
"""Names of verdicts in the page, where they differ."""
EDGES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram, in seconds."""
SHOWN = 4000
"""Characters of a request and of an answer."""
STYLE = """
:root { color-scheme: light dark; background: Canvas; color: CanvasText }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }
body { overflow-wrap: anywhere }
h1 { font-size: 1.5em; line-height: 1.25 } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse; width: 100% }
td { text-align: left; padding: .25em .6em; vertical-align: top }
td:first-child, td:nth-child(2) { white-space: nowrap }
td:last-child { font-size: .87em; opacity: .8 }
tr { border-bottom: 1px solid #8884 }
pre { white-space: pre-wrap; padding: .7em; font-size: 12px; background: #8882 }
.pass { color: light-dark(#1f7d45, #45b873) } .refused { color: light-dark(#8a5f00, #d9a13a) }
.fail, .critical { color: light-dark(#c02f2f, #f07070) }
.major { color: light-dark(#b04a12, #ee9460) }
.skip, .minor { color: light-dark(#5d666e, #9aa3ab) }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5em, 1fr)) }
.tiles { gap: 1em; line-height: 1.3 } .tiles b { display: block; font-size: 1.8em }
details { margin: .4em 0 } summary { cursor: pointer }
.plot { display: grid; grid-template-columns: max-content 1fr max-content; gap: .3em .8em }
.plot { font-size: .85em; align-items: center }
.track { display: flex; height: 1.2em } .n { text-align: right; font-variant-numeric: tabular-nums }
.key span { display: inline-block; white-space: nowrap; margin-right: 1em }
.key i { display: inline-block; width: .8em; height: .8em; margin-right: .35em }
@media (max-width: 52em) {
  tr, td { display: block } tr { padding: .4em 0 } td { padding: .05em 0 }
  td:first-child { display: inline-block; margin-right: .6em }
  td:nth-child(2) { display: inline; white-space: normal }
}
"""


def bars(run: Run) -> str:
    """Return the results of each family as a bar of the four verdicts."""
    key = "".join(
        f'<span><i style="background:{colour}"></i>{NAMES.get(kind, kind)}</span>'
        for kind, colour in COLOURS.items()
    )
    rows = [_verdicts(name, count(results)) for name, results in groups(run.results).items()]
    return f"<p class=key>{key}</p>{_plot('Results by family', rows)}"


def _verdicts(name: str, verdicts: Count) -> str:
    numbers = {kind: getattr(verdicts, kind) for kind in COLOURS}
    parts = "".join(
        f'<i style="flex:{number};background:{COLOURS[kind]}" '
        f'title="{number} {NAMES.get(kind, kind)}"></i>'
        for kind, number in numbers.items()
        if number
    )
    return _row(name.replace("_", " "), parts, f"{verdicts.passed}/{sum(numbers.values())}")


def latencies(run: Run) -> str:
    """Return a histogram of the seconds that requests took."""
    seconds = sorted(
        exchange.seconds
        for evidence in run.evidence.values()
        for exchange in evidence.exchanges
        if exchange.status == 200
    )
    if not seconds:
        return "<p>No request was answered with status 200.</p>"
    counts = histogram(seconds)
    most = max(counts)
    names = [*(f"≤ {edge:g} s" for edge in EDGES), "longer"]
    last = max(at for at, number in enumerate(counts) if number)
    rows = [
        _row(
            names[at],
            f'<i style="width:{100 * counts[at] / most:.1f}%;background:#4a7fc1"></i>',
            str(counts[at]),
        )
        for at in range(last + 1)
    ]
    middle = seconds[len(seconds) // 2]
    late = seconds[min(len(seconds) - 1, int(len(seconds) * 0.95))]
    return (
        f"<p>Median {middle:.2f} s, 95 % within {late:.2f} s.</p>"
        f"{_plot('Answered requests by seconds', rows)}"
    )


def histogram(values: Sequence[float]) -> list[int]:
    """Return the numbers of values up to each edge, and of those above the last one."""
    counts = [0] * (len(EDGES) + 1)
    for value in values:
        counts[next((at for at, edge in enumerate(EDGES) if value <= edge), len(EDGES))] += 1
    return counts


def _row(name: str, parts: str, number: str) -> str:
    return (
        f"<span>{escape(name)}</span><span class=track>{parts}</span><span class=n>{number}</span>"
    )


def _plot(label: str, rows: Sequence[str]) -> str:
    return f'<div class=plot role=group aria-label="{escape(label)}">{"".join(rows)}</div>'


def html(run: Run, target: Target, when: str) -> str:
    total = count(run.results)
    tiles = "".join(
        f"<div><b>{value}</b>{name}</div>"
        for name, value in (
            ("passed, of those judged", total.percent),
            ("passed", total.passed),
            ("failed", total.failed),
            ("refused", total.refused),
            ("not shown", total.skipped),
            ("requests", run.requests),
            ("seconds", round(run.seconds)),
        )
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'>"
        f"<title>toolgate verify {escape(target.url)}</title><style>{STYLE}</style><main>"
        f"<h1>{escape(target.model)} at {escape(target.url)}</h1><p>{escape(when)}</p>"
        f"<div class=tiles>{tiles}</div><h2>By family</h2>{bars(run)}"
        f"<h2>Latency</h2>{latencies(run)}{_failures(run, target)}{_tables(run)}</main></html>"
    )


def _failures(run: Run, target: Target) -> str:
    failed = failures(run.results)
    if not failed:
        return "<h2>Failures</h2><p>None.</p>"
    return "<h2>Failures</h2>" + "".join(_failure(each, target) for each in failed)


def _failure(result: Result, target: Target) -> str:
    check = result.check
    text = (
        f"<details><summary><b class={check.severity}>{check.severity}</b> "
        f"<code>{escape(check.id)}</code> {_prose(check.title)}: "
        f"{escape(brief(result.message, 200))}</summary>"
        f"<p>{_prose(check.rule)} "
        f'<a href="{escape(check.source.url)}">{escape(check.source.section)}</a></p>'
    )
    exchange = result.exchange
    if exchange is not None:
        command = target.curl(exchange.request, check.api)
        answer = exchange.problem or f"HTTP {exchange.status}\n{exchange.text}"
        text += f"<pre>{escape(command[:SHOWN])}</pre><pre>{escape(answer[:SHOWN])}</pre>"
    return f"{text}</details>"


def _tables(run: Run) -> str:
    tables = []
    for family, results in groups(run.results).items():
        rows = "".join(_line(each) for each in results)
        number = count(results)
        name = escape(family.replace("_", " "))
        numbers = {
            "pass": f"{number.passed} passed",
            "fail": f"{number.failed} failed" if number.failed else "",
            "refused": f"{number.refused} refused" if number.refused else "",
            "skip": f"{number.skipped} not shown" if number.skipped else "",
        }
        said = ", ".join(f"<span class={at}>{each}</span>" for at, each in numbers.items() if each)
        tables.append(
            f"<details{' open' if number.failed else ''}><summary>{name}: {said}</summary>"
            f"<table>{rows}</table></details>"
        )
    return "<h2>All checks</h2>" + "".join(tables)


def _line(result: Result) -> str:
    check = result.check
    return (
        f"<tr><td class={result.verdict}>{result.verdict}</td>"
        f"<td><code>{escape(check.id)}</code></td>"
        f'<td><a href="{escape(check.source.url)}">{_prose(check.title)}</a></td>'
        f"<td>{escape(brief(result.message, 160))}</td></tr>"
    )


def _prose(text: str) -> str:
    """Return the text with its `code` as HTML."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
