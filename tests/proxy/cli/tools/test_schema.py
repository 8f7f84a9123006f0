"""`toolgate schema` without a gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.schemas.report_tools import ENTRIES, UNIQUE
from toolgate_core.schema.preparation.advice import ADVICE
from toolgate_proxy.cli.main import app
from toolgate_proxy.cli.tools import commands

SCHEMA = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
LOOP = {"type": "object", "properties": {"next": {"$ref": "#/$defs/loop"}}, "required": ["next"]}
ENDLESS = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/loop"}},
    "$defs": {"loop": LOOP},
}
CONTRADICTION = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 2, "maximum": 1}},
}
MCP = {"tools": [{"name": "read", "inputSchema": {"type": "object"}}]}
ANTHROPIC = [{"name": "tag", "input_schema": SCHEMA}]

NEEDS_ENGINE = pytest.mark.skipif(
    find_spec(commands.ENGINE) is None, reason="llguidance is not installed"
)
HEAVY = ("litellm", "fastapi", "aiohttp", "httpx", "openai", "transformers", "torch")
RUN = f"""
import sys
from toolgate_proxy.cli.main import app
app(sys.argv[1:], standalone_mode=False)
assert not (found := [name for name in {HEAVY} if name in sys.modules]), found
"""


@NEEDS_ENGINE
def test_tools_are_named_whatever_their_form(tmp_path: Path) -> None:
    files = [tmp_path / "mcp.json", tmp_path / "anthropic.json"]
    for file, value in zip(files, (MCP, ANTHROPIC), strict=True):
        file.write_text(json.dumps(value))
    result = CliRunner().invoke(app, ["schema", *map(str, files)])
    lines = result.output.splitlines()
    assert (result.exit_code, lines[:2]) == (
        1,
        ["read: masked in all forms", "tag: checked in all forms"],
    )


def test_an_invalid_tool_is_named_by_its_place(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(
        json.dumps([*ANTHROPIC, {"name": "two words", "input_schema": {}}, {"name": 3}])
    )
    result = CliRunner().invoke(app, ["schema", str(file)])
    assert result.exit_code == 1
    assert "two words: invalid (tools[1].function.name" in result.output
    assert "tools[2]: invalid" in result.output


@NEEDS_ENGINE
def test_tools_are_read_from_standard_input() -> None:
    result = CliRunner().invoke(app, ["schema", "-"], input=json.dumps(MCP))
    assert (result.exit_code, result.output) == (0, "read: masked in all forms\n")


@NEEDS_ENGINE
def test_names_may_have_any_line_separator(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    properties = {"a\u2028b\x85c": {"type": "array", "uniqueItems": True}}
    schema = {"type": "object", "properties": properties}
    file.write_text(json.dumps({"name": "note", "input_schema": schema}))
    result = CliRunner().invoke(app, ["schema", str(file)])
    assert (result.exit_code, result.output.split("\n")[0]) == (1, "note: checked in all forms")
    assert "/properties/a\u2028b\x85c/uniqueItems" in result.output


def test_an_unknown_form_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(SCHEMA))
    result = CliRunner().invoke(app, ["schema", str(file)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{file}: this is a JSON Schema without a tool" in result.stderr


@NEEDS_ENGINE
def test_what_masks_enforce_depends_on_the_form_of_calls(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    note = {"type": "string", "maxLength": 5_000}
    tool = {"name": "note", "input_schema": {"type": "object", "properties": {"note": note}}}
    file.write_text(json.dumps(tool))
    result = CliRunner().invoke(app, ["schema", str(file)])
    lines = [line for line in result.output.splitlines() if not line.startswith(" ")]
    assert lines == [
        "note: masked in JSON, Python calls, Python calls with JSON objects",
        "note: checked in tags, tags with CDATA, tags with types, nested tags, bare keys",
    ]
    result = CliRunner().invoke(app, ["schema", str(file), "--dialect", "hermes"])
    assert (result.exit_code, result.output) == (0, "note: masked\n")
    result = CliRunner().invoke(app, ["schema", str(file), "--dialect", "glm47"])
    assert (result.exit_code, result.output.splitlines()[0]) == (1, "note: checked")
    assert "raw text, of which masks count up to 100 characters" in result.output
    result = CliRunner().invoke(app, ["schema", str(file), "--dialect", "none"])
    assert (result.exit_code, "There is no dialect 'none'" in result.output) == (2, True)


def test_without_the_engine_the_keywords_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "ENGINE", "no_such_package")
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([MCP, *ANTHROPIC]))
    result = CliRunner().invoke(app, ["schema", str(file)])
    assert result.stdout.splitlines()[:2] == ["read: masked", "tag: checked"]
    assert "is not installed" in result.stderr
    result = CliRunner().invoke(app, ["schema", str(file), "--dialect", "glm47"])
    assert result.exit_code == 2


@pytest.mark.parametrize("engine", ["llguidance", "no_such_package"])
@pytest.mark.parametrize(
    ("schema", "line", "pointer"),
    [
        (ENDLESS, "tool: refused", "/$defs/loop"),
        (ENDLESS | {"required": ["next"]}, "tool: refused", "/$defs/loop"),
        (CONTRADICTION, "tool: masked", None),
        (CONTRADICTION | {"required": ["a"]}, "tool: refused", "/properties/a"),
    ],
)
def test_schemas_without_a_value_are_found_with_and_without_the_engine(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    schema: dict[str, Any],
    line: str,
    pointer: str | None,
) -> None:
    monkeypatch.setattr(commands, "ENGINE", engine)
    file = tmp_path / "tools.json"
    file.write_text(json.dumps({"name": "tool", "input_schema": schema}))
    result = CliRunner().invoke(app, ["schema", str(file)])
    lines = result.stdout.splitlines()
    assert lines[0].startswith(line)
    assert (lines[1:] or [None])[0] == (pointer and f"  at {pointer}")


def test_the_report_imports_neither_litellm_nor_http_clients(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(MCP))
    command = [sys.executable, "-c", RUN, "schema"]
    for arguments in ([str(file)], ["--help"]):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@NEEDS_ENGINE
def test_keywords_are_reported_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(ENTRIES))
    result = CliRunner().invoke(app, ["schema", str(path)])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    at = lines.index("set_tags: checked in all forms")
    why, rewrite = ADVICE["uniqueItems"]
    assert lines[at + 1 : at + 4] == [f"  {UNIQUE.pointer}", f"    {why}", f"    {rewrite}"]
    assert "plain: masked in all forms" in lines
    assert "  at /properties/a/$ref" in lines
    path.write_text(json.dumps(ENTRIES[:1]))
    assert CliRunner().invoke(app, ["schema", str(path)]).exit_code == 0
