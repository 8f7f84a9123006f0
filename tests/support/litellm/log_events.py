"""LiteLLM's log events of the requests of a test."""

import asyncio

import litellm
from litellm.integrations.custom_logger import CustomLogger

from tests.support.waiting import until

AFTERWARDS = 0.05
"""Seconds in which a second event of the same request would come."""


class LogEvents(CustomLogger):
    """A callback of LiteLLM's configuration."""

    def __init__(self):
        super().__init__()
        self._successes = []
        self._failures = []

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self._successes.append((kwargs["call_type"], response_obj))

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        self._failures.append(kwargs["exception"])

    async def success(self):
        """The call type and the response of the only success event."""
        [event] = await _all_of(self._successes)
        return event

    async def failure(self):
        """The exception of the only failure event."""
        [event] = await _all_of(self._failures)
        return event


def log_events(monkeypatch):
    made = LogEvents()
    monkeypatch.setattr(litellm, "callbacks", [made])
    return made


async def _all_of(events):
    await until(lambda: events)
    await asyncio.sleep(AFTERWARDS)
    return events
