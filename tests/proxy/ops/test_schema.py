"""`toolgate schema` without a gateway: tools in files, in the forms of OpenAI, Anthropic and MCP,
and what the report says of them."""

import json
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tests.proxy.kit import beside
from tests.support.schemas.report_tools import ENTRIES, UNIQUE
from toolgate_core.tools import parse_tools
from toolgate_proxy.ops import CommandFailed
from toolgate_proxy.ops import schema as commands
from toolgate_proxy.ops.admin.advice import ADVICE
from toolgate_proxy.ops.cli import app
from toolgate_proxy.ops.schema import read_tools

ROWS = beside(__file__)
CHAT, MCP = ROWS["forms"][0], ROWS["forms"][5]
GRAMMAR = {"syntax": "regex", "definition": "a+"}
CUSTOM = {"type": "custom", "custom": {"name": "t", "format": {"type": "text"}}}
CUSTOM_FLAT = {"type": "custom", "name": "t", "format": {"type": "grammar", **GRAMMAR}}
NEEDS_ENGINE = pytest.mark.skipif(
    find_spec(commands.ENGINE) is None, reason="llguidance is not installed"
)


@pytest.fixture
def read(tmp_path):
    """What is found in files with these texts."""

    def read(*texts):
        paths = [tmp_path / f"{at}.json" for at in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8")
        return SimpleNamespace(**dict(zip(("tools", "skipped"), read_tools(paths), strict=True)))

    return read


@pytest.mark.parametrize("value", ROWS["forms"])
def test_all_forms_of_a_function_are_the_same_tool(value, read):
    found = read(json.dumps(value))
    assert found.skipped == []
    [tool] = parse_tools(found.tools)
    [expected] = parse_tools([CHAT])
    assert (tool.name, tool.hash) == ("t", expected.hash)


def test_files_are_read_in_their_order(read):
    about = {"description": "one\u2028two\x85three"}  # which are no ends of lines in JSON
    tools = (MCP | about | {"name": name} for name in ("c", "d"))
    lines = "\r\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    nested = [{"tools": [MCP | {"name": "a"}]}, [MCP | {"name": "b"}]]
    found = read("\ufeff" + json.dumps(nested), lines)
    assert [each["function"]["name"] for each in found.tools] == ["a", "b", "c", "d"]


def test_namespaces_custom_and_hosted_tools(read):
    """A namespace is part of the name that the model sees."""
    [tool] = parse_tools(read(json.dumps(ROWS["namespace"])).tools)
    assert tool.name == "files.t"
    found = read(json.dumps([CUSTOM_FLAT])).tools
    assert found[0]["custom"]["format"] == {"type": "grammar", "grammar": GRAMMAR}
    assert parse_tools(found)[0].custom
    assert read(json.dumps(CUSTOM)).tools == [CUSTOM]
    hosted = [{"type": "web_search"}, {"type": "web_search_20250305", "name": "web_search"}]
    found = read(json.dumps([*hosted, MCP]))
    assert len(found.tools) == 1
    assert [note.partition(": ")[0].rpartition(" ")[2] for note in found.skipped] == ["/0", "/1"]
    assert "'web_search_20250305'" in found.skipped[1]


@pytest.mark.parametrize(("value", "place", "reason"), ROWS["unknown"])
def test_an_unknown_form_is_named_with_its_place(value, place, reason, read, tmp_path):
    with pytest.raises(CommandFailed) as raised:
        read(json.dumps(value))
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / '0.json'}{f', {place}' if place else ''}: ")
    assert reason in message
    assert "input_schema" in message


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"a": 1}\n{'])
def test_files_without_tools_are_refused(text, read):
    with pytest.raises(CommandFailed):
        read(text)


TAG = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
LOOP = {"type": "object", "properties": {"next": {"$ref": "#/$defs/loop"}}, "required": ["next"]}
ENDLESS = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/loop"}},
    "$defs": {"loop": LOOP},
}
NEVER = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 2, "maximum": 1}}}
LISTED = {"tools": [{"name": "read", "inputSchema": {"type": "object"}}]}


def tool(name, schema):
    return {"name": name, "input_schema": schema}


@pytest.fixture
def report(tmp_path):
    """Run `toolgate schema` with a file of these values, and with options."""

    def run(values, *options):
        (tmp_path / "tools.json").write_text(json.dumps(values))
        return CliRunner().invoke(app, ["schema", str(tmp_path / "tools.json"), *options])

    return run


