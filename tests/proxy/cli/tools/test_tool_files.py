"""Tools in files, in the forms of OpenAI, Anthropic and MCP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolgate_core.tools import parse_tools
from toolgate_proxy.cli.output import CommandFailed
from toolgate_proxy.cli.tools.commands import read_tools

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CHAT = {"type": "function", "function": {"name": "t", "parameters": SCHEMA, "strict": True}}
RESPONSES = {"type": "function", "name": "t", "parameters": SCHEMA, "strict": True}
FUNCTION = {"name": "t", "description": "T.", "parameters": SCHEMA}
ANTHROPIC = {"name": "t", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}
ANTHROPIC_CUSTOM = {"type": "custom", "name": "t", "input_schema": SCHEMA}
MCP = {"name": "t", "title": "T", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
TOOLS_LIST = {"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP], "nextCursor": "x"}}
NAMESPACE = {"type": "namespace", "name": "files", "tools": [RESPONSES]}
GRAMMAR = {"syntax": "regex", "definition": "a+"}
CUSTOM = {"type": "custom", "custom": {"name": "t", "format": {"type": "text"}}}
CUSTOM_FLAT = {"type": "custom", "name": "t", "format": {"type": "grammar", **GRAMMAR}}


def read(tmp_path: Path, *texts: str) -> Any:
    paths = []
    for at, text in enumerate(texts):
        paths.append(tmp_path / f"{at}.json")
        paths[-1].write_text(text, encoding="utf-8")
    return read_tools(paths)


@pytest.mark.parametrize(
    "value",
    [
        CHAT,
        RESPONSES,
        FUNCTION,
        ANTHROPIC,
        ANTHROPIC_CUSTOM,
        MCP,
        TOOLS_LIST,
        [MCP],
        {"tools": [ANTHROPIC], "model": "m"},
        {"functions": [FUNCTION]},
    ],
)
def test_all_forms_of_a_function_are_the_same_tool(value: object, tmp_path: Path) -> None:
    found = read(tmp_path, json.dumps(value))
    assert found.skipped == []
    [tool] = parse_tools(found.tools)
    [expected] = parse_tools([CHAT])
    assert (tool.name, tool.hash) == ("t", expected.hash)


def test_files_are_read_in_their_order(tmp_path: Path) -> None:
    about = {"description": "one\u2028two\x85three"}  # which are no ends of lines in JSON
    tools = (MCP | about | {"name": name} for name in ("c", "d"))
    lines = "\r\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    nested = [{"tools": [MCP | {"name": "a"}]}, [MCP | {"name": "b"}]]
    found = read(tmp_path, "\ufeff" + json.dumps(nested), lines)
    assert [each["function"]["name"] for each in found.tools] == ["a", "b", "c", "d"]


def test_tools_of_a_namespace_have_the_name_that_the_model_sees(tmp_path: Path) -> None:
    [tool] = parse_tools(read(tmp_path, json.dumps({"tools": [NAMESPACE]})).tools)
    assert tool.name == "files.t"


def test_custom_tools_keep_their_grammar(tmp_path: Path) -> None:
    found = read(tmp_path, json.dumps([CUSTOM_FLAT])).tools
    assert found[0]["custom"]["format"] == {"type": "grammar", "grammar": GRAMMAR}
    assert parse_tools(found)[0].custom
    assert read(tmp_path, json.dumps(CUSTOM)).tools == [CUSTOM]


def test_hosted_tools_are_skipped_with_a_note(tmp_path: Path) -> None:
    hosted = [{"type": "web_search"}, {"type": "web_search_20250305", "name": "web_search"}]
    found = read(tmp_path, json.dumps([*hosted, MCP]))
    assert len(found.tools) == 1
    assert [note.partition(": ")[0].rpartition(" ")[2] for note in found.skipped] == ["/0", "/1"]
    assert "'web_search_20250305'" in found.skipped[1]


@pytest.mark.parametrize(
    ("value", "place", "reason"),
    [
        ([CHAT, {"nom": "t", "schema": {}}], "/1", "its fields: nom, schema"),
        ({"tools": ["t"]}, "/tools/0", "a string"),
        (SCHEMA, "", "a JSON Schema without a tool"),
        ([{"functionDeclarations": [FUNCTION]}], "/0", "Gemini"),
        ({"mcpServers": {}}, "", "MCP servers"),
        ([{"name": "t", "schema": SCHEMA}], "/0", "its fields: name, schema"),
    ],
)
def test_an_unknown_form_is_named_with_its_place(
    value: object, place: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(CommandFailed) as raised:
        read(tmp_path, json.dumps(value))
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / '0.json'}{f', {place}' if place else ''}: ")
    assert reason in message
    assert "input_schema" in message


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"a": 1}\n{'])
def test_files_without_tools_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed):
        read(tmp_path, text)
