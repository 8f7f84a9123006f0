"""The lines of the log: of requests, of the gateway's events, and of LiteLLM about requests."""

import asyncio
import json
import logging
import re
import sys
from datetime import datetime
from io import StringIO

import litellm
import pytest
from mcp.shared.exceptions import MCPError

from tests.support.servers.virtual_keys import key_of
from toolgate_core.errors import EnforcementFailed
from toolgate_proxy.context import Caller, Notes, Outcome, RequestContext
from toolgate_proxy.features.mcp.litellm_servers import ServerExcess
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.litellm_host.context import carry
from toolgate_proxy.litellm_host.errors import host_error
from toolgate_proxy.ops.stack.processes import cause
from toolgate_proxy.request.chat_request import HistoryChange
from toolgate_proxy.server import logs
from toolgate_proxy.server.logs import LITELLM, frames, line, place


@pytest.mark.parametrize("as_json", [True, False])
def test_record_is_always_one_line(as_json):
    every = "".join(map(chr, range(0x3100))) + "\U0001f600"
    for value in (every, *every[:0x100], every[0x2000:0x2100], 7):
        told = line({"a": value, "b_c": "x"}, as_json=as_json, max_text=2**16)
        assert len(told.splitlines()) == 1
        assert not as_json or json.loads(told) == {"a": value, "b_c": "x"}


def written(context, monkeypatch, **more):
    """The record that is logged of a request."""
    lines = []
    monkeypatch.setattr(logs.of_requests, "info", lines.append)
    logs.write(context, as_json=True, **more)
    return json.loads(lines[0])


def test_record_has_key_model_status_tokens_and_times(monkeypatch):
    key = key_of(new_key(), alias="web-1", team="web")
    context = RequestContext("mine", call_id="call-1", caller=Caller(key), model="tiny")
    context.outcome.begin(200)
    context.outcome.sent_whole = True
    context.meter.note_tokens(11, 8, complete=True)
    context.notes.note_enforcement(True, {})
    context.notes.note_grammars(2, new=True)
    record = written(context, monkeypatch)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(record.pop("time")))
    times = {name: record.pop(name) for name in ("seconds", "first_byte_seconds")}
    assert all(isinstance(value, float) for value in times.values())
    assert record == {
        "level": "info", "request_id": "mine", "call_id": "call-1", "key": "web-1", "team": "web",
        "model": "tiny", "status": 200,
        "prompt_tokens": 11, "completion_tokens": 8, "grammar": "new; n=2", "whole": True,
    }  # fmt: skip


LEFT_OUT = [HistoryChange("left_out", f"input[{at}].private") for at in range(2)]


def test_what_the_model_did_not_see_is_a_warning(monkeypatch):
    history = [*LEFT_OUT, HistoryChange("image", "input[3]")]
    for about, changes, field, expected in (
        ({"omitted_tools": ("web_search", "mcp")}, [], "omitted_tools", "web_search,mcp"),
        ({"invalid_tools": {"orders": "/type"}}, [], "invalid_tools", 1),
        ({}, history, "history", "left_out,image"),
    ):
        context = RequestContext(model="tiny", notes=Notes(**about))
        context.outcome.status = 200
        context.notes.note_changes(changes)
        record = written(context, monkeypatch)
        assert (record["level"], record[field]) == ("warning", expected)
        assert len({"omitted_tools", "invalid_tools", "history"} & {*record}) == 1


def test_records_of_the_master_key_of_no_model_and_of_a_repeated_attempt(monkeypatch):
    record = written(
        RequestContext(model="m" * 500, caller=Caller(authenticated=True)), monkeypatch
    )
    assert (record["key"], record["model"], record["whole"]) == ("master", "m" * 200, False)
    assert "status" not in record
    context = RequestContext("mine", method="GET", path="/v1/models")
    context.outcome.code = "invalid_api_key"
    context.outcome.status = 401
    record = written(context, monkeypatch)
    assert record.pop("time")
    assert record.pop("seconds") is not None
    assert record == {
        "level": "info", "request_id": "mine", "method": "GET", "path": "/v1/models", "status": 401,
        "error": "invalid_api_key", "whole": False,
    }  # fmt: skip
    context = RequestContext(model="tiny", outcome=Outcome(code="backend_unavailable"))
    context.outcome.begin(200)
    record = written(context, monkeypatch)
    assert "error" not in record


