"""A stream that is read from the wire, as far as it came."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httpx

CHAT = "/v1/chat/completions"


@dataclass
class StreamRead:
    status: int = 0
    content: str = ""
    reasoning: str = ""
    arguments: str = ""
    finish: str | None = None
    error: dict[str, Any] | None = None
    done: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    def take(self, line: str) -> None:
        if not line.startswith("data: "):
            return
        if line == "data: [DONE]":
            self.done = True
            return
        chunk = json.loads(line.removeprefix("data: "))
        self.error = chunk.get("error", self.error)
        for choice in chunk.get("choices", ()):
            delta = choice["delta"]
            self.content += delta.get("content") or ""
            self.reasoning += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or ():
                self.arguments += call["function"].get("arguments") or ""
            self.finish = choice["finish_reason"] or self.finish


async def read(
    http: httpx.AsyncClient, request: dict[str, Any], into: StreamRead | None = None
) -> StreamRead:
    """Stream a request's answer into `into`, which may be read meanwhile."""
    found = into or StreamRead()
    async with http.stream("POST", CHAT, json={**request, "stream": True}) as response:
        found.status, found.headers = response.status_code, dict(response.headers)
        if response.is_error:
            found.error = (await response.aread() and response.json())["error"]
        else:
            async for line in response.aiter_lines():
                found.take(line)
    return found
