"""Requests for stored responses, and what they return."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

from tests.support.apis.read_responses import read_events
from tests.support.apis.responses_api import check_response
from tests.support.litellm.own_route import MASTER, Gateway, Response

PATH = "/v1/responses"
ITEM: TypeAdapter[Any] = TypeAdapter(ResponseItem)
USER = {"role": "user", "content": "hi"}
ENCRYPTED = "reasoning.encrypted_content"


async def ask(gateway: Gateway, given: Any = "hi", key: str = MASTER, **params: Any) -> Response:
    body = {"model": "tiny", "input": given, **params}
    return await gateway.ask(body, path=PATH, key=key)


async def created(gateway: Gateway, given: Any = "hi", key: str = MASTER, **params: Any) -> Any:
    response = await ask(gateway, given, key, **params)
    assert response.status == 200, response.json
    if params.get("stream"):
        return read_events(b"".join(response.bodies))[-1]["response"]
    check_response(response.json)
    return response.json


async def get(
    gateway: Gateway, path: str, method: str = "GET", key: str = MASTER, **query: Any
) -> Response:
    return await gateway.ask(
        b"", path=f"{PATH}/{path}", method=method, key=key, query=urlencode(query, doseq=True)
    )


def prompt(gateway: Gateway) -> Any:
    return gateway.backend.messages()


def code(response: Response) -> tuple[int, str, str | None]:
    error = response.json["error"]
    return response.status, error["code"], error["param"]


def answered(body: Any, text: str) -> list[Any]:
    return [
        {"type": "function_call_output", "call_id": item["call_id"], "output": text}
        for item in body["output"]
        if item["type"] == "function_call"
    ]


def content(response: Response) -> bytes:
    """What was sent, without keep-alives."""
    return b"".join(each for each in response.bodies if not each.startswith(b":"))
