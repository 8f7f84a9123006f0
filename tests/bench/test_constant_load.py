"""Reading and judging of streams under constant load, and the report, without servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.throughput.constant_load import Found, Measured, report
from bench.throughput.streams import Seen, judge, token_count
from bench.throughput.targets import Target

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
def test_valid_calls_are_counted(server: str, make: Any, ended: str) -> None:
    seen = Seen()
    judge(target(server), make('{"a": "é \\" </tool"}', ended), seen)
    assert (seen.responses, seen.tokens, seen.calls, seen.truncated) == (1, 3, 1, 0)
    assert not seen.invalid


@APIS
@pytest.mark.parametrize("arguments", ['{"a": 1}', '{"b": "x"}', '{"a": "x"'])
def test_invalid_calls_are_reported(server: str, make: Any, ended: str, arguments: str) -> None:
    seen = Seen()
    judge(target(server), make(arguments, ended), seen)
    assert (seen.calls, len(seen.invalid)) == (1, 1)


@APIS
def test_the_last_call_of_a_truncated_response_is_not_judged(
    server: str, make: Any, ended: str
) -> None:
    seen = Seen()
    judge(target(server), make('{"a": "x', "length"), seen)
    assert (seen.calls, seen.truncated, seen.invalid) == (0, 1, [])


def test_a_response_without_a_call_is_invalid() -> None:
    seen = Seen()
    judge(
        target("structured_output"), [{"event": "end", "text": "", "finish_reason": "stop"}], seen
    )
    assert seen.invalid == ["no call, finish reason stop"]


def test_an_error_event_raises() -> None:
    with pytest.raises(RuntimeError, match="full"):
        judge(target("vllm"), [{"error": {"message": "full"}}], Seen())


def test_events_without_tokens_count_none() -> None:
    events = [{"event": "start"}, {"choices": []}, {"choices": [{"token_ids": None}]}]
    assert [token_count(json.loads(json.dumps(each))) for each in events] == [0, 0, 0]


def test_report_compares_with_the_free_streams_of_the_same_round() -> None:
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
