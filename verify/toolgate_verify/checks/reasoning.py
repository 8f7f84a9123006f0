"""Reasoning: apart from the text, counted, equal in both forms, and with calls."""

from __future__ import annotations

from functools import partial

from ..asking.ask import Ask, User
from ..check import OPENAI, rule
from ..reading.answer import Answer
from ..scenario import Evidence, brief
from ..terms import Severity, Skipped, Suite, require
from ..tools.everyday import LIGHT
from .calls import LIGHTS
from .common import THINK, calls_satisfy, of_answers, paired, same

REASONING = paired(
    "reasoning", Ask((User("Is 91 a prime number?"),), reasoning="medium", max_tokens=400)
)
WITH_CALL = paired(
    "reasoning_call",
    Ask(LIGHTS, tools=(LIGHT,), choice="auto", reasoning="medium", max_tokens=400),
)
OFF = paired("reasoning_off", Ask((User("Is 91 a prime number?"),), max_tokens=40))


def _reasons(answer: Answer) -> None:
    if not answer.reasoning:
        raise Skipped("the answer has no reasoning")


def _no_marks(answer: Answer) -> None:
    require(THINK.search(answer.text) is None, f"marks of reasoning: {brief(answer.text)}")


_rule = partial(rule, topic="reasoning", scenario=REASONING)


@_rule(
    "reasoning.apart",
    "Reasoning is not in the text",
    "Reasoning is in a field of its own; the text has no marks of reasoning.",
)
@of_answers
def _apart(answer: Answer) -> None:
    _no_marks(answer)
    _reasons(answer)
    require(THINK.search(answer.reasoning) is None, "the reasoning has the marks of reasoning")


@_rule(
    "reasoning.answer",
    "An answer that ends is not only reasoning",
    "After its reasoning an answer has text or calls, unless the token limit cuts it.",
)
@of_answers
def _answer(answer: Answer) -> None:
    _reasons(answer)
    if answer.cut:
        raise Skipped("the answer was cut")
    require(answer.text or answer.calls, f"only reasoning, and {answer.finish!r}")


@_rule(
    "reasoning.same",
    "Streamed and whole answers both have reasoning, or neither",
    "The form of an answer does not change what it contains.",
)
def _same(evidence: Evidence) -> None:
    whole, streamed = evidence.whole, evidence.streamed
    if not whole.reasoning and not streamed.reasoning:
        raise Skipped("the answers have no reasoning")
    same("presence of reasoning", bool(whole.reasoning), bool(streamed.reasoning))


@_rule(
    "reasoning.usage",
    "Reasoning tokens are part of the output tokens",
    "The reasoning tokens are some of the output tokens.",
    topic="usage",
    apis=OPENAI,
    severity=Severity.MINOR,
)
@of_answers
def _usage(answer: Answer) -> None:
    _reasons(answer)
    if answer.usage is None or answer.usage.reasoning is None:
        raise Skipped("the usage has no reasoning tokens")
    reasoning, total = answer.usage.reasoning, answer.usage.completion
    require(0 < reasoning <= total, f"{reasoning} reasoning tokens of {total} output tokens")


@_rule(
    "reasoning.calls",
    "Calls after reasoning satisfy their schemas",
    "Calls are in the field for calls, also after reasoning.",
    scenario=WITH_CALL,
    severity=Severity.CRITICAL,
    suite=Suite.FULL,
)
def _calls(evidence: Evidence) -> None:
    of_answers(_no_marks)(evidence)
    calls_satisfy(evidence)


@_rule(
    "reasoning.off",
    "No reasoning if it is turned off",
    "Reasoning that the request turns off is neither in the answer nor in the text.",
    scenario=OFF,
)
@of_answers
def _off(answer: Answer) -> None:
    require(not answer.reasoning, f"reasoning: {brief(answer.reasoning, 80)}")
    _no_marks(answer)
