"""Tools that Anthropic defines and clients run: schemas, calls streamed and whole, histories."""

from __future__ import annotations

import json
from typing import Any, get_args

import jsonschema_rs
import pytest
from anthropic.types.beta import BetaMemoryTool20250818Command, BetaToolUnionParam
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.apis.chat_events import events
from tests.support.apis.messages_api import HI, accumulated, parsed, streamed_and_whole
from tests.support.apis.value_examples import tool_types
from tests.support.servers.script import call
from toolgate_core.chat_request import NamedTool
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.tools import Tool
from toolgate_proxy.api.messages.client_tools.table import TABLE
from toolgate_proxy.api.messages.tools import TOOLSETS
from toolgate_proxy.api.surface import Client

FAMILIES = ("bash_", "text_editor_", "memory_", "computer_")
BASH = {"type": "bash_20250124", "name": "bash"}
EDITOR = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}
MEMORY = {"type": "memory_20250818", "name": "memory"}
SCREEN = {"display_width_px": 800, "display_height_px": 600}
COMPUTER = {"type": "computer_20251124", "name": "computer", **SCREEN}
CREATE = {"command": "create", "path": "/memories/a.md", "file_text": 'say "hi"\n\té 😀'}
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bash": (BASH, {"command": "ls -l | head"}),
    "str_replace_based_edit_tool": (
        EDITOR,
        {"command": "view", "path": "/a", "view_range": [1, -1]},
    ),
    "memory": (MEMORY, CREATE),
    "computer": (COMPUTER, {"action": "left_click", "coordinate": [799, 0]}),
}


def entry(kind: str) -> dict[str, Any]:
    screen = SCREEN if kind.startswith("computer_") else {}
    return {"type": kind, "name": TABLE[kind].name, **screen}


def tool_of(given: dict[str, Any]) -> Tool:
    (tool,) = parsed(tools=[given]).tools
    return tool


def refused(*tools: dict[str, Any]) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as raised:
        parsed(tools=[*tools])
    return raised.value


def accepts(given: dict[str, Any], arguments: dict[str, Any]) -> bool:
    return jsonschema_rs.is_valid(prepare(tool_of(given).parameters).schema, arguments)


def test_all_versions_of_the_sdk_are_known() -> None:
    kinds = {kind for kind in tool_types(BetaToolUnionParam) if kind.startswith(FAMILIES)}
    assert {kind for kind in kinds if not kind.startswith(TOOLSETS)} == {*TABLE}


