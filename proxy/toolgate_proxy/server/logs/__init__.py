"""The gateway's log: a line for each request and for each tool call, and lines of events."""

from __future__ import annotations

from . import access_log, event_log, tool_log


def set_up(*, as_json: bool) -> None:
    """For this process. Called again when LiteLLM, which has handlers of its own, is imported."""
    access_log.set_up()
    tool_log.set_up(as_json=as_json)
    event_log.set_up(as_json=as_json)
