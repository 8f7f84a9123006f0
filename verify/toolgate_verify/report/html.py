"""The report as one HTML file: no scripts, no requests, plots inline."""

from __future__ import annotations

from html import escape

from ..engine.run import Result, Run
from ..engine.target import Target
from ..scenario import brief
from ..terms import Verdict
from .curl import curl
from .summary import count, failures, groups
from .svg import COLOURS, bars, latencies

SHOWN = 4000
"""Characters of a request and of an answer."""
STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
svg { width: 100%; max-width: 720px }
svg text { font: 12px system-ui, sans-serif; fill: currentColor }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25em .6em }
tr { border-bottom: 1px solid #8884 } td.n { text-align: right; font-variant-numeric: tabular-nums }
pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: .7em; font-size: 12px }
pre { background: #8881 }
.pass { color: #2e9e5b } .fail, .critical { color: #d64545 } .refused { color: #b07c10 }
.skip, .minor { color: #808890 } .tiles { display: flex; gap: 2em; flex-wrap: wrap }
.tiles b { display: block; font-size: 1.8em } details { margin: .4em 0 }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em }
"""


def html(run: Run, target: Target, when: str) -> str:
    total = count(run.results)
    tiles = "".join(
        f"<div><b>{value}</b>{name}</div>"
        for name, value in (
            ("of the judged checks passed", total.percent),
            ("passed", total.passed),
            ("failed", total.failed),
            ("refused by the server", total.refused),
            ("not shown by the answers", total.skipped),
            ("requests", run.requests),
            ("seconds", round(run.seconds)),
        )
    )
    key = "".join(f'<span style="background:{c}"></span>{n}' for n, c in COLOURS.items())
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'>"
        f"<title>toolgate verify {escape(target.url)}</title><style>{STYLE}</style>"
        f"<h1>{escape(target.model)} at {escape(target.url)}</h1><p>{escape(when)}</p>"
        f"<div class=tiles>{tiles}</div><h2>By family</h2><p class=key>{key}</p>{bars(run)}"
        f"<h2>Latency</h2>{latencies(run)}{_failures(run, target)}{_tables(run)}</html>"
    )


def _failures(run: Run, target: Target) -> str:
    found = failures(run.results)
    if not found:
        return "<h2>Failures</h2><p>None.</p>"
    return "<h2>Failures</h2>" + "".join(_failure(each, target) for each in found)


def _failure(result: Result, target: Target) -> str:
    check = result.check
    made = (
        f"<details><summary><b class={check.severity}>{check.severity}</b> "
        f"<code>{escape(check.id)}</code> {escape(check.title)}: "
        f"{escape(brief(result.message, 200))}</summary>"
        f"<p>{escape(check.rule)} "
        f'<a href="{escape(check.source.url)}">{escape(check.source.section)}</a></p>'
    )
    exchange = result.exchange
    if exchange is not None:
        command = curl(target, check.api, exchange.request)
        answer = exchange.problem or f"HTTP {exchange.status}\n{exchange.text}"
        made += f"<pre>{escape(command[:SHOWN])}</pre><pre>{escape(answer[:SHOWN])}</pre>"
    return f"{made}</details>"


def _tables(run: Run) -> str:
    made = []
    for family, results in groups(run.results).items():
        rows = "".join(_line(each) for each in results)
        bad = any(each.verdict == Verdict.FAIL for each in results)
        name = escape(family.replace("_", " "))
        made.append(
            f"<details{' open' if bad else ''}><summary>{name} ({len(results)})</summary>"
            f"<table>{rows}</table></details>"
        )
    return "<h2>All checks</h2>" + "".join(made)


def _line(result: Result) -> str:
    check = result.check
    return (
        f"<tr><td class={result.verdict}>{result.verdict}</td>"
        f"<td><code>{escape(check.id)}</code></td>"
        f'<td><a href="{escape(check.source.url)}">{escape(check.title)}</a></td>'
        f"<td>{escape(brief(result.message, 160))}</td></tr>"
    )
