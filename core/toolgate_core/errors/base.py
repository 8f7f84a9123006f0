"""The base of all errors that a client can receive."""

from __future__ import annotations

from typing import Any, ClassVar


class ToolgateError(Exception):
    """A failure that no other error describes.

    Read the message.
    """

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
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after = retry_after

    def body(self) -> dict[str, Any]:
        """OpenAI's error object with the extra fields of the class."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": error | self.details()}

    def details(self) -> dict[str, Any]:
        """The fields of the error object that are added to OpenAI's four, or replace them."""
        return {}
