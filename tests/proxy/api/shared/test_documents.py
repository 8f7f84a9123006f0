"""Files in requests, in all three APIs."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.support.documents.pdfs import CALLED
from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_proxy.api.surface import Surface
from toolgate_proxy.api.surfaces import COMPLETIONS, MESSAGES, RESPONSES
from toolgate_proxy.documents.pdf import PDF, Pdf

PDF_DATA = base64.b64encode(b"%PDF-1.4 \xff").decode()
LAMPS = base64.b64encode("Lämp 4".encode()).decode()
HEAD = "data:application/pdf;base64,"
SURFACES: dict[str, Surface] = {"chat": COMPLETIONS, "responses": RESPONSES, "messages": MESSAGES}
FIELDS = {"chat": "file.file_data", "responses": "file_data", "messages": "source.data"}
PATHS = {
    "chat": ("messages[0].content[0]", "messages[2].content[0]"),
    "responses": ("input[0].content[0]", "input[2].output[0]"),
    "messages": ("messages[0].content[0]", "messages[2].content[0].content[0]"),
}
"""Of a part of the user, and of a part in the result of a call."""


def part(api: str, data: Any, title: str | None = None) -> dict[str, Any]:
    named = {} if title is None else {"filename": title}
    if api == "chat":
        return {"type": "file", "file": {"file_data": data, **named}}
    if api == "responses":
        return {"type": "input_file", "file_data": data, **named}
    source = {"type": "base64", "media_type": "text/plain", "data": data}
    return {"type": "document", "source": source, "title": title}


def asked(api: str, given: dict[str, Any], *, in_result: bool = False) -> ChatRequest:
    messages = [{"role": "user", "content": [given]}]
    if in_result:
        results: dict[str, dict[str, Any]] = {
            "chat": {"role": "tool", "tool_call_id": "c", "content": [given]},
            "responses": {"type": "function_call_output", "call_id": "c", "output": [given]},
            "messages": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c", "content": [given]}],
            },
        }
        messages = [*CALLED[api], results[api]]
    name = "input" if api == "responses" else "messages"
    body: dict[str, Any] = {"model": "tiny", name: messages}
    if api == "messages":
        body["max_tokens"] = 9
    return SURFACES[api].parse(body, model="tiny")


def content(request: ChatRequest) -> Any:
    given = request.messages[-1]["content"]
    return given if isinstance(given, list) else [{"type": "text", "text": given}]


@pytest.mark.parametrize("in_result", [False, True])
@pytest.mark.parametrize("api", SURFACES)
def test_a_text_file_is_text_with_its_name(api: str, in_result: bool) -> None:
    shown = '<document title="a.txt">\nLämp 4\n</document>'
    request = asked(api, part(api, LAMPS, "a.txt"), in_result=in_result)
    assert content(request) == [{"type": "text", "text": shown}]
    assert (request.documents, request.history_changes) == (False, ())
    url = f"data:text/markdown;charset=utf-8;base64,{LAMPS}"
    assert content(asked(api, part(api, url, "a.txt"))) == content(request)


@pytest.mark.parametrize("in_result", [False, True])
@pytest.mark.parametrize("api", SURFACES)
def test_a_pdf_is_kept_until_its_text_is_read(api: str, in_result: bool) -> None:
    for data in (PDF_DATA, HEAD + PDF_DATA):
        request = asked(api, part(api, data, "a.pdf"), in_result=in_result)
        (found,) = content(request)
        place = PATHS[api][in_result]
        assert found == {"type": PDF, PDF: Pdf(PDF_DATA, place, FIELDS[api], "a.pdf")}
        assert request.documents


@pytest.mark.parametrize("api", SURFACES)
def test_a_file_that_is_said_to_be_a_pdf_is_read_as_one(api: str) -> None:
    """The error of the reader tells that it is none."""
    assert asked(api, part(api, HEAD + LAMPS)).documents


UNREADABLE = {
    "no base64": "x",
    "an image": base64.b64encode(b"\x89PNG\r\n\x1a\n\0").decode(),
    "another encoding": base64.b64encode("Lämp".encode("latin-1")).decode(),
    "no data URL": "data:text/plain,abc",
    "half a surrogate pair": HEAD + "\ud800",
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=[*UNREADABLE])
@pytest.mark.parametrize("api", SURFACES)
def test_an_unreadable_file_is_refused_or_left_out_of_a_result(api: str, data: str) -> None:
    user, result = PATHS[api]
    with pytest.raises(UnsupportedParameter) as refused:
        asked(api, part(api, data))
    assert refused.value.param == f"{user}.{FIELDS[api]}"
    request = asked(api, part(api, data), in_result=True)
    (left_out,) = content(request)
    assert left_out["text"].endswith("left out]")
    assert [(change.kind, change.path) for change in request.history_changes] == [
        ("left_out", result)
    ]


@pytest.mark.parametrize("data", [None, "", 3])
@pytest.mark.parametrize("api", SURFACES)
def test_a_file_without_data_is_refused(api: str, data: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        asked(api, part(api, data))
    assert refused.value.param == f"{PATHS[api][0]}.{FIELDS[api]}"


REFERENCES: list[tuple[str, dict[str, Any], str]] = [
    ("chat", {"type": "file", "file": {"file_id": "f"}}, "file.file_id"),
    ("responses", {"type": "input_file", "file_id": "f"}, "file_id"),
    ("responses", {"type": "input_file", "file_url": "https://a.example/b.pdf"}, "file_url"),
    ("messages", {"type": "document", "source": {"type": "file", "file_id": "f"}}, "source.type"),
    ("messages",
     {"type": "document", "source": {"type": "url", "url": "https://a.example/b.pdf"}},
     "source.type"),
]  # fmt: skip


@pytest.mark.parametrize(("api", "given", "field"), REFERENCES)
def test_a_file_that_is_not_in_the_request_is_refused_or_left_out_of_a_result(
    api: str, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        asked(api, given)
    assert refused.value.param == f"{PATHS[api][0]}.{field}"
    (left_out,) = content(asked(api, given, in_result=True))
    assert left_out == {"type": "text", "text": f"[{given['type']} left out]"}
