"""LiteLLM's OpenTelemetry callback reads each result as the response of a model. A search, and the
tools of an MCP server, are none: each would be a traceback in the log instead of a span."""

from __future__ import annotations

from typing import Any

from litellm.integrations.opentelemetry import OpenTelemetry

EVENTS = ("log_success_event", "async_log_success_event")


def repair_spans() -> None:
    """Give the callback an empty response instead. Spans of such results have all other fields."""
    for name in EVENTS:
        setattr(OpenTelemetry, name, _readable(getattr(OpenTelemetry, name)))


def _readable(log: Any) -> Any:
    def logged(self: Any, kwargs: Any, response_obj: Any, **times: Any) -> Any:
        return log(self, kwargs, response_obj if hasattr(response_obj, "get") else {}, **times)

    return logged
