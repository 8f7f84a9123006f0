"""Conversations with a damaged or foreign history go on, on all three APIs. A header, the log and
the metrics say what the model did not see as it was sent."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.litellm.own_route import CHAT, Gateway, Response
from tests.support.servers.script import Script, call
from toolgate_proxy.server.response_headers import own_headers

RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
URI = f"data:image/png;base64,{PNG}"
SCHEMA = {"type": "object", "properties": {"lamp": {"type": "string"}}}
TOOLS: dict[str, dict[str, Any]] = {
    CHAT: {"type": "function", "function": {"name": "dim", "parameters": SCHEMA}},
    RESPONSES: {"type": "function", "name": "dim", "parameters": SCHEMA},
    MESSAGES: {"name": "dim", "input_schema": SCHEMA},
}
USER = {"role": "user", "content": "Dim lamp 4."}
LAST = {"role": "user", "content": "go on"}
DONE = {"role": "tool", "tool_call_id": "c1", "content": "done"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}


def chat_call(arguments: Any, **more: Any) -> dict[str, Any]:
    function = {"name": "dim", "arguments": arguments}
    calls = [{"id": "c1", "type": "function", "function": function, **more}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def item_call(arguments: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "c1", "name": "dim", "arguments": arguments}


def said(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": [*content]}


def used(given: Any) -> dict[str, Any]:
    return said({"type": "tool_use", "id": "toolu_1", "name": "dim", "input": given})


def resulted(content: Any) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
    return {"role": "user", "content": [result, {"type": "text", "text": "go on"}]}


async def ask(gateway: Gateway, path: str, history: list[Any], **more: Any) -> Response:
    gateway.backend.scripts["go on"] = Script((call("dim", {"lamp": "5"}),))
    body: dict[str, Any] = {"model": "tiny", "tools": [TOOLS[path]], **more}
    body["input" if path == RESPONSES else "messages"] = history
    if path == MESSAGES:
        body["max_tokens"] = 200
    return await gateway.ask(body, path=path)


ARGUMENTS = "arguments=messages[1].tool_calls[0].function.arguments"
TAKEN: dict[str, tuple[str, list[Any], str | None]] = {
    "a cut call": (CHAT, [USER, chat_call('{"lamp": "4'), DONE, LAST], ARGUMENTS),
    "a dumped message": (
        CHAT,
        [
            USER,
            chat_call("{}", index=0)
            | {"refusal": None, "annotations": [], "audio": None, "function_call": None},
            DONE | {"name": None},
            LAST,
        ],
        None,
    ),
    "an empty text beside a call": (
        CHAT,
        [USER, chat_call("{}") | {"content": ""}, DONE, LAST],
        None,
    ),
    "an unanswered call": (CHAT, [USER, chat_call("{}"), LAST], "no_result=messages[1]"),
    "a result without its call": (CHAT, [USER, DONE, LAST], "lost_call=messages[1]"),
    "a part without its text": (
        CHAT,
        [
            USER,
            chat_call("{}") | {"content": [{"type": "text", "text": None}]},
            DONE | {"content": [{"type": "text"}, {"type": "text", "text": "ok"}]},
            LAST,
        ],
        "left_out=messages[1].content[0],messages[2].content[0]",
    ),
    "encrypted reasoning of another service": (
        RESPONSES,
        [USER, {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABo"}, LAST],
        "left_out=input[1].encrypted_content",
    ),
    "texts of the assistant without items": (
        RESPONSES,
        [USER, said({"type": "output_text", "text": "a"}), {"role": "assistant", "content": "b"},
         LAST],
        None,
    ),
    "the advice of a server tool": (
        MESSAGES,
        [
            USER,
            said(
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}},
                {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1",
                 "content": {"type": "advisor_result", "text": "do it"}},
                {"type": "text", "text": "ok"},
            ),
            LAST,
        ],
        "left_out=messages[1].content[0]; as_text=messages[1].content[1]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
async def test_a_conversation_goes_on(gateway: Gateway, name: str) -> None:
    path, history, changes = TAKEN[name]
    response = await ask(gateway, path, history)
    assert response.status == 200, response.json
    assert own_headers(response.context).get("x-toolgate-history") == changes
    for message in gateway.backend.messages():
        for each in message.get("tool_calls") or ():
            assert each["function"]["arguments"].startswith("{")


IMAGES: dict[str, tuple[list[Any], str]] = {
    CHAT: (
        [USER, chat_call("{}"),
         DONE | {"content": [{"type": "text", "text": "seen"},
                             {"type": "image_url", "image_url": {"url": URI}}]},
         LAST],
        "messages[2]",
    ),
    RESPONSES: (
        [USER, item_call("{}"),
         OUTPUT | {"output": [{"type": "input_text", "text": "seen"},
                              {"type": "input_image", "image_url": URI}]},
         LAST],
        "input[2]",
    ),
    MESSAGES: (
        [USER, used({}),
         resulted([{"type": "text", "text": "seen"},
                   {"type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PNG}}])],
        "messages[2].content[0]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", IMAGES)
async def test_an_image_in_a_result_is_a_text_for_a_model_without_images(
    gateway: Gateway, path: str
) -> None:
    history, place = IMAGES[path]
    response = await ask(gateway, path, history)
    assert response.status == 200, response.json
    (result,) = [each for each in gateway.backend.messages() if each["role"] == "tool"]
    assert [part["text"] for part in result["content"]] == [
        "seen",
        "[image left out: this model takes text only]",
    ]
    assert own_headers(response.context)["x-toolgate-history"] == f"image={place}"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("path", TOOLS)
async def test_changes_of_the_backend_are_in_the_headers(
    gateway: Gateway, path: str, stream: bool
) -> None:
    start = {"adapted": (("system", 1), ("joined", 9)), "max_tokens": 150}
    gateway.backend.scripts["go on"] = Script(("ok",), start=start)
    most = {"max_output_tokens" if path == RESPONSES else "max_tokens": 200}
    history = [USER, {"role": "system", "content": "a"}, LAST]
    body = {
        "model": "tiny",
        "stream": stream,
        "input" if path == RESPONSES else "messages": history,
    }
    response = await gateway.ask(body | most, path=path)
    assert response.status == 200, response.json
    headers = own_headers(response.context)
    place = "input[1]" if path == RESPONSES else "messages[1]"
    assert headers["x-toolgate-history"] == f"system={place}"
    assert headers["x-toolgate-max-tokens"] == "150"
    [sent] = gateway.backend.requests
    assert sent.fit_max_tokens is (True if path == MESSAGES else None)


async def test_a_cut_answer_of_chat_completions_is_continued(gateway: Gateway) -> None:
    begun = call("dim", {"lamp": "5" * 60})[:-30]
    gateway.backend.scripts[USER["content"]] = Script((begun,), finish="length")
    first = await ask(gateway, CHAT, [USER])
    choice = first.json["choices"][0]
    assert choice["finish_reason"] == "length"
    response = await ask(gateway, CHAT, [USER, choice["message"], LAST])
    assert response.status == 200, response.json
    assert own_headers(response.context)["x-toolgate-history"] == (
        f"{ARGUMENTS}; no_result=messages[1]"
    )


@pytest.mark.parametrize("path", TOOLS)
async def test_hosted_tools_are_left_out_or_refused(gateway: Gateway, path: str) -> None:
    hosted = {"type": "web_search_20250305", "name": "web_search"}
    history = [USER, {"role": "assistant", "content": "a"}, LAST]
    response = await ask(gateway, path, history, tools=[TOOLS[path], hosted], stream=True)
    assert response.status == 200
    assert own_headers(response.context)["x-toolgate-omitted-tools"] == "web_search_20250305"
    gateway.configure(hosted_tools="refuse")
    refused = await ask(gateway, path, history, tools=[TOOLS[path], hosted])
    assert (refused.status, refused.json["error"]["param"]) == (400, "tools[1]")
