"""Background tasks: work that must not delay a response."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger("toolgate")

_tasks: set[asyncio.Task[Any]] = set()
"""References that prevent garbage collection of running tasks."""


def in_background(work: Coroutine[Any, Any, Any]) -> None:
    """Runs `work` in a separate task. For an exception, only its class is logged."""
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_done)


def _done(task: asyncio.Task[Any]) -> None:
    _tasks.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("A background task failed (%s).", type(error).__name__)
