"""The state of a gateway as a table of 80 columns. A gateway's own response is in
tests/proxy/process/test_routing.py."""

from __future__ import annotations

from typing import Any

from toolgate_proxy.cli.status import all_served, text

UP: dict[str, Any] = {
    "url": "http://gpu-7.a-long-name-of-a-machine.example.org:8000",
    "model": "Qwen/Qwen3-8B",
    "up": True,
    "since": "2023-11-14T22:13:20.5Z",
    "error": None,
    "probe_ms": 3.4,
    "requests": 12,
    "grammars_known": 345,
}
DOWN = UP | {"up": False, "error": "ConnectError"}
STATUS = {
    "models": [
        {"model": "small", "route": "own", "reason": None, "backends": [UP, DOWN]},
        {"model": "large", "route": "litellm", "reason": "it has `rpm`", "backends": [UP]},
    ],
    "keys": 1,
    "limits": {"counted": "fleet", "in_flight": 0},
    "fleet_cache": True,
    "responses": "process",
}


def test_the_table_has_every_backend_and_fits_a_terminal() -> None:
    lines = text("http://g:1", STATUS).splitlines()
    assert lines[0] == ("gateway http://g:1: 2 models, 1 key, 0 active requests of limited keys")
    assert max(map(len, lines)) <= 80
    said = "\n".join(lines)
    assert said.count("2023-11-14") == 3
    assert "small" in said
    assert "3 ms" in said
    assert lines[-4:] == [
        "limits: counted across all gateways",
        "grammars: shared in Redis",
        "responses: stored by each process alone",
        "large is on LiteLLM's route: it has `rpm`.",
    ]


def test_models_without_a_backend_that_is_up_are_not_served() -> None:
    assert all_served(STATUS)
    assert not all_served({"models": [*STATUS["models"], {"backends": [DOWN]}]})  # type: ignore[misc]
