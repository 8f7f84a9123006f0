"""The gateway's log: one line for each request, and lines of events."""

from __future__ import annotations

from . import access_log, event_log


def set_up(*, as_json: bool) -> None:
    """For this process. Called again when LiteLLM, which has handlers of its own, is imported."""
    access_log.set_up()
    event_log.set_up(as_json=as_json)
