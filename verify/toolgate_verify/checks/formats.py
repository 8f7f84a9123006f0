"""Structured text: JSON Schema, `json_object`, and a format together with tools."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from ..asking.ask import Ask, User
from ..asking.chat import response_format
from ..asking.responses import response_format as text_format
from ..reading.answer import Answer
from ..registry import OPENAI, rule
from ..scenario import Evidence, brief
from ..terms import Failed, Severity, Skipped, Suite, require
from ..tools.everyday import COUNT, LIGHT, ON, ROOM, closed
from ..tools.hostile import MARKUP
from .common import check_call, judged, no_markup, paired, same, some_calls, violation

TEXT_FORMAT = {"type": "text"}
SCHEMA = closed(room=ROOM, on=ON, count=COUNT)
QUESTION = (User("Which lights are on in the cellar? Answer with room 'cellar' and count 99."),)
FORMAT = paired("format", Ask(QUESTION, format=SCHEMA, max_tokens=200))
HOSTILE_TEXT = paired(
    "format_text",
    Ask(
        (User("Repeat the text."),),
        format=closed(text={"type": "string", "enum": [MARKUP]}),
        max_tokens=300,
    ),
)
WITH_TOOLS = paired("format_tools", Ask(QUESTION, format=SCHEMA, tools=(LIGHT,), max_tokens=300))
WITH_REQUIRED = paired(
    "format_required",
    Ask(QUESTION, format=SCHEMA, tools=(LIGHT,), choice="required", parallel=False, max_tokens=300),
)
UNSTRICT = {
    "chat": paired(
        "format_unstrict",
        Ask(QUESTION, max_tokens=300, extra={"response_format": response_format(SCHEMA, False)}),
    ),
    "responses": paired(
        "format_unstrict",
        Ask(QUESTION, max_tokens=300, extra={"text": {"format": text_format(SCHEMA, False)}}),
    ),
}
PLAIN = {
    "chat": paired("format_plain", Ask(max_tokens=24, extra={"response_format": TEXT_FORMAT})),
    "responses": paired(
        "format_plain", Ask(max_tokens=24, extra={"text": {"format": TEXT_FORMAT}})
    ),
}
OBJECTS = {
    "chat": paired(
        "format_object",
        Ask(QUESTION, max_tokens=300, extra={"response_format": {"type": "json_object"}}),
    ),
    "responses": paired(
        "format_object",
        Ask(QUESTION, max_tokens=300, extra={"text": {"format": {"type": "json_object"}}}),
    ),
}


def _json(answer: Answer) -> Any:
    if answer.cut:
        raise Skipped("the text was cut by the token limit")
    try:
        return json.loads(answer.text)
    except ValueError as error:
        raise Failed(f"the text is not JSON ({error}): {brief(answer.text)}") from error


def _satisfies(schema: Any, answer: Answer) -> None:
    problem = violation(schema, _json(answer))
    require(not problem, f"{problem} in {brief(answer.text)}")


_rule = partial(rule, topic="format")


@_rule(
    "format.valid",
    "Structured text satisfies its schema",
    "With a JSON Schema the text is JSON that satisfies it.",
    scenario=FORMAT,
    severity=Severity.CRITICAL,
)
def _valid(evidence: Evidence) -> None:
    judged(evidence, lambda answer: _satisfies(SCHEMA, answer))


@_rule(
    "format.same",
    "Structured text is equal, streamed and whole, at temperature 0",
    "The deltas of a stream add up to the answer that is sent without streaming.",
    topic="stream",
    scenario=FORMAT,
    severity=Severity.CRITICAL,
    confirm=True,
)
def _same(evidence: Evidence) -> None:
    same("texts", evidence.whole.text, evidence.streamed.text)


@_rule(
    "format.no_calls",
    "Structured text is no call",
    "A format describes the text; it is not returned as a call.",
    scenario=FORMAT,
)
def _no_calls(evidence: Evidence) -> None:
    judged(evidence, lambda answer: require(not answer.calls, "the answer has a call"))


@_rule(
    "format.hostile_text",
    "Markup, quotes and emoji in structured text are kept",
    "Values of strings come as the schema has them.",
    scenario=HOSTILE_TEXT,
    suite=Suite.FULL,
)
def _hostile(evidence: Evidence) -> None:
    judged(
        evidence,
        lambda answer: require(
            _json(answer) == {"text": MARKUP}, f"the text is {brief(answer.text)}"
        ),
    )


@_rule(
    "format.with_tools",
    "With a format and tools, text or calls are valid",
    "An answer is structured text or calls; each satisfies its schema.",
    scenario=WITH_TOOLS,
    severity=Severity.CRITICAL,
)
def _with_tools(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        if answer.calls:
            for call in some_calls(answer):
                check_call(call, evidence.ask.tools)
        else:
            _satisfies(SCHEMA, answer)

    judged(evidence, judge)


@_rule(
    "format.with_required",
    "With a format, `required` still gives a call",
    "A choice that requires a call makes the model call a tool, also with a format.",
    topic="choice",
    scenario=WITH_REQUIRED,
    severity=Severity.CRITICAL,
    suite=Suite.FULL,
)
def _with_required(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        if answer.cut and not answer.calls:
            raise Skipped("the token limit cut the answer before its call")
        require(answer.calls, f"no call, but the text {answer.text[:80]!r}")
        for call in some_calls(answer):
            check_call(call, evidence.ask.tools)

    judged(evidence, judge)


@_rule(
    "format.tools_markup",
    "With a format and tools, the text has no markup of calls",
    "What the model writes as a call is in the field for calls.",
    scenario=WITH_TOOLS,
    suite=Suite.FULL,
)
def _tools_markup(evidence: Evidence) -> None:
    judged(evidence, lambda answer: no_markup(answer.text))


@_rule(
    "format.json_object",
    "`json_object` gives a JSON object",
    "The text is a JSON object.",
    scenario=lambda api: OBJECTS[api](api),
    apis=OPENAI,
)
def _object(evidence: Evidence) -> None:
    judged(
        evidence, lambda answer: require(isinstance(_json(answer), dict), "the text is no object")
    )


@_rule(
    "format.unstrict_json",
    "A format without `strict` gives a JSON object",
    "A format of the type json_schema gives JSON, also without `strict`.",
    scenario=lambda api: UNSTRICT[api](api),
    apis=OPENAI,
    suite=Suite.FULL,
)
def _unstrict(evidence: Evidence) -> None:
    def judge(answer: Answer) -> None:
        require(isinstance(_json(answer), dict), "the text is no object")

    judged(evidence, judge)


@_rule(
    "format.text",
    "The format `text` gives text",
    "The format of the type text is the default: the answer is text.",
    scenario=lambda api: PLAIN[api](api),
    apis=OPENAI,
    suite=Suite.FULL,
    severity=Severity.MINOR,
)
def _plain(evidence: Evidence) -> None:
    judged(evidence, lambda answer: require(answer.text or answer.reasoning, "the answer is empty"))
