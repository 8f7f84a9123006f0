"""A request of any API in the terms of the server."""

import json
from dataclasses import dataclass, field
from typing import Any

from toolgate_verify.terms import Api

Body = dict[str, Any]


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
    """Names of the tools that may be called."""
    parallel: bool = True
    limit: int = 10**6
    stop: list[str] = field(default_factory=list)
    format: Any = None
    """A schema, or True for any object."""
    reasoning: bool = False
    to_user: bool = True
    """Whether the last turn is the user's, so that a tool may be called."""

    @property
    def stream(self):
        return bool(self.body.get("stream"))


def _prompt(*parts):
    return "".join(json.dumps(part, ensure_ascii=False) for part in parts if part)


def asked(api, body):
    return {Api.CHAT: _chat, Api.RESPONSES: _responses, Api.MESSAGES: _messages}[api](body)


def _chat(body):
    tools = [
        {"name": tool["function"]["name"], "parameters": tool["function"]["parameters"]}
        for tool in body.get("tools") or ()
    ]
    made = Asked(Api.CHAT, body, _prompt(body["messages"], body.get("tools")), tools)
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        made.choice = "required"
        kind = choice["type"]
        named = choice["allowed_tools"]["tools"] if kind == "allowed_tools" else [choice]
        made.allowed = [each["function"]["name"] for each in named]
    else:
        made.choice = choice
    made.parallel = body.get("parallel_tool_calls", True)
    made.limit = body.get("max_tokens", made.limit)
    stop = body.get("stop") or []
    made.stop = [stop] if isinstance(stop, str) else stop
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_object":
        made.format = True
    elif wanted.get("type") == "json_schema":
        made.format = wanted["json_schema"]["schema"]
    made.reasoning = body.get("reasoning_effort", "none") != "none"
    made.to_user = body["messages"][-1]["role"] == "user"
    return made


def _responses(body):
    tools = [
        {
            "name": tool["name"],
            "parameters": tool.get("parameters"),
            "custom": tool["type"] == "custom",
        }
        for tool in body.get("tools") or ()
    ]
    items = body["input"] if isinstance(body["input"], list) else [{"role": "user"}]
    prompt = _prompt(body["input"], body.get("instructions"), body.get("tools"))
    made = Asked(Api.RESPONSES, body, prompt, tools)
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        made.choice = "required"
        named = choice["tools"] if choice["type"] == "allowed_tools" else [choice]
        made.allowed = [each["name"] for each in named]
    else:
        made.choice = choice
    made.parallel = body.get("parallel_tool_calls", True)
    made.limit = body.get("max_output_tokens", made.limit)
    wanted = (body.get("text") or {}).get("format") or {}
    if wanted.get("type") == "json_object":
        made.format = True
    elif wanted.get("type") == "json_schema":
        made.format = wanted["schema"]
    made.reasoning = (body.get("reasoning") or {}).get("effort", "none") != "none"
    made.to_user = items[-1].get("role") == "user"
    return made


def _messages(body):
    tools = [
        {"name": tool["name"], "parameters": tool["input_schema"]}
        for tool in body.get("tools") or ()
    ]
    prompt = _prompt(body["messages"], body.get("system"), body.get("tools"))
    made = Asked(Api.MESSAGES, body, prompt, tools)
    choice = body.get("tool_choice") or {"type": "auto"}
    kinds = {"any": "required", "tool": "required"}
    made.choice = kinds.get(choice["type"], choice["type"])
    made.allowed = [choice["name"]] if choice["type"] == "tool" else []
    made.parallel = not choice.get("disable_parallel_tool_use", False)
    made.limit = body["max_tokens"]
    made.stop = body.get("stop_sequences") or []
    wanted = (body.get("output_config") or {}).get("format")
    made.format = wanted["schema"] if wanted else None
    made.reasoning = (body.get("thinking") or {}).get("type") == "enabled"
    content = body["messages"][-1]["content"]
    results = isinstance(content, list) and any(b.get("type") == "tool_result" for b in content)
    made.to_user = body["messages"][-1]["role"] == "user" and not results
    return made
