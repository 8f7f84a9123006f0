"""Every mode of `tool_choice`, parallel calls off, and tools that are easily confused."""

from __future__ import annotations

from functools import partial

from ..asking.ask import Ask
from ..check import OPENAI, Judge, rule
from ..reading.answer import Answer
from ..scenario import Evidence
from ..terms import Severity, Skipped, Suite, require
from ..tools.everyday import BOOK, BOUNDS, LIGHT, NOTE
from ..tools.sets import LONGEST_NAME, MANY, PREFIXES
from .calls import CALL, LIGHTS
from .common import (
    calls_satisfy,
    check_call,
    has_call,
    no_calls,
    no_markup_in_text,
    of_answers,
    paired,
    some_calls,
)

NAMED = paired(
    "named", Ask(LIGHTS, tools=(LIGHT, BOUNDS), choice=f"={BOUNDS.name}", max_tokens=200)
)
NONE = paired("none", Ask(LIGHTS, tools=(LIGHT, NOTE), choice="none", max_tokens=48))
AUTO = paired("auto", Ask(LIGHTS, tools=(LIGHT, NOTE), choice="auto", max_tokens=200))
DEFAULT = paired("default_choice", Ask(LIGHTS, tools=(LIGHT, NOTE), max_tokens=200))
ALLOWED = paired(
    "allowed", Ask(LIGHTS, tools=(LIGHT, BOOK, BOUNDS), allowed=(BOUNDS.name,), max_tokens=200)
)
PREFIX = paired("prefix_names", Ask(LIGHTS, tools=PREFIXES, choice="=get_weather", max_tokens=100))
LAST_OF_MANY = paired(
    "many_tools", Ask(LIGHTS, tools=MANY, choice=f"={MANY[-1].name}", max_tokens=100)
)
LONGEST = paired(
    "longest_name",
    Ask(LIGHTS, tools=(LONGEST_NAME,), choice=f"={LONGEST_NAME.name}", max_tokens=200),
)


def _calls_of(name: str) -> Judge:
    """There is a call, all calls are of this tool, and they satisfy its schema."""

    @of_answers
    def judge(answer: Answer) -> None:
        has_call(answer)
        for call in answer.calls:
            require(call.name == name, f"a call of {call.name!r} instead of {name!r}")

    def both(evidence: Evidence) -> None:
        judge(evidence)
        calls_satisfy(evidence)

    return both


_rule = partial(rule, topic="choice")

_rule(
    "choice.required",
    "`required` gives a call",
    "A choice that requires a call makes the model call at least one tool.",
    scenario=CALL,
    severity=Severity.CRITICAL,
)(of_answers(has_call))


@_rule(
    "choice.offered",
    "Calls name tools that were offered",
    "The name of a call is that of one of the tools of the request.",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
def _offered(evidence: Evidence) -> None:
    names = {tool.name for tool in evidence.ask.tools}

    @of_answers
    def judge(answer: Answer) -> None:
        for call in some_calls(answer):
            require(call.name in names, f"a call of {call.name!r}, which was not offered")

    judge(evidence)


@_rule(
    "choice.parallel_off",
    "At most one call with parallel calls off",
    "Without parallel calls an answer has at most one call.",
    topic="parallel",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
@of_answers
def _parallel_off(answer: Answer) -> None:
    require(len(answer.calls) <= 1, f"{len(answer.calls)} calls")


_rule(
    "choice.named",
    "A named choice calls this tool",
    "A choice that names a tool makes the model call this tool.",
    scenario=NAMED,
    severity=Severity.CRITICAL,
)(_calls_of(BOUNDS.name))
_rule(
    "choice.none",
    "`none` gives no call",
    "A choice that forbids calls makes the model answer with text.",
    scenario=NONE,
    severity=Severity.CRITICAL,
)(no_calls)
_rule(
    "choice.none_markup",
    "`none` gives no markup of calls",
    "The text of an answer without calls does not contain the markup of calls.",
    scenario=NONE,
)(no_markup_in_text)
_rule(
    "choice.auto",
    "Calls with `auto` satisfy their schemas",
    "Calls of strict tools satisfy their schemas, also where the model decides to call.",
    scenario=AUTO,
    severity=Severity.CRITICAL,
)(calls_satisfy)
_rule(
    "choice.auto_markup",
    "With `auto` the text has no markup of calls",
    "What the model writes as a call is in the field for calls.",
    scenario=AUTO,
)(no_markup_in_text)


@_rule(
    "choice.auto_finish",
    "With `auto` the finish reason tells calls from text",
    "An answer has the finish reason of calls if and only if it ends with a call.",
    topic="finish",
    scenario=AUTO,
)
@of_answers
def _auto_finish(answer: Answer) -> None:
    if answer.cut:
        raise Skipped("the answer was cut")
    wanted = "calls" if answer.calls else "stop"
    require(answer.finish == wanted, f"{len(answer.calls)} calls and {answer.finish!r}")


@_rule(
    "choice.default",
    "Without a choice, tools can be called or not",
    "`auto` is the default; calls of strict tools satisfy their schemas.",
    scenario=DEFAULT,
    suite=Suite.FULL,
)
def _default(evidence: Evidence) -> None:
    @of_answers
    def judge(answer: Answer) -> None:
        require(answer.text or answer.reasoning or answer.calls, "the answer is empty")
        for call in answer.calls[:-1] if answer.cut else answer.calls:
            check_call(call, evidence.ask.tools)

    judge(evidence)


_rule(
    "choice.allowed_tools",
    "`allowed_tools` restricts the calls",
    "Only the allowed tools are called, though the request offers others.",
    scenario=ALLOWED,
    apis=OPENAI,
    severity=Severity.CRITICAL,
)(_calls_of(BOUNDS.name))
_rule(
    "choice.prefix_names",
    "Names that begin alike are told apart",
    "A choice that names a tool makes the model call this tool, and not one whose name it begins.",
    scenario=PREFIX,
    severity=Severity.CRITICAL,
    suite=Suite.FULL,
)(_calls_of("get_weather"))
_rule(
    "choice.many_tools",
    "The last of 64 tools can be called",
    "A choice that names a tool makes the model call this tool, whatever their number.",
    scenario=LAST_OF_MANY,
    suite=Suite.FULL,
)(_calls_of(MANY[-1].name))
_rule(
    "choice.longest_name",
    "A name of 64 characters is kept",
    "Names of functions have up to 64 characters.",
    topic="request",
    scenario=LONGEST,
    suite=Suite.FULL,
)(_calls_of(LONGEST_NAME.name))
