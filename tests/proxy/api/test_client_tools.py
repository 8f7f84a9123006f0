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

from .kit import Json, function, names, parsed

FAMILIES = ("bash_", "text_editor_", "memory_", "computer_")
BASH = {"type": "bash_20250124", "name": "bash"}
EDITOR = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}
MEMORY = {"type": "memory_20250818", "name": "memory"}
SCREEN = {"display_width_px": 800, "display_height_px": 600}
COMPUTER = {"type": "computer_20251124", "name": "computer", **SCREEN}
SHELL, LOCAL, PATCH = ({"type": kind} for kind in ("shell", "local_shell", "apply_patch"))
CREATE = {"command": "create", "path": "/memories/a.md", "file_text": 'say "hi"\n\té 😀'}
INSERT = {"command": "insert", "path": "/a", "insert_line": 0, "new_str": "x"}
UNDO = {"command": "undo_edit", "path": "/a"}
DRAG = {"action": "left_click_drag", "coordinate": [1, 1]}
ZOOM = {"action": "zoom", "region": [0, 0, 799, 599]}
DELETE = {"type": "delete_file", "path": "a"}


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
def test_masks_enforce_each_schema_completely(kind: str) -> None:
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


@pytest.mark.parametrize(
    ("given", "arguments", "valid"),
    [
        (BASH, {"command": "ls -l | head"}, True),
        (BASH, {}, False),
        (BASH, {"command": "ls", "timeout": 1}, False),
        (EDITOR, {"command": "view", "path": "/a", "view_range": [1, -1]}, True),
        (EDITOR, {"command": "view"}, False),
        (EDITOR, UNDO, False),
        (EDITOR, {"command": "create", "path": "/a"}, False),
        (EDITOR, {"command": "view", "path": "/a", "file_text": ""}, False),
        (EDITOR, INSERT, False),
        (MEMORY, CREATE, True),
        (MEMORY, {**CREATE, "path": "/tmp/a"}, False),
        (MEMORY, {"command": "rename", "path": "/memories/a"}, False),
        (COMPUTER, {"action": "left_click", "coordinate": [799, 0]}, True),
        (COMPUTER, {"action": "left_click", "coordinate": [800, 0]}, False),
        (COMPUTER, {"action": "left_click", "coordinate": [1]}, False),
        (COMPUTER, ZOOM, False),
        (COMPUTER | {"enable_zoom": True}, ZOOM, True),
        (COMPUTER, {"action": "scroll", "scroll_direction": "up"}, False),
        # old versions differ
        (entry("text_editor_20250124"), UNDO, True),
        (entry("text_editor_20250429"), INSERT, True),
        (entry("computer_20241022"), DRAG, True),
        (entry("computer_20250124"), DRAG, False),
        (SHELL, {"max_output_length": 900, "commands": ["ls"]}, True),
        (SHELL, {"commands": []}, False),
        (SHELL, {"commands": ["ls"], "timeout_ms": 0}, False),
        (SHELL, {"commands": "ls"}, False),
        (LOCAL, {"command": ["ls", "-l"], "env": {"A": "b"}, "user": "me"}, True),
        (LOCAL, {"command": []}, False),
        (LOCAL, {"command": ["ls"], "env": {"A": 1}}, False),
        (PATCH, {"operation": {"diff": "+a", "type": "update_file", "path": "a"}}, True),
        (PATCH, {"operation": DELETE}, True),
        (PATCH, {"operation": {"type": "create_file", "path": "a"}}, False),
        (PATCH, {"operation": {"type": "create_file", "path": "a", "diff": ""}}, False),
        (PATCH, {"operation": DELETE | {"diff": "-"}}, False),
        (PATCH, {"operation": {"type": "move_file", "path": "a"}}, False),
        (PATCH, DELETE, False),
    ],
)
def test_only_calls_that_the_client_can_run_are_valid(
    given: Json, arguments: Json, valid: bool
) -> None:
    masks = prepare(tool_of(given).parameters).schema
    assert jsonschema_rs.is_valid(masks, arguments) is valid


def test_all_versions_of_the_sdk_are_known() -> None:
    kinds = {kind for kind in tool_types(BetaToolUnionParam) if kind.startswith(FAMILIES)}
    assert {kind for kind in kinds if not kind.startswith(TOOLSETS)} == {*TABLE}


def test_commands_of_memory_have_the_members_of_the_sdk() -> None:
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


SKILL = {"name": "pdf", "description": "Fill in forms.", "path": "/skills/pdf/SKILL.md"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (EDITOR | {"max_characters": 10_000}, "10,000 characters"),
        (COMPUTER, "800 by 600 pixels"),
        (COMPUTER | {"display_number": 7}, "number is 7"),
        (SHELL | {"environment": {"type": "local", "skills": [SKILL]}},
         "- pdf (/skills/pdf/SKILL.md): Fill in forms."),
    ],
)  # fmt: skip
def test_members_of_an_entry_are_in_its_description(given: Json, words: str) -> None:
    assert words in tool_of(given).definition["function"]["description"]


def test_fields_without_effect() -> None:
    more: dict[str, Any] = {
        "cache_control": {"type": "ephemeral"},
        "allowed_callers": ["direct"],
        "defer_loading": False,
        "input_examples": [{"command": "ls"}],
    }
    assert tool_of(BASH | more) == tool_of(BASH)


def test_the_client_runs_them_where_hosted_tools_are_refused() -> None:
    tools = [{"type": kind} for kind in BY_TYPE]
    asked = parsed("responses", {"tools": tools}, omit_hosted=False)
    assert names(asked) == [tool.type for tool in BUILTIN_TOOLS]
    assert asked.omitted_tools == ()
    remote = {"type": "shell", "environment": {"type": "container_auto"}}
    with pytest.raises(UnsupportedParameter):
        parsed("responses", {"tools": [remote, function("responses")]}, omit_hosted=False)


def test_the_grammar_of_a_custom_tool_is_that_of_the_request() -> None:
    form = {"type": "grammar", "syntax": "regex", "definition": "(?s).*"}
    (tool,) = parsed(
        "responses", {"tools": [{"type": "custom", "name": "a", "format": form}]}
    ).tools
    assert grammar_of(tool.parameters) == Grammar("regex", "(?s).*")
