"""The commands `proxy`, `backend`, `status` and `dialects`."""

import json
import os
import sys

import pytest
import yaml
from typer.testing import CliRunner

from tests.proxy.kit import beside
from tests.support.effort import NIGHTLY, SAMPLE
from tests.support.installed import needs_vllm
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.tools import parse_tools
from toolgate_core.turn_text import NotInDialect
from toolgate_core.turn_text import parse as parse_turn
from toolgate_core.version import VERSION
from toolgate_proxy.ops.cli import COMMANDS, app
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.ops.status import all_served, text
from toolgate_proxy.server import launcher
from toolgate_proxy.settings import settings


def toolgate(*arguments, **more):
    return CliRunner().invoke(app, [*map(str, arguments)], **more)


def proxy(*arguments):
    return toolgate("proxy", *arguments, "--port", free_port())


@pytest.fixture
def served(monkeypatch):
    """What gateways are started with."""
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-1")
    started = []

    def serve(config, **options):
        started.append({**options, "path": config, "config": yaml.safe_load(config.read_text())})

    monkeypatch.setattr(launcher, "serve", serve)
    return started


def test_proxy_command_generates_a_configuration_from_model_options(served):
    result = toolgate("proxy", "--model", "a", "--model", "b=c@http://h:1", "--port", "9")
    assert result.exit_code == 0, result.output
    [started] = served
    models = started["config"]["model_list"]
    assert [entry["model_name"] for entry in models] == ["a", "b"]
    assert models[1]["litellm_params"]["model"] == "toolgate/c"
    assert (started["host"], started["port"]) == ("127.0.0.1", 9)
    assert not started["path"].exists()


def test_proxy_command_serves_the_given_configuration_file(served, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(launcher.make_config([launcher.Route("m", "m")])))
    assert proxy("--config", path).exit_code == 0
    assert [each["path"] for each in served] == [path]


def test_proxy_command_refuses_invalid_arguments(monkeypatch):
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-1")
    for arguments in ([], ["--model", "=x"], ["--config", "nowhere.yaml"], ["--workers", "0"]):
        assert proxy(*arguments).exit_code == 2
    monkeypatch.delenv("TOOLGATE_MASTER_KEY")
    settings.cache_clear()
    result = proxy("--model", "m")
    assert (result.exit_code, "TOOLGATE_MASTER_KEY" in result.output) == (2, True)


@needs_vllm
def test_invalid_settings_are_lines_without_a_traceback(served, monkeypatch):
    monkeypatch.setenv("TOOLGATE_BACKEND_URL", "gpu:8000")
    monkeypatch.setenv("TOOLGATE_OPEN_ROUTES", "metrics")
    result = proxy("--model", "m")
    assert (result.exit_code, result.stdout) == (2, "")
    first, second = sorted(result.stderr.splitlines())
    assert first == "TOOLGATE_BACKEND_URL: String should match pattern '^(dns\\+)?https?://'"
    assert second.endswith("TOOLGATE_OPEN_ROUTES has 'metrics'. Routes begin with `/`.")


@needs_vllm
def test_backend_command_executes_the_backend_launcher(monkeypatch):
    handed = []
    monkeypatch.setattr(os, "execv", lambda _, command: handed.append(command))
    arguments = ["org/model", "--port", "8001", "--help"]
    toolgate("backend", *arguments)
    assert handed == [[sys.executable, "-m", "toolgate_backend.launch", *arguments]]


def test_version_and_examples_are_printed():
    assert toolgate("--version").output == f"toolgate {VERSION}\n"
    said = toolgate("--help").output
    assert "toolgate serve Qwen/Qwen3-8B" in said
    assert all(f"\n  {command} " in said for command in COMMANDS)
    assert max(map(len, said.splitlines())) <= 80
    unknown = toolgate("serv")
    assert (unknown.exit_code, "serv" in unknown.stderr) == (2, True)


ROWS = beside(__file__)
STATUS, TOOLS = ROWS["status"], ROWS["tools"]


def test_the_table_of_the_status_has_every_backend_and_fits_a_terminal():
    lines = text("http://g:1", STATUS).splitlines()
    assert lines[0] == "gateway http://g:1: 2 models, 1 key, 0 active requests of limited keys"
    assert max(map(len, lines)) <= 80
    said = "\n".join(lines)
    assert (said.count("2023-11-14"), "small" in said, "3 ms" in said) == (3, True, True)
    assert lines[-4:] == [
        "limits: counted across all gateways",
        "grammars: shared in Redis",
        "responses: stored by each process alone",
        "large is on LiteLLM's route: it has `rpm`.",
    ]
    assert all_served(STATUS)
    assert not all_served({"models": [*STATUS["models"], ROWS["not_served"]]})


