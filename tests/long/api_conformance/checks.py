"""What an answer must fulfil, and what two answers must have in common."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from tests.long import judgement
from tests.long.judgement import MARKUP, Violation, allowed_by
from toolgate_verify.asking.ask import Ask
from toolgate_verify.reading.answer import Answer
from toolgate_verify.terms import Api


def compared(answer: Answer, *, exact: bool, reasoning: bool) -> tuple[Any, ...]:
    """Return what two answers must have in common. `exact`: with the spelling of arguments and with
    incomplete calls, which the Messages API does not have."""
    calls: list[tuple[Any, ...]] = [(c.name, c.arguments, c.complete) for c in answer.calls]
    if not exact:
        calls = [(name, _sorted(text)) for name, text, complete in calls if complete]
    usage = answer.usage
    counts = (usage.prompt, usage.completion) if usage else None
    return answer.text, answer.reasoning if reasoning else "", calls, answer.cut, counts


def _sorted(arguments: str) -> str:
    return json.dumps(json.loads(arguments), sort_keys=True)


def shows_reasoning(api: Api, case: Ask) -> bool:
    """Whether the answer has the reasoning of the model."""
    return api != Api.MESSAGES or case.reasoning not in (None, "none")


def violations(
    api: Api, case: Ask, answer: Answer, markup: Collection[str] = MARKUP
) -> Iterator[Violation]:
    """Each rule that the answer to a request breaks. `markup`: the marks of the model's family."""
    yield from judgement.violations(answer, allowed_by(case), markup)
    if answer.reasoning and (case.reasoning == "none" or not shows_reasoning(api, case)):
        yield "reasoning that was not asked for", answer.reasoning[:80]
    if answer.finish != (expected := _finish(api, case, answer)):
        yield "wrong reason of the end", f"{answer.finish} instead of {expected}"
    usage = answer.usage
    if usage is None or usage.prompt <= 0 or not 0 < usage.completion <= case.max_tokens:
        yield "implausible usage", usage
    guarded = case.extra.get("toolgate", {}).get("repetition_guard") is not False
    if answer.cut and usage and usage.completion < case.max_tokens and not guarded:
        yield "cut before the maximum", usage


def _finish(api: Api, case: Ask, answer: Answer) -> str:
    """The end that the answer must have."""
    if answer.cut:
        return "length"
    named = api == Api.CHAT and case.choice.startswith("=")  # OpenAI's API says `stop` then
    return "calls" if answer.calls and not named else "stop"
