"""The endpoint of a run, and the settings that all its requests share."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..exchange import Request
from ..terms import Api

ANTHROPIC_VERSION = "2023-06-01"
OFF: Mapping[str, Any] = {
    "reasoning_effort": "none",
    "reasoning": {"effort": "none"},
    "thinking": {"type": "disabled"},
    "store": False,
}
"""What the checks send with most requests to turn reasoning and storage off."""
KEY = "$TOOLGATE_VERIFY_KEY"
"""The variable that a `curl` command reads the key from."""


@dataclass(frozen=True)
class Target:
    url: str
    """Base URL, ending in `/v1`."""
    model: str
    key: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields added to every body that does not have them."""
    seed: int | None = None
    """Added as `seed` to chat completions, and to other APIs if it is given."""
    without: frozenset[str] = frozenset()
    """Fields whose value in `OFF` the server refuses, found by the probe: they are left out."""

    def prepared(self, request: Request, api: Api) -> Request:
        """Return the request with the model and the shared fields. A run without a key returns
        requests with a wrong one unchanged; the runner leaves them out."""
        if request.body is None:
            return request
        body = {"model": self.model, **request.body}
        for name in self.without:
            if body.get(name) == OFF[name]:
                del body[name]
        if self.seed is not None and api == Api.CHAT:
            body.setdefault("seed", self.seed)
        return replace(request, body={**self.extra, **body})

    def headers(self, request: Request, api: Api) -> dict[str, str]:
        key = self.key if request.key is None else request.key
        headers = {"authorization": f"Bearer {key}"} if key else {}
        if api == Api.MESSAGES:
            headers |= {"anthropic-version": ANTHROPIC_VERSION}
            headers |= {"x-api-key": key} if key else {}
        return headers | request.headers

    def curl(self, request: Request, api: Api) -> str:
        """Return a `curl` command that sends the request again, without the key of the run. If the
        client leaves, it has `--max-time`."""
        parts = ["curl", "-sS"]
        if request.streamed:
            parts.append("-N")
        if request.leave_after is not None:
            parts += ["--max-time", "1"]
        if request.method != "POST":
            parts += ["-X", request.method]
        parts.append(shlex.quote(f"{self.url}{request.path}"))
        key = (KEY if self.key else "") if request.key is None else request.key
        if key:
            parts += ["-H", f'"Authorization: Bearer {key}"']
        if api == Api.MESSAGES:
            parts += ["-H", shlex.quote(f"anthropic-version: {ANTHROPIC_VERSION}")]
        if request.content:
            parts += ["-H", shlex.quote("content-type: application/json")]
            parts += ["-d", shlex.quote(request.content)]
        return " ".join(parts)


def base_url(url: str) -> str:
    """Return the URL with `/v1` at its end."""
    url = url.rstrip("/")
    for end in ("/chat/completions", "/responses", "/messages"):
        url = url.removesuffix(end)
    return url if url.endswith(("/v1", "/v2", "/v3", "/v4")) else f"{url}/v1"
