"""Format of all other lines of the log: time, level, logger and message, as in the access log."""

from __future__ import annotations

import logging
from typing import Any

from .access_log import line, timestamp

HANDLED = ("uvicorn", "LiteLLM", "LiteLLM Proxy", "LiteLLM Router")
"""Loggers with handlers of their own. Ours have none: Python's handler of last resort prints their
messages."""
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
        traceback = record.exc_text or ""
        if self._as_json:
            shown["traceback"] = traceback or None
            traceback = ""
        return "\n".join(filter(None, (self._line(shown), traceback)))

    def _line(self, shown: dict[str, Any]) -> str:
        return line(shown, as_json=self._as_json, max_text=MAX_TEXT)


def set_up(*, as_json: bool) -> None:
    """For this process. Handlers keep their streams."""
    handlers = [each for name in HANDLED for each in logging.getLogger(name).handlers]
    for handler in (*handlers, logging.lastResort):
        if handler is not None:
            handler.setFormatter(EventFormatter(as_json=as_json))
