"""Spans of LiteLLM's OpenTelemetry callback for what is no response of a model.

The callback reads each result as the response of a model. A search, and the tools and results of an
MCP server, are none: without this, each is a traceback in the log instead of a span."""

from __future__ import annotations

from typing import Any

from litellm.integrations.opentelemetry import OpenTelemetry

EVENTS = ("log_success_event", "async_log_success_event")


def repair_spans() -> None:
    """Let the callback pass over results that it can't read. Their span has all other fields."""
    for name in EVENTS:
        setattr(OpenTelemetry, name, _readable(getattr(OpenTelemetry, name)))


def _readable(log: Any) -> Any:
    def logged(self: Any, kwargs: Any, response_obj: Any, *times: Any, **named: Any) -> Any:
        result = response_obj if hasattr(response_obj, "get") else {}
        return log(self, kwargs, result, *times, **named)

    return logged
