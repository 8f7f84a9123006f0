"""One API as the fuzzer uses it."""

from __future__ import annotations

from random import Random
from typing import Any, Protocol

from tests.long.fuzz.values import Request


class Api(Protocol):
    path: str

    def make_request(self, rng: Random, model: str, bias: dict[str, float] | None) -> Request: ...

    def whole(self, data: bytes) -> dict[str, Any]:
        """A response in the form of chat completions. Raises AssertionError, KeyError and
        ValueError if it breaks the rules of the API."""

    def streamed(self, data: bytes) -> dict[str, Any]:
        """The response of a stream, as of `whole`. Raises also if the stream is incomplete or has
        an error."""

    def error(self, body: Any) -> dict[str, Any]:
        """The error of a body that has the form of the API. Raises as `whole` does."""

    def own_violations(self, response: dict[str, Any], request: Request) -> list[str]:
        """What breaks a rule of this API alone."""
