"""Chat completions: the object, its chunks and their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

from ...asking import request
from ...asking.ask import Ask
from ...check import rule
from ...reading.sse import events
from ...scenario import Evidence, Scenario
from ...terms import Api, Severity, Skipped, Suite, require
from ..calls import CALL, SEVERAL
from ..text import TEXT

CHAT = (Api.CHAT,)
FINISH = {"stop", "length", "tool_calls", "content_filter", "function_call"}


def deltas(evidence: Evidence) -> Iterator[dict[str, Any]]:
    for chunk in evidence.events():
        for choice in chunk.get("choices") or ():
            yield choice.get("delta") or {}


def fragments(evidence: Evidence) -> dict[int, list[dict[str, Any]]]:
    """The fragments of calls in a stream, by the index of the call."""
    parts: dict[int, list[dict[str, Any]]] = {}
    for delta in deltas(evidence):
        for part in delta.get("tool_calls") or ():
            parts.setdefault(part.get("index", -1), []).append(part)
    if not parts:
        raise Skipped("the stream has no calls")
    return parts


_rule = partial(rule, topic="stream", scenario=TEXT, apis=CHAT)


@_rule(
    "body.object",
    "`object` is `chat.completion`",
    "A whole answer has the object type `chat.completion`, `created` and `choices`.",
    topic="body",
)
def _object(evidence: Evidence) -> None:
    body = evidence.ok(0).body
    require(isinstance(body, dict), "the body is no object")
    require(body.get("object") == "chat.completion", f"`object` is {body.get('object')!r}")
    require(type(body.get("created")) is int, f"`created` is {body.get('created')!r}")


@_rule(
    "body.message",
    "The message has a role and no foreign members",
    "The message of a choice has the role `assistant`, and `content` is a text or null.",
    topic="body",
)
def _message(evidence: Evidence) -> None:
    evidence.answer(0)
    choice = evidence.ok(0).body["choices"][0]
    message = choice["message"]
    require(choice.get("index") == 0, f"`index` is {choice.get('index')!r}")
    require(message.get("role") == "assistant", f"`role` is {message.get('role')!r}")
    content = message.get("content", "")
    require(content is None or isinstance(content, str), f"`content` is {content!r}")


@_rule(
    "body.finish_values",
    "`finish_reason` has a specified value",
    "The finish reason is stop, length, tool_calls, content_filter or function_call.",
    topic="finish",
)
def _finish_values(evidence: Evidence) -> None:
    evidence.answer(0)
    reason = evidence.ok(0).body["choices"][0].get("finish_reason")
    require(reason in FINISH, f"`finish_reason` is {reason!r}")


@_rule(
    "body.call_type",
    "Calls have the type `function`",
    "A call of a function has `type: function` and a `function` with a name and arguments.",
    topic="body",
    scenario=CALL,
)
def _call_type(evidence: Evidence) -> None:
    if not evidence.answer(0).calls:
        raise Skipped("the answer has no call")
    for call in evidence.ok(0).body["choices"][0]["message"]["tool_calls"]:
        require(call.get("type") == "function", f"`type` is {call.get('type')!r}")


@_rule(
    "chunks.done",
    "The stream ends with `[DONE]`",
    "The last event of a stream is `data: [DONE]`, once.",
)
def _done(evidence: Evidence) -> None:
    sent = events(evidence.ok(1).text)
    done = [index for index, event in enumerate(sent) if event.text.strip() == "[DONE]"]
    require(done == [len(sent) - 1], f"`[DONE]` is event {done} of {len(sent)}")


@_rule(
    "chunks.object",
    "`object` is `chat.completion.chunk`",
    "Each chunk has the object type `chat.completion.chunk`.",
)
def _chunk_object(evidence: Evidence) -> None:
    kinds = {chunk.get("object") for chunk in evidence.events()}
    require(kinds == {"chat.completion.chunk"}, f"`object` is {kinds}")


@_rule("chunks.same_id", "All chunks have the same ID", "Each chunk of a stream has the same `id`.")
def _same_id(evidence: Evidence) -> None:
    ids = {chunk.get("id") for chunk in evidence.events()}
    require(len(ids) == 1 and all(ids), f"{len(ids)} IDs")


@_rule(
    "chunks.same_created",
    "All chunks have the same time",
    "Each chunk of a stream has the same `created`.",
    severity=Severity.MINOR,
)
def _same_created(evidence: Evidence) -> None:
    times = {chunk.get("created") for chunk in evidence.events()}
    require(len(times) == 1, f"{len(times)} values of `created`")


@_rule(
    "chunks.role",
    "The first delta has the role",
    "The role comes once, with the first delta of a choice.",
)
def _role(evidence: Evidence) -> None:
    roles = [delta.get("role") for delta in deltas(evidence)]
    require(roles and roles[0] == "assistant", f"the first delta has the role {roles[:1]}")


@_rule(
    "chunks.finish_once",
    "The finish reason comes once, and last",
    "One chunk of a choice has a finish reason, and no content follows it.",
)
def _finish_once(evidence: Evidence) -> None:
    reasons: list[Any] = []
    for chunk in evidence.events():
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            late = reasons and (delta.get("content") or delta.get("tool_calls"))
            require(not late, "content follows the finish reason")
            if choice.get("finish_reason") is not None:
                reasons.append(choice["finish_reason"])
    require(len(reasons) == 1, f"{len(reasons)} finish reasons")


@_rule(
    "chunks.usage_last",
    "Usage is in a last chunk without choices",
    "With `include_usage` the last chunk has the usage and no choices, and others have none.",
)
def _usage_last(evidence: Evidence) -> None:
    chunks = evidence.events()
    have = [index for index, chunk in enumerate(chunks) if chunk.get("usage") is not None]
    require(have == [len(chunks) - 1], f"chunks {have} of {len(chunks)} have usage")
    require(chunks[-1].get("choices") == [], "the chunk with the usage has choices")


@cache
def no_usage(api: Api) -> Scenario:
    ask = Ask(max_tokens=8, stream=True)
    sent = request(api, ask)
    body = {key: value for key, value in (sent.body or {}).items() if key != "stream_options"}
    return Scenario(f"{api}.no_usage", api, (replace(sent, body=body),), ask)


@_rule(
    "chunks.no_usage",
    "No usage chunk unless it is asked for",
    "Without `include_usage` no chunk has usage, and each has a choice.",
    scenario=no_usage,
    severity=Severity.MINOR,
    suite=Suite.FULL,
)
def _no_usage(evidence: Evidence) -> None:
    for chunk in evidence.events(0):
        require(chunk.get("usage") is None, "a chunk has usage")
        require(chunk.get("choices"), "a chunk has no choice")


@_rule(
    "chunks.call_name_once",
    "The name of a call comes once, whole, with its first fragment",
    "The first fragment of a call has its name; further ones only have arguments.",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
def _name_once(evidence: Evidence) -> None:
    names = {tool.name for tool in evidence.ask.tools}
    for parts in fragments(evidence).values():
        given_names = [(part.get("function") or {}).get("name") for part in parts]
        require(given_names[0] in names, f"the first fragment has the name {given_names[0]!r}")
        require(not any(given_names[1:]), "a later fragment has a name")


@_rule(
    "chunks.call_id_once",
    "The ID of a call comes with its first fragment",
    "The first fragment of a call has its ID and type; further ones have none, or the same.",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
def _id_once(evidence: Evidence) -> None:
    for parts in fragments(evidence).values():
        require(parts[0].get("id"), "the first fragment has no ID")
        others = {part.get("id") for part in parts[1:]} - {None, "", parts[0]["id"]}
        require(not others, f"a later fragment has the ID {others}")


@_rule(
    "chunks.call_type",
    "The first fragment has the type `function`",
    "The first fragment of a call has `type: function`.",
    scenario=CALL,
    severity=Severity.MINOR,
)
def _type(evidence: Evidence) -> None:
    for parts in fragments(evidence).values():
        require(parts[0].get("type") == "function", f"`type` is {parts[0].get('type')!r}")


@_rule(
    "chunks.call_order",
    "Fragments of calls come call by call, numbered from 0",
    "Calls of a stream have the indices 0, 1, …; a call ends before the next one begins.",
    scenario=SEVERAL,
    severity=Severity.CRITICAL,
)
def _order(evidence: Evidence) -> None:
    order = [
        part.get("index") for delta in deltas(evidence) for part in delta.get("tool_calls") or ()
    ]
    if not order:
        raise Skipped("the stream has no calls")
    seen = [index for at, index in enumerate(order) if at == 0 or order[at - 1] != index]
    require(seen == list(range(len(seen))), f"fragments have the indices {seen[:12]}")
