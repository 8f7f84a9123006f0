"""What no hook changed reaches the model as the client sent it: each parameter, each keyword of a
schema, on each API, with LiteLLM's own guardrails."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from litellm.proxy.guardrails import guardrail_registry as registry

from tests.proxy.server.test_parameter_effects import CASES, beside, examples
from tests.support.apis.outcomes import Outcome, outcome
from tests.support.effort import repeats
from tests.support.litellm.fallbacks import APIS
from tests.support.litellm.guardrail_services import GUARDRAILS, NOT_RUN, Service
from tests.support.litellm.guards import Exchanging, use_callback
from tests.support.litellm.own_route import Gateway
from tests.support.servers.loopback import served
from toolgate_core.schema.keywords import ASSERTIONS

NAMES = [*GUARDRAILS][:: repeats(4, nightly=1)]
STEP = repeats(len(NAMES), nightly=1)
"""By day, each guardrail gets the cases from its own offset on."""
BOTH = [{"required": ["a"]}, {"required": ["b"]}]
ON_ROOT: dict[str, Any] = {
    "additionalProperties": False, "allOf": BOTH, "anyOf": BOTH, "oneOf": BOTH,
    "dependentRequired": {"a": ["b"]}, "dependentSchemas": {"a": {"required": ["b"]}},
    "minProperties": 1, "maxProperties": 2, "required": ["b", "a"],
    "propertyNames": {"maxLength": 3}, "patternProperties": {"^x": {"type": "integer"}},
    "unevaluatedProperties": False, "properties": {"a": {"$ref": "#/$defs/x"}}, "title": "x",
    "description": "x", "examples": [{"a": 1}],
}  # fmt: skip
ON_VALUE: dict[str, Any] = {
    "const": "x", "enum": ["x", None, 2**53], "type": ["string", "null"], "format": "date",
    "pattern": "^x+$", "minLength": 1, "maxLength": 9, "minimum": 1, "maximum": 9,
    "exclusiveMinimum": 0, "exclusiveMaximum": 10, "multipleOf": 3, "items": {"type": "integer"},
    "prefixItems": [{"type": "string"}], "minItems": 1, "maxItems": 9, "uniqueItems": True,
    "contains": {"const": 1}, "minContains": 1, "maxContains": 2, "unevaluatedItems": False,
    "default": "x", "deprecated": True, "x-order": 1,
}  # fmt: skip
DEFINED = {"x": {"type": "string"}}
CONDITION = {"if": BOTH[0], "then": BOTH[1], "else": {"required": ["c"]}}
MEMBERS = {"a": {"type": "string"}, "b": {"type": "string"}}
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": MEMBERS, **CONDITION},
    *(
        {"type": "object", "properties": MEMBERS, "$defs": DEFINED, name: ON_ROOT[name]}
        for name in ON_ROOT
    ),
    *({"type": "object", "properties": {"a": {name: ON_VALUE[name]}}} for name in ON_VALUE),
    {"type": "object", "properties": MEMBERS},
    {"type": "object", "properties": MEMBERS},
]
BESIDE: list[dict[str, Any]] = [{} for _ in SCHEMAS[2:]] + [
    {"strict": True},
    {"defer_loading": True},
]
"""Members of each tool beside its schema."""


def tools_of(api: str) -> list[dict[str, Any]]:
    named = [
        {"name": f"t{at}", "description": "x", "schema": schema, **more}
        for at, (schema, more) in enumerate(zip(SCHEMAS, BESIDE, strict=True))
    ]
    if api == "messages":
        search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
        return [search, *({"input_schema": tool.pop("schema"), **tool} for tool in named)]
    flat = [{"parameters": tool.pop("schema"), **tool} for tool in named]
    if api == "responses":
        return [{"type": "tool_search"}, *({"type": "function", **tool} for tool in flat)]
    return [{"type": "function", "function": tool} for tool in flat]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    async with served(made) as made.url:
        yield made


def bodies(api: str, at: int) -> Iterator[dict[str, Any]]:
    """Yield requests with all parameters by night, with some by day. Each response has ended."""
    yield {"tools": tools_of(api)}
    for _, row, path in [case for case in CASES if case[0] == api][at % STEP :: STEP]:
        for example in examples(api, row):
            if example.path == path and path != "background":
                yield beside(api, path) | {row.name: example.value}


@APIS
async def test_guardrails_that_pass_change_nothing(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, service: Service, api: str
) -> None:
    known: dict[str, Outcome] = {}
    changed = []
    for at, name in enumerate(NAMES):
        given = {json.dumps(body): body for body in bodies(api, at)}
        use_callback(monkeypatch)
        for key in given.keys() - known.keys():
            known[key] = await outcome(gateway, api, given[key])
        service.use(monkeypatch, name)
        for key, body in given.items():
            assert known[key].status == 200 or len(body.get("tools") or ()) < len(SCHEMAS)
            if known[key].status == 200:
                left = await outcome(gateway, api, body)
                changed += [] if left[:2] == known[key][:2] else [(name, body)]
    assert changed == []


@APIS
async def test_guardrail_exchanges_tools_by_name(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    use_callback(monkeypatch, Exchanging())
    schema = "input_schema" if api == "messages" else "parameters"
    named = [{"name": name, "description": "x", schema: SCHEMAS[0]} for name in "ab"]
    tools = {
        "chat": [{"type": "function", "function": each} for each in named],
        "responses": [{"type": "function", **each} for each in named],
        "messages": named,
    }[api]
    assert (await outcome(gateway, api, {"tools": tools})).status == 200
    sent = gateway.backend.requests[-1].prompt.tools
    assert [tool["function"]["name"] for tool in sent] == ["b", "seek"]
    assert sent[0]["function"]["parameters"]["if"] == CONDITION["if"]


def test_all_keywords_are_sent() -> None:
    assert ASSERTIONS - {"$dynamicRef", "not"} <= {*json.dumps(SCHEMAS).split('"')}


def test_each_guardrail_of_litellm_is_run_or_named() -> None:
    found = {
        **registry.guardrail_initializer_registry,
        **registry.get_guardrail_initializer_from_hooks(),
    }
    assert {*found} - {*GUARDRAILS, *NOT_RUN} == set()
