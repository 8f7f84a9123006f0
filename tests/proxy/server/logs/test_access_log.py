"""The line that a request leaves in the log."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.servers.virtual_keys import key_of
from toolgate_core.chat_request import HistoryChange
from toolgate_proxy.context import RequestContext
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.server.logs import access_log
from toolgate_proxy.server.logs.access_log import line


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), st.text() | st.integers()))
def test_record_is_always_one_line(record: dict[str, str | int]) -> None:
    for as_json in (True, False):
        told = line(record, as_json=as_json)
        assert len(told.splitlines()) <= 1
    assert json.loads(line(record, as_json=True)).keys() == record.keys()


def written(context: RequestContext, monkeypatch: pytest.MonkeyPatch) -> dict[str, object] | None:
    """The record that is logged of a request."""
    lines: list[str] = []
    monkeypatch.setattr(access_log.logger, "info", lines.append)
    access_log.write(context, as_json=True)
    record: dict[str, object] | None = json.loads(lines[0]) if lines else None
    return record


def test_record_has_key_model_status_tokens_and_times(monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_of(new_key(), alias="web-1", team="web")
    context = RequestContext("mine", call_id="call-1", key=key, model="tiny", sent_whole=True)
    context.begin_response(200)
    context.note_tokens(11, 8, complete=True)
    context.note_enforcement(True, {})
    context.grammars.note(2, "redis", 1.25)
    record = written(context, monkeypatch)
    assert record is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(record.pop("time")))
    times = {name: record.pop(name) for name in ("seconds", "first_byte_seconds")}
    assert all(isinstance(value, float) for value in times.values())
    assert record == {
        "level": "info", "request_id": "mine", "call_id": "call-1", "key": "web-1", "team": "web",
        "model": "tiny", "status": 200,
        "prompt_tokens": 11, "completion_tokens": 8, "grammar": "redis; n=2; ms=1.2", "whole": True,
    }  # fmt: skip


def test_what_the_model_did_not_see_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    context = RequestContext(model="tiny", status=200, omitted_tools=("web_search", "mcp"))
    record = written(context, monkeypatch)
    assert record is not None
    assert (record["level"], record["omitted_tools"]) == ("warning", "web_search,mcp")
    assert "history" not in record
    context = RequestContext(model="tiny", status=200, invalid_tools={"orders": "/type"})
    record = written(context, monkeypatch)
    assert record is not None
    assert (record["level"], record["invalid_tools"]) == ("warning", 1)
    context = RequestContext(model="tiny", status=200)
    context.note_changes(HistoryChange("left_out", f"input[{at}].private") for at in range(2))
    context.note_changes([HistoryChange("image", "input[3]")])
    record = written(context, monkeypatch)
    assert record is not None
    assert (record["level"], record["history"]) == ("warning", "left_out,image")


def test_master_key_is_logged_as_master_and_long_model_names_are_truncated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = written(RequestContext(model="m" * 500, authenticated=True), monkeypatch)
    assert record is not None
    assert (record["key"], record["model"], record["whole"]) == ("master", "m" * 200, False)
    assert "status" not in record


def test_request_without_a_model_has_path_and_error_but_no_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = RequestContext("mine", method="GET", path="/v1/models", error_code="invalid_api_key")
    context.status = 401
    record = written(context, monkeypatch)
    assert record is not None
    assert record.pop("time")
    assert record.pop("seconds") is not None
    assert record == {
        "level": "info", "request_id": "mine", "method": "GET", "path": "/v1/models", "status": 401,
        "error": "invalid_api_key", "whole": False,
    }  # fmt: skip


def test_error_of_a_repeated_attempt_is_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    context = RequestContext(model="tiny", error_code="backend_unavailable")
    context.begin_response(200)
    record = written(context, monkeypatch)
    assert record is not None
    assert "error" not in record


@pytest.mark.parametrize(("status", "level"), [(200, "info"), (503, "info"), (500, "error")])
def test_the_503_of_a_probe_is_no_error(
    monkeypatch: pytest.MonkeyPatch, status: int, level: str
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(access_log.logger, "info", lines.append)
    context = RequestContext(path="/toolgate/ready")
    context.begin_response(status)
    access_log.write(context, as_json=True, probe=True)
    assert json.loads(lines[0])["level"] == level