def test_the_503_of_a_probe_is_no_error(monkeypatch):
    for status, level in ((200, "info"), (503, "info"), (500, "error")):
        context = RequestContext(path="/toolgate/ready")
        context.outcome.begin(status)
        assert written(context, monkeypatch, probe=True)["level"] == level


# --- lines that are not those of requests ---------------------------------------------------------

NAME = "toolgate_proxy.routing.health"


@pytest.fixture(params=[True, False], ids=["json", "text"])
def as_json(request):
    return bool(request.param)


@pytest.fixture
def _own_loggers(monkeypatch):
    for name in ("of_requests", "of_tools"):
        monkeypatch.setattr(logs, name, logging.Logger(name))


@pytest.fixture
def log(as_json):
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logs.EventFormatter(as_json=as_json))
    logger = logging.getLogger(NAME)
    logger.addHandler(handler)
    yield written
    logger.removeHandler(handler)


def test_a_message_has_its_time_level_and_logger(log, as_json):
    logging.getLogger(NAME).warning("Backend %s failed:\n%s", "b", "x" * 1000)
    [written] = log.getvalue().splitlines()
    message = "Backend b failed:\n" + "x" * 1000
    if as_json:
        record = json.loads(written)
        time = record.pop("time")
        assert record == {"level": "warning", "logger": NAME, "message": message}
    else:
        time = written[6:30]
        shown = json.dumps(message)
        assert written == f'time="{time}" level="warning" logger="{NAME}" message={shown}'
    assert time.endswith("Z")
    assert abs(datetime.fromisoformat(time).timestamp() - datetime.now().timestamp()) < 60


def test_a_traceback_is_a_field_from_which_the_cause_is_read(log, as_json):
    try:
        raise KeyError("absent")
    except KeyError:
        logging.getLogger(NAME).exception("A bug")
    [written] = log.getvalue().splitlines()
    field = written.partition(" traceback=")[2]
    traceback = json.loads(written)["traceback"] if as_json else json.loads(field)
    assert traceback.startswith("Traceback")
    assert traceback.endswith("KeyError: 'absent'")
    assert as_json or cause(log.getvalue()) == "KeyError: 'absent'"


@pytest.mark.parametrize("kind", [ServerExcess, MCPError])
def test_what_others_send_is_logged_in_one_line_without_a_traceback(log, as_json, kind):
    sent = kind("the server sent more") if kind is ServerExcess else kind(1, "the server sent more")
    try:
        raise RuntimeError("No tools") from sent
    except RuntimeError:
        logging.getLogger(NAME).exception("No %s", "tools")
    [written] = log.getvalue().splitlines()
    assert "No tools: the server sent more" in written
    assert "raceback" not in written
    assert len(written) < 200


@pytest.mark.usefixtures("_own_loggers")
def test_loggers_with_and_without_handlers_get_the_format(monkeypatch):
    monkeypatch.setattr(sys, "stdout", StringIO())  # is replaced
    streams = [StringIO(), StringIO()]
    handlers = [logging.StreamHandler(each) for each in streams]
    monkeypatch.setattr(logging.getLogger(logs.LITELLM[0]), "handlers", handlers[:1])
    monkeypatch.setattr(logging, "lastResort", handlers[1])
    for logger in (logging.getLogger(), logging.getLogger("toolgate_proxy")):  # without pytest's
        monkeypatch.setattr(logger, "handlers", [])
    logs.set_up(as_json=True)
    logging.getLogger(f"{logs.LITELLM[0]}.error").critical("gone")
    logging.getLogger(NAME).warning("down")
    messages = [json.loads(each.getvalue())["message"] for each in streams]
    assert messages == ["gone", "down"]


