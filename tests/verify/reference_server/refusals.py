"""What the server refuses, with the parameter that is wrong."""

import re
from pathlib import Path

import jsonschema_rs
import yaml

from toolgate_verify.terms import Api

FIELDS = yaml.safe_load(Path(__file__).with_name("fields.yaml").read_text())
"""By API."""
KINDS = {
    "temperature": (int, float),
    "top_p": (int, float),
    "max_tokens": int,
    "max_output_tokens": int,
    "stream": bool,
    "tools": list,
    "messages": list,
    "input": (str, list),
    "stop": (str, list),
    "stop_sequences": list,
    "parallel_tool_calls": bool,
}
ROLES = {"user", "assistant", "system", "developer", "tool"}
BLOCKS = {"text", "tool_use", "tool_result", "thinking"}
ITEMS = {"message", "function_call", "function_call_output", "reasoning"}


def wrong(api, body):
    """The name of the first wrong parameter."""
    return next(_wrong(api, body), None)


def _wrong(api, body):
    turns = "input" if api == Api.RESPONSES else "messages"
    yield from (name for name in body if name not in FIELDS[api])
    yield from (
        name for name, kind in KINDS.items() if name in body and not isinstance(body[name], kind)
    )
    if not body.get(turns):
        yield turns
    if api == Api.MESSAGES and "max_tokens" not in body:
        yield "max_tokens"
    for name, least, most in (
        ("temperature", 0, 2),
        ("top_p", 0, 1),
        ("max_tokens", 1, 10**6),
        ("max_output_tokens", 1, 10**6),
        ("n", 1, 8),
        ("top_logprobs", 0, 20),
        ("presence_penalty", -2, 2),
    ):
        if name in body and not least <= body[name] <= most:
            yield name
    yield from _turns(api, body[turns])
    yield from _tools(api, body)
    yield from _format(api, body)
    if api == Api.CHAT and "top_logprobs" in body and not body.get("logprobs"):
        yield "top_logprobs"
    if any(each != "message.output_text.logprobs" for each in body.get("include") or ()):
        yield "include"
    if (body.get("reasoning") or {}).get("effort") not in (None, "none", "medium"):
        yield "reasoning"
    thinking = body.get("thinking") or {"type": "disabled"}
    if thinking["type"] not in ("enabled", "disabled"):
        yield "thinking"
    if thinking["type"] == "enabled" and "budget_tokens" not in thinking:
        yield "thinking"


def _turns(api, turns):
    calls = []
    open_calls = []
    for turn in turns if isinstance(turns, list) else ():
        if "role" in turn and turn["role"] not in ROLES:
            yield "role"
        if api == Api.RESPONSES and turn.get("type", "message") not in ITEMS:
            yield "input"
        blocks = turn.get("content") if isinstance(turn.get("content"), list) else []
        if api == Api.MESSAGES:
            yield from ("content" for block in blocks if block["type"] not in BLOCKS)
        made = [call["id"] for call in turn.get("tool_calls") or ()]
        made += [block["id"] for block in blocks if block.get("type") == "tool_use"]
        made += [turn["call_id"]] if turn.get("type") == "function_call" else []
        back = [turn["tool_call_id"]] if "tool_call_id" in turn else []
        back += [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        back += [turn["call_id"]] if turn.get("type") == "function_call_output" else []
        calls += made
        open_calls += made
        for each in back:
            if each not in calls:
                yield "tool_call_id"
            else:
                open_calls.remove(each)
    if open_calls:
        yield "tool_calls"


def _tools(api, body):
    names = []
    for tool in body.get("tools") or ():
        inner = tool.get("function", {}) if api == Api.CHAT else tool
        if api != Api.MESSAGES and tool.get("type") not in ("function", "custom"):
            yield "tools"
        if tool.get("type") == "custom":
            names.append(tool["name"])
            continue
        schema = inner.get("input_schema" if api == Api.MESSAGES else "parameters")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", inner.get("name", "")) or not _is_schema(
            schema
        ):
            yield "tools"
        names.append(inner.get("name"))
    if len({*names}) != len(names):
        yield "tools"
    choice = body.get("tool_choice")
    if choice is None:
        return
    kind = choice if isinstance(choice, str) else choice.get("type")
    if kind not in ("none", "auto", "required", "any", "tool", "function", "allowed_tools"):
        yield "tool_choice"
    if not names and kind != "none":
        yield "tool_choice"
    if kind in ("function", "tool"):
        named = choice["function"]["name"] if api == Api.CHAT else choice["name"]
        if named not in names:
            yield "tool_choice"


def _is_schema(schema):
    if not isinstance(schema, dict):
        return False
    try:
        jsonschema_rs.Draft202012Validator(schema)
    except (ValueError, jsonschema_rs.ValidationError):
        return False
    return True


def _format(api, body):
    if api == Api.CHAT:
        found = body.get("response_format")
        schema = (found or {}).get("json_schema", {}).get("schema")
    else:
        holder = body.get("text" if api == Api.RESPONSES else "output_config") or {}
        found = holder.get("format")
        schema = (found or {}).get("schema")
    if found is None:
        return
    if found["type"] not in ("text", "json_object", "json_schema"):
        yield "format"
    if found["type"] != "json_schema":
        return
    inner = found.get("json_schema", {}) if api == Api.CHAT else found
    if not _is_schema(schema) or not isinstance(inner.get("strict", True), bool):
        yield "format"
    if api != Api.MESSAGES and "name" not in inner:
        yield "format"
