"""Errors of enforcement and of the validation of completed calls."""

from __future__ import annotations

from typing import Any

from .base import ToolgateError


class EnforcementFailed(ToolgateError):
    """The enforcement of this request failed in the engine, or its output violates a grammar.

    Retry. If the message asks for a report, report the tool's schema.
    """

    code = "enforcement_failed"


class ToolSchemaViolation(ToolgateError):
    """A completed call violates a keyword that masks can't enforce, also after the number of
    resamples in `TOOLGATE_RESAMPLES`.

    Retry, or remove the keyword from the schema.

    `pointer`: the JSON Pointer of the value inside the call's arguments. `keyword`: the schema's
    keyword that the value violates.
    """

    code = "tool_schema_violation"

    def __init__(self, message: str, *, pointer: str = "", keyword: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer
        self.keyword = keyword

    def details(self) -> dict[str, Any]:
        return {"pointer": self.pointer, "keyword": self.keyword}


class ArgumentsNotChecked(ToolgateError):
    """The validation of a completed call exceeded its limits on time or memory. The
    call is not sent, because it might be invalid.

    Simplify the references and patterns of the tool's schema.
    """

    code = "arguments_not_checked"


class ChecksBusy(ToolgateError):
    """No process became free in time for an expensive schema or call, or a PDF.

    Retry after the time in Retry-After.
    """

    status = 503
    type = "service_unavailable_error"
    code = "checks_busy"


class ChecksFailed(ToolgateError):
    """The processes of the gateway for expensive schemas and calls, and for PDFs, did not start, or
    were killed twice. This is no verdict on what they checked.

    Retry after the time in Retry-After.
    """

    status = 503
    type = "service_unavailable_error"
    code = "checks_failed"
