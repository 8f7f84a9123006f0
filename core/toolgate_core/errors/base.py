"""The base of all errors that a client can receive."""

from __future__ import annotations

from typing import Any, ClassVar, Self

MAX_MESSAGE = 2_000
"""Maximum length of an error's message, in characters. Messages are logged and redacted several
times, and some quote what the client sent."""
MAX_PARAM = 300
"""Maximum length of the path of a parameter, in characters."""


class ToolgateError(Exception):
    """Another failure.

    Read the message."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "toolgate_error"

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        """`message` states what failed, why, and what to do. `param` names the request's parameter.
        `retry_after` is the value of the header Retry-After, in seconds."""
        self.message = shortened(message, MAX_MESSAGE)
        super().__init__(self.message)
        self.param = param if param is None else shortened(param, MAX_PARAM)
        self.retry_after = retry_after

    def reworded(self, message: str, param: str | None) -> Self:
        """Return the same error, with another message and path of the parameter: in the words of
        another API. `copy` would call the class with the message only."""
        other = type(self).__new__(type(self), message)
        other.__dict__.update(self.__dict__)
        other.message = shortened(message, MAX_MESSAGE)
        other.param = param if param is None else shortened(param, MAX_PARAM)
        return other

    def body(self) -> dict[str, Any]:
        """OpenAI's error object with the extra fields of the class."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": error | self.details()}

    def details(self) -> dict[str, Any]:
        """Return the fields of the error object that are added to OpenAI's four, or replace
        them."""
        return {}


def shortened(text: str, length: int) -> str:
    """`text` with at most `length` characters. What is left out is marked by `…`."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
