"""Web search that the gateway runs inside one response, with a search tool of LiteLLM."""

from __future__ import annotations

import json
from typing import Any

import pytest
from litellm.proxy import proxy_server

from tests.support.apis import messages_api, responses_api
from tests.support.litellm.own_route import Gateway, Response
from tests.support.servers.script import Script, call
from tests.support.servers.search_engine import SearchEngine
from toolgate_core import wire
from toolgate_proxy.server.response_headers import own_headers

PATHS = {"responses": "/v1/responses", "messages": "/v1/messages"}
HI = {"role": "user", "content": "What is new?"}
PAGES = [
    {"title": "Paint", "url": "https://example.com/paint", "content": "It dries."},
    {"title": "Doors", "url": "https://news.example.org/doors", "content": "They open."},
]
CALL = call("web_search", {"query": "news"})
TYPES = {
    "responses": ["web_search_call", "message"],
    "messages": ["server_tool_use", "web_search_tool_result", "text"],
}
CHECKS = {"responses": responses_api.check_event, "messages": messages_api.check_event}
Json = dict[str, Any]


@pytest.fixture
def engine(engine: SearchEngine) -> SearchEngine:
    engine.pages = PAGES
    return engine


def body(api: str, **options: Any) -> Json:
    if api == "responses":
        return {"model": "tiny", "input": [HI], "tools": [{"type": "web_search", **options}]}
    tool = {"type": "web_search_20250305", "name": "web_search", **options}
    return {"model": "tiny", "max_tokens": 500, "messages": [HI], "tools": [tool]}


async def ask(gateway: Gateway, api: str, *turns: str, **params: Any) -> Response:
    gateway.backend.turns = [Script((text,)) for text in turns]
    sent = body(api, **params.pop("options", {})) | params
    return await gateway.ask(sent, path=PATHS[api])


def items(api: str, response: Response) -> list[Json]:
    found: list[Json] = response.json["output" if api == "responses" else "content"]
    return found


@pytest.mark.parametrize("api", PATHS)
async def test_the_model_sees_what_was_found(
    gateway: Gateway, engine: SearchEngine, api: str
) -> None:
    response = await ask(gateway, api, CALL, "Paint dries.")
    assert response.status == 200, response.bodies
    shown = items(api, response)
    assert [each["type"] for each in shown] == TYPES[api]
    assert engine.queries == ["news"]
    seen = gateway.backend.messages()[-1]
    assert seen["role"] == "tool"
    for page in PAGES:
        assert all(text in seen["content"] for text in page.values())
    if api == "responses":
        urls = [source["url"] for source in shown[0]["action"]["sources"]]
        assert (shown[0]["status"], shown[0]["action"]["query"]) == ("completed", "news")
    else:
        urls = [page["url"] for page in shown[1]["content"]]
        assert shown[0]["input"] == {"query": "news"}
        assert response.json["usage"]["server_tool_use"]["web_search_requests"] == 1
    assert urls == [page["url"] for page in PAGES]
    assert "dries" not in json.dumps(shown[:-1])


@pytest.mark.parametrize("api", PATHS)
async def test_a_stream_has_the_same_items(
    gateway: Gateway, engine: SearchEngine, api: str
) -> None:
    whole = items(api, await ask(gateway, api, CALL, "Paint dries."))
    response = await ask(gateway, api, CALL, "Paint dries.", stream=True)
    if api == "responses":
        steps = [e["type"] for e in response.events if "web_search_call" in e["type"]]
        assert steps == [
            f"response.web_search_call.{each}" for each in ("in_progress", "searching", "completed")
        ]
        streamed = response.events[-1]["response"]["output"]
    else:
        streamed = [
            event["content_block"]
            for event in response.events
            if event["type"] == "content_block_start"
        ]
        usage = response.events[-2]["usage"]
        assert usage["server_tool_use"]["web_search_requests"] == 1
        assert streamed[1]["content"][0]["url"] == whole[1]["content"][0]["url"]
    assert [each["type"] for each in streamed] == [each["type"] for each in whole]


@pytest.mark.parametrize("api", PATHS)
async def test_a_text_cites_the_pages_whose_addresses_it_has(
    gateway: Gateway, engine: SearchEngine, api: str
) -> None:
    first, second = (page["url"] for page in PAGES)
    engine.pages = [*PAGES, {**PAGES[0], "title": "Wall", "url": f"{first}/wall"}]
    text = f"Ünlike {first}/wall, {first}s: ({second}) and {first}."
    whole = items(api, await ask(gateway, api, CALL, text))[-1]
    response = await ask(gateway, api, CALL, text, stream=True)
    for event in response.events:
        CHECKS[api](event)
    if api == "responses":
        [part] = whole["content"]
        shown = part["annotations"]
        assert {each["type"] for each in shown} == {"url_citation"}
        assert [text[each["start_index"] : each["end_index"]] for each in shown] == [
            each["url"] for each in shown
        ]
        added = [e for e in response.events if e["type"].endswith("annotation.added")]
        assert [each["annotation"] for each in added] == shown
        assert [each["annotation_index"] for each in added] == [0, 1, 2]
        [done] = [e["part"] for e in response.events if e["type"].endswith("content_part.done")]
        assert done["annotations"] == shown
        begun = [e["part"] for e in response.events if e["type"].endswith("content_part.added")]
        assert begun[0]["annotations"] == []
    else:
        shown = whole["citations"]
        assert {each["type"] for each in shown} == {"web_search_result_location"}
        assert shown[1]["cited_text"] == "They open."
        deltas = [e["delta"] for e in response.events if e["type"] == "content_block_delta"]
        kinds = [delta["citation"] for delta in deltas if delta["type"] == "citations_delta"]
        assert kinds == shown
    assert [(each["url"], each["title"]) for each in shown] == [
        (f"{first}/wall", "Wall"),
        (second, "Doors"),
        (first, "Paint"),
    ]
    more = {"role": "user", "content": "And?"}
    answer = items(api, await ask(gateway, api, CALL, text))
    history: Json = (
        {"input": [HI, *answer, more]}
        if api == "responses"
        else {"messages": [HI, {"role": "assistant", "content": answer}, more]}
    )
    again = await ask(gateway, api, "That is all.", **history)
    assert again.status == 200, again.bodies