@pytest.fixture(scope="module")
def listed():
    result = toolgate("dialects", "--json")
    assert result.exit_code == 0, result.output
    return {each["name"]: each for each in json.loads(result.stdout)}


def test_dialects_are_a_table_and_json(listed):
    result = toolgate("dialects")
    assert result.exit_code == 0, result.output
    assert {line.split()[0] for line in result.stdout.splitlines() if line.strip()} >= {*DIALECTS}
    assert "object: a JSON object with the name and the arguments, between marks" in result.stdout
    qwen3 = {**ROWS["qwen3"], "transcripts": len(DIALECTS["qwen3"].goldens)}
    assert {name: listed["qwen3"][name] for name in qwen3} == qwen3


@pytest.mark.parametrize("name", DIALECTS)
def test_marks_of_a_dialect_can_be_used_by_an_evaluation(name, listed):
    dialect, marks = DIALECTS[name], listed[name]["marks"]
    assert marks["markup"]  # an empty pattern would match all content
    assert all(all(texts) and len(texts) == len({*texts}) for texts in marks.values())
    contents = [golden.content for golden in dialect.goldens if golden.content]
    assert not [mark for mark in marks["markup"] for content in contents if mark in content]
    if dialect.calls:
        assert marks["hostile"]
        assert marks["close"]
        called = "".join(golden.text for golden in dialect.goldens if golden.calls)
        # The calls of glm4_0414 have no marks.
        assert name == "glm4_0414" or any(each in called for each in marks["hostile"])


CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>'


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_transcripts_of_every_dialect_become_their_messages(dialect):
    tools = parse_tools(TOOLS)
    for golden in dialect.goldens:
        parsed = parse_turn(golden.text, dialect, tools, reasoning_open=golden.reasoning_open)
        calls = [
            (call.name, json.loads(arguments), call.id)
            for call, arguments in zip(parsed.calls, parsed.arguments, strict=True)
        ]
        assert calls == [(each.name, each.arguments, each.id) for each in golden.calls], golden
        assert parsed.reasoning == (golden.reasoning or ""), golden
        assert parsed.content == (golden.content or ""), golden


@pytest.mark.exhaustive
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_beginnings_of_transcripts_are_in_the_dialect_up_to_their_end(dialect):
    tools, step = parse_tools(TOOLS), 1 if NIGHTLY else 16
    for golden in dialect.goldens:
        for end in range((SAMPLE + len(golden.text)) % step, len(golden.text), step):
            cut = golden.text[:end]
            leaves = None
            try:
                parse_turn(cut, dialect, tools, reasoning_open=golden.reasoning_open)
            except NotInDialect as error:
                leaves = error.at
            assert leaves in (None, len(cut.encode())), cut


ENDED = f"{DIALECTS['glm47'].goldens[0].text}<|observation|>"


@pytest.mark.parametrize(
    ("given", "before", "dialect"),
    [
        (CALL.replace('"name"', '"nom"'), '<tool_call>\n{"n', "qwen3"),
        (f"{CALL}\nDone.", f"{CALL}\n", "qwen3"),
        (CALL.removesuffix("\n</tool_call>"), CALL.removesuffix("\n</tool_call>"), "qwen3"),
        ("A </tool_call> B", "A ", "qwen3"),
        (CALL.replace('"é"', '"é" tru'), CALL[: CALL.index('"é"') + 4], "qwen3"),
        (CALL.replace('"é"', "tru"), CALL[: CALL.index('"é"')], "qwen3"),
        (f"{ENDED}more", ENDED, "glm47"),
    ],
)
def test_an_error_has_the_byte_offset_where_the_text_leaves_the_dialect(given, before, dialect):
    with pytest.raises(NotInDialect) as left:
        parse_turn(given, DIALECTS[dialect])
    assert left.value.at == len(before.encode()), left.value.message


def test_tools_and_the_end_of_a_turn_decide_what_can_be_parsed():
    tools = parse_tools(TOOLS)
    assert parse_turn(f"{ENDED}\n", DIALECTS["glm47"], tools).calls
    other = CALL.replace('"f"', '"h"')
    assert parse_turn(other, DIALECTS["qwen3"]).calls[0].name == "h"
    with pytest.raises(NotInDialect, match="'h'"):
        parse_turn(other, DIALECTS["qwen3"], tools)
