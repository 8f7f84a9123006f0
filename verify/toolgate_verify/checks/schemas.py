"""Schema accuracy: one strict tool per keyword, asked for a call that its schema forbids, and sets
of tools. Keywords that decoders rarely enforce are asked for with and without `strict`."""

from __future__ import annotations

from ..asking.ask import Ask, User
from ..check import Judge, rule
from ..scenario import Evidence, brief
from ..sources import Source
from ..terms import Severity, Skipped, Suite
from ..tools.everyday import EVERYDAY
from ..tools.hostile import HOSTILE
from ..tools.residual import RESIDUAL
from ..tools.sets import SETS
from ..tools.tool import Tool
from .common import Scenarios, calls_satisfy, paired


def satisfy_or_error(evidence: Evidence) -> None:
    """As `calls_satisfy`; an error instead of a wrong call shows nothing."""
    for exchange in evidence.exchanges:
        if exchange.status >= 500 or '"error":{"' in exchange.text.replace(" ", ""):
            evidence.shown = exchange
            raise Skipped(f"an error instead of a call: {brief(exchange.text)}")
    calls_satisfy(evidence)


def schema_scenario(tool: Tool, *, strict: bool, name: str) -> Scenarios:
    """The call not streamed and streamed, at temperature 1 where random models reach more."""
    ask = Ask(
        (User(tool.prompt),),
        tools=(tool,),
        strict=strict,
        choice=f"={tool.name}",
        parallel=False,
        max_tokens=tool.max_tokens,
        temperature=1,
    )
    return paired(name, ask)


def _add(
    tool: Tool,
    family: str,
    title: str,
    *,
    strict: bool,
    severity: Severity,
    judge: Judge = calls_satisfy,
) -> None:
    name = f"{family}.{tool.feature}"
    rule(
        name,
        title,
        tool.rule,
        topic=Source(f"JSON Schema: {tool.feature}", tool.section),
        scenario=schema_scenario(tool, strict=strict, name=name),
        suite=tool.suite,
        severity=severity,
    )(judge)


for _tool in (*EVERYDAY, *HOSTILE):
    _add(
        _tool,
        "schema",
        f"Strict tool: {_tool.rule.rstrip('.')}",
        strict=True,
        severity=Severity.CRITICAL,
    )
for _tool in RESIDUAL:
    _add(
        _tool,
        "fail_open",
        f"`strict` is refused or kept: {_tool.feature}",
        strict=True,
        severity=Severity.CRITICAL,
    )
    _add(
        _tool,
        "checked",
        f"Without `strict`: {_tool.rule.rstrip('.')}",
        strict=False,
        severity=Severity.MINOR,
        judge=satisfy_or_error,
    )


for _name, (_tools, _prompt) in SETS.items():
    rule(
        f"toolset.{_name}",
        f"Tools of an application: {_name}",
        "Each call names an offered tool and satisfies its schema.",
        topic="strict",
        scenario=paired(
            f"toolset.{_name}",
            Ask(
                (User(_prompt),),
                tools=_tools,
                choice="required",
                parallel=False,
                max_tokens=300,
                temperature=1,
            ),
        ),
        suite=Suite.FULL,
        severity=Severity.CRITICAL,
    )(calls_satisfy)
