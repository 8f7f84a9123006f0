from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.support.effort import NIGHTLY
from toolgate_core.dialects.dialect import Dialect, Golden
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.tools import Tool, parse_tools
from toolgate_proxy.admin.turn_text import NotInDialect, parse
from toolgate_proxy.cli.main import app

RUNNER = CliRunner()
TYPES: dict[str, Any] = {
    "a": {"type": "string"},
    "n": {"type": "integer"},
    "ok": {"type": "boolean"},
    "l": {"type": "array", "items": {"type": "string"}},
    "o": {"type": "object"},
}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {"name": name, "parameters": {"type": "object", "properties": properties}},
    }
    for name, properties in (("f", TYPES), ("g", {}))
]
GOLDENS = [
    pytest.param(dialect.name, golden, id=f"{dialect.name}-{at}")
    for dialect in DIALECTS.values()
    for at, golden in enumerate(dialect.goldens)
]
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>'


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(TOOLS))
    return path


def offset(text: str, dialect: Dialect, tools: Sequence[Tool], golden: Golden) -> int | None:
    """The offset of the error; None if there is none."""
    try:
        parse(text, dialect, tools, reasoning_open=golden.reasoning_open)
    except NotInDialect as error:
        return error.at
    return None


def run(text: str, dialect: str = "qwen3", *options: str | Path) -> Result:
    arguments = ["parse", "--dialect", dialect, *map(str, options)]
    return RUNNER.invoke(app, arguments, input=text.encode())


@pytest.mark.parametrize(("name", "golden"), GOLDENS)
def test_transcripts_of_every_dialect_become_their_messages(name: str, golden: Golden) -> None:
    message = parse(
        golden.text, DIALECTS[name], parse_tools(TOOLS), reasoning_open=golden.reasoning_open
    ).body()
    calls = message.get("tool_calls", [])
    assert [
        (call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls
    ] == [(call.name, call.arguments) for call in golden.calls]
    for call, expected in zip(calls, golden.calls, strict=True):
        assert call["id"] == expected.id if expected.id else call["id"].startswith("call_")
    assert message.get("reasoning_content") == golden.reasoning
    assert message["content"] == golden.content


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "golden"), GOLDENS)
def test_beginnings_of_transcripts_are_in_the_dialect_up_to_their_end(
    name: str, golden: Golden
) -> None:
    tools = parse_tools(TOOLS)
    step = 1 if NIGHTLY else 4  # other goldens of the form have other beginnings
    for end in range(len(golden.text) % step, len(golden.text), step):
        cut = golden.text[:end]
        assert offset(cut, DIALECTS[name], tools, golden) in (None, len(cut.encode())), cut


def test_output_is_the_message_as_json(tools: Path) -> None:
    text = f"<think>\nSo.\n</think>\n\nWait.\n{CALL}\n"
    result = run(text, "qwen3", "--tools", tools)
    assert result.exit_code == 0, result.output
    message = json.loads(result.stdout)
    assert message["tool_calls"][0].pop("id").startswith("call_")
    assert message == {
        "role": "assistant",
        "content": "Wait.",
        "refusal": None,
        "reasoning_content": "So.",
        "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": '{"a": "é"}'}}],
    }
    assert len(result.stdout.splitlines()) > 1
    assert len(run(text, "qwen3", "--json").stdout.splitlines()) == 1


def test_reasoning_that_the_prompt_began_is_not_content() -> None:
    message = json.loads(run("So.\n</think>\n\nHi.", "qwen3", "--reasoning-open").stdout)
    assert (message["reasoning_content"], message["content"]) == ("So.", "Hi.")


@pytest.mark.parametrize(
    ("text", "before"),
    [
        (CALL.replace('"name"', '"nom"'), '<tool_call>\n{"n'),
        (f"{CALL}\nDone.", f"{CALL}\nD"[:-1]),
        (CALL.removesuffix("\n</tool_call>"), CALL.removesuffix("\n</tool_call>")),
        ("A </tool_call> B", "A "),
        (CALL.replace('"é"', '"é" tru'), CALL[: CALL.index('"é"') + 4]),
        (CALL.replace('"é"', "tru"), CALL[: CALL.index('"é"')]),
    ],
)
def test_an_error_has_the_byte_offset_where_the_text_leaves_the_dialect(
    text: str, before: str
) -> None:
    result = run(text, "qwen3", "--json")
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert error["offset"] == len(before.encode()), error
    plain = run(text)
    assert plain.exit_code == 1
    assert f"Byte {error['offset']}: {error['message']}\n" in plain.output


def test_a_call_of_an_unknown_tool_is_an_error(tools: Path) -> None:
    result = run(CALL.replace('"f"', '"h"'), "qwen3", "--tools", tools)
    assert result.exit_code == 1
    assert "'h'" in result.output
    assert run(CALL.replace('"f"', '"h"')).exit_code == 0


def test_text_after_the_end_of_the_turn_is_an_error(tools: Path) -> None:
    text = DIALECTS["glm47"].goldens[0].text
    assert run(f"{text}<|observation|>\n", "glm47", "--tools", tools).exit_code == 0
    result = run(f"{text}<|observation|>more", "glm47", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["offset"] == len(f"{text}<|observation|>".encode())


def test_input_that_is_not_utf_8_is_an_error() -> None:
    result = RUNNER.invoke(app, ["parse", "--dialect", "qwen3", "--json"], input=b"Hi \xff")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["offset"] == 3


@pytest.mark.parametrize("options", [["--dialect", "klingon"], []])
def test_a_missing_or_unknown_dialect_is_refused(options: list[str]) -> None:
    result = RUNNER.invoke(app, ["parse", *options], input=b"")
    assert result.exit_code == 2


def test_invalid_tools_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text('[{"type": "function", "function": {"name": "a b"}}]')
    result = run("Hi.", "qwen3", "--tools", path)
    assert result.exit_code == 2
    assert "--tools" in result.output