@pytest.mark.exhaustive
@NEEDS_ENGINE
def test_keywords_are_reported_with_advice(report):
    """Whatever the form of tools, and whatever line separators a name has."""
    odd = {"type": "object", "properties": {"a\u2028b\x85c": TAG["properties"]["a"]}}
    result = report([LISTED, tool("tag", TAG), tool("odd", odd), *ENTRIES])
    assert result.exit_code == 1
    lines = result.output.split("\n")
    at = lines.index("set_tags: checked in all forms")
    why, rewrite = ADVICE["uniqueItems"]
    assert lines[at + 1 : at + 4] == [f"  {UNIQUE.pointer}", f"    {why}", f"    {rewrite}"]
    for name in ("tag", "odd"):
        assert f"{name}: checked in all forms" in lines
    assert "/properties/a\u2028b\x85c/uniqueItems" in result.output
    assert {"read: masked in all forms", "plain: masked in all forms"} <= {*lines}
    assert "  at /properties/a/$ref" in lines
    result = CliRunner().invoke(app, ["schema", "-"], input=json.dumps([LISTED, ENTRIES[0]]))
    said = "read: masked in all forms\nplain: masked in all forms\n"
    assert (result.exit_code, result.output) == (0, said)


def test_an_invalid_tool_is_named_by_its_place(report, tmp_path):
    result = report([tool("tag", TAG), tool("two words", {}), {"name": 3}])
    assert result.exit_code == 1
    assert "two words: invalid (tools[1].function.name" in result.output
    assert "tools[2]: invalid" in result.output
    result = report(TAG)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{tmp_path / 'tools.json'}: this is a JSON Schema without a tool" in result.stderr


@pytest.mark.exhaustive
@NEEDS_ENGINE
def test_what_masks_enforce_depends_on_the_form_of_calls(report):
    note = {"type": "string", "maxLength": 5_000}
    value = tool("note", {"type": "object", "properties": {"note": note}})
    lines = [line for line in report(value).output.splitlines() if not line.startswith(" ")]
    assert lines == [
        "note: masked in JSON, Python calls, Python calls with JSON objects",
        "note: checked in tags, tags with CDATA, tags with types, nested tags, bare keys",
    ]
    result = report(value, "--dialect", "hermes")
    assert (result.exit_code, result.output) == (0, "note: masked\n")
    result = report(value, "--dialect", "glm47")
    assert (result.exit_code, result.output.splitlines()[0]) == (1, "note: checked")
    assert "raw text, of which masks count up to 100 characters" in result.output
    result = report(value, "--dialect", "none")
    assert (result.exit_code, "There is no dialect 'none'" in result.output) == (2, True)


@pytest.mark.parametrize("engine", ["llguidance", "no_such_package"])
def test_schemas_without_a_value_are_found_with_and_without_the_engine(report, monkeypatch, engine):
    monkeypatch.setattr(commands, "ENGINE", engine)
    schemas = {
        "endless": ENDLESS,
        "needed": ENDLESS | {"required": ["next"]},
        "never": NEVER,
        "never_needed": NEVER | {"required": ["a"]},
    }
    lines = report([tool(*each) for each in schemas.items()]).stdout.splitlines()
    for name, pointer in (("needed", "/$defs/loop"), ("never_needed", "/properties/a")):
        at = next(at for at, line in enumerate(lines) if line.startswith(f"{name}: refused"))
        assert lines[at + 1] == f"  at {pointer}"
    for name in ("endless", "never"):  # the optional part is left out
        assert any(line.startswith(f"{name}: masked") for line in lines)


def test_without_the_engine_the_keywords_are_reported(report, monkeypatch):
    monkeypatch.setattr(commands, "ENGINE", "no_such_package")
    values = [LISTED, tool("tag", TAG)]
    result = report(values)
    assert result.stdout.splitlines()[:2] == ["read: masked", "tag: checked"]
    assert "is not installed" in result.stderr
    assert report(values, "--dialect", "glm47").exit_code == 2


HEAVY = ("litellm", "fastapi", "aiohttp", "httpx", "openai", "transformers", "torch")
RUN = f"""
import sys
from toolgate_proxy.ops.cli import app
for arguments in (["schema", sys.argv[1]], ["schema", "--help"]):
    app(arguments, standalone_mode=False)
assert not (found := [name for name in {HEAVY} if name in sys.modules]), found
"""


@pytest.mark.exhaustive
def test_the_report_imports_neither_litellm_nor_http_clients(tmp_path):
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(LISTED))
    command = [sys.executable, "-c", RUN, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
