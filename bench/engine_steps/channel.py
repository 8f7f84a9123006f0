"""The way of requests to the engine's loop, and of its outputs."""

from __future__ import annotations

from typing import Any, Protocol


class Channel(Protocol):
    def send(self, request: Any) -> None:
        """Give a request to the engine's process."""

    def admit(self) -> None:
        """Add the requests that have arrived to the scheduler. Called by the engine's loop."""

    def deliver(self, outputs: dict[int, Any]) -> None:
        """Pass on the outputs of a step. Called by the engine's loop."""

    def close(self) -> None: ...


class DirectChannel:
    """Everything happens in the engine's thread."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def send(self, request: Any) -> None:
        self._engine.add_request(*self._engine.preprocess_add_request(request))

    def admit(self) -> None:
        pass

    def deliver(self, outputs: dict[int, Any]) -> None:
        pass

    def close(self) -> None:
        pass
