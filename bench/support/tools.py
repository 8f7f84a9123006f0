"""Tools for requests: those of BFCL, copies under other names, and one with long calls. Calls of
tools as a trained model writes them: words in strings, small numbers, ends where they belong."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.shared_data import BFCL, records

from .strings import WORDS, natural_string

if TYPE_CHECKING:  # it imports torch, and the clients of a server need none
    from toolgate_backend.tokens.vocabulary import Vocabulary


def bfcl_tools() -> list[dict[str, Any]]:
    """All tools of BFCL, in OpenAI's format."""
    return [tool for case in records(BFCL) for tool in case["tools"]]


def small_tools(count: int) -> list[dict[str, Any]]:
    """The smallest BFCL tools that have two or more required strings, with distinct names.

    With random weights, a call with fewer free strings can end after a few tokens.
    """
    tools = sorted(bfcl_tools(), key=lambda tool: (len(json.dumps(tool)), json.dumps(tool)))
    found: dict[str, dict[str, Any]] = {}
    for tool in tools:
        function = tool["function"]
        properties = function["parameters"].get("properties", {})
        required = [properties.get(k, {}) for k in function["parameters"].get("required", ())]
        texts = [each for each in required if each.get("type") == "string" and "enum" not in each]
        name = function["name"].replace(".", "_")
        if len(texts) > 1 and len(name) <= 64:
            found.setdefault(name, {"type": "function", "function": function | {"name": name}})
    return list(found.values())[:count]


def long_tool() -> dict[str, Any]:
    """A tool whose calls are longer than any response here: 60 required strings."""
    names = [f"part_{number}" for number in range(60)]
    properties = {name: {"type": "string"} for name in names}
    parameters = {"type": "object", "properties": properties, "required": names}
    return {"type": "function", "function": {"name": "write", "parameters": parameters}}


def renamed(tool: dict[str, Any], salt: str) -> dict[str, Any]:
    """The tool with `salt` in the names of its function and properties, so that it is new."""
    function = tool["function"]
    parameters = dict(function["parameters"])
    parameters["properties"] = {f"{k}_{salt}": v for k, v in parameters["properties"].items()}
    parameters["required"] = [f"{name}_{salt}" for name in parameters.get("required", [])]
    name = f"{function['name'][:40].replace('.', '_')}_{salt}"
    return {
        "type": "function",
        "function": {"name": name, "parameters": parameters, "strict": True},
    }


def natural_value(schema: Mapping[str, Any], rng: random.Random) -> Any:
    """A value that the schema allows, if it has simple types only."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema.get("type"):
        case "integer":
            return rng.randrange(1, 100)
        case "number":
            return rng.randrange(1, 1000) / 10
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [natural_value(schema.get("items", {}), rng) for _ in range(rng.randrange(1, 4))]
        case "object":
            return {
                name: natural_value(each, rng)
                for name, each in schema.get("properties", {}).items()
            }
        case _:
            return natural_string(schema, rng)


def call_tokens(vocabulary: Vocabulary, name: str, arguments: Any) -> list[int]:
    """The tokens of a call, with the end of the turn."""
    form = vocabulary.form
    before, after = form.grammar_texts(name)
    written = json.dumps(arguments, ensure_ascii=False)
    text = form.begin + form.head(name) + before + written + after + form.tail(name) + form.end
    return [*vocabulary.literal_tokens(text), vocabulary.marks.end_of_turn[0]]


@dataclass(frozen=True)
class Reference:
    """A case of BFCL with one reference call."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    name: str
    """Of the tool that is called."""
    schema: dict[str, Any]
    """Of its arguments."""
    arguments: dict[str, Any]
    """In the order of the schema, which xgrammar enforces."""


def reference_calls() -> Iterator[Reference]:
    for case in records(BFCL):
        if len(case["ground_truth"] or ()) == 1:
            [(name, given)] = case["ground_truth"][0].items()
            schemas = {
                tool["function"]["name"]: tool["function"]["parameters"] for tool in case["tools"]
            }
            if name in schemas:
                arguments = _ordered(_chosen(given), schemas[name])
                yield Reference(case["messages"], case["tools"], name, schemas[name], arguments)


def varied(value: Any, schema: Mapping[str, Any], rng: random.Random) -> Any:
    """Another value of the same shape: as many words in each string, and other numbers."""
    match value:
        case _ if "enum" in schema:
            return rng.choice(schema["enum"])
        case str():
            return " ".join(rng.choice(WORDS) for _ in value.split())
        case bool() | None:
            return value
        case int():
            return rng.randrange(10 ** len(str(abs(value))))
        case float():
            return rng.randrange(1000) / 10
        case list():
            return [varied(each, schema.get("items", {}), rng) for each in value]
        case _:
            schemas = schema.get("properties", {})
            return {name: varied(each, schemas.get(name, {}), rng) for name, each in value.items()}


def _chosen(given: dict[str, list[Any]]) -> dict[str, Any]:
    """The first of BFCL's correct values of each argument. "" means that it can be omitted."""
    return {
        name: _chosen(values[0]) if _is_choice(values[0]) else values[0]
        for name, values in given.items()
        if values and values[0] != ""
    }


def _is_choice(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, list) for each in value.values())


def _ordered(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    order = list(schema.get("properties", {}))
    return dict(
        sorted(arguments.items(), key=lambda item: order.index(item[0]) if item[0] in order else 99)
    )
