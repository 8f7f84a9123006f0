"""Reasoning: apart from the text, counted, equal in both forms, and with calls."""

from __future__ import annotations

from functools import partial

from ..asking.ask import Ask, User
from ..reading.answer import Answer
from ..registry import OPENAI, rule
from ..scenario import Evidence, brief
from ..terms import Severity, Skipped, Suite, require
from ..tools.everyday import LIGHT
from .calls import LIGHTS
from .common import THINK, check_call, judged, paired, same, some_calls

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


_rule = partial(rule, topic="reasoning", scenario=REASONING)


@_rule(
    "reasoning.apart",
    "Reasoning is not in the text",
    "Reasoning is in a field of its own; the text has no marks of reasoning.",
)
def _apart(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        found = THINK.search(answer.text)
        require(found is None, f"the text contains {found and found[0]!r}: {brief(answer.text)}")
        _reasons(answer)
        require(THINK.search(answer.reasoning) is None, "the reasoning has the marks of reasoning")

    judged(evidence, judge)


@_rule(
    "reasoning.answer",
    "An answer that ends is not only reasoning",
    "After its reasoning an answer has text or calls, unless the token limit cuts it.",
)
def _answer(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        _reasons(answer)
        if answer.cut:
            raise Skipped("the answer was cut")
        require(answer.text or answer.calls, f"only reasoning, and {answer.finish!r}")

    judged(evidence, judge)


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
def _usage(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        _reasons(answer)
        if answer.usage is None or answer.usage.reasoning is None:
            raise Skipped("the usage has no reasoning tokens")
        found, total = answer.usage.reasoning, answer.usage.completion
        require(0 < found <= total, f"{found} reasoning tokens of {total} output tokens")

    judged(evidence, judge)


@_rule(
    "reasoning.calls",
    "Calls after reasoning satisfy their schemas",
    "Calls are in the field for calls, also after reasoning.",
    scenario=WITH_CALL,
    severity=Severity.CRITICAL,
    suite=Suite.FULL,
)
def _calls(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        require(THINK.search(answer.text) is None, f"marks of reasoning: {brief(answer.text)}")
        for call in some_calls(answer):
            check_call(call, evidence.ask.tools)

    judged(evidence, judge)


@_rule(
    "reasoning.off",
    "No reasoning if it is turned off",
    "Reasoning that the request turns off is neither in the answer nor in the text.",
    scenario=OFF,
)
def _off(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        require(not answer.reasoning, f"reasoning: {brief(answer.reasoning, 80)}")
        require(THINK.search(answer.text) is None, f"marks of reasoning: {brief(answer.text)}")

    judged(evidence, judge)
