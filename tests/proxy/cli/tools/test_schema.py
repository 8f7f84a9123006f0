"""`toolgate schema` without a gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from toolgate_proxy.cli.main import app

SCHEMA = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
MCP = {"tools": [{"name": "read", "inputSchema": {"type": "object"}}]}
ANTHROPIC = [{"name": "tag", "input_schema": SCHEMA}]

HEAVY = ("litellm", "fastapi", "aiohttp", "httpx", "openai", "transformers", "torch")
RUN = f"""
import sys
from toolgate_proxy.cli.main import app
app(sys.argv[1:], standalone_mode=False)
assert not (found := [name for name in {HEAVY} if name in sys.modules]), found
"""


def test_tools_are_named_whatever_their_form(tmp_path: Path) -> None:
    files = [tmp_path / "mcp.json", tmp_path / "anthropic.json"]
    for file, value in zip(files, (MCP, ANTHROPIC), strict=True):
        file.write_text(json.dumps(value))
    result = CliRunner().invoke(app, ["schema", *map(str, files)])
    lines = result.output.splitlines()
    assert (result.exit_code, lines[:2]) == (1, ["read: masked", "tag: checked"])


def test_an_invalid_tool_is_named_by_its_place(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(
        json.dumps([*ANTHROPIC, {"name": "two words", "input_schema": {}}, {"name": 3}])
    )
    result = CliRunner().invoke(app, ["schema", str(file)])
    assert result.exit_code == 1
    assert "two words: invalid (tools[1].function.name" in result.output
    assert "tools[2]: invalid" in result.output


def test_tools_are_read_from_standard_input() -> None:
    result = CliRunner().invoke(app, ["schema", "-"], input=json.dumps(MCP))
    assert (result.exit_code, result.output) == (0, "read: masked\n")


def test_an_unknown_form_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(SCHEMA))
    result = CliRunner().invoke(app, ["schema", str(file)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{file}: this is a JSON Schema without a tool" in result.stderr


def test_the_report_imports_neither_litellm_nor_http_clients(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(MCP))
    command = [sys.executable, "-c", RUN, "schema"]
    for arguments in ([str(file)], ["--help"]):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
