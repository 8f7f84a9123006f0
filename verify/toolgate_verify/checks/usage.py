"""Token usage: present, consistent, equal in both forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..reading.answer import Answer, Usage
from ..registry import OPENAI, rule
from ..scenario import Evidence
from ..terms import Severity, Skipped, require
from .common import same
from .text import TEXT


def usage_of(answer: Answer) -> Usage:
    require(answer.usage is not None, "`usage` is missing")
    assert answer.usage is not None
    return answer.usage


def _both(evidence: Evidence, test: Callable[[Usage], tuple[bool, str]]) -> None:
    for index in range(2):
        holds, problem = test(usage_of(evidence.answer(index)))
        require(holds, problem)


_rule = partial(rule, topic="usage", scenario=TEXT)


def _counted(answer: Answer) -> None:
    usage = usage_of(answer)
    require(usage.prompt > 0, "no prompt tokens are counted")
    require(usage.completion > 0, "no output tokens are counted")


_rule(
    "usage.present",
    "Whole answers have usage",
    "A whole answer states its prompt and output tokens.",
)(lambda evidence: _counted(evidence.whole))
_rule(
    "usage.streamed",
    "Streams have usage",
    "A stream states its prompt and output tokens (chat completions: with `include_usage`).",
)(lambda evidence: _counted(evidence.streamed))


@_rule(
    "usage.sum",
    "The total is the sum",
    "Total tokens are prompt tokens and output tokens together.",
    apis=OPENAI,
)
def _sum(evidence: Evidence) -> None:
    _both(
        evidence,
        lambda usage: (
            usage.total == usage.prompt + usage.completion,
            f"{usage.prompt} + {usage.completion} is not {usage.total}",
        ),
    )


@_rule(
    "usage.cached",
    "Cached tokens are part of the prompt",
    "The prompt tokens read from a cache are some of the prompt tokens.",
    apis=OPENAI,
    severity=Severity.MINOR,
)
def _cached(evidence: Evidence) -> None:
    if evidence.whole.usage is not None and evidence.whole.usage.cached is None:
        raise Skipped("the usage has no cached tokens")
    _both(
        evidence,
        lambda usage: (
            0 <= (usage.cached or 0) <= usage.prompt,
            f"{usage.cached} cached tokens of {usage.prompt}",
        ),
    )


@_rule(
    "usage.same",
    "Streamed and whole usage are equal",
    "The counts do not depend on the form of the answer.",
    confirm=True,
)
def _same(evidence: Evidence) -> None:
    whole, streamed = usage_of(evidence.whole), usage_of(evidence.streamed)
    same("prompt tokens", whole.prompt, streamed.prompt)
    same("output tokens", whole.completion, streamed.completion)
