"""Filters that leave one line in the log for each request: the line of access_log.py.

For a failed request LiteLLM logs up to four records and a traceback, with the message of the error.
The message can contain parts of the prompt, and names of tools and properties. The filters drop
these records. The cause of a server error goes to the access log, as the type of the exception and
the place where it was raised. `LITELLM_LOG=INFO` or `DEBUG` disables the filter for LiteLLM, but
never shows credentials for MCP servers.
"""

from __future__ import annotations

import logging
import sys
import traceback

from toolgate_core.errors import InternalFault, ToolgateError

from ...context import Outcome
from ...litellm_host.context import carried
from ...litellm_host.errors import HostRefused, own_error

logger = logging.getLogger("toolgate")

LITELLM = ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router")
"""LiteLLM's loggers."""
HEADERS = "headers for streamable_http_client"
"""In LiteLLM's record of the headers for an MCP server, which may have credentials."""
REFUSED_UPGRADE = "ASGI callable returned without completing handshake."
"""uvicorn's error after the response to a refused upgrade, which is no error."""
PACKAGES = "site-packages/"


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
            context.outcome.cause = f"logged at {_short(record.pathname)}:{record.lineno}"
        return False


class _Uncaught(logging.Filter):
    """Removes the messages of exceptions from the tracebacks of uvicorn, and its errors that are
    none."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = frames(record.exc_info[1])
            record.exc_info = None
        return record.msg != REFUSED_UPGRADE


def set_up() -> None:
    """Install the filters."""
    for name in LITELLM:
        logging.getLogger(name).addFilter(_OfRequests())
    logging.getLogger("uvicorn.error").addFilter(_Uncaught())


def note_cause(outcome: Outcome, error: BaseException) -> None:
    """Set the request's cause, unless the error is the client's or one of Toolgate's, whose code
    says enough."""
    known = own_error(error) if isinstance(error, Exception) else None
    if isinstance(known, HostRefused) and known.status >= 500:
        outcome.cause = outcome.cause or place(error)


def as_own_error(error: Exception) -> ToolgateError:
    """Return Toolgate's error for an exception. One that is not Toolgate's is a bug, which is
    logged. Without the traceback, the body does not stay in memory until a collection."""
    if isinstance(error, ToolgateError):
        return error.with_traceback(None)
    logger.error("A request failed because of a bug in the gateway:\n%s", frames(error))
    return InternalFault("Internal error in the gateway. Retry the request.")


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
    _, found, below = path.partition(PACKAGES)
    return below if found else "/".join(path.split("/")[-2:])
