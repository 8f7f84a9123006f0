"""Files in requests: texts, PDFs, and those that can't be read, of users and in results."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.support.documents.pdfs import CALLED
from toolgate_core.chat_request import ChatRequest
from toolgate_proxy.documents.pdf import PDF, Pdf

from .kit import APIS, TURNS, Json, changes, each_api, parsed, refused

PDF_DATA = base64.b64encode(b"%PDF-1.4 \xff").decode()
LAMPS = base64.b64encode("Lämp 4".encode()).decode()
HEAD = "data:application/pdf;base64,"
FIELDS = {"chat": "file.file_data", "responses": "file_data", "messages": "source.data"}
PATHS = {
    "chat": ("messages[0].content[0]", "messages[2].content[0]"),
    "responses": ("input[0].content[0]", "input[2].output[0]"),
    "messages": ("messages[0].content[0]", "messages[2].content[0].content[0]"),
}
"""Of a part of the user, and of a part in the result of a call."""


def part(api: str, data: Any, title: str | None = None) -> Json:
    named = {} if title is None else {"filename": title}
    if api == "chat":
        return {"type": "file", "file": {"file_data": data, **named}}
    if api == "responses":
        return {"type": "input_file", "file_data": data, **named}
    source = {"type": "base64", "media_type": "text/plain", "data": data}
    return {"type": "document", "source": source, "title": title}


def body(api: str, given: Json, *, in_result: bool = False) -> Json:
    messages: list[Json] = [{"role": "user", "content": [given]}]
    if in_result:
        block = {"type": "tool_result", "tool_use_id": "c", "content": [given]}
        results: dict[str, Json] = {
            "chat": {"role": "tool", "tool_call_id": "c", "content": [given]},
            "responses": {"type": "function_call_output", "call_id": "c", "output": [given]},
            "messages": {"role": "user", "content": [block]},
        }
        messages = [*CALLED[api], results[api]]
    return {TURNS[api]: messages}


def content(request: ChatRequest) -> Any:
    given = request.messages[-1]["content"]
    return given if isinstance(given, list) else [{"type": "text", "text": given}]


@pytest.mark.parametrize("in_result", [False, True])
@each_api()
def test_a_text_file_is_text_with_its_name(api, in_result):
    shown = '<document title="a.txt">\nLämp 4\n</document>'
    for data in (LAMPS, f"data:text/markdown;charset=utf-8;base64,{LAMPS}"):
        request = parsed(api, body(api, part(api, data, "a.txt"), in_result=in_result))
        assert content(request) == [{"type": "text", "text": shown}]
        assert (request.documents, request.history_changes) == (False, ())


@pytest.mark.parametrize("in_result", [False, True])
@each_api()
def test_a_pdf_is_kept_until_its_text_is_read(api, in_result):
    """Also what is only said to be one: the reader's error tells that it is none."""
    for data in (PDF_DATA, HEAD + PDF_DATA):
        request = parsed(api, body(api, part(api, data, "a.pdf"), in_result=in_result))
        place = PATHS[api][in_result]
        expected = {"type": PDF, PDF: Pdf(PDF_DATA, place, FIELDS[api], "a.pdf")}
        assert (content(request), request.documents) == ([expected], True)
    assert parsed(api, body(api, part(api, HEAD + LAMPS), in_result=in_result)).documents


UNREADABLE = {
    "no base64": "x",
    "an image": base64.b64encode(b"\x89PNG\r\n\x1a\n\0").decode(),
    "another encoding": base64.b64encode("Lämp".encode("latin-1")).decode(),
    "no data URL": "data:text/plain,abc",
    "half a surrogate pair": HEAD + "\ud800",
}
REFERENCES: list[tuple[str, Json, str]] = [
    ("chat", {"type": "file", "file": {"file_id": "f"}}, "file.file_id"),
    ("responses", {"type": "input_file", "file_id": "f"}, "file_id"),
    ("responses", {"type": "input_file", "file_url": "https://a.example/b.pdf"}, "file_url"),
    ("messages", {"type": "document", "source": {"type": "file", "file_id": "f"}}, "source.type"),
    ("messages", {"type": "document", "source": {"type": "url", "url": "https://a.example/b.pdf"}},
     "source.type"),
]  # fmt: skip
NOT_READ = [
    *((api, part(api, data), FIELDS[api]) for data in UNREADABLE.values() for api in APIS),
    *REFERENCES,
]


@pytest.mark.parametrize(("api", "given", "field"), NOT_READ)
def test_a_file_that_is_not_read_is_refused_or_left_out_of_a_result(api, given, field):
    user, result = PATHS[api]
    error = refused(api, body(api, given))
    assert (error.code, error.param) == ("unsupported_parameter", f"{user}.{field}")
    request = parsed(api, body(api, given, in_result=True))
    assert content(request) == [{"type": "text", "text": f"[{given['type']} left out]"}]
    assert changes(request) == [["left_out", result]]


@pytest.mark.parametrize("data", [None, "", 3])
@each_api()
def test_a_file_without_data_is_refused(api, data):
    error = refused(api, body(api, part(api, data)))
    assert error.param == f"{PATHS[api][0]}.{FIELDS[api]}"
