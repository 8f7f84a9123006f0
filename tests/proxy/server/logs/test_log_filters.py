"""LiteLLM's log records about requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import litellm
import pytest

from toolgate_core.errors import EnforcementFailed
from toolgate_proxy.context import RequestContext
from toolgate_proxy.litellm_host.context import carry
from toolgate_proxy.litellm_host.errors import host_error
from toolgate_proxy.server.logs import log_filters
from toolgate_proxy.server.logs.log_filters import LITELLM, frames, place

SECRET = "swordfish"


@pytest.fixture(autouse=True)
def _filters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (*LITELLM, "uvicorn.error")]
    held = [(logger, list(logger.filters), logger.level) for logger in loggers]
    log_filters.set_up()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    yield
    for logger, filters, level in held:
        logger.filters[:] = filters
        logger.setLevel(level)


def failed(error: Exception) -> Exception:
    """The error with a traceback."""
    with pytest.raises(type(error)) as raised:
        raise error
    return raised.value


def logged(
    caplog: pytest.LogCaptureFixture, error: Exception | None, context: RequestContext | None
) -> list[logging.LogRecord]:
    """The records that remain of LiteLLM's, for an error during a request."""

    async def request() -> None:
        if context is not None:
            carry(context)
        for name in LITELLM:
            logging.getLogger(name).error("Exception occured - %s", SECRET, exc_info=error)

    caplog.clear()
    asyncio.run(asyncio.wait_for(request(), 5))
    return [record for record in caplog.records if record.name in LITELLM]


def test_record_of_a_request_is_dropped_and_a_server_error_leaves_its_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = RequestContext()
    assert logged(caplog, failed(KeyError(SECRET)), context) == []
    assert context.cause is not None
    assert context.cause.startswith("KeyError at logs/test_log_filters.py:")


def test_client_errors_and_toolgates_errors_leave_no_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = RequestContext()
    client: Exception = litellm.BadRequestError(SECRET, "m", "openai")
    for error in (client, host_error(EnforcementFailed(SECRET), "m")):
        assert logged(caplog, failed(error), context) == []
    assert context.cause is None


def test_record_without_an_exception_leaves_its_place(caplog: pytest.LogCaptureFixture) -> None:
    context = RequestContext()
    assert logged(caplog, None, context) == []
    assert str(context.cause).startswith("logged at logs/test_log_filters.py:")


def test_records_outside_requests_and_verbose_logs_are_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert len(logged(caplog, failed(KeyError("k")), None)) == len(LITELLM)
    for name in LITELLM:
        logging.getLogger(name).setLevel(logging.INFO)
    assert len(logged(caplog, failed(KeyError("k")), RequestContext())) == len(LITELLM)


def test_place_and_frames_are_those_of_the_root_without_messages() -> None:
    error = ValueError(SECRET)
    error.__cause__ = failed(KeyError(SECRET))
    assert place(error).startswith("KeyError at logs/test_log_filters.py:")
    assert frames(error).endswith("KeyError")
    assert "test_log_filters.py" in frames(error)
    assert SECRET not in place(error)
    assert place(KeyError(SECRET)) == "KeyError"


def test_uncaught_exception_is_logged_without_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("uvicorn.error")
    record = logger.makeRecord("", 40, "", 0, "Exception in ASGI application", (), None)
    error = failed(KeyError(SECRET))
    record.exc_info = (type(error), error, error.__traceback__)
    assert logger.filter(record)
    text = logging.Formatter().format(record)
    assert text.endswith("KeyError")
    assert SECRET not in text
