"""Each member of an entry of the conversation so far has an effect, is refused, or is one of those
without (docs/api/responses.md, docs/api/messages.md)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.litellm.own_route import PATHS, Gateway, body_of
from tests.support.servers.script import Script
from toolgate_proxy.api.messages.conversation import content, messages
from toolgate_proxy.api.responses import items
from toolgate_proxy.api.responses.builtin_tools.table import (
    BUILTIN_TOOLS,
    CALL_FIELDS,
    OUTPUT_FIELDS,
)
from toolgate_proxy.server.response_headers import own_headers

USER, LAST = {"role": "user", "content": "Dim lamp 4."}, {"role": "user", "content": "hi"}
SAID = {"type": "message", "role": "assistant", "content": "Well"}
CALL = {"type": "function_call", "call_id": "c1", "name": "dim", "arguments": "{}"}
CUSTOM_CALL = {"type": "custom_tool_call", "call_id": "c1", "name": "dim", "input": "x"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}
CUSTOM_OUTPUT = {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}
THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
SEARCH = {"type": "tool_search_call", "call_id": "c1", "arguments": {}}
FOUND = {"type": "tool_search_output", "call_id": "c1", "tools": []}
ADDED = {"type": "additional_tools", "tools": []}
SEARCHED = {
    "type": "web_search_call",
    "call_id": "w1",
    "action": {"type": "search", "query": "a", "sources": [{"type": "url", "url": "https://a.b"}]},
    "status": "completed",
}
ASKED = {"type": "mcp_approval_request", "id": "m1", "name": "dim", "arguments": "{}"}
ANSWERED = {"type": "mcp_approval_response", "approval_request_id": "m1", "approve": False}
RAN = {"type": "mcp_call", "id": "m2", "name": "dim", "arguments": "{}", "output": "done"}
TEXT = {"type": "text", "text": "Well"}
USED = {"type": "tool_use", "id": "toolu_1", "name": "dim", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}

BUILTIN_CALLS: dict[str, dict[str, Any]] = {
    "shell_call": {"action": {"commands": ["ls"]}},
    "local_shell_call": {"action": {"type": "exec", "command": ["ls"]}},
    "apply_patch_call": {"operation": {"type": "delete_file", "path": "a"}},
}


def builtin(kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call of the type and its result."""
    call = {"type": kind, "call_id": "c1", **BUILTIN_CALLS[kind]}
    return call, {"type": f"{kind}_output", "call_id": "c1", "output": "done"}


