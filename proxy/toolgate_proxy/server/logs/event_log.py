"""Format of all other lines of the log: time, level, logger and message, as in the access log.

This includes warnings of Python and lines that are printed, for example LiteLLM's list of models,
and a traceback is a field, so that a log collector can read every line.
"""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from .access_log import line, timestamp

HANDLED = ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router")
"""Loggers with handlers of their own. Ours have none: Python's handler of last resort prints their
messages."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MAX_TEXT = 20_000
"""Maximum length of a message or a traceback, in characters."""


class EventFormatter(logging.Formatter):
    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        shown: dict[str, Any] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        shown["traceback"] = record.exc_text or None
        return line(shown, as_json=self._as_json, max_text=MAX_TEXT)


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


def set_up(*, as_json: bool) -> None:
    """For this process. Handlers keep their streams."""
    handlers = [each for name in HANDLED for each in logging.getLogger(name).handlers]
    for handler in (*handlers, logging.lastResort):
        if handler is not None:
            handler.setFormatter(EventFormatter(as_json=as_json))
    if not isinstance(sys.stdout, PrintedLines):
        logging.captureWarnings(True)
        sys.stdout = PrintedLines(sys.stdout, as_json=as_json)
