"""Errors of the gateway and backends, of enforcement, and of the validation of completed calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import ToolgateError


class EnforcementFailed(ToolgateError):
    """The enforcement failed in the engine, or its output violates a grammar.

    Send the request again. If the message asks for a report, report the tool's schema."""

    code = "enforcement_failed"


class ToolSchemaViolation(ToolgateError):
    """A call, or content with a format, violates a keyword that masks cannot enforce, also after
    `TOOLGATE_RESAMPLES` resamples.

    Send the request again, or remove the keyword from the schema.

    `pointer`: that of the value in the arguments or content. `keyword`: the keyword that it
    violates."""

    code = "tool_schema_violation"

    def __init__(self, message: str, *, pointer: str = "", keyword: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer
        self.keyword = keyword

    def details(self) -> dict[str, Any]:
        return {"pointer": self.pointer, "keyword": self.keyword}


class ArgumentsNotChecked(ToolgateError):
    """The validation of a completed call exceeded its limits on time or memory, so the call is not
    sent.

    Simplify the references and patterns of the tool's schema."""

    code = "arguments_not_checked"


class ChecksBusy(ToolgateError):
    """No process became free in time for an expensive schema or call, or a PDF.

    Send the request again after the time in Retry-After."""

    status = 503
    type = "service_unavailable_error"
    code = "checks_busy"


class ChecksFailed(ToolgateError):
    """The processes for expensive schemas and calls, and for PDFs, did not start, or were killed
    twice.

    Send the request again after the time in Retry-After."""

    status = 503
    type = "service_unavailable_error"
    code = "checks_failed"


class GatewayMisconfigured(ToolgateError):
    """The configuration does not allow enforcement, which the API key requires, or lacks the
    credentials of a provider.

    The operator must change the setting that the message names."""

    code = "gateway_misconfigured"


class InternalFault(ToolgateError):
    """The gateway has a bug. Its log has the traceback.

    Send the request again, and report the traceback."""

    code = "internal_error"


class ClientDisconnected(ToolgateError):
    """The client closed the connection early. Log events, and other readers of a response
    (Responses), get this error.

    Nothing, or send the request again."""

    status = 499
    code = "client_disconnected"


class GatewayStopped(ToolgateError):
    """The gateway process that generated a response in the background stopped before the end, or
    could not reach Redis.

    Create the response again."""

    status = 503
    type = "service_unavailable_error"
    code = "gateway_stopped"


class GrammarsRefused(ToolgateError):
    """The backend refuses grammars that the request needs. Clients get an error that names the
    schemas, or their tools are left out.

    Nothing.

    `verdicts`: those of the refused grammars, as the wire has them."""

    status = 409
    type = "invalid_request_error"
    code = "grammars_refused"

    def __init__(self, verdicts: Sequence[dict[str, Any]]) -> None:
        super().__init__("Schemas of this request cannot be enforced.")
        self.verdicts = tuple(verdicts)

    def details(self) -> dict[str, Any]:
        return {"verdicts": list(self.verdicts)}


class FingerprintMismatch(ToolgateError):
    """The replica is another one than the gateway's message is for, or a router has changed the
    message (`param` is `toolgate`). The gateway repeats the request.

    Nothing."""

    status = 409
    type = "invalid_request_error"
    code = "fingerprint_mismatch"


class BackendUnavailable(ToolgateError):
    """No backend is reachable, responds to health checks and accepts the gateway's key, or the
    backend is at capacity.

    Send the request again after the time in Retry-After."""

    status = 503
    type = "service_unavailable_error"
    code = "backend_unavailable"


class BackendTimeout(ToolgateError):
    """The backend exceeded one of the time limits `TOOLGATE_…_TIMEOUT`.

    Send the request again, or raise the time limit."""

    status = 504
    type = "timeout_error"
    code = "backend_timeout"


class BackendFailed(ToolgateError):
    """The backend returned an error or an invalid response, such as a compressed or too large one,
    or counts that contradict its tokens.

    Read the message. Gateway and backend must be of the same release."""

    status = 502
    type = "server_error"
    code = "backend_failed"


class CompactionFailed(ToolgateError):
    """The model did not complete the summary of the conversation.

    Send the request again, with another seed if it has one, or shorten the conversation."""

    status = 502
    type = "server_error"
    code = "compaction_failed"


class BackendLost(BackendFailed):
    """The backend closed the connection after it had accepted the request.

    Send the request again."""
