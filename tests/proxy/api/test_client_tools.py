"""Tools that Anthropic and OpenAI define and clients run: their schemas and descriptions. Their
calls and results are rows of requests.yaml and answers.yaml."""

from __future__ import annotations

from typing import Any, get_args

import jsonschema_rs
import pytest
from anthropic.types.beta import BetaMemoryTool20250818Command, BetaToolUnionParam

from tests.support.apis.value_examples import tool_types
from toolgate_core.custom_tools import Grammar, grammar_of
from toolgate_core.errors import UnsupportedParameter
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.tools import Tool
from toolgate_proxy.api.messages.client_tools.table import TABLE
from toolgate_proxy.api.messages.tools import TOOLSETS
from toolgate_proxy.api.responses.builtin_tools.table import BUILTIN_TOOLS, BY_TYPE

from .kit import Json, function, names, parsed, rows

FAMILIES = ("bash_", "text_editor_", "memory_", "computer_")
BASH = {"type": "bash_20250124", "name": "bash"}
MEMORY = {"type": "memory_20250818", "name": "memory"}
SCREEN = {"display_width_px": 800, "display_height_px": 600}


def entry(kind: str) -> Json:
    if kind in BY_TYPE:
        return {"type": kind}
    screen = SCREEN if kind.startswith("computer_") else {}
    return {"type": kind, "name": TABLE[kind].name, **screen}


def tool_of(given: Json) -> Tool:
    (tool,) = parsed(
        "responses" if given["type"] in BY_TYPE else "messages", {"tools": [given]}
    ).tools
    return tool


@pytest.mark.parametrize("kind", [*TABLE, *BY_TYPE])
def test_masks_enforce_each_schema_completely(kind):
    strict = {} if kind in BY_TYPE else {"strict": True}
    tool = tool_of(entry(kind) | strict)
    assert tool.name == (kind if kind in BY_TYPE else TABLE[kind].name)
    assert bool(tool.strict) == bool(strict)
    assert prepare(tool.parameters).residual == ()
    shown = tool.definition["function"]
    assert shown["description"]
    assert shown["parameters"]["properties"], "chat templates show the members"
    if kind in BY_TYPE:
        assert shown["parameters"] == BY_TYPE[kind].parameters


@pytest.mark.parametrize(("given", "arguments", "valid"), rows("tables")["client tools"])
def test_only_calls_that_the_client_can_run_are_valid(given, arguments, valid):
    masks = prepare(tool_of(given).parameters).schema
    assert jsonschema_rs.is_valid(masks, arguments) is valid


def test_all_versions_of_the_sdk_are_known():
    kinds = {kind for kind in tool_types(BetaToolUnionParam) if kind.startswith(FAMILIES)}
    assert {kind for kind in kinds if not kind.startswith(TOOLSETS)} == {*TABLE}


def test_commands_of_memory_have_the_members_of_the_sdk():
    alternatives = tool_of(MEMORY).definition["function"]["parameters"]["anyOf"]
    made = {
        each["properties"]["command"]["const"]: (set(each["properties"]), set(each["required"]))
        for each in alternatives
    }
    (union, *_) = get_args(BetaMemoryTool20250818Command)
    declared = {}
    for model in get_args(union):
        (command,) = get_args(model.model_fields["command"].annotation)
        needed = {name for name, field in model.model_fields.items() if field.is_required()}
        declared[command] = (set(model.model_fields), needed)
    assert made == declared


@pytest.mark.parametrize(("given", "words"), rows("tables")["descriptions"])
def test_members_of_an_entry_are_in_its_description(given, words):
    assert words in tool_of(given).definition["function"]["description"]


def test_fields_without_effect():
    more: dict[str, Any] = {
        "cache_control": {"type": "ephemeral"},
        "allowed_callers": ["direct"],
        "defer_loading": False,
        "input_examples": [{"command": "ls"}],
    }
    assert tool_of(BASH | more) == tool_of(BASH)


def test_the_client_runs_them_where_hosted_tools_are_refused():
    tools = [{"type": kind} for kind in BY_TYPE]
    asked = parsed("responses", {"tools": tools}, omit_hosted=False)
    assert names(asked) == [tool.type for tool in BUILTIN_TOOLS]
    assert asked.omitted_tools == ()
    remote = {"type": "shell", "environment": {"type": "container_auto"}}
    with pytest.raises(UnsupportedParameter):
        parsed("responses", {"tools": [remote, function("responses")]}, omit_hosted=False)


def test_the_grammar_of_a_custom_tool_is_that_of_the_request():
    form = {"type": "grammar", "syntax": "regex", "definition": "(?s).*"}
    (tool,) = parsed(
        "responses", {"tools": [{"type": "custom", "name": "a", "format": form}]}
    ).tools
    assert grammar_of(tool.parameters) == Grammar("regex", "(?s).*")