@pytest.mark.parametrize("kind", TABLE)
def test_masks_enforce_each_schema_completely(kind: str) -> None:
    tool = tool_of({**entry(kind), "strict": True})
    assert (tool.name, tool.strict) == (TABLE[kind].name, True)
    assert prepare(tool.parameters).residual == ()
    function = tool.definition["function"]
    assert function["description"]
    assert function["parameters"]["properties"], "chat templates show the members"


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


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        (BASH, {}),
        (BASH, {"command": "ls", "timeout": 1}),
        (EDITOR, {"command": "view"}),
        (EDITOR, {"command": "undo_edit", "path": "/a"}),
        (EDITOR, {"command": "create", "path": "/a"}),
        (EDITOR, {"command": "view", "path": "/a", "file_text": ""}),
        (EDITOR, {"command": "insert", "path": "/a", "insert_line": 0, "new_str": "x"}),
        (MEMORY, {**CREATE, "path": "/tmp/a"}),
        (MEMORY, {"command": "rename", "path": "/memories/a"}),
        (COMPUTER, {"action": "left_click", "coordinate": [800, 0]}),
        (COMPUTER, {"action": "left_click", "coordinate": [1]}),
        (COMPUTER, {"action": "zoom", "region": [0, 0, 1, 1]}),
        (COMPUTER, {"action": "scroll", "scroll_direction": "up"}),
    ],
)
def test_no_call_is_invalid(given: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert not accepts(given, arguments)


@pytest.mark.parametrize("name", CALLS)
def test_valid_calls_are_accepted(name: str) -> None:
    assert accepts(*CALLS[name])


def test_members_of_an_entry_change_what_the_model_is_offered() -> None:
    zoom = {"action": "zoom", "region": [0, 0, 799, 599]}
    assert accepts(COMPUTER | {"enable_zoom": True}, zoom)
    for changed, words in (
        (EDITOR | {"max_characters": 10_000}, "10,000 characters"),
        (COMPUTER, "800 by 600 pixels"),
        (COMPUTER | {"display_number": 7}, "number is 7"),
    ):
        assert words in tool_of(changed).definition["function"]["description"]


def test_old_versions_differ() -> None:
    undo = {"command": "undo_edit", "path": "/a"}
    insert = {"command": "insert", "path": "/a", "insert_line": 0, "new_str": "x"}
    assert accepts(entry("text_editor_20250124"), undo)
    assert accepts(entry("text_editor_20250429"), insert)
    drag = {"action": "left_click_drag", "coordinate": [1, 1]}
    assert accepts(entry("computer_20241022"), drag)
    assert not accepts(entry("computer_20250124"), drag)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("eager", [True, False])
@settings(deadline=None, max_examples=25)
@given(cuts=st.lists(st.integers(0, 80), max_size=8))
def test_streamed_equals_whole(name: str, eager: bool, cuts: list[int]) -> None:
    tool, arguments = CALLS[name]
    betas = {"anthropic-beta": "fine-grained-tool-streaming-2025-05-14"} if eager else {}
    asked = parsed(tools=[tool], client=Client(headers=betas))
    made, whole = streamed_and_whole(asked, events(call(name, arguments)), cuts)
    assert accumulated(made) == whole
    (block,) = whole["content"]
    assert (block["type"], block["name"], block["input"]) == ("tool_use", name, arguments)
    assert whole["stop_reason"] == "tool_use"


@pytest.mark.parametrize("name", CALLS)
def test_earlier_calls_and_results_go_to_the_template(name: str) -> None:
    tool, arguments = CALLS[name]
    use = {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}
    asked = parsed(
        [*HI, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}],
        tools=[tool],
    )
    _, turn, answer = asked.messages
    function = turn["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == (name, arguments)
    assert (answer["role"], answer["content"]) == ("tool", "a.txt")


def test_a_choice_names_the_tool() -> None:
    asked = parsed(tools=[BASH], tool_choice={"type": "tool", "name": "bash"})
    assert asked.tool_choice == NamedTool("bash")


def test_fields_without_effect() -> None:
    more = {"cache_control": {"type": "ephemeral"}, "allowed_callers": ["direct"],
            "defer_loading": False, "input_examples": [{"command": "ls"}]}  # fmt: skip
    assert tool_of(BASH | more) == tool_of(BASH)


@pytest.mark.parametrize(
    ("tools", "error", "param", "words"),
    [
        ([BASH | {"name": "sh"}], InvalidTools, "tools[0].name", "must be 'bash'"),
        ([{"type": "memory_20250818"}], InvalidTools, "tools[0].name", "must be 'memory'"),
        ([BASH | {"color": "red"}], UnsupportedParameter, "tools[0].color", "type, name"),
        ([BASH | {"input_schema": {}}], UnsupportedParameter, "tools[0].input_schema", "type"),
        ([BASH | {"type": "bash_20990101"}], UnsupportedParameter, "tools[0].type",
         "bash_20241022 or bash_20250124"),
        ([{"type": "computer_toolset_20260801"}], UnsupportedParameter, "tools[0].type",
         "only Anthropic's models know"),
        ([{"type": "computer_20251124", "name": "computer"}], InvalidRequest,
         "tools[0].display_width_px", "required"),
        ([COMPUTER | {"display_height_px": 0}], InvalidRequest, "tools[0].display_height_px",
         "from 1"),
        ([EDITOR | {"max_characters": "x"}], InvalidRequest, "tools[0].max_characters", "integer"),
        ([{"name": "bash", "input_schema": {"type": "object"}}, BASH], InvalidTools,
         "tools[1].name", "Two tools have the name 'bash'"),
        ([BASH, {"name": "bash", "input_schema": {"type": "object"}}], InvalidTools,
         "tools[1].name", "Two tools have the name 'bash'"),
    ],
)  # fmt: skip
def test_invalid_entries_are_refused_at_their_path(
    tools: list[dict[str, Any]], error: type[InvalidRequest], param: str, words: str
) -> None:
    raised = refused(*tools)
    assert isinstance(raised, error)
    assert raised.param == param
    assert words in raised.message
