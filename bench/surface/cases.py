"""A case of the surface: one value of one parameter, and what must be seen of it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema

from bench.surface.probe import AdmissionRequest, Seen

Body = dict[str, Any]
Effect = Callable[[AdmissionRequest, Seen], bool]


@dataclass(frozen=True)
class Case:
    parameter: str
    value: str
    """As the table shows it."""
    body: Body | Callable[[AdmissionRequest], Body]
    effect: Effect | None = None
    """Whether the answer shows that the parameter acted. None: nothing is to be seen."""
    wrong: bool = False
    """A value that must be refused."""
    forms: tuple[bool, ...] = (False, True)
    """In which it is sent: not streamed, streamed."""


USER = [{"role": "user", "content": "Tell me a story."}]
PLAIN: Body = {
    "messages": USER,
    "max_tokens": 24,
    "temperature": 1.0,
    "seed": 11,
    "chat_template_kwargs": {"enable_thinking": False},
}
"""What the cases vary: content without reasoning."""
GREEDY: Body = {**PLAIN, "temperature": 0}


def plain(**more: Any) -> Body:
    return {**PLAIN, **more}


def greedy(**more: Any) -> Body:
    return {**GREEDY, **more}


def refused(parameter: str, *values: tuple[str, Body]) -> list[Case]:
    """Values that must be a 400 each."""
    return [Case(parameter, value, body, wrong=True) for value, body in values]


def given(parameter: str, *values: Any, base: Body = PLAIN) -> list[tuple[str, Body]]:
    return [(json.dumps(value), {**base, parameter: value}) for value in values]


def differs(**base: Any) -> Effect:
    """Another text than that of the plain request with `base`."""
    return lambda ask, seen: bool(seen.text) and seen.text != ask(plain(**base)).text


def equals(control: Body) -> Effect:
    return lambda ask, seen: bool(seen.text) and seen.text == ask(control).text


def less_prompt(control: Body) -> Effect:
    return lambda ask, seen: 0 < seen.prompt < ask(control).prompt


def other_prompt(control: Body) -> Effect:
    return lambda ask, seen: 0 < seen.prompt != ask(control).prompt


def valid_calls(seen: Seen, tools: list[Body]) -> bool:
    """There are calls, and each is one of these tools' and valid by its schema."""
    schemas = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools}
    for choice in seen.choices:
        if not choice.calls:
            return False
        for name, arguments in choice.calls:
            try:
                jsonschema.validate(json.loads(arguments), schemas[name])
            except (ValueError, KeyError, jsonschema.ValidationError):
                return False
    return bool(seen.choices)