@pytest.mark.parametrize("api", PATHS)
async def test_the_next_turn_has_the_results(
    gateway: Gateway, engine: SearchEngine, api: str
) -> None:
    shown = items(api, await ask(gateway, api, CALL, "Paint dries."))
    seen = gateway.backend.messages()
    more = {"role": "user", "content": "And?"}
    history: Json = (
        {"input": [HI, *shown, more]}
        if api == "responses"
        else {"messages": [HI, {"role": "assistant", "content": shown}, more]}
    )
    again = await ask(gateway, api, "That is all.", **history)
    assert again.status == 200, again.bodies
    assert gateway.backend.messages()[: len(seen)] == seen
    assert "x-toolgate-history" not in own_headers(again.context)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("api", PATHS)
async def test_results_of_another_service_are_titles_and_addresses(
    gateway: Gateway, api: str
) -> None:
    if api == "responses":
        source = {"type": "url", "url": "https://a.example"}
        action = {"type": "search", "query": "q", "sources": [source]}
        own: Json = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
        history: Json = {"input": [HI, {**own, "action": action}, HI]}
    else:
        use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
        page = {"type": "web_search_result", "url": "https://a.example", "title": "A"}
        result = {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [{**page, "encrypted_content": "WA==", "page_age": None}],
        }
        history = {"messages": [HI, {"role": "assistant", "content": [use, result]}, HI]}
    response = await ask(gateway, api, "That is all.", **history)
    assert response.status == 200, response.bodies
    assert "https://a.example" in gateway.backend.messages()[-2]["content"]
    assert "as_text" in own_headers(response.context)["x-toolgate-history"]


@pytest.mark.parametrize(
    ("options", "urls"),
    [
        ({"allowed_domains": ["example.org"]}, [PAGES[1]["url"]]),
        ({"allowed_domains": ["example.com/paint"]}, [PAGES[0]["url"]]),
        ({"blocked_domains": ["example.org"]}, [PAGES[0]["url"]]),
        ({"allowed_domains": ["ample.org"]}, []),
    ],
)
async def test_pages_of_other_domains_are_left_out(
    gateway: Gateway, engine: SearchEngine, options: Json, urls: list[str]
) -> None:
    response = await ask(gateway, "messages", CALL, "Done.", options=options)
    assert [page["url"] for page in items("messages", response)[1]["content"]] == urls
    seen = gateway.backend.messages()[-1]["content"]
    assert [page["url"] in seen for page in PAGES] == [page["url"] in urls for page in PAGES]


async def test_searches_beyond_the_limit_do_not_run(gateway: Gateway, engine: SearchEngine) -> None:
    response = await ask(gateway, "messages", CALL, CALL, "Done.", options={"max_uses": 1})
    results = [each for each in items("messages", response) if "tool_result" in each["type"]]
    assert isinstance(results[0]["content"], list)
    assert results[1]["content"] == {
        "type": "web_search_tool_result_error",
        "error_code": "max_uses_exceeded",
    }
    assert len(engine.queries) == 1


@pytest.mark.parametrize("api", PATHS)
async def test_a_search_that_fails_is_a_result_that_says_so(
    gateway: Gateway, engine: SearchEngine, api: str
) -> None:
    engine.status = 500
    response = await ask(gateway, api, CALL, "I could not search.")
    assert response.status == 200, response.bodies
    assert "failed" in gateway.backend.messages()[-1]["content"]
    if api == "messages":
        assert items(api, response)[1]["content"]["error_code"] == "unavailable"


@pytest.mark.parametrize("api", PATHS)
async def test_without_a_search_tool_the_search_is_left_out(gateway: Gateway, api: str) -> None:
    proxy_server.llm_router.search_tools = []
    gateway.backend.scripts[HI["content"]] = Script(("I know nothing.",))
    response = await gateway.ask(body(api), path=PATHS[api])
    assert response.status == 200, response.bodies
    assert "web_search" in own_headers(response.context)["x-toolgate-omitted-tools"]
    prompt = gateway.backend.requests[-1].prompt
    assert isinstance(prompt, wire.ChatPrompt)
    assert not prompt.tools


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"max_uses": 0}, "tools[0].max_uses"),
        ({"allowed_domains": [1]}, "tools[0].allowed_domains[0]"),
        ({"depth": 3}, "tools[0].depth"),
    ],
)
async def test_wrong_options_are_refused(gateway: Gateway, options: Json, param: str) -> None:
    response = await gateway.ask(body("messages", **options), path=PATHS["messages"])
    assert response.status == 400
    assert response.json["error"]["param"] == param
