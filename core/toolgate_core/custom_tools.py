"""Custom tools: tools whose only argument is a text, which may have to match a grammar.

A model sees a custom tool as a function with the parameter `input`, and the gateway sends the
argument to the client as plain text. The canonical parameters contain the grammar, so custom tools
have hashes and grammar keys like functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
    """The grammar of a custom tool's `format`, in the form of chat completions:
    `{"type": "grammar", "grammar": {"syntax", "definition"}}`. None for text. Raises InvalidTools
    and UnsupportedParameter, which name the path of the invalid field."""
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
    """The canonical parameters."""
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
    """The grammar in canonical parameters; None if they have none."""
    properties = parameters.get("properties")
    text = properties.get(INPUT) if isinstance(properties, dict) else None
    given = text.get(GRAMMAR) if isinstance(text, dict) else None
    return None if given is None else Grammar(given["syntax"], given["definition"])


def function_definition(
    name: str, description: str | None, grammar: Grammar | None
) -> dict[str, Any]:
    """The function that the chat template shows to the model."""
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
