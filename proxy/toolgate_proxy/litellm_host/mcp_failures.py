"""Whether an MCP server says that a call failed. LiteLLM's text of the result does not say it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from litellm.responses.mcp.litellm_proxy_mcp_handler import LiteLLM_Proxy_MCP_Handler as Handler

_failures: ContextVar[list[str]] = ContextVar("toolgate_mcp_failures")
_text_of = Handler._parse_mcp_result


def _noting(result: Any) -> str:
    text: str = _text_of(result)
    noted = _failures.get(None)
    # mcp 1 has `isError`, mcp 2 `is_error`.
    if noted is not None and (
        getattr(result, "is_error", None) or getattr(result, "isError", None)
    ):
        noted.append(text)
    return text


Handler._parse_mcp_result = staticmethod(_noting)


def failures_of_task() -> list[str]:
    """Return a list that gets the texts of the failed calls that this task makes from here on."""
    noted: list[str] = []
    _failures.set(noted)
    return noted
