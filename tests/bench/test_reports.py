"""What benchmarks read and print without servers: agents with tools, constant load, help."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.growth.agents import added_lines, gateway_log, prompts, without_search
from bench.growth.agents import report as report_of_agents
from bench.throughput.constant_load import Found, Measured, report
from bench.throughput.streams import Seen, judge, token_count
from bench.throughput.targets import Target
from toolgate_proxy.ops.launch import CLIENTS, AgentModel

ROOT = Path(__file__).parents[2]
PATH = "/v1/messages"


@pytest.mark.slow  # it takes seconds
def test_the_help_imports_no_litellm():
    command = [sys.executable, "-X", "importtime", "-m", "bench", "gateway-overhead", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "--rounds" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "argparse" in imported
    assert {name for name in imported if name.partition(".")[0] == "litellm"} == set()


def line(path: str, **more: Any) -> str:
    return json.dumps({"path": path, "status": 200, **more})


def test_the_prompts_of_a_session_are_those_that_its_lines_count(tmp_path):
    log = tmp_path / "log"
    log.write_text(f"{line(PATH, prompt_tokens=1)}\n")
    with added_lines(log) as lines, log.open("a") as file:
        print("a warning", line(PATH, prompt_tokens=30_000), sep="\n", file=file)
        print(line(f"{PATH}/count_tokens", prompt_tokens=7), file=file)
        print(line("/v1/responses", prompt_tokens=9), line(PATH), sep="\n", file=file)
        print(line(PATH, prompt_tokens=31_000), file=file)
    found = prompts(lines, PATH)
    assert found.tokens == [30_000, 31_000]
    shown = report_of_agents({("claude", True): found, ("claude", False): prompts([], PATH)})
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in shown.splitlines()]
    assert rows[2] == ["claude", "search", "2", "30,000", "61,000"]
    assert rows[3] == ["claude", "all at once", "0", "0", "0"]


def test_the_log_of_the_gateway_is_found(tmp_path):
    log = tmp_path / "log"
    log.write_text("logs: /tmp/toolgate-0-run-2k1/logs\n  9 s  backend (vLLM): loading\n")
    assert gateway_log(log) == Path("/tmp/toolgate-0-run-2k1/logs/gateway.log")
    log.write_text("loading\n")
    with pytest.raises(RuntimeError, match="folder"):
        gateway_log(log)


def test_the_catalogue_without_search_differs_in_nothing_else():
    with_search = CLIENTS["codex"].content(AgentModel("http://gateway", "m", 65_536, 8_192))
    [entry], [other] = with_search["models"], without_search(with_search)["models"]
    assert entry == {**other, "supports_search_tool": True}
    assert not other["supports_search_tool"]


SCHEMAS = {"f": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}}
Events = list[dict[str, Any]]


def target(server: str, *, enforced: bool = True) -> Target:
    return Target(server, enforced, "http://x", "http://x", "/", "", b"", SCHEMAS)


def chat(arguments: str, reason: str) -> Events:
    """A call in two chunks."""
    deltas = [
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": arguments[:4]}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": arguments[4:]}}]},
    ]
    return [
        {"choices": [{"delta": deltas[0], "finish_reason": None, "token_ids": [1, 2]}]},
        {"choices": [{"delta": deltas[1], "finish_reason": reason, "token_ids": [3]}]},
    ]


def backend(arguments: str, reason: str) -> Events:
    call = f'{{"name": "f", "arguments": {arguments}}}\n</tool_call>'
    texts = ["<tool_call>\n", call[:9], call[9:]]
    return [
        {"event": "tokens", "ids": [1, 2], "texts": texts[:2]},
        {"event": "tokens", "ids": [3], "texts": texts[2:]},
        {"event": "end", "text": "", "finish_reason": reason},
    ]


APIS = pytest.mark.parametrize(
    ("server", "make", "ended"),
    [("vllm", chat, "tool_calls"), ("structured_output", backend, "stop")],
)


@APIS
def test_valid_calls_are_counted(server, make, ended):
    seen = Seen()
    judge(target(server), make('{"a": "é \\" </tool"}', ended), seen)
    assert (seen.responses, seen.tokens, seen.calls, seen.truncated) == (1, 3, 1, 0)
    assert not seen.invalid


@APIS
@pytest.mark.parametrize("arguments", ['{"a": 1}', '{"b": "x"}', '{"a": "x"'])
def test_invalid_calls_are_reported(server, make, ended, arguments):
    seen = Seen()
    judge(target(server), make(arguments, ended), seen)
    assert (seen.calls, len(seen.invalid)) == (1, 1)


@APIS
def test_the_last_call_of_a_truncated_response_is_not_judged(server, make, ended):
    seen = Seen()
    judge(target(server), make('{"a": "x', "length"), seen)
    assert (seen.calls, seen.truncated, seen.invalid) == (0, 1, [])


def test_a_response_without_a_call_is_invalid():
    seen = Seen()
    judge(
        target("structured_output"), [{"event": "end", "text": "", "finish_reason": "stop"}], seen
    )
    assert seen.invalid == ["no call, finish reason stop"]


def test_an_error_event_raises():
    with pytest.raises(RuntimeError, match="full"):
        judge(target("vllm"), [{"error": {"message": "full"}}], Seen())


def test_events_without_tokens_count_none():
    events = [{"event": "start"}, {"choices": []}, {"choices": [{"token_ids": None}]}]
    assert [token_count(json.loads(json.dumps(each))) for each in events] == [0, 0, 0]


def test_report_compares_with_the_free_streams_of_the_same_round():
    def measured(rate: float) -> Measured:
        return Measured(rate, 8, 7, 20, 100, 5, 4, 0, 0)

    found: Found = {
        (16, "vllm, free"): [measured(0), measured(0)],
        (16, "structured_output, free"): [measured(1000), measured(2000)],
        (16, "structured_output, enforced"): [measured(500), measured(1000)],
    }
    lines = report(found).splitlines()
    assert len(lines) == 5
    cells = [cell.strip() for cell in lines[-1].split("|")[1:-1]]
    assert cells[:6] == [
        "16",
        "structured_output, enforced",
        "750",
        "**0.50** (0.50–0.50)",
        "",  # a rate of 0 is no base
        "8.00",
    ]