ENTRIES: dict[tuple[str, str], tuple[list[Any], dict[str, Any], list[Any]]] = {
    ("responses", "message"): ([USER], SAID, [LAST]),
    ("responses", "function_call"): ([USER], CALL, [OUTPUT, LAST]),
    ("responses", "function_call_output"): ([USER, CALL], OUTPUT, [LAST]),
    ("responses", "custom_tool_call"): ([USER], CUSTOM_CALL, [CUSTOM_OUTPUT, LAST]),
    ("responses", "custom_tool_call_output"): ([USER, CUSTOM_CALL], CUSTOM_OUTPUT, [LAST]),
    ("responses", "reasoning"): ([USER], THOUGHT, [SAID, LAST]),
    ("responses", "tool_search_call"): ([USER], SEARCH, [FOUND, LAST]),
    ("responses", "tool_search_output"): ([USER, SEARCH], FOUND, [LAST]),
    ("responses", "additional_tools"): ([USER], ADDED, [LAST]),
    ("responses", "web_search_call"): ([USER], SEARCHED, [LAST]),
    ("responses", "mcp_approval_request"): ([USER], ASKED, [ANSWERED, LAST]),
    ("responses", "mcp_approval_response"): ([USER, ASKED], ANSWERED, [LAST]),
    ("responses", "mcp_call"): ([USER], RAN, [LAST]),
    ("responses", "mcp_list_tools"): ([USER], {"type": "mcp_list_tools", "tools": []}, [LAST]),
    ("responses", "compaction_trigger"): ([USER], {"type": "compaction_trigger"}, []),
    ("responses", "compaction"): ([USER], {"type": "compaction", "encrypted_content": "x"}, [LAST]),
    **{
        ("responses", kind): ([USER], builtin(kind)[0], [builtin(kind)[1], LAST])
        for kind in BUILTIN_CALLS
    },
    **{
        ("responses", f"{kind}_output"): ([USER, builtin(kind)[0]], builtin(kind)[1], [LAST])
        for kind in BUILTIN_CALLS
    },
    ("messages", "text"): ([USER], TEXT, [LAST]),
    ("messages", "tool_use"): ([USER], USED, [{"role": "user", "content": [RESULT, TEXT]}]),
    ("messages", "tool_result"): ([USER, {"role": "assistant", "content": [USED]}], RESULT, []),
}
"""By API and type: what comes before an entry, the entry with its required members, and what
follows. A block of the Messages API is a message's only one, or followed by a text."""
MEMBERS = [
    *(("responses", kind, name) for kind, names in items.FIELDS.items() for name in names),
    *(("responses", kind, name) for kind in items.FIELDS for name in items.COMMON),
    *(
        ("responses", tool.call, name)
        for tool in BUILTIN_TOOLS
        for name in (*CALL_FIELDS, tool.member)
    ),
    *(("responses", tool.output, name) for tool in BUILTIN_TOOLS for name in OUTPUT_FIELDS),
    *(("messages", "text", name) for name in content.TEXT_FIELDS),
    *(("messages", "tool_use", name) for name in messages.TOOL_USE_FIELDS),
    *(("messages", "tool_result", name) for name in messages.TOOL_RESULT_FIELDS),
]
VALUES: dict[str, Any] = {
    "arguments": '{"lamp": "9"}',
    "cache_control": {"type": "ephemeral"},
    "call_id": "c9",
    "caller": {"type": "direct"},
    "citations": [],
    "content": [{"type": "output_text", "text": "Other"}],
    "created_by": "agent_1",
    "encrypted_content": "of another service",
    "execution": "server",
    "environment": {"type": "local"},
    "id": "x_1",
    "input": "other",
    "is_error": True,
    "max_output_length": 9,
    "name": "other",
    "namespace": "crm",
    "output": "other",
    "phase": "commentary",
    "role": "user",
    "status": "incomplete",
    "summary": [{"type": "summary_text", "text": "Other."}],
    "text": "Other",
    "tool_use_id": "toolu_9",
    "tools": [{"type": "function", "name": "dim"}],
    "type": "unknown",
    "action": {},
    "operation": {},
    "approval_request_id": "m9",
    "approve": True,
    "error": "It broke.",
    "reason": "No.",
    "server_label": "other",
}
VALUES_OF: dict[str, dict[str, Any]] = {
    "reasoning": {"content": [{"type": "reasoning_text", "text": "Other."}]},
    "tool_result": {"content": "other"},
    "tool_use": {"input": {"lamp": "9"}},
    "shell_call": {"action": {"commands": ["cat"]}},
    "web_search_call": {"action": {"type": "search", "query": "other", "sources": []}},
    "local_shell_call": {"action": {"type": "exec", "command": ["cat"]}},
    "apply_patch_call": {"operation": {"type": "delete_file", "path": "b"}},
    "apply_patch_call_output": {"status": "failed"},
}
WITHOUT_EFFECT = {
    "responses": {"id", "status", "phase", "caller", "execution", "created_by", "environment",
                  "max_output_length"},
    "messages": {"cache_control", "citations", "caller"},
}  # fmt: skip
WITH_EFFECT = {("apply_patch_call_output", "status"), ("mcp_approval_request", "id"),
               ("mcp_call", "id")}  # fmt: skip
"""Of those whose names are in `WITHOUT_EFFECT`."""
WITHOUT_EFFECT_OF = {("function_call_output", "name"), ("custom_tool_call_output", "name"),
                     ("function_call_output", "namespace"), ("tool_search_output", "call_id"),
                     ("additional_tools", "role"),
                     ("web_search_call", "encrypted_content"),
                     ("compaction", "encrypted_content"), ("compaction", "type"),
                     ("mcp_approval_request", "server_label"), ("mcp_call", "server_label"),
                     ("mcp_call", "approval_request_id"), ("mcp_list_tools", "server_label"),
                     ("mcp_list_tools", "tools"), ("mcp_list_tools", "error")}  # fmt: skip
"""The call has the name. It matters to a result without its call, which this API refuses. The
output of a search without its call is that of the search before it. What another service encrypted
is left out, as if it were not there."""


async def outcome(gateway: Gateway, api: str, kind: str, entry: dict[str, Any]) -> tuple[Any, ...]:
    """The status, what the model sees, and what the header says about it."""
    before, _, after = ENTRIES[api, kind]
    if api == "messages":
        role = "user" if kind == "tool_result" else "assistant"
        told = {"messages": [*before, {"role": role, "content": [entry]}, *after]}
    else:
        told = {"input": [*before, entry, *after]}
    gateway.backend.requests.clear()
    gateway.backend.turns[:] = [Script(("Hello",))]
    response = await gateway.ask(body_of(api, **told), path=PATHS[api])
    seen = gateway.backend.messages() if gateway.backend.requests else None
    return response.status, seen, own_headers(response.context).get("x-toolgate-history")


@pytest.mark.parametrize(("api", "kind", "name"), MEMBERS)
async def test_a_member_of_the_history(gateway: Gateway, api: str, kind: str, name: str) -> None:
    entry = ENTRIES[api, kind][1]
    value = (VALUES | VALUES_OF.get(kind, {}))[name]
    without = await outcome(gateway, api, kind, entry)
    given = await outcome(gateway, api, kind, entry | {name: value})
    assert without[0] == 200
    ignored = name in WITHOUT_EFFECT[api] or (kind, name) in WITHOUT_EFFECT_OF
    ignored &= (kind, name) not in WITH_EFFECT
    assert (given == without) == ignored
