"""Streams whose events have their type in `event:` and in their data."""

from __future__ import annotations

import json
from typing import Any

from toolgate_proxy.backend_client.event_stream import SseParser


def read_events(data: bytes) -> list[dict[str, Any]]:
    """The events of a stream. Asserts that each has an `event:` line with its type."""
    made = [json.loads(each) for each in SseParser().feed(data)]
    lines = [line for line in data.decode().splitlines() if line.startswith("event: ")]
    assert [line.removeprefix("event: ") for line in lines] == [each["type"] for each in made]
    return made
