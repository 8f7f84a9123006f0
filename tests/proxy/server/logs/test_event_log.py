"""The lines of the log that are not those of requests."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from datetime import datetime
from io import StringIO

import pytest

from toolgate_proxy.server.logs import event_log
from toolgate_proxy.stack.processes import cause

NAME = "toolgate_proxy.routing.health"


@pytest.fixture(params=[True, False], ids=["json", "text"])
def as_json(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def log(as_json: bool) -> Iterator[StringIO]:
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(event_log.EventFormatter(as_json=as_json))
    logger = logging.getLogger(NAME)
    logger.addHandler(handler)
    yield written
    logger.removeHandler(handler)


def test_a_message_has_its_time_level_and_logger(log: StringIO, as_json: bool) -> None:
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


def test_a_traceback_is_a_field_from_which_the_cause_is_read(log: StringIO, as_json: bool) -> None:
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


def test_loggers_with_and_without_handlers_get_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", StringIO())  # is replaced
    streams = [StringIO(), StringIO()]
    handlers = [logging.StreamHandler(each) for each in streams]
    monkeypatch.setattr(logging.getLogger(event_log.HANDLED[0]), "handlers", handlers[:1])
    monkeypatch.setattr(logging, "lastResort", handlers[1])
    for logger in (logging.getLogger(), logging.getLogger("toolgate_proxy")):  # without pytest's
        monkeypatch.setattr(logger, "handlers", [])
    event_log.set_up(as_json=True)
    logging.getLogger(f"{event_log.HANDLED[0]}.error").critical("gone")
    logging.getLogger(NAME).warning("down")
    messages = [json.loads(each.getvalue())["message"] for each in streams]
    assert messages == ["gone", "down"]


def test_printed_lines_are_lines_of_the_log(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    monkeypatch.setattr(sys, "stdout", output := StringIO())
    for _ in range(2):  # before and after LiteLLM is imported
        event_log.set_up(as_json=as_json)
    print("\x1b[32mLiteLLM: models:\x1b[0m\n", end="")
    print("  tiny", "other", flush=True)
    print()
    messages, lines = ("LiteLLM: models:", "tiny other"), output.getvalue().splitlines()
    for message, line in zip(messages, lines, strict=True):
        fields = {"level": "info", "logger": "stdout", "message": message}
        pairs = " ".join(f'{name}="{value}"' for name, value in fields.items())
        assert fields.items() <= json.loads(line).items() if as_json else line.endswith(pairs)
    logging.captureWarnings(False)


def test_a_warning_of_a_command_has_the_same_fields(capsys: pytest.CaptureFixture[str]) -> None:
    event_log.warn(["A % sign"], as_json=True)
    shown = json.loads(capsys.readouterr().err)
    assert (shown["level"], shown["message"]) == ("warning", "A % sign")
