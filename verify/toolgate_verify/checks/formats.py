"""Structured text: JSON Schema, `json_object`, and a format together with tools."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from ..asking.ask import Ask, User
from ..asking.chat import response_format
from ..asking.responses import response_format as text_format
from ..check import OPENAI, rule
from ..exchange import Body
from ..reading.answer import Answer
from ..scenario import Evidence, brief
from ..terms import Api, Failed, Severity, Skipped, Suite, require
from ..tools.everyday import COUNT, LIGHT, ON, ROOM, closed
from ..tools.hostile import MARKUP
from .common import (
    calls_satisfy,
    check_call,
    has_call,
    no_calls,
    no_markup_in_text,
    of_answers,
    paired,
    same_text,
    some_calls,
    violation,
)

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
UNSTRICT = paired(
    "format_unstrict",
    Ask(QUESTION, max_tokens=300),
    {
        Api.CHAT: {"response_format": response_format(SCHEMA, False)},
        Api.RESPONSES: {"text": {"format": text_format(SCHEMA, False)}},
    },
)


def _of_type(kind: str) -> dict[Api, Body]:
    """The fields of a format that only has a type."""
    return {
        Api.CHAT: {"response_format": {"type": kind}},
        Api.RESPONSES: {"text": {"format": {"type": kind}}},
    }


PLAIN = paired("format_plain", Ask(max_tokens=24), _of_type("text"))
OBJECTS = paired("format_object", Ask(QUESTION, max_tokens=300), _of_type("json_object"))


def _json(answer: Answer) -> Any:
    if answer.cut:
        raise Skipped("the text was cut by the token limit")
    try:
        return json.loads(answer.text)
    except ValueError as error:
        raise Failed(f"the text is not JSON ({error}): {brief(answer.text)}") from error


def _satisfies(answer: Answer) -> None:
    problem = violation(SCHEMA, _json(answer))
    require(not problem, f"{problem} in {brief(answer.text)}")


@of_answers
def _is_object(answer: Answer) -> None:
    require(isinstance(_json(answer), dict), "the text is no object")


_rule = partial(rule, topic="format")


_rule(
    "format.valid",
    "Structured text satisfies its schema",
    "With a JSON Schema the text is JSON that satisfies it.",
    scenario=FORMAT,
    severity=Severity.CRITICAL,
)(of_answers(_satisfies))
_rule(
    "format.same",
    "Structured text is equal, streamed and whole, at temperature 0",
    "The deltas of a stream add up to the answer that is sent without streaming.",
    topic="stream",
    scenario=FORMAT,
    severity=Severity.CRITICAL,
    confirm=True,
)(same_text)
_rule(
    "format.no_calls",
    "Structured text is no call",
    "A format describes the text; it is not returned as a call.",
    scenario=FORMAT,
)(no_calls)


@_rule(
    "format.hostile_text",
    "Markup, quotes and emoji in structured text are kept",
    "Values of strings come as the schema has them.",
    scenario=HOSTILE_TEXT,
    suite=Suite.FULL,
)
@of_answers
def _hostile(answer: Answer) -> None:
    require(_json(answer) == {"text": MARKUP}, f"the text is {brief(answer.text)}")


@_rule(
    "format.with_tools",
    "With a format and tools, text or calls are valid",
    "An answer is structured text or calls; each satisfies its schema.",
    scenario=WITH_TOOLS,
    severity=Severity.CRITICAL,
)
def _with_tools(evidence: Evidence) -> None:
    @of_answers
    def judge(answer: Answer) -> None:
        if not answer.calls:
            _satisfies(answer)
            return
        for call in some_calls(answer):
            check_call(call, evidence.ask.tools)

    judge(evidence)


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
    of_answers(has_call)(evidence)
    calls_satisfy(evidence)


_rule(
    "format.tools_markup",
    "With a format and tools, the text has no markup of calls",
    "What the model writes as a call is in the field for calls.",
    scenario=WITH_TOOLS,
    suite=Suite.FULL,
)(no_markup_in_text)
_rule(
    "format.json_object",
    "`json_object` gives a JSON object",
    "The text is a JSON object.",
    scenario=OBJECTS,
    apis=OPENAI,
)(_is_object)
_rule(
    "format.unstrict_json",
    "A format without `strict` gives a JSON object",
    "A format of the type json_schema gives JSON, also without `strict`.",
    scenario=UNSTRICT,
    apis=OPENAI,
    suite=Suite.FULL,
)(_is_object)


@_rule(
    "format.text",
    "The format `text` gives text",
    "The format of the type text is the default: the answer is text.",
    scenario=PLAIN,
    apis=OPENAI,
    suite=Suite.FULL,
    severity=Severity.MINOR,
)
@of_answers
def _plain(answer: Answer) -> None:
    require(answer.text or answer.reasoning, "the answer is empty")
