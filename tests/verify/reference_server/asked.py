"""A request of any API in the terms of the server, read and refused as the gateway does."""

import json
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

from tests.support.apis.messages_api import CLIENT
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import InvalidRequest, InvalidTools
from toolgate_proxy.api.surface import Reading, Writer
from toolgate_proxy.api.surfaces import COMPLETIONS, MESSAGES, RESPONSES
from toolgate_proxy.request.chat_request import ChatRequest
from toolgate_proxy.request.plan import make_plan
from toolgate_verify.terms import Api

Body = dict[str, Any]
QWEN3 = DIALECTS["qwen3"]
SURFACES = {Api.CHAT: COMPLETIONS, Api.RESPONSES: RESPONSES, Api.MESSAGES: MESSAGES}

ROLES = ("user", "assistant", "system", "developer", "tool")


@dataclass
class Asked:
    api: Api
    body: Body
    prompt: str
    """What the model reads."""
    tools: list[Body] = field(default_factory=list)
    """`name`, `parameters`, and `custom` for custom tools."""
    choice: str = "auto"
    """`none`, `auto` or `required`."""
    allowed: list[str] = field(default_factory=list)
    """Names of the tools that may be called; empty if all may."""
    parallel: bool = True
    limit: int = 10**6
    stop: list[str] = field(default_factory=list)
    format: Any = None
    """A schema, or True for any object."""
    reasoning: bool = False
    request: ChatRequest | None = None
    writer: Writer | None = None
    to_user: bool = True
    """Whether the last turn is the user's, so that a tool may be called."""

    @property
    def stream(self):
        return bool(self.body.get("stream"))


def _check(read, plan):
    """What the gateway leaves to its validator and to the backend's template."""
    for message, path in zip(read.messages, read.message_paths, strict=True):
        if message["role"] not in ROLES:
            raise InvalidRequest("There is no such role.", param=f"{path}.role")
    for tool in plan.grammars:
        _check_schema(tool)


def _check_schema(tool):
    try:
        jsonschema_rs.Draft202012Validator(tool.parameters)
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise InvalidTools(str(error), param=tool.param) from None


def asked(api, body):
    """Raise InvalidRequest."""
    read, writer = SURFACES[api].read(body, Reading("reference", omit_hosted=False, client=CLIENT))
    plan = make_plan(read, QWEN3)
    _check(read, plan)
    definitions = [tool.definition for tool in read.tools]
    format_ = read.content_format and read.content_format.parameters
    return Asked(
        api,
        body,
        prompt="".join(
            json.dumps(each, ensure_ascii=False) for each in (read.messages, definitions)
        ),
        tools=[
            {
                "name": tool.name,
                "parameters": tool.definition["function"]["parameters"],
                "custom": tool.custom,
            }
            for tool in read.tools
        ],
        choice=plan.choice,
        allowed=[tool.name for tool in plan.candidates if len(plan.candidates) < len(read.tools)],
        parallel=plan.max_calls != 1,
        limit=read.sampling.max_tokens or 10**6,
        stop=[*read.stop],
        format=True if format_ == {"type": "object"} else format_,
        reasoning=plan.reasoning == "on",
        request=read,
        writer=writer,
        to_user=read.messages[-1]["role"] == "user",
    )
