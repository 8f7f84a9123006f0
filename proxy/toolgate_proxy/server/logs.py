"""The gateway's log on standard output: a line for each request (access log), a line for each tool
call that the gateway ran (audit log), and lines of events.

Access log: no prompts, responses or keys. `request_id` is the response's `x-request-id`, with which
the request's id in vLLM's log begins, and `call_id` its `x-litellm-call-id`. `error` is the code of
the error response. `cause` is the type and place of the exception behind a server error that is not
Toolgate's. `tool_calls` is the number of calls that the gateway ran. A request of which the model
did not see all as it was sent has the level `warning`: `omitted_tools` has the types of hosted
tools, `history` the kinds of the changes, and `invalid_tools` the number of tools that were left
out as invalid. Places and names are in the response headers only, because the client chose them.

Audit log: who (`key`, or `caller` with LiteLLM's own keys), in which request, called which tool of
which configured server, what came of it, and how long it took. Of the arguments there is only the
hash of their value. `result` is as in the metric `toolgate_tool_calls_total`.

Events: time, level, logger and message. This includes warnings of Python and lines that are
printed, for example LiteLLM's list of models, and a traceback is a field, so that a log collector
can read every line.

Filters leave one line for each failed request, that of the access log. LiteLLM logs up to four
records and a traceback, with the message of the error, which can contain parts of the prompt, and
names of tools and properties. The cause of a server error goes to the access log.
`LITELLM_LOG=INFO` or `DEBUG` disables the filter for LiteLLM, but never shows credentials for MCP
servers.

The format is JSON if TOOLGATE_LOG_FORMAT=json, otherwise `name=value` pairs.
"""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii as as_json_text
from typing import Any, TextIO

from toolgate_core.errors import InternalFault, ToolgateError

from ..context import Outcome, RequestContext
from ..json_values import Excess
from ..litellm_host.context import carried

logger = logging.getLogger("toolgate")
of_requests = logging.getLogger("toolgate.requests")
of_tools = logging.getLogger("toolgate.tools")
LITELLM = ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router")
"""LiteLLM's loggers, which have handlers of their own. Ours have none: Python's handler of last
resort prints their messages."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MAX_TEXT = 200
"""Maximum length of a value, in characters. A model's name comes from the client."""
MAX_MESSAGE = 20_000
"""Maximum length of a message or a traceback, in characters."""
HEADERS = "headers for streamable_http_client"
"""In LiteLLM's record of the headers for an MCP server, which may have credentials."""
REFUSED_UPGRADE = "ASGI callable returned without completing handshake."
"""uvicorn's error after the response to a refused upgrade, which is no error."""
PACKAGES, LOGGED = "site-packages/", "logged at"
OF_OTHERS = ("MCPError",)
"""Exceptions about what an MCP server sent. They are no bugs, so they are logged without a
traceback, as what exceeds a bound is."""


def set_up(*, as_json: bool) -> None:
    """Set up logging. This runs again once LiteLLM, which has handlers of its own, is imported."""
    for ours in (of_requests, of_tools):
        if not ours.handlers:
            ours.addHandler(logging.StreamHandler(sys.stdout))
            ours.setLevel(logging.INFO)
            ours.propagate = False
    for handler in of_tools.handlers:
        handler.setFormatter(_ToolFormatter(as_json=as_json))
    handlers = [theirs for name in LITELLM for theirs in logging.getLogger(name).handlers]
    for theirs in (*handlers, logging.lastResort):
        if theirs is not None:
            theirs.setFormatter(EventFormatter(as_json=as_json))
    if not isinstance(sys.stdout, PrintedLines):
        logging.captureWarnings(True)
        sys.stdout = PrintedLines(sys.stdout, as_json=as_json)


def add_filters() -> None:
    """Install the filters."""
    for name in LITELLM:
        logging.getLogger(name).addFilter(_OfRequests())
    logging.getLogger("uvicorn.error").addFilter(_Uncaught())


def server_config(*, as_json: bool) -> dict[str, Any]:
    """uvicorn's configuration of logging, for its supervisor, too."""
    formatter = {"()": EventFormatter, "as_json": as_json}
    handler = {"class": "logging.StreamHandler", "formatter": "default"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"default": formatter},
        "handlers": {"default": handler},
        "loggers": {"uvicorn": {"handlers": ["default"], "level": "INFO", "propagate": False}},
    }


