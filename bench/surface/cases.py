"""A case: one value of one parameter, and its expected effect on the response."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema

from bench.surface.probe import ChatResponse, Send

Body = dict[str, Any]
Effect = Callable[[Send, ChatResponse], bool]


@dataclass(frozen=True)
class Case:
    parameter: str
    value: str
    """Description of the value in the table."""
    body: Body | Callable[[Send], Body]
    effect: Effect | None = None
    """Whether the response shows the effect. None: the parameter has no visible effect."""
    invalid: bool = False
    """Whether the value must be rejected."""
    stream_values: tuple[bool, ...] = (False, True)
    """Values of `stream` with which the case is sent."""


USER = [{"role": "user", "content": "Tell me a story."}]
PLAIN: Body = {
    "messages": USER,
    "max_tokens": 24,
    "temperature": 1.0,
    "seed": 11,
    "chat_template_kwargs": {"enable_thinking": False},
}
"""The request that most cases vary: content without reasoning."""
GREEDY: Body = {**PLAIN, "temperature": 0}


def plain(**more: Any) -> Body:
    return {**PLAIN, **more}


def greedy(**more: Any) -> Body:
    return {**GREEDY, **more}


def rejected(parameter: str, *values: tuple[str, Body]) -> list[Case]:
    """Cases whose values must be rejected."""
    return [Case(parameter, value, body, invalid=True) for value, body in values]


def given(parameter: str, *values: Any, base: Body = PLAIN) -> list[tuple[str, Body]]:
    """Pairs of description and body, for values of a parameter added to `base`."""
    return [(json.dumps(value), {**base, parameter: value}) for value in values]


def differs(**base: Any) -> Effect:
    """The text differs from that of the plain request with `base`."""
    return lambda send, response: bool(response.text) and response.text != send(plain(**base)).text


def equals(control: Body) -> Effect:
    """The text equals that of the request `control`."""
    return lambda send, response: bool(response.text) and response.text == send(control).text


def shorter_prompt(control: Body) -> Effect:
    """The prompt has fewer tokens than that of `control`."""
    return lambda send, response: 0 < response.prompt < send(control).prompt


def different_prompt(control: Body) -> Effect:
    """The prompt has another number of tokens than that of `control`."""
    return lambda send, response: 0 < response.prompt != send(control).prompt


def valid_calls(response: ChatResponse, tools: list[Body]) -> bool:
    """Whether each choice has calls, and all are valid calls of `tools`."""
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    for choice in response.choices:
        if not choice.calls:
            return False
        for name, arguments in choice.calls:
            try:
                jsonschema.validate(json.loads(arguments), schemas[name])
            except (ValueError, KeyError, jsonschema.ValidationError):
                return False
    return bool(response.choices)
