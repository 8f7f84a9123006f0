"""The benchmark of agents with many tools: what it reads of the log, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.growth.agents import added_lines, gateway_log, prompts, report, without_search
from toolgate_proxy.cli.launch.clients import catalog
from toolgate_proxy.cli.launch.target import Target, Window

PATH = "/v1/messages"


def line(path: str, **more: Any) -> str:
    return json.dumps({"path": path, "status": 200, **more})


def test_the_prompts_of_a_session_are_those_that_its_lines_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"{line(PATH, prompt_tokens=1)}\n")
    with added_lines(log) as lines, log.open("a") as file:
        print("a warning", line(PATH, prompt_tokens=30_000), sep="\n", file=file)
        print(line(f"{PATH}/count_tokens", prompt_tokens=7), file=file)
        print(line("/v1/responses", prompt_tokens=9), line(PATH), sep="\n", file=file)
        print(line(PATH, prompt_tokens=31_000), file=file)
    found = prompts(lines, PATH)
    assert found.tokens == [30_000, 31_000]
    shown = report({("claude", True): found, ("claude", False): prompts([], PATH)})
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in shown.splitlines()]
    assert rows[2] == ["claude", "search", "2", "30,000", "61,000"]
    assert rows[3] == ["claude", "all at once", "0", "0", "0"]


def test_the_log_of_the_gateway_is_found(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("logs: /tmp/toolgate-0-run-2k1/logs\n  9 s  backend (vLLM): loading\n")
    assert gateway_log(log) == Path("/tmp/toolgate-0-run-2k1/logs/gateway.log")
    log.write_text("loading\n")
    with pytest.raises(RuntimeError, match="folder"):
        gateway_log(log)


def test_the_catalogue_without_search_differs_in_nothing_else() -> None:
    with_search = catalog(Target("http://gateway", "m", Window(65_536, 8_192)))
    [entry], [other] = with_search["models"], without_search(with_search)["models"]
    assert entry == {**other, "supports_search_tool": True}
    assert not other["supports_search_tool"]
