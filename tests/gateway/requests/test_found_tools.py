"""Tools that a search has found, with a model that calls anything: found ones are enforced, and
deferred ones are never called. The prompt grows only at its end."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.gateway.servers import Gateway
from tests.long.judgement import all_violations
from tests.support.apis import replies
from tests.support.apis.found_sessions import FORMS, bodies
from tests.support.apis.found_tools import SEARCH, with_search
from tests.support.servers.http_client import bearer
from toolgate_verify.asking import request
from toolgate_verify.asking.ask import Ask, User
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

SEEDS = range(8)
BLOCK = 128
"""Tokens of a block of the cache."""
TURNS = 20
SYSTEM = "word " * 2_500


def tool(name: str, **properties: Any) -> Tool:
    schema = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
    return Tool(name, "Does it.", schema)


ROOM = {"type": "string", "pattern": "^[A-Z]-[0-9]{2}$"}
FOUND = (
    tool(SEARCH, query={"type": "string", "maxLength": 9}),
    tool("open_valve", room=ROOM),
    tool("close_valve", room=ROOM, force={"type": "boolean"}),
)
LATER = tuple(tool(name, room=ROOM) for name in ("lock_valve", "open_door", "search_valve"))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", Api)
def test_only_found_tools_are_called(
    gateway: Gateway, model: str, bias: dict[str, float], api: Api, stream: bool
) -> None:
    asked = Ask(
        (User("Open a valve."),),
        tools=FOUND,
        strict=None,
        choice="required",
        temperature=1.0,
        reasoning="none",
        max_tokens=200,
        stream=stream,
    )

    def called(seed: int) -> set[str]:
        extra = {"model": model, "logit_bias": bias, "seed": seed}
        case = replace(asked, extra=extra)
        body = with_search(api, request(api, case).body or {}, LATER)
        response = httpx.post(
            gateway.url + replies.PATHS[api],
            json=body,
            headers=bearer(gateway.key),
            timeout=300,
            verify=False,
        )
        assert response.status_code == 200, response.text
        [reply] = replies.read(api, response.content, streamed=stream)
        assert [*all_violations(api, case, reply.answer)] == []
        return {call.name for call in reply.answer.calls}

    with ThreadPoolExecutor(len(SEEDS)) as pool:
        names = set().union(*pool.map(called, SEEDS))
    assert len(names) > 1, "the model chooses"


@pytest.mark.parametrize("form", FORMS)
def test_prompts_are_cached_while_tools_are_found(gateway: Gateway, model: str, form: str) -> None:
    prompts, cached = [], []
    api = FORMS[form].api
    for body in bodies(FORMS[form], f"{form} {uuid.uuid4().hex} {SYSTEM}", TURNS):
        response = httpx.post(
            gateway.url + replies.PATHS[api],
            json={"model": model, **body},
            headers=bearer(gateway.key),
            timeout=300,
            verify=False,
        )
        assert response.status_code == 200, response.text
        [reply] = replies.read(api, response.content, streamed=False)
        assert reply.answer.usage is not None
        prompts.append(reply.answer.usage.prompt)
        cached.append(reply.answer.usage.cached or 0)
    assert prompts == sorted(prompts)
    assert all(hit > before - BLOCK for before, hit in zip(prompts, cached[1:], strict=False)), (
        list(zip(prompts, cached, strict=True))
    )
    assert sum(cached[1:]) >= 0.95 * sum(prompts[1:])
