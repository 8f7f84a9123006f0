"""Files in requests reach the model as text, on all three APIs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.documents import worker
from tests.support.documents.pdfs import CALLED, in_base64
from tests.support.litellm.own_route import PATHS, Gateway, Response, body_of
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import key_of
from toolgate_core.wire import ChatPrompt
from toolgate_proxy.documents.reader import Documents
from toolgate_proxy.server.response_headers import own_headers

SHOWN = '<document title="a.pdf">\nLamp 4\n</document>'
ASK = {"chat": "text", "responses": "input_text", "messages": "text"}


@pytest.fixture(autouse=True)
def _worker(gateway: Gateway) -> None:
    gateway.here.documents = Documents(module=worker.__name__)


def file(api: str, text: str) -> dict[str, Any]:
    data = in_base64(f"%PDF-{text}".encode())
    url = f"data:application/pdf;base64,{data}"
    if api == "chat":
        return {"type": "file", "file": {"file_data": url, "filename": "a.pdf"}}
    if api == "responses":
        return {"type": "input_file", "file_data": url, "filename": "a.pdf"}
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    return {"type": "document", "title": "a.pdf", "source": source}


def sent(api: str, text: str) -> list[dict[str, Any]]:
    """A message of the user with a file and a question."""
    return [{"role": "user", "content": [file(api, text), {"type": ASK[api], "text": "What?"}]}]


def read(api: str, text: str) -> list[dict[str, Any]]:
    """A conversation with a file in the result of a call, as clients' tools return it."""
    part = file(api, text)
    results: dict[str, dict[str, Any]] = {
        "chat": {"role": "tool", "tool_call_id": "c", "content": [part]},
        "responses": {"type": "function_call_output", "call_id": "c", "output": [part]},
        "messages": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": [part]}],
        },
    }
    return [*CALLED[api], results[api]]


async def ask(gateway: Gateway, api: str, history: list[Any], **more: Any) -> Response:
    gateway.backend.turns[:] = [Script(("Hello",))]
    name = "input" if api == "responses" else "messages"
    return await gateway.ask({**body_of(api), name: history, **more}, path=PATHS[api])


@pytest.mark.parametrize("api", PATHS)
async def test_a_pdf_of_the_user(gateway: Gateway, api: str) -> None:
    response = await ask(gateway, api, sent(api, "Lamp 4"))
    assert response.status == 200, response.json
    texts = [part["text"] for part in gateway.backend.messages()[-1]["content"]]
    assert texts == [SHOWN, "What?"]


@pytest.mark.parametrize("api", PATHS)
async def test_a_pdf_in_a_result(gateway: Gateway, api: str) -> None:
    response = await ask(gateway, api, read(api, "Lamp 4"))
    assert response.status == 200, response.json
    (result,) = [each for each in gateway.backend.messages() if each["role"] == "tool"]
    assert [part["text"] for part in result["content"]] == [SHOWN]
    assert "x-toolgate-history" not in own_headers(response.context)


PLACES = {
    "chat": ("messages[0].content[0].file.file_data", "messages[2].content[0]"),
    "responses": ("input[0].content[0].file_data", "input[2].output[0]"),
    "messages": ("messages[0].content[0].source.data", "messages[2].content[0].content[0]"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", PATHS)
async def test_a_pdf_that_can_not_be_read(gateway: Gateway, api: str, stream: bool) -> None:
    param, place = PLACES[api]
    refused = await ask(gateway, api, sent(api, "password"))
    assert (refused.status, refused.json["error"]["param"]) == (400, param)
    assert refused.json["error"]["message"] == (
        f"'{param}': The PDF specified is password protected. Send it without a password."
    )
    response = await ask(gateway, api, read(api, "password"), stream=stream)
    assert response.status == 200
    (result,) = [each for each in gateway.backend.messages() if each["role"] == "tool"]
    assert "[left out: The PDF specified is password protected." in result["content"][0]["text"]
    assert own_headers(response.context)["x-toolgate-history"] == f"left_out={place}"


async def test_a_stored_conversation_keeps_its_file(gateway: Gateway) -> None:
    first = await ask(gateway, "responses", sent("responses", "Lamp 4"))
    last = [{"role": "user", "content": "And now?"}]
    more = {"previous_response_id": first.json["id"]}
    response = await ask(gateway, "responses", last, **more)
    assert response.status == 200, response.json
    assert gateway.backend.messages()[0]["content"][0]["text"] == SHOWN


KEY = "sk-tg-limited"


@pytest.mark.parametrize("api", PATHS)
async def test_the_text_of_a_pdf_counts_before_a_backend_gets_it(
    gateway: Gateway, api: str
) -> None:
    name = "input" if api == "responses" else "messages"
    body = {**body_of(api), name: sent(api, "x" * 30_000)}
    for limit, status in ((9_000, 429), (12_000, 200)):
        gateway.add_key(KEY, key_of(KEY, tpm=limit))
        gateway.backend.turns[:] = [Script(("Hello",))]
        response = await gateway.ask(body, path=PATHS[api], key=KEY)
        assert response.status == status, response.json
        assert len(gateway.backend.requests) == (status == 200)


async def test_the_tokens_of_a_file_are_counted(gateway: Gateway) -> None:
    later = [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "hi"}]
    body = {"model": "tiny", "messages": [*sent("messages", "Lamp 4"), *later]}
    response = await gateway.ask(body, path="/v1/messages/count_tokens")
    assert response.status == 200, response.json
    prompt = gateway.backend.counts[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.messages[0]["content"][0]["text"] == SHOWN
