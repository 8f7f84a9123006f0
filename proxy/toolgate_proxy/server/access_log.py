"""Access log: one line per request on standard output, without prompts, responses or keys.

The format is JSON if TOOLGATE_LOG_FORMAT=json, otherwise `name=value` pairs.
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
"""Maximum length of a logged value, in characters. A model's name comes from the client."""


class _WithoutTracebacks(logging.Filter):
    """Removes tracebacks from LiteLLM's log records of our 503 errors. They carry no information:
    an unavailable Redis or backend is logged once, when it becomes unavailable."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = carried(record.exc_info[1]) if record.exc_info else None
        if error is not None and error.status == 503:
            record.exc_info = record.exc_text = None
        return True


class _WithoutSecondLines(logging.Filter):
    """Drops uvicorn's access-log lines of successful chat completions, which we log ourselves."""

    def filter(self, record: logging.LogRecord) -> bool:
        match record.args:
            case (_, "POST", str(path), _, 200):
                return not path.partition("?")[0].endswith(CHAT)
            case _:
                return True


def set_up() -> None:
    """Writes our lines unformatted to standard output, and installs the filters."""
    logging.getLogger("LiteLLM Proxy").addFilter(_WithoutTracebacks())
    logging.getLogger("uvicorn.access").addFilter(_WithoutSecondLines())
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


def write(context: RequestContext, *, as_json: bool) -> None:
    """Writes the line of a request. Requests that named no model are not logged."""
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
    # json.dumps escapes newlines and quotes, so a value can't forge another line or field.
    return " ".join(f"{name}={_quoted(value)}" for name, value in told.items())


def _quoted(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else str(value).lower()


def _bounded(value: object) -> object:
    return value[:MAX_TEXT] if isinstance(value, str) else value
