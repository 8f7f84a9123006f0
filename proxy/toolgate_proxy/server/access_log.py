"""One line a request: who asked for what, and what it took; never what was said, never a key.

As JSON with TOOLGATE_LOG_FORMAT=json, else as `name=value` pairs, on standard output.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from ..context import RequestContext
from ..litellm_host.errors import carried

logger = logging.getLogger("toolgate.requests")

CHAT = "/chat/completions"
MAX_TEXT = 200
"""Characters of a value: a model's name comes from the client."""


class _WithoutTracebacks(logging.Filter):
    """LiteLLM logs a traceback for every 503. For ours, where they lead says nothing: that Redis or
    a backend is away is told once, as it goes."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = carried(record.exc_info[1]) if record.exc_info else None
        if error is not None and error.status == 503:
            record.exc_info = record.exc_text = None
        return True


class _WithoutSecondLines(logging.Filter):
    """The server's access log has a line for each request, too: of those that were answered by a
    model's response ours says all of it, and more."""

    def filter(self, record: logging.LogRecord) -> bool:
        match record.args:
            case (_, "POST", str(path), _, 200):
                return not path.partition("?")[0].endswith(CHAT)
            case _:
                return True


def set_up() -> None:
    """Lines as they are, on standard output."""
    logging.getLogger("LiteLLM Proxy").addFilter(_WithoutTracebacks())
    logging.getLogger("uvicorn.access").addFilter(_WithoutSecondLines())
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


def write(context: RequestContext, *, as_json: bool) -> None:
    """For requests that came as far as a model."""
    if context.model is None:
        return
    record = {
        "time": round(time.time(), 3),
        "request_id": context.call_id,
        "key": context.key.alias if context.key is not None else "master",
        "team": context.key.terms.team if context.key is not None else None,
        "model": context.model,
        "status": context.status,
        "prompt_tokens": context.prompt_tokens,
        "completion_tokens": context.completion_tokens,
        "seconds": round(time.monotonic() - context.began, 4),
        "first_byte_seconds": context.first_byte_seconds,
        "grammar": context.grammar_header,
        "whole": context.sent_whole,
    }
    logger.info(line(record, as_json=as_json))


def line(record: dict[str, Any], *, as_json: bool) -> str:
    told = {name: _bounded(value) for name, value in record.items() if value is not None}
    if as_json:
        return json.dumps(told)
    # json.dumps quotes what could break the line, or begin another.
    return " ".join(f"{name}={_quoted(value)}" for name, value in told.items())


def _quoted(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else str(value).lower()


def _bounded(value: object) -> object:
    return value[:MAX_TEXT] if isinstance(value, str) else value
