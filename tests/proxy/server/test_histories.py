"""Conversations so far: damaged ones go on, files reach the model as text, and reasoning comes back
that clients drop. A header says what the model did not see as it was sent."""

import json
from pathlib import Path

import pytest
import yaml

from tests.proxy.server import kit
from tests.proxy.server.kit import APIS, CONVERSATION, STREAM, function, result
from tests.support.documents import pdfs as worker
from tests.support.documents.pdfs import CALLED, in_base64
from tests.support.litellm.own_route import MASTER, PATHS
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.features.files import parts
from toolgate_proxy.kept_reasoning import KeptReasoning
from toolgate_proxy.kept_values import MemoryValues
from toolgate_proxy.settings import Settings

SCHEMA = {"type": "object", "properties": {"lamp": {"type": "string"}}}
USER = {"role": "user", "content": "Dim lamp 4."}
LAST = {"role": "user", "content": "go on"}
CALL = call("dim", {"lamp": "5"})
TAKEN = yaml.safe_load(Path(__file__).with_name("histories.yaml").read_text())


async def ask(gateway, api, *turns, **params):
    given = {"tools": [function(api, "dim", SCHEMA)], **params}
    return await kit.ask(gateway, api, *turns, **given)


async def test_a_damaged_or_foreign_conversation_goes_on(gateway):
    for case in TAKEN:
        reply = await ask(gateway, case["api"], CALL, history=case["history"])
        assert reply.named == [("dim", {"lamp": "5"})], case["name"]
        assert reply.own.get("x-toolgate-history") == case["changes"], case["name"]
        for message in gateway.backend.messages():
            for each in message.get("tool_calls") or ():
                assert each["function"]["arguments"].startswith("{")
            if "an image" in case["name"] and message["role"] == "tool":
                assert [part["text"] for part in message["content"]] == [
                    "seen",
                    "[image left out: this model takes text only]",
                ]


@STREAM
@APIS
async def test_changes_of_the_backend_are_in_the_headers(gateway, api, stream):
    start = {"adapted": (("system", 1), ("joined", 9)), "max_tokens": 150}
    most = {"max_output_tokens" if api == "responses" else "max_tokens": 200}
    history = [USER, {"role": "system", "content": "a"}, LAST]
    turn = Script(("ok",), start=start)
    reply = await kit.ask(gateway, api, turn, history=history, stream=stream, **most)
    assert reply.own["x-toolgate-history"] == f"system={CONVERSATION[api]}[1]"
    assert reply.own["x-toolgate-max-tokens"] == "150"
    [sent] = gateway.backend.requests
    assert sent.fit_max_tokens is (api == "messages")


async def test_a_cut_answer_of_chat_completions_is_continued(gateway):
    begun = Script((call("dim", {"lamp": "5" * 60})[:-30],), finish="length")
    first = await ask(gateway, "chat", begun, history=[USER])
    assert first.end == "length"
    reply = await ask(gateway, "chat", "Done.", history=[USER, *first.turn, LAST])
    assert reply.own["x-toolgate-history"] == (
        "arguments=messages[1].tool_calls[0].function.arguments; no_result=messages[1]"
    )


@APIS
async def test_hosted_tools_are_left_out_or_refused(gateway, api):
    hosted = {"type": "web_search_20250305", "name": "web_search"}
    tools = [function(api, "dim", SCHEMA), hosted]
    reply = await ask(gateway, api, CALL, tools=tools, stream=True)
    assert reply.own["x-toolgate-omitted-tools"] == "web_search_20250305"
    gateway.configure(hosted_tools="refuse")
    assert (await ask(gateway, api, tools=tools)).refusal == (400, "tools[1]")


SHOWN = '<document title="a.pdf">\nLamp 4\n</document>'
ASK = {"chat": "text", "responses": "input_text", "messages": "text"}
KEY = "sk-tg-limited"


@pytest.fixture
def files(monkeypatch):
    monkeypatch.setattr(parts, "DOCUMENTS", parts.Documents(module=worker.__name__))


def file(api, text):
    data = in_base64(f"%PDF-{text}".encode())
    url = f"data:application/pdf;base64,{data}"
    if api == "chat":
        return {"type": "file", "file": {"file_data": url, "filename": "a.pdf"}}
    if api == "responses":
        return {"type": "input_file", "file_data": url, "filename": "a.pdf"}
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    return {"type": "document", "title": "a.pdf", "source": source}


def sent(api, text):
    """A message of the user with a file and a question."""
    return [{"role": "user", "content": [file(api, text), {"type": ASK[api], "text": "What?"}]}]


def returned(api, text):
    """A conversation with a file in the result of a call, as clients' tools return it."""
    return [*CALLED[api], result(api, "c", [file(api, text)])]


PLACES = {
    "chat": ("messages[0].content[0].file.file_data", "messages[2].content[0]"),
    "responses": ("input[0].content[0].file_data", "input[2].output[0]"),
    "messages": ("messages[0].content[0].source.data", "messages[2].content[0].content[0]"),
}