def write(context: RequestContext, *, as_json: bool, probe: bool = False) -> None:
    """Write the line of a request. Values that a request does not have are left out. `probe`: the
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
    of_requests.info(line(record, as_json=as_json))


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
    # JSON escapes newlines and quotes, so a value cannot forge another line or field.
    return " ".join(
        [
            f"{name}={as_json_text(value) if isinstance(value, str) else str(value).lower()}"
            for name, value in told.items()
        ]
    )


class EventFormatter(logging.Formatter):
    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        root = _root(record.exc_info[1]) if record.exc_info and record.exc_info[1] else None
        if isinstance(root, Excess) or type(root).__name__ in OF_OTHERS:
            fields["message"] += f": {root}"
        else:
            if record.exc_info and not record.exc_text:
                record.exc_text = self.formatException(record.exc_info)
            fields["traceback"] = record.exc_text or None
        return line(fields, as_json=self._as_json, max_text=MAX_MESSAGE)


class PrintedLines(io.TextIOBase):
    """A standard output whose lines become lines of the log at `output`."""

    def __init__(self, output: TextIO, *, as_json: bool) -> None:
        self._rest = ""
        self._logger = logging.getLogger("stdout")
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        handler = logging.StreamHandler(output)
        handler.setFormatter(EventFormatter(as_json=as_json))
        self._logger.handlers = [handler]

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = COLOURS.sub("", self._rest + text).split("\n")
        for printed in filter(None, map(str.strip, lines)):
            self._logger.info("%s", printed)
        return len(text)


def warn(messages: Iterable[str], *, as_json: bool) -> None:
    """Print the warnings of a command that has no log yet to the standard error."""
    formatter = EventFormatter(as_json=True)
    for message in messages:
        values = {"levelname": "WARNING", "name": "toolgate", "msg": "%s", "args": (message,)}
        text = formatter.format(logging.makeLogRecord(values)) if as_json else f"Warning: {message}"
        print(text, file=sys.stderr, flush=True)


class _ToolFormatter(EventFormatter):
    def format(self, record: logging.LogRecord) -> str:
        assert isinstance(record.args, Mapping)
        values = {str(name): value for name, value in record.args.items()}
        return line({"time": timestamp(record.created), **values}, as_json=self._as_json)


class _OfRequests(logging.Filter):
    """Drops LiteLLM's records about a request, and those with credentials."""

    def filter(self, record: logging.LogRecord) -> bool:
        if HEADERS in str(record.msg):
            return False
        context = carried()
        verbose = logging.getLogger(record.name).isEnabledFor(logging.INFO)
        if context is None or record.levelno < logging.ERROR or verbose:
            return True
        error = record.exc_info[1] if record.exc_info else sys.exception()
        if error is not None:
            note_cause(context.outcome, error)
        elif context.outcome.cause is None:
            context.outcome.cause = f"{LOGGED} {_short(record.pathname)}:{record.lineno}"
        return False


class _Uncaught(logging.Filter):
    """Removes messages of exceptions from uvicorn's tracebacks, and its errors that are none."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = frames(record.exc_info[1])
            record.exc_info = None
        return record.msg != REFUSED_UPGRADE


def note_cause(outcome: Outcome, error: BaseException) -> None:
    """Set the request's cause, unless it is an error of the client or of Toolgate, with a code."""
    from ..litellm_host.errors import HostRefused, own_error  # imports LiteLLM

    known = own_error(error) if isinstance(error, Exception) else None
    if isinstance(known, HostRefused) and known.status >= 500:
        told = outcome.cause
        outcome.cause = told if told and not told.startswith(LOGGED) else place(error)


def as_own_error(error: Exception) -> ToolgateError:
    """Return Toolgate's error for an exception. One that is not Toolgate's is a bug, which is
    logged. Without the traceback, the body does not stay in memory until a collection."""
    if isinstance(error, ToolgateError):
        return error.with_traceback(None)
    logger.error("A request failed because of a bug in the gateway:\n%s", frames(error))
    return InternalFault("Internal error in the gateway. Send the request again.")


def place(error: BaseException) -> str:
    """Return the type of the exception at the root, and the place where it was raised."""
    root = _root(error)
    frame = traceback.extract_tb(root.__traceback__)[-1:]
    where = f" at {_short(frame[0].filename)}:{frame[0].lineno}" if frame else ""
    return f"{type(root).__name__}{where}"


def frames(error: BaseException) -> str:
    """Return the traceback of the exception at the root, without messages."""
    root = _root(error)
    return "".join(traceback.format_tb(root.__traceback__)) + type(root).__name__


def _root(error: BaseException) -> BaseException:
    seen = {id(error)}
    while (below := error.__cause__ or error.__context__) is not None and id(below) not in seen:
        error = below
        seen.add(id(error))
    return error


def _short(path: str) -> str:
    """Return a path below the packages' folder, or the last two parts."""
    _, is_ours, below = path.partition(PACKAGES)
    return below if is_ours else "/".join(path.split("/")[-2:])
