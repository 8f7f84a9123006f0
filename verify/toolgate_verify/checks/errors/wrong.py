"""Bodies with one wrong value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...asking import request
from ...asking.ask import Ask
from ...asking.chat import response_format
from ...asking.responses import response_format as text_format
from ...exchange import Body, Request
from ...terms import Api, Severity, Suite
from ...tools.everyday import LIGHT, closed
from ..calls import LIGHTS

BASE = Ask(LIGHTS, tools=(LIGHT,), max_tokens=16)


@dataclass(frozen=True)
class Wrong:
    """A change to a valid body, by API; an API without an entry has no such request."""

    title: str
    requirement: str
    chat: Body | None = None
    responses: Body | None = None
    messages: Body | None = None
    suite: Suite = Suite.FULL
    severity: Severity = Severity.MAJOR

    def change(self, api: Api) -> Body | None:
        return {Api.CHAT: self.chat, Api.RESPONSES: self.responses, Api.MESSAGES: self.messages}[
            api
        ]


def body_of(api: Api, change: Body, ask: Ask = BASE) -> Request:
    """A valid body with the change. A value of None removes the field."""
    sent = request(api, ask)
    body = {**(sent.body or {}), **change}
    return replace(sent, body={key: value for key, value in body.items() if value is not None})


def everywhere(**values: Any) -> dict[str, Any]:
    return {"chat": values, "responses": values, "messages": values}


WRONG: dict[str, Wrong] = {
    "temperature_type": Wrong(
        "A temperature that is a text is refused",
        "`temperature` is a number.",
        **everywhere(temperature="hot"),
        suite=Suite.QUICK,
    ),
    "temperature_negative": Wrong(
        "A negative temperature is refused",
        "`temperature` is at least 0.",
        **everywhere(temperature=-1),
    ),
    "top_p_range": Wrong(
        "A `top_p` above 1 is refused", "`top_p` is at most 1.", **everywhere(top_p=1.5)
    ),
    "max_tokens_negative": Wrong(
        "A negative token limit is refused",
        "The token limit is a positive number.",
        chat={"max_tokens": -5},
        responses={"max_output_tokens": -5},
        messages={"max_tokens": -5},
        suite=Suite.QUICK,
    ),
    "max_tokens_type": Wrong(
        "A token limit that is a text is refused",
        "The token limit is a number.",
        chat={"max_tokens": "many"},
        responses={"max_output_tokens": "many"},
        messages={"max_tokens": "many"},
    ),
    "stream_type": Wrong(
        "A `stream` that is a text is refused",
        "`stream` is a boolean.",
        **everywhere(stream="please"),
    ),
    "tools_type": Wrong(
        "Tools that are no array are refused",
        "`tools` is an array.",
        **everywhere(tools="set_light"),
    ),
    "choice_word": Wrong(
        "An unknown mode of `tool_choice` is refused",
        "`tool_choice` has one of the specified modes.",
        chat={"tool_choice": "sometimes"},
        responses={"tool_choice": "sometimes"},
        messages={"tool_choice": {"type": "sometimes"}},
        suite=Suite.QUICK,
        severity=Severity.CRITICAL,
    ),
    "choice_unknown_tool": Wrong(
        "A choice of a tool that was not offered is refused",
        "`tool_choice` names one of `tools`.",
        chat={"tool_choice": {"type": "function", "function": {"name": "fly"}}},
        responses={"tool_choice": {"type": "function", "name": "fly"}},
        messages={"tool_choice": {"type": "tool", "name": "fly"}},
        suite=Suite.QUICK,
        severity=Severity.CRITICAL,
    ),
    "choice_without_tools": Wrong(
        "A required call without tools is refused",
        "A call can only be required if there are tools.",
        chat={"tools": None, "tool_choice": "required"},
        responses={"tools": None, "tool_choice": "required"},
        messages={"tools": None, "tool_choice": {"type": "any"}},
        severity=Severity.CRITICAL,
    ),
    "unknown_field": Wrong(
        "A misspelled field is refused",
        "Fields that the API does not know have no effect; a silent one hides a typing error.",
        **everywhere(tool_choise="required"),
        suite=Suite.QUICK,
        severity=Severity.MINOR,
    ),
    "role": Wrong(
        "An unknown role is refused",
        "A message has one of the specified roles.",
        chat={"messages": [{"role": "wizard", "content": "Hi"}]},
        responses={"input": [{"role": "wizard", "content": "Hi"}]},
        messages={"messages": [{"role": "wizard", "content": "Hi"}]},
    ),
    "missing_input": Wrong(
        "A request without messages is refused",
        "The messages (Responses: the input) are required.",
        chat={"messages": None},
        responses={"input": None},
        messages={"messages": None},
    ),
    "input_type": Wrong(
        "Messages that are a number are refused",
        "The messages (Responses: the input) are an array.",
        chat={"messages": 5},
        responses={"input": 5},
        messages={"messages": 5},
    ),
    "unknown_model": Wrong(
        "An unknown model is refused",
        "The model is one that the server has.",
        **everywhere(model="toolgate-verify-no-such-model"),
        suite=Suite.QUICK,
    ),
    "format_type": Wrong(
        "An unknown format is refused",
        "The format of the text has one of the specified types.",
        chat={"response_format": {"type": "yaml"}},
        responses={"text": {"format": {"type": "yaml"}}},
        messages={"output_config": {"format": {"type": "yaml"}}},
        severity=Severity.CRITICAL,
    ),
    "choice_empty_tools": Wrong(
        "A required call with an empty array of tools is refused",
        "A call can only be required if there are tools.",
        chat={"tools": [], "tool_choice": "required"},
        responses={"tools": [], "tool_choice": "required"},
        messages={"tools": [], "tool_choice": {"type": "any"}},
        severity=Severity.CRITICAL,
    ),
    "format_no_name": Wrong(
        "A format without a name is refused",
        "A format of the type json_schema has a name.",
        chat={"response_format": {"type": "json_schema", "json_schema": {"schema": closed()}}},
        responses={"text": {"format": {"type": "json_schema", "schema": closed()}}},
        severity=Severity.MINOR,
    ),
    "format_no_schema": Wrong(
        "A format without a schema is refused",
        "A format of the type json_schema has a schema.",
        chat={"response_format": {"type": "json_schema"}},
        responses={"text": {"format": {"type": "json_schema", "name": "a"}}},
        messages={"output_config": {"format": {"type": "json_schema"}}},
        severity=Severity.CRITICAL,
    ),
    "format_schema_kind": Wrong(
        "A format whose schema is a text is refused",
        "The schema of a format is an object.",
        chat={"response_format": response_format("no schema")},
        responses={"text": {"format": text_format("no schema")}},
        messages={"output_config": {"format": {"type": "json_schema", "schema": "no schema"}}},
        severity=Severity.CRITICAL,
    ),
    "format_strict_type": Wrong(
        "A format whose `strict` is a text is refused",
        "`strict` is a boolean.",
        chat={
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": closed(), "strict": "yes"},
            }
        },
        responses={"text": {"format": {**text_format(closed()), "strict": "yes"}}},
    ),
    "format_schema": Wrong(
        "A format with an invalid schema is refused",
        "The schema of a format is a JSON Schema.",
        chat={
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {"type": "strange"}, "strict": True},
            }
        },
        responses={
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "a",
                    "schema": {"type": "strange"},
                    "strict": True,
                }
            }
        },
        messages={
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "strange"}}}
        },
        severity=Severity.CRITICAL,
    ),
}
