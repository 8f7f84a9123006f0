"""One HTTP request of a scenario, and what the server sent for it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Request:
    path: str
    """Below the base URL, as `/chat/completions`."""
    body: Body | None = None
    method: str = "POST"
    raw: str | None = None
    """Sent instead of the body, for bodies that are not JSON."""
    key: str | None = None
    """Sent instead of the key of the run. Empty: no key is sent."""
    headers: dict[str, str] = field(default_factory=dict)
    leave_after: int | None = None
    """The client closes the connection after this number of events."""

    @property
    def streamed(self) -> bool:
        return bool(self.body and self.body.get("stream"))

    @property
    def max_tokens(self) -> int:
        body = self.body or {}
        limit = body.get("max_tokens") or body.get("max_output_tokens") or 0
        choices = body.get("n", 1)
        valid = isinstance(limit, int) and isinstance(choices, int) and limit > 0 and choices > 0
        return limit * choices if valid else 0

    @property
    def content(self) -> str:
        if self.raw is not None:
            return self.raw
        return "" if self.body is None else json.dumps(self.body, ensure_ascii=False)


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    name: str
    """Its `event:` field, or an empty string."""
    text: str
    """Its `data:` field."""

    @property
    def data(self) -> Any:
        """The JSON value of the data, or None if it is not JSON."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None


@dataclass
class Exchange:
    request: Request
    status: int = 0
    """0 if no response arrived."""
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""
    """The body as text; bytes that are not UTF-8 are U+FFFD."""
    problem: str = ""
    """Why no response, or no complete one, arrived."""
    seconds: float = 0.0

    @property
    def body(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip().lower()
