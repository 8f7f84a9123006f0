"""One API as the evaluation uses it: a case as a request, and a response as an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tests.long.api_conformance.answer import Answer
from tests.long.api_conformance.case import Case


class Api(Protocol):
    name: str
    path: str
    exact: bool
    """Whether answers have the spelling of arguments, and incomplete calls."""
    streaming: Mapping[str, Any]
    """Fields of the body that ask for a stream with its usage."""

    def request(self, case: Case) -> dict[str, Any]:
        """The body of a request."""

    def whole(self, data: bytes) -> Answer:
        """The answer of a response that is not streamed. Raises AssertionError, KeyError and
        ValueError if it breaks the rules of the API."""

    def streamed(self, data: bytes) -> Answer:
        """The answer of a stream. Raises as `whole` does."""

    def reason(self, case: Case, answer: Answer) -> str:
        """The reason of the end that the answer must have."""

    def shows_reasoning(self, case: Case) -> bool:
        """Whether the answer has the reasoning of the model."""
