"""Access log: one line per request on standard output, without prompts, responses or keys.

`request_id` is the response's `x-request-id`, with which the request's id in vLLM's log begins, and
`call_id` its `x-litellm-call-id`. `error` is the code of the error response. `cause` is the type
and place of the exception behind a server error that is not Toolgate's. `tool_calls` is the number
of calls that the gateway ran (tool_log.py). A request of which the model did not see all as it was
sent has the level `warning`: `omitted_tools` has the types of
hosted tools, `history` the kinds of the changes, and `invalid_tools` the number of tools that were
left out as invalid. Places and names are in the response headers only, because the client chose
them.

The format is JSON if TOOLGATE_LOG_FORMAT=json, otherwise `name=value` pairs.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii as as_json_text
from typing import Any

from ...context import RequestContext

logger = logging.getLogger("toolgate.requests")

MAX_TEXT = 200
"""Maximum length of a value, in characters. A model's name comes from the client."""


def set_up() -> None:
    """Writes our lines unformatted to standard output."""
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


def write(context: RequestContext, *, as_json: bool, probe: bool = False) -> None:
    """Writes the line of a request. Values that a request does not have are left out. `probe`: the
    request is a health probe, whose 503 is no error but its result."""
    caller, meter = context.caller, context.meter
    outcome, notes = context.outcome, context.notes
    failed = (outcome.status or 500) >= 500 and not (probe and outcome.status == 503)
    changes = dict.fromkeys(change.kind for change in notes.history_changes)
    noted = changes or notes.omitted_tools or notes.invalid_tools
    of_model = context.model is not None
    record = {
        "time": timestamp(time.time()),
        "level": "error" if failed else "warning" if noted else "info",
        "request_id": context.request_id or context.call_id,
        "call_id": context.call_id,
        "method": context.method,
        "path": context.path,
        "key": caller.name,
        "team": caller.team,
        "model": context.model,
        "status": outcome.status,
        "error": outcome.code,
        "cause": outcome.cause,
        "prompt_tokens": meter.prompt_tokens if of_model else None,
        "completion_tokens": meter.completion_tokens if of_model else None,
        "seconds": round(time.monotonic() - outcome.began, 4),
        "first_byte_seconds": outcome.first_byte_seconds,
        "tool_calls": meter.tool_calls or None,
        "grammar": None if notes.enforced is None else notes.grammars_note,
        "omitted_tools": ",".join(notes.omitted_tools) or None,
        "history": ",".join(changes) or None,
        "invalid_tools": len(notes.invalid_tools) or None,
        "whole": outcome.sent_whole,
    }
    logger.info(line(record, as_json=as_json))


def timestamp(seconds: float) -> str:
    """In UTC, as RFC 3339 writes it."""
    return (
        datetime.fromtimestamp(seconds, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def line(record: dict[str, Any], *, as_json: bool, max_text: int = MAX_TEXT) -> str:
    told = {
        name: value[:max_text] if isinstance(value, str) else value
        for name, value in record.items()
        if value is not None
    }
    if as_json:
        return json.dumps(told)
    # JSON escapes newlines and quotes, so a value can't forge another line or field.
    return " ".join(
        [
            f"{name}={as_json_text(value) if isinstance(value, str) else str(value).lower()}"
            for name, value in told.items()
        ]
    )
