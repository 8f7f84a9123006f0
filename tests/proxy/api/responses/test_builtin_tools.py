"""Tools that OpenAI defines and clients run: schemas, calls streamed and whole, histories."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.apis.chat_events import events
from tests.support.apis.responses_api import (
    LOOK,
    accumulated,
    check_event,
    check_response,
    parsed,
    streamed_and_whole,
)
from tests.support.effort import repeats
from tests.support.servers.script import call
from toolgate_core.chat_request import AllowedTools, NamedTool
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.tools import Tool
from toolgate_proxy.api.responses.builtin_tools.table import BUILTIN_TOOLS, BY_TYPE

DIFF = '@@ def greet():\n-    say("hi")\n+    say("héllo 😀")\n'
SKILL = {"name": "pdf", "description": "Fill in forms.", "path": "/skills/pdf/SKILL.md"}
UPDATE = {"type": "update_file", "path": "a.py", "diff": DIFF}
ACTION = {"commands": ["ls -l", 'echo "a\tb"'], "timeout_ms": None, "max_output_length": 900}
EXEC = {"type": "exec", "command": ["ls", "-l"], "env": {"A": "b"}, "user": "me"}
LOCAL = {"environment": {"type": "local"}}
CALLS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "shell": (
        "shell",
        {"max_output_length": 900, "commands": ACTION["commands"]},
        {"type": "shell_call", "action": ACTION, **LOCAL},
    ),
    "local_shell": (
        "local_shell",
        {"command": ["ls", "-l"], "env": {"A": "b"}, "user": "me"},
        {"type": "local_shell_call", "action": EXEC},
    ),
    "update_file": (
        "apply_patch",
        {"operation": {"diff": DIFF, "type": "update_file", "path": "a.py"}},
        {"type": "apply_patch_call", "operation": UPDATE},
    ),
    "delete_file": (
        "apply_patch",
        {"operation": {"type": "delete_file", "path": "a.py"}},
        {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a.py"}},
    ),
}
"""By name: the tool, the arguments of its call, and the members of the item."""
EVENTS = {
    "shell": [*["shell_call_command." + each for each in ("added", "delta", "done")] * 2],
    "local_shell": [],
    "update_file": [
        "apply_patch_call_operation_diff.delta",
        "apply_patch_call_operation_diff.done",
    ],
    "delete_file": [],
}
"""By name: the events between the beginning and the end of the item."""


def tool_of(entry: dict[str, Any]) -> Tool:
    (tool,) = parsed(tools=[entry]).tools
    return tool


def messages(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*parsed([{"role": "user", "content": "hi"}, *items]).messages[1:]]


def function(message: dict[str, Any]) -> tuple[str, Any]:
    (made,) = message["tool_calls"]
    return made["function"]["name"], json.loads(made["function"]["arguments"])


@pytest.mark.parametrize("kind", BY_TYPE)
def test_masks_enforce_each_schema_completely(kind: str) -> None:
    tool = tool_of({"type": kind})
    assert tool.name == kind
    assert prepare(tool.parameters).residual == ()
    shown = tool.definition["function"]
    assert shown["description"]
    assert shown["parameters"] == BY_TYPE[kind].parameters


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("shell", {"commands": []}),
        ("shell", {"commands": ["ls"], "timeout_ms": 0}),
        ("shell", {"commands": "ls"}),
        ("local_shell", {"command": []}),
        ("local_shell", {"command": ["ls"], "env": {"A": 1}}),
        ("apply_patch", {"operation": {"type": "create_file", "path": "a"}}),
        ("apply_patch", {"operation": {"type": "create_file", "path": "a", "diff": ""}}),
        ("apply_patch", {"operation": {"type": "delete_file", "path": "a", "diff": "-"}}),
        ("apply_patch", {"operation": {"type": "move_file", "path": "a"}}),
        ("apply_patch", {"type": "delete_file", "path": "a"}),
    ],
)
def test_no_call_is_invalid(kind: str, arguments: dict[str, Any]) -> None:
    masks = prepare(tool_of({"type": kind}).parameters).schema
    assert not jsonschema_rs.is_valid(masks, arguments)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CALLS)
@settings(deadline=None, max_examples=repeats(12, nightly=25))
@given(cuts=st.lists(st.integers(0, 80), max_size=8))
def test_streamed_equals_whole_for_any_split(name: str, cuts: list[int]) -> None:
    kind, arguments, members = CALLS[name]
    masks = prepare(tool_of({"type": kind}).parameters).schema
    assert jsonschema_rs.is_valid(masks, arguments)
    text = "<think>hm</think>\n\nI try.\n" + call(kind, arguments) + "\n" + call("look", {})
    made, whole = streamed_and_whole(parsed(tools=[{"type": kind}, LOOK]), events(text), cuts)
    for event in (made[0], made[-1]):
        check_event(event)
    check_response(whole)
    assert accumulated(made) == made[-1]["response"]["output"] == whole["output"]
    assert [item["type"] for item in whole["output"]] == [
        "reasoning",
        "message",
        members["type"],
        "function_call",
    ]
    item = whole["output"][2]
    own = {"id": item["id"], "call_id": item["call_id"], "status": "completed"}
    assert item == own | members
    assert item["id"].startswith(f"{BY_TYPE[kind].prefix}_")
    kinds = [event["type"] for event in made if event.get("output_index") == 2]
    begin, end = "response.output_item.added", "response.output_item.done"
    assert kinds == [begin, *[f"response.{each}" for each in EVENTS[name]], end]


def test_the_item_begins_without_the_text_that_follows() -> None:
    for name, empty in (("shell", {"commands": []}), ("update_file", {"diff": ""})):
        kind, arguments, members = CALLS[name]
        made, _ = streamed_and_whole(parsed(tools=[{"type": kind}]), events(call(kind, arguments)))
        (begun,) = [each["item"] for each in made if each["type"].endswith("item.added")]
        member = BY_TYPE[kind].member
        assert begun["status"] == "in_progress"
        assert begun[member] == members[member] | empty


def test_a_cut_call_is_left_out() -> None:
    kind, arguments, _ = CALLS["update_file"]
    whole_call = call(kind, arguments)
    cut = whole_call[: whole_call.rindex("}}")]
    asked = parsed(tools=[{"type": kind}, LOOK])
    for before, types in ((call("look", {}) + "\n", ["function_call"]), ("", ["message"])):
        made, whole = streamed_and_whole(asked, events(before + cut, finish="length"))
        assert accumulated(made) == whole["output"]
        assert [item["type"] for item in whole["output"]] == types
        assert whole["status"] == "incomplete"
        assert whole["toolgate"] == {"last_call": "cut"}


def test_a_function_of_the_name_alone_stays_a_function() -> None:
    own = {"type": "function", "name": "shell", "parameters": {"type": "object"}}
    _, whole = streamed_and_whole(parsed(tools=[own]), events(call("shell", {})))
    assert whole["output"][0]["type"] == "function_call"


@pytest.mark.parametrize("name", CALLS)
def test_a_call_can_be_sent_back(name: str) -> None:
    kind, arguments, members = CALLS[name]
    sent = {"id": "x_1", "call_id": "c1", "status": "completed", **members}
    turn, _ = messages([sent, {"type": f"{members['type']}_output", "call_id": "c1"}])
    assert function(turn) == (kind, arguments)


PRINTED = [
    {"stdout": "a\nb\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
    {"stdout": "c", "stderr": "no\n", "outcome": {"type": "timeout"}},
]


@pytest.mark.parametrize(
    ("kind", "members", "text"),
    [
        ("shell", {"output": PRINTED}, "a\nb\n[exit code 0]\nc\n[stderr]\nno\n[timed out]"),
        ("shell", {"output": "plain"}, "plain"),
        ("shell", {"output": []}, ""),
        ("local_shell", {"output": '{"stdout": "a"}'}, '{"stdout": "a"}'),
        ("apply_patch", {"status": "completed", "output": "Updated a.py"}, "Updated a.py"),
        ("apply_patch", {"status": "completed"}, "Done"),
        ("apply_patch", {"status": "failed", "output": "No such line"}, "Error: No such line"),
        ("apply_patch", {"status": "failed"}, "Error"),
    ],
)  # fmt: skip
def test_the_model_sees_the_result(kind: str, members: dict[str, Any], text: str) -> None:
    tool = BY_TYPE[kind]
    sent = {"type": tool.call, "call_id": "c1", tool.member: {}}
    turn, result = messages([sent, {"type": tool.output, "call_id": "c1", **members}])
    assert turn["role"] == "assistant"
    assert result == {"role": "tool", "tool_call_id": turn["tool_calls"][0]["id"], "content": text}


def test_the_result_of_a_local_shell_may_have_the_call_in_its_id() -> None:
    sent = {"type": "local_shell_call", "id": "lsh_1", "call_id": "c1", "action": EXEC}
    _, result = messages([sent, {"type": "local_shell_call_output", "id": "c1", "output": "a"}])
    assert (result["tool_call_id"], result["content"]) == ("c1", "a")


def test_damaged_items_do_not_end_a_conversation() -> None:
    damaged: list[dict[str, Any]] = [
        {"type": "shell_call", "call_id": "c1", "action": "ls"},
        {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "a.txt"}]},
        {"type": "apply_patch_call_output", "output": "Updated"},
    ]
    made = messages(damaged)
    assert [each["content"] for each in made if each["role"] == "tool"] == ["a.txt", "Updated"]


def test_unknown_members_of_an_item_are_noted() -> None:
    sent = {"type": "shell_call", "call_id": "c1", "action": ACTION, "agent": {"name": "a"}}
    changes = parsed([sent]).history_changes
    assert [(each.kind, each.path) for each in changes] == [("left_out", "input[0].agent")]


@pytest.mark.parametrize("kind", BY_TYPE)
def test_a_choice_names_the_type(kind: str) -> None:
    named = {"type": kind}
    assert parsed(tools=[named], tool_choice=named).tool_choice == NamedTool(kind)
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [named]}
    choice = parsed(tools=[named, LOOK], tool_choice=allowed).tool_choice
    assert choice == AllowedTools("required", (kind,))


def test_the_response_repeats_the_tools() -> None:
    shell = {"type": "shell", "environment": {"type": "local", "skills": [SKILL]}}
    entries = [
        shell,
        {"type": "local_shell"},
        {"type": "apply_patch", "allowed_callers": ["direct"]},
    ]
    _, whole = streamed_and_whole(parsed(tools=entries), events("Hello"))
    check_response(whole)
    assert whole["tools"] == [shell, {"type": "local_shell"}, {"type": "apply_patch"}]


def test_the_model_knows_the_skills_of_a_shell() -> None:
    shell = {"type": "shell", "environment": {"type": "local", "skills": [SKILL]}}
    description = tool_of(shell).definition["function"]["description"]
    assert "- pdf (/skills/pdf/SKILL.md): Fill in forms." in description


@pytest.mark.parametrize("kind", ["container_auto", "container_reference"])
def test_a_shell_in_a_container_is_a_hosted_tool(kind: str) -> None:
    shell = {"type": "shell", "environment": {"type": kind}}
    asked = parsed(tools=[shell, LOOK])
    assert [tool.name for tool in asked.tools] == ["look"]
    assert asked.omitted_tools == ("shell",)
    with pytest.raises(UnsupportedParameter):
        parsed(tools=[shell], omit_hosted=False)


def test_the_client_runs_them_where_hosted_tools_are_refused() -> None:
    tools = [{"type": kind} for kind in BY_TYPE]
    asked = parsed(tools=tools, omit_hosted=False)
    assert [tool.name for tool in asked.tools] == [tool.type for tool in BUILTIN_TOOLS]
    assert asked.omitted_tools == ()


OWN = {"type": "function", "name": "shell", "parameters": {"type": "object"}}
SHELL, PATCH = {"type": "shell"}, {"type": "apply_patch"}


@pytest.mark.parametrize(
    ("tools", "error", "param", "words"),
    [
        ([OWN, SHELL], InvalidTools, "tools[1].name", "Two tools have the name 'shell'"),
        ([SHELL, OWN], InvalidTools, "tools[1].name", "Two tools have the name 'shell'"),
        ([{"type": "web_search"}, PATCH, {"type": "custom", "name": "apply_patch"}], InvalidTools,
         "tools[2].name", "Two tools"),
        ([{**SHELL, "name": "sh"}], UnsupportedParameter, "tools[0].name", "type, environment"),
        ([{**SHELL, "environment": 3}], InvalidRequest, "tools[0].environment", "an object"),
        ([{**SHELL, "environment": {"type": "remote"}}], InvalidRequest,
         "tools[0].environment.type", '"local"'),
        ([{**SHELL, "environment": {"type": "local", "skills": [{"name": "a"}]}}], InvalidRequest,
         "tools[0].environment.skills[0].description", "required"),
        ([{**SHELL, "allowed_callers": ["programmatic"]}], UnsupportedParameter,
         "tools[0].allowed_callers", "direct"),
    ],
)  # fmt: skip
def test_invalid_entries_are_refused_at_their_path(
    tools: list[dict[str, Any]], error: type[InvalidRequest], param: str, words: str
) -> None:
    with pytest.raises(error) as raised:
        parsed(tools=tools)
    assert raised.value.param == param
    assert words in raised.value.message


def test_a_namespace_has_no_builtin_tools() -> None:
    asked = parsed(tools=[{"type": "namespace", "name": "n", "tools": [OWN, SHELL]}])
    assert [tool.name for tool in asked.tools] == ["n.shell"]
    assert asked.omitted_tools == ("shell",)


def test_one_type_twice_is_one_tool() -> None:
    assert len(parsed(tools=[SHELL, SHELL]).tools) == 1
