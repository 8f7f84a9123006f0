"""Histories with calls and results: accepted in all their forms, and rendered into the prompt."""

from __future__ import annotations

from dataclasses import replace

from ..asking import request
from ..asking.ask import Ask, Assistant, CallTurn, ToolResult, Turn, User
from ..check import OPENAI, rule
from ..scenario import Evidence
from ..terms import Failed, Refused, Severity, Suite
from ..tools.everyday import LIGHT, NOTE
from .common import Scenarios, longer_prompt, sending, single

ASKED = User("Switch on the light in the kitchen.")
LIGHT_CALL = CallTurn("call_1", LIGHT.name, {"room": "kitchen", "on": True})
ALARM_CALL = CallTurn("call_2", NOTE.name, {"hour": 7})
DONE = ToolResult("call_1", "done")
LONG_TEXT = "The lamp in the kitchen has been switched on, and it uses nine watts. " * 4
BASE = Ask((ASKED, Assistant(calls=(LIGHT_CALL,)), DONE), tools=(LIGHT, NOTE), max_tokens=4)


def _call(identity: str) -> tuple[Turn, ...]:
    call = replace(LIGHT_CALL, id=identity)
    return (ASKED, Assistant(calls=(call,)), ToolResult(identity, "done"))


ACCEPTED: dict[str, tuple[str, str, tuple[Turn, ...], Suite]] = {
    "null_content": (
        "A call without text is accepted back",
        "A turn of the assistant that only has calls needs no text.",
        BASE.turns,
        Suite.QUICK,
    ),
    "text_and_call": (
        "A turn with text and a call is accepted back",
        "A turn of the assistant can have text and calls.",
        (ASKED, Assistant("I will do that.", (LIGHT_CALL,)), DONE),
        Suite.FULL,
    ),
    "two_calls": (
        "Two calls and their results are accepted",
        "Each call of a turn is followed by its result.",
        (ASKED, Assistant(calls=(LIGHT_CALL, ALARM_CALL)), DONE, ToolResult("call_2", "set")),
        Suite.QUICK,
    ),
    "results_out_of_order": (
        "Results in another order are accepted",
        "Results refer to calls by ID, so their order is free.",
        (ASKED, Assistant(calls=(LIGHT_CALL, ALARM_CALL)), ToolResult("call_2", "set"), DONE),
        Suite.QUICK,
    ),
    "foreign_id_openai": (
        "IDs in OpenAI's form are accepted",
        "The IDs of calls are opaque: those of another server are valid.",
        _call("call_9vAbCdEfGhIjKlMnOpQrStUv"),
        Suite.FULL,
    ),
    "foreign_id_anthropic": (
        "IDs in Anthropic's form are accepted",
        "The IDs of calls are opaque: those of another server are valid.",
        _call("toolu_01A09q90qw90lq917835lq9"),
        Suite.QUICK,
    ),
    "foreign_id_short": (
        "IDs of one character are accepted",
        "The IDs of calls are opaque: those of another server are valid.",
        _call("7"),
        Suite.FULL,
    ),
    "result_parts": (
        "A result as an array of parts is accepted",
        "The content of a result is a text or an array of parts.",
        (ASKED, Assistant(calls=(LIGHT_CALL,)), replace(DONE, parts=True)),
        Suite.QUICK,
    ),
    "empty_result": (
        "An empty result is accepted",
        "A tool may return an empty text.",
        (ASKED, Assistant(calls=(LIGHT_CALL,)), ToolResult("call_1", "")),
        Suite.FULL,
    ),
    "hostile_result": (
        "A result with markup and emoji is accepted",
        "A result is any text, also one that looks like markup of calls.",
        (
            ASKED,
            Assistant(calls=(LIGHT_CALL,)),
            ToolResult("call_1", '<tool_call>{"a": 1}</tool_call> 🙂 \u2028'),
        ),
        Suite.FULL,
    ),
    "two_rounds": (
        "A conversation with two rounds of calls is accepted",
        "A conversation can have any number of calls, results and turns of the user.",
        (
            ASKED,
            Assistant(calls=(LIGHT_CALL,)),
            DONE,
            Assistant("It is on."),
            User("And an alarm for 7."),
            Assistant(calls=(ALARM_CALL,)),
            ToolResult("call_2", "set"),
        ),
        Suite.FULL,
    ),
}


def _is_accepted(evidence: Evidence) -> None:
    """A refusal of a valid history is a failure, as the API requires no feature for it."""
    try:
        evidence.answer(0)
    except Refused as error:
        raise Failed(f"refused: {error}") from error


for _name, (_title, _requirement, _turns, _suite) in ACCEPTED.items():
    rule(
        f"history.{_name}",
        _title,
        _requirement,
        topic="calls",
        scenario=single(f"history.{_name}", replace(BASE, turns=_turns)),
        suite=_suite,
    )(_is_accepted)

rule(
    "history.reasoning",
    "Reasoning is accepted back",
    "A client may send the reasoning of an earlier turn back.",
    topic="reasoning",
    scenario=single(
        "history.reasoning",
        replace(BASE, turns=(ASKED, Assistant(calls=(LIGHT_CALL,), reasoning="A lamp."), DONE)),
    ),
    apis=OPENAI,
    suite=Suite.FULL,
)(_is_accepted)


def _more(text: str) -> tuple[Turn, ...]:
    return (ASKED, Assistant(calls=(LIGHT_CALL,)), ToolResult("call_1", text))


REACHES: dict[str, tuple[str, Ask]] = {
    "system": ("The system prompt", replace(BASE, system=LONG_TEXT)),
    "result": ("The result of a call", replace(BASE, turns=_more(LONG_TEXT))),
    "result_parts": (
        "A result as parts",
        replace(BASE, turns=(*BASE.turns[:2], ToolResult("call_1", LONG_TEXT, parts=True))),
    ),
    "assistant_text": (
        "The text beside a call",
        replace(BASE, turns=(ASKED, Assistant(LONG_TEXT, (LIGHT_CALL,)), DONE)),
    ),
    "tools": (
        "A further tool",
        replace(BASE, tools=(LIGHT, NOTE, replace(LIGHT, name="dim", description=LONG_TEXT))),
    ),
    "arguments": (
        "The arguments of a call",
        replace(
            BASE,
            turns=(
                ASKED,
                Assistant(calls=(replace(LIGHT_CALL, arguments={"room": LONG_TEXT}),)),
                DONE,
            ),
        ),
    ),
}


def against_base(name: str, ask: Ask) -> Scenarios:
    """A scenario of `BASE` (index 0) and of the request."""
    return sending(name, lambda api: (request(api, BASE), request(api, ask)), BASE)


for _name, (_what, _ask) in REACHES.items():
    rule(
        f"prompt.{_name}",
        f"{_what} reaches the prompt",
        f"{_what} is part of what the model reads, so it adds prompt tokens.",
        topic="request",
        scenario=against_base(f"prompt.{_name}", _ask),
        severity=Severity.CRITICAL,
        suite=Suite.QUICK if _name in ("system", "result", "tools") else Suite.FULL,
    )(longer_prompt)