@pytest.mark.usefixtures("_own_loggers")
def test_printed_lines_are_lines_of_the_log(monkeypatch, as_json):
    monkeypatch.setattr(sys, "stdout", output := StringIO())
    for _ in range(2):  # before and after LiteLLM is imported
        logs.set_up(as_json=as_json)
    print("\x1b[32mLiteLLM: models:\x1b[0m\n", end="")
    print("  tiny", "other", flush=True)
    print()
    messages, lines = ("LiteLLM: models:", "tiny other"), output.getvalue().splitlines()
    for message, told in zip(messages, lines, strict=True):
        fields = {"level": "info", "logger": "stdout", "message": message}
        pairs = " ".join(f'{name}="{value}"' for name, value in fields.items())
        assert fields.items() <= json.loads(told).items() if as_json else told.endswith(pairs)
    logging.captureWarnings(False)


def test_a_warning_of_a_command_has_the_same_fields(capsys):
    logs.warn(["A % sign"], as_json=True)
    shown = json.loads(capsys.readouterr().err)
    assert (shown["level"], shown["message"]) == ("warning", "A % sign")


# --- LiteLLM's records about requests -------------------------------------------------------------

SECRET = "swordfish"


@pytest.fixture(autouse=True)
def _filters(monkeypatch):
    loggers = [logging.getLogger(name) for name in (*LITELLM, "uvicorn.error")]
    held = [(logger, list(logger.filters), logger.level) for logger in loggers]
    logs.add_filters()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    yield
    for logger, filters, level in held:
        logger.filters[:] = filters
        logger.setLevel(level)


def failed(error):
    """The error with a traceback."""
    with pytest.raises(type(error)) as raised:
        raise error
    return raised.value


def logged(caplog, error, context):
    """The records that remain of LiteLLM's, for an error during a request."""

    async def request():
        if context is not None:
            carry(context)
        for name in LITELLM:
            logging.getLogger(name).error("Exception occured - %s", SECRET, exc_info=error)

    caplog.clear()
    asyncio.run(asyncio.wait_for(request(), 5))
    return [record for record in caplog.records if record.name in LITELLM]


def test_record_of_a_request_is_dropped_and_a_server_error_leaves_its_cause(caplog):
    for error, left in (
        (failed(KeyError(SECRET)), "KeyError at traffic/test_logs.py:"),
        (failed(litellm.BadRequestError(SECRET, "m", "openai")), "None"),
        (failed(host_error(EnforcementFailed(SECRET), "m")), "None"),
        (None, "logged at traffic/test_logs.py:"),
    ):
        context = RequestContext()
        assert logged(caplog, error, context) == []
        assert str(context.outcome.cause).startswith(left)
        assert SECRET not in str(context.outcome.cause)


def test_records_outside_requests_and_verbose_logs_are_kept(caplog):
    assert len(logged(caplog, failed(KeyError("k")), None)) == len(LITELLM)
    for name in LITELLM:
        logging.getLogger(name).setLevel(logging.INFO)
    assert len(logged(caplog, failed(KeyError("k")), RequestContext())) == len(LITELLM)


def test_exceptions_are_logged_by_place_and_frames_without_messages(caplog):
    error = ValueError(SECRET)
    error.__cause__ = failed(KeyError(SECRET))
    assert place(error).startswith("KeyError at traffic/test_logs.py:")
    assert frames(error).endswith("KeyError")
    assert "test_logs.py" in frames(error)
    assert SECRET not in place(error)
    assert place(KeyError(SECRET)) == "KeyError"
    logger = logging.getLogger("uvicorn.error")
    record = logger.makeRecord("", 40, "", 0, "Exception in ASGI application", (), None)
    error = failed(KeyError(SECRET))
    record.exc_info = (type(error), error, error.__traceback__)
    assert logger.filter(record)
    text = logging.Formatter().format(record)
    assert text.endswith("KeyError")
    assert SECRET not in text
