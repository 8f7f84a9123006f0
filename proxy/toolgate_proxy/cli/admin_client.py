"""`toolgate prewarm`: tool sets from files, sent to a running gateway, and what became of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

TIMEOUT = 600.0
"""Seconds for all tools of all files: a compile may take seconds each."""


class PrewarmFailed(Exception):
    """The message says what kept the tools from being sent."""


def read_tools(paths: Iterable[Path]) -> list[object]:
    """The tools of files that hold a tool, a list of tools, a request with `tools`, or a list of
    these. Raises PrewarmFailed."""
    tools: list[object] = []
    for path in paths:
        try:
            tools += _tools(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, RecursionError) as error:
            raise PrewarmFailed(f"{path} can't be read: {error}") from error
    if not tools:
        raise PrewarmFailed("There are no tools in these files.")
    return tools


def send(
    url: str,
    key: SecretStr,
    tools: Sequence[object],
    model: str | None,
    route: str = "prewarm",
) -> list[Any]:
    """The gateway's report for each backend. Raises PrewarmFailed."""
    try:
        answer = httpx.post(
            f"{url.rstrip('/')}/toolgate/{route}",
            json={"tools": tools} | ({"model": model} if model else {}),
            headers={"Authorization": f"Bearer {key.get_secret_value()}"},
            timeout=TIMEOUT,
            trust_env=False,
        )
        body = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise PrewarmFailed(f"{url} does not answer as a gateway: {error}") from error
    if answer.is_success:
        backends: list[Any] = body["backends"]
        return backends
    refusal = body.get("error") if isinstance(body, dict) else None
    told = refusal.get("message") if isinstance(refusal, dict) else None
    raise PrewarmFailed(told or f"{url} answered HTTP {answer.status_code}.")


def lines(backends: Iterable[Any]) -> tuple[list[str], bool]:
    """The report in words, and whether every tool is ready everywhere."""
    said: list[str] = []
    all_ready = True
    for backend in backends:
        said.append(backend["backend"])
        for tool in backend["tools"]:
            ready = tool["status"] == "ready"
            all_ready &= ready
            details = [tool.get("tier"), tool.get("engine")] if ready else [tool.get("reason")]
            if ready and "compile_ms" in tool:
                details.append(f"{tool['compile_ms']:.1f} ms")
            about = ", ".join(detail for detail in details if detail)
            said.append(f"  {tool['name']}: {tool['status']}" + (f" ({about})" if about else ""))
    return said, all_ready


def _tools(value: object) -> list[object]:
    if isinstance(value, dict):
        inner = value.get("tools")
        return list(inner) if isinstance(inner, list) else [value]
    if isinstance(value, list):
        return [tool for item in value for tool in _tools(item)]
    return [value]
