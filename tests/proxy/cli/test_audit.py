"""`toolgate audit`: exit statuses, what it prints, keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from toolgate_proxy.cli.main import app
from toolgate_proxy.receipts.keys import new_key, read_key
from toolgate_proxy.receipts.receipt import FORMAT, signed

KEY = new_key("hmac")[0]
CLI = CliRunner()


def line(response_id: str = "chatcmpl-1") -> str:
    content = {"format": FORMAT, "response": "chatcmpl-1", "tools": [], "calls": []}
    receipt = signed(content, read_key(KEY))
    return json.dumps({"id": response_id, "choices": [], "toolgate": {"receipt": receipt}})


WRONG_CALL = json.dumps(
    {
        "id": "x",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"function_call": {"name": "f", "arguments": {}}},
            }
        ],
    }
)


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def ran_by_the_gateway(**message: object) -> str:
    own = {"provider_specific_fields": {"mcp_tool_calls": [CALL]}}
    choice = {"index": 0, "finish_reason": "stop", "message": own | message}
    return json.dumps(json.loads(line()) | {"choices": [choice]})


def with_request(content: str) -> str:
    request = {"messages": [{"role": "user", "content": content}]}
    return json.dumps(json.loads(line()) | {"request": request}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("lines", "status", "said"),
    [
        ([ran_by_the_gateway()], 1, "call 0"),
        ([ran_by_the_gateway(tool_calls=[CALL])], 1, "line 1: the order of calls of MCP servers"),
        ([line()], 0, "1 of 1 responses match"),
        ([line(), "", line()], 0, "2 of 2"),
        ([with_request("\u2028\x85"), line()], 0, "2 of 2"),
        ([line(), line("chatcmpl-2")], 1, "line 2: the receipt is that of the response chatcmpl-1"),
        (["{"], 1, "line 1: not JSON"),
        (["[" * 100_000], 1, "line 1: not JSON: it is nested too deeply"),
        (['{"id": "x", "choices": [], "more": NaN}'], 1, "line 1: not JSON: NaN"),
        (["[]"], 1, "line 1: not a JSON object"),
        (["{}"], 1, "line 1: no response"),
        (['{"id": "x", "choices": [{}]}'], 1, "line 1: not a response of a known API"),
        (['{"id": "x", "choices": [], "output": []}'], 1, "line 1: not a response of a known API"),
        (['{"id": "x", "choices": [], "request": []}'], 1, "`request` is not a JSON object"),
        ([WRONG_CALL], 1, "line 1: not a call of a known API: text"),
        ([], 1, "0 of 0"),
    ],
)
def test_each_line_is_verified(tmp_path: Path, lines: list[str], status: int, said: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines))
    result = CLI.invoke(app, ["audit", str(path), "--key", KEY])
    assert (result.exit_code, said in result.output) == (status, True), result.output


def test_the_log_can_be_standard_input() -> None:
    assert CLI.invoke(app, ["audit", "-", "--key", KEY], input=line()).exit_code == 0


@pytest.mark.parametrize(
    "arguments", [[], ["x.jsonl"], ["x.jsonl", "--key", "y"], ["--new-key", "rsa"]]
)
def test_what_can_not_be_verified_is_exit_status_2(arguments: list[str]) -> None:
    assert CLI.invoke(app, ["audit", *arguments], env={"TOOLGATE_RECEIPT_KEY": ""}).exit_code == 2


def test_a_new_key_signs_and_verifies() -> None:
    first, second = CLI.invoke(app, ["audit", "--new-key", "ed25519"]).output.splitlines()
    private = read_key(first.removeprefix("TOOLGATE_RECEIPT_KEY="))
    public = read_key(second.split()[-1])
    assert public.verifies(b"x", private.sign(b"x"))
