"""Audit log: one line on standard output for each call of a tool that the gateway ran, in the form
of the access log.

Who (`key`, or `caller` with LiteLLM's own keys), in which request, called which tool of which
configured server, what came of it, and how long it took. Of the arguments there is only the hash
of their value. `result` is as in the metric `toolgate_tool_calls_total`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from .access_log import line, timestamp

logger = logging.getLogger("toolgate.tools")


class _Formatter(logging.Formatter):
    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        assert isinstance(record.args, Mapping)
        values = {str(name): value for name, value in record.args.items()}
        return line({"time": timestamp(record.created), **values}, as_json=self._as_json)


def set_up(*, as_json: bool) -> None:
    """For this process. The handler keeps its stream."""
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler(sys.stdout))
        logger.setLevel(logging.INFO)
        logger.propagate = False
    for handler in logger.handlers:
        handler.setFormatter(_Formatter(as_json=as_json))