@pytest.mark.usefixtures("files")
async def test_files_reach_the_model_as_text(gateway):
    """Those of the user and in results. One that can't be read is an error or is left out."""
    for api, (param, place) in PLACES.items():
        reply = await kit.ask(gateway, api, "Hello.", history=sent(api, "Lamp 4"))
        assert reply.text == "Hello."
        texts = [part["text"] for part in gateway.backend.messages()[-1]["content"]]
        assert texts == [SHOWN, "What?"]
        reply = await kit.ask(gateway, api, "Hello.", history=returned(api, "Lamp 4"))
        assert [part["text"] for part in gateway.backend.messages()[-1]["content"]] == [SHOWN]
        assert "x-toolgate-history" not in reply.own

        refused = await kit.ask(gateway, api, history=sent(api, "password"))
        assert refused.refusal == (400, param)
        assert refused.error["message"] == (
            f"'{param}': The PDF specified is password protected. Send it without a password."
        )
        for stream in (False, True):
            given = {"history": returned(api, "password"), "stream": stream}
            reply = await kit.ask(gateway, api, "Hello.", **given)
            [part] = gateway.backend.messages()[-1]["content"]
            assert "[left out: The PDF specified is password protected." in part["text"]
            assert reply.own["x-toolgate-history"] == f"left_out={place}"


@pytest.mark.usefixtures("files")
async def test_the_text_of_a_file_counts_before_a_backend_gets_it(gateway):
    for api in PATHS:
        for limit, status in ((9_000, 429), (12_000, 200)):
            key, most = f"{KEY}-{api}", {} if api == "responses" else {"max_tokens": 100}
            gateway.add_key(key, key_of(key, tpm=limit))
            gateway.backend.requests.clear()
            given = {"history": sent(api, "x" * 30_000), "key": key, **most}
            reply = await kit.ask(gateway, api, "Hello.", **given)
            assert reply.status == status, reply.response.bodies
            assert len(gateway.backend.requests) == (status == 200)


@pytest.mark.usefixtures("files")
async def test_a_stored_conversation_keeps_its_file_and_a_count_has_it(gateway):
    first = await kit.ask(gateway, "responses", "Hello.", history=sent("responses", "Lamp 4"))
    before = {"previous_response_id": first.body["id"]}
    await kit.ask(gateway, "responses", "Hello.", said="And now?", **before)
    assert gateway.backend.messages()[0]["content"][0]["text"] == SHOWN
    later = [{"role": "assistant", "content": "ok"}, {"role": "user", "content": "hi"}]
    history = [*sent("messages", "Lamp 4"), *later]
    path = f"{PATHS['messages']}/count_tokens"
    assert (await kit.ask(gateway, "messages", path=path, history=history)).status == 200
    prompt = gateway.backend.counts[-1].prompt
    assert prompt.kind == "chat"
    assert prompt.messages[0]["content"][0]["text"] == SHOWN


THOUGHT = "Hm, let me look"
THINKING = {
    "chat": {},
    "responses": {"store": False},
    "messages": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
}


def keep(gateway, models):
    settings = Settings(keep_reasoning=models, redis_url=None)
    gateway.configure(keep_reasoning=settings.keep_reasoning)
    gateway.here.kept_reasoning = KeptReasoning(MemoryValues(), settings)


def without_reasoning(reply):
    """The turn without its reasoning, and the result of its call."""
    if reply.api == "chat":
        made = reply.parts[0]["tool_calls"]
        turn = [{"role": "assistant", "content": None, "tool_calls": made}]
    else:
        turn = [each for each in reply.parts if each["type"] in ("function_call", "tool_use")]
        turn = turn if reply.api == "responses" else [{"role": "assistant", "content": turn}]
    return [*turn, *kit.results(reply.api, reply)]


async def think(gateway, api):
    text = f"<think>{THOUGHT}</think>{call('dim', {})}"
    return await ask(gateway, api, text, history=[USER], **THINKING[api])


async def reasoning(gateway, api, turn, key=MASTER):
    """The reasoning of the first turn in the prompt of the next request."""
    given = {"history": [USER, *turn], "key": key, **THINKING[api]}
    assert (await ask(gateway, api, "It is there.", **given)).status == 200
    sent = gateway.backend.messages()
    [first] = [message for message in sent if message["role"] == "assistant"]
    return first.get("reasoning_content") or None


@APIS
async def test_reasoning_of_the_chosen_models_comes_back_to_its_owner(gateway, api):
    gateway.add_key("sk-other", key_of("sk-other"))
    for models, found in (("another, third", None), ("*", THOUGHT), ("tiny", THOUGHT)):
        keep(gateway, models)
        turn = without_reasoning(await think(gateway, api))
        assert await reasoning(gateway, api, turn) == found
    assert await reasoning(gateway, api, turn, key="sk-other") is None
    if api == "chat":
        turn[0]["reasoning_content"] = "Mine"
        assert await reasoning(gateway, api, turn) == "Mine"


async def test_the_reasoning_of_a_turn_moves_to_another_api(gateway):
    keep(gateway, "tiny")
    [made] = (await think(gateway, "messages")).calls
    call_id = made["id"].replace("toolu_", "call_")
    inner = {"name": "dim", "arguments": json.dumps(made["arguments"])}
    calls = [{"id": call_id, "type": "function", "function": inner}]
    turn = [{"role": "assistant", "content": None, "tool_calls": calls}, result("chat", call_id)]
    assert await reasoning(gateway, "chat", turn) == THOUGHT
