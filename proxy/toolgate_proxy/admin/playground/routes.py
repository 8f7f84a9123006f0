"""HTTP routes of the playground. All require the master key.

`POST /toolgate/tools`          `ToolsRequest` → `ToolsResponse`
`POST /toolgate/unconstrained`  a body of chat completions → server-sent events: `{"text": …}` for
                                each token, and at the end `{"judgement": Judgement}`
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import orjson
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, ModelNotFound, ToolgateError
from toolgate_core.pointer import request_path

from ...api.surfaces import COMPLETIONS
from ...chat.unconstrained import Unconstrained
from ...context import RequestContext
from ...litellm_host.administrator import IsAdministrator
from ...litellm_host.deployments.router import placements
from ...sealing import MASTER_KEY
from ...state import gateway
from ..refusals import forbidden, refusal, refusal_of
from ..tool_documents import UnknownForm, read_document
from .judgement import judge

router = APIRouter()


class ToolsRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tools: Any
    """A tool, a list of tools, a request with `tools`, or the result of MCP's `tools/list`, in the
    form of OpenAI, Anthropic or MCP."""


class ToolsResponse(BaseModel):
    tools: list[dict[str, Any]]
    """In the form of chat completions."""
    omitted: list[str]
    """Types of hosted tools, which have no schema."""


@router.post("/tools")
async def tools_route(request: Request, administrator: IsAdministrator) -> Response:
    if not administrator:
        return forbidden()
    try:
        found = read_document(ToolsRequest.model_validate_json(await request.body()).tools)
    except ValidationError as error:
        return refusal(400, "invalid_request", f"Invalid body: {error.errors()[0]['msg']}.", None)
    except UnknownForm as error:
        steps = error.place.split("/")[1:]
        place = request_path(["tools", *(int(each) if each.isdigit() else each for each in steps)])
        return refusal(400, "invalid_tools", f"{place}: {error}", place)
    response = ToolsResponse(tools=found.tools, omitted=[kind for _, kind in found.hosted])
    return JSONResponse(response.model_dump())


@router.post("/unconstrained")
async def unconstrained_route(request: Request, administrator: IsAdministrator) -> Response:
    if not administrator:
        return forbidden()
    try:
        generation = await _begun(await _body(request))
    except ToolgateError as error:
        return refusal_of(error)
    return StreamingResponse(_events(generation), media_type="text/event-stream")


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}.") from error
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be an object. Send a request for a chat completion.")
    return body


async def _begun(body: dict[str, Any]) -> Unconstrained:
    model = body.get("model")
    found = placements(model) if isinstance(model, str) else []
    if not found:
        raise ModelNotFound(f"There is no Toolgate model {model!r}.", param="model")
    state, placement = gateway(), found[0]
    request = state.reader.read(
        COMPLETIONS, body, RequestContext(), model=placement.model, owner=MASTER_KEY
    )
    if request.sampling.n > 1:
        raise InvalidRequest("'n' must be 1 here.", param="n")
    return await state.engine.unconstrained(request, state.deployments.at(placement))


async def _events(generation: Unconstrained) -> AsyncIterator[bytes]:
    text, ended, reason = "", "", "stop"
    found, ends = generation.prepared, generation.ends
    try:
        async with aclosing(generation.events) as batches:
            async for batch in batches:
                for event in batch:
                    match event:
                        case wire.TokensEvent():
                            for token, piece in zip(event.ids, event.texts, strict=True):
                                text, ended = text + ended, ""
                                if token in ends:
                                    ended = piece
                                else:
                                    text += piece
                            yield _data({"text": "".join(event.texts)})
                        case wire.EndEvent():
                            text += event.text
                            reason = event.finish_reason
        validators = gateway().engine.validators
        judgement = await judge(text, reason, found.request, found.plan, found.dialect, validators)
        yield _data({"judgement": judgement.model_dump()})
    except ToolgateError as error:
        yield _data(error.body())
    yield b"data: [DONE]\n\n"


def _data(event: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(event) + b"\n\n"
