"""Custom tools: tools whose only argument is a text, which may have to match a grammar.

A model sees a custom tool as a function with the parameter `input`, and the gateway sends the
argument to the client as plain text. The canonical parameters contain the grammar, so custom tools
have hashes and grammar keys like functions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from .deltas import ArgumentsDelta, CallEnd, CallStart, Event, Finish, InputDelta
from .errors import InvalidTools, UnsupportedParameter
from .schema.canonical import GRAMMAR

INPUT = "input"
"""The name of the argument."""
MAX_DEFINITION = 64_000
"""Maximum length of a grammar's definition, in characters."""
FIELDS = ("name", "description", "format")

Syntax = Literal["lark", "regex"]


@dataclass(frozen=True)
class Grammar:
    syntax: Syntax
    definition: str


def read_grammar(given: object, param: str) -> Grammar | None:
    """Return the grammar of a custom tool's `format`, in the form of chat completions: `{"type":
    "grammar", "grammar": {"syntax", "definition"}}`. None for text. Raise InvalidTools and
    UnsupportedParameter, which name the path of the invalid field."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise InvalidTools(f"{param} must be an object with a type.", param=param)
    kind = given.get("type")
    if kind == "text":
        return None
    if kind != "grammar":
        raise UnsupportedParameter(
            f"{param}.type must be 'text' or 'grammar', but is {kind!r}.", param=f"{param}.type"
        )
    grammar = given.get("grammar")
    where = f"{param}.grammar"
    if not isinstance(grammar, dict):
        raise InvalidTools(f"{where} must be an object with syntax and definition.", param=where)
    syntax, definition = grammar.get("syntax"), grammar.get("definition")
    if syntax not in ("lark", "regex"):
        raise UnsupportedParameter(
            f"{where}.syntax must be 'lark' or 'regex', but is {syntax!r}.", param=f"{where}.syntax"
        )
    if not isinstance(definition, str) or not 0 < len(definition) <= MAX_DEFINITION:
        raise InvalidTools(
            f"{where}.definition must be a text of 1 to {MAX_DEFINITION:,} characters.",
            param=f"{where}.definition",
        )
    if "\0" in definition:
        raise InvalidTools(
            f"{where}.definition contains the character U+0000. Write it as an escape sequence, or "
            "remove it.",
            param=f"{where}.definition",
        )
    return Grammar(syntax, definition)


def custom_parameters(grammar: Grammar | None) -> dict[str, Any]:
    """Return the canonical parameters."""
    text: dict[str, Any] = {"type": "string"}
    if grammar is not None:
        text[GRAMMAR] = {"syntax": grammar.syntax, "definition": grammar.definition}
    return {
        "additionalProperties": False,
        "properties": {INPUT: text},
        "required": [INPUT],
        "type": "object",
    }


def grammar_of(parameters: dict[str, Any]) -> Grammar | None:
    """Return the grammar in canonical parameters; None if they have none."""
    properties = parameters.get("properties")
    text = properties.get(INPUT) if isinstance(properties, dict) else None
    grammar = text.get(GRAMMAR) if isinstance(text, dict) else None
    return None if grammar is None else Grammar(grammar["syntax"], grammar["definition"])


def function_definition(
    name: str, description: str | None, grammar: Grammar | None
) -> dict[str, Any]:
    """Return the function that the chat template shows to the model."""
    text = {"type": "string", "description": _words(grammar)}
    parameters = {"type": "object", "properties": {INPUT: text}, "required": [INPUT]}
    function: dict[str, Any] = {"name": name, "parameters": parameters}
    if description:
        function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _words(grammar: Grammar | None) -> str:
    if grammar is None:
        return "Plain text."
    if grammar.syntax == "regex":
        return f"Plain text that matches this regular expression as a whole: {grammar.definition}"
    return f"Plain text that matches this Lark grammar:\n{grammar.definition}"


_BEGIN = re.compile(rf'\s*\{{\s*"{INPUT}"\s*:\s*"')
_COMPLETE = re.compile(
    r'(?:[^"\\]+|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9A-Fa-f]{4}'
    r"|\\u[0-9A-Fa-f]{4}(?=[^\\]|\\[^u]|\\u[0-9A-Fa-f]{4}))*"
)
"""Text of a JSON string without an escape that may go on: the other half of a pair may follow."""
_HALF = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class CustomCalls:
    """Converts the events of one choice. `names` are those of the custom tools."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._input: InputText | None = None

    def converted(self, events: list[Event]) -> list[Event]:
        if not self._names:
            return events
        return [each for event in events for each in self._converted(event)]

    def _converted(self, event: Event) -> list[Event]:
        match event:
            case CallStart(_, name):
                self._input = InputText() if name in self._names else None
                return [event if self._input is None else replace(event, custom=True)]
            case ArgumentsDelta(index, text, logprobs) if self._input is not None:
                text = self._input.feed(text)
                return [InputDelta(index, text, logprobs)] if text or logprobs else []
            case CallEnd(index) if self._input is not None:
                last = self._input.last()
                self._input = None
                return [InputDelta(index, last), event] if last else [event]
            case Finish():
                self._input = None
        return [event]


class InputText:
    """The text in `{"input": "…"}`."""

    def __init__(self) -> None:
        self._pending = ""
        self._begun = self._ended = False
        self._withheld = ""

    def feed(self, text: str) -> str:
        """Return the plain text that follows, without the character that is withheld."""
        if self._ended:
            return ""
        self._pending += text
        if not self._begun:
            begin = _BEGIN.match(self._pending)
            if begin is None:
                return ""
            self._begun, self._pending = True, self._pending[begin.end() :]
        whole = _COMPLETE.match(self._pending)
        assert whole is not None
        self._pending = self._pending[whole.end() :]
        self._ended = self._pending.startswith('"')
        # Half of a pair is no text. The validation of the call finds it.
        decoded = json.loads(f'"{whole.group()}"', strict=False)
        known = self._withheld + _HALF.sub(_REPLACEMENT, decoded)
        self._withheld = known[-1:]
        return known[:-1]

    def last(self) -> str:
        """Return the withheld character, at the end of the call."""
        last, self._withheld = self._withheld, ""
        return last
