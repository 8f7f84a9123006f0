"""Faults of checks of chat completions."""

from __future__ import annotations

from typing import Any

from . import changes as c
from .fault import Fault


def _choices(change: Any) -> Fault:
    """Changes each choice of each chunk that has one."""

    def apply(chunk: Any) -> None:
        for choice in chunk.get("choices", ()):
            change(choice)

    return c.each_event(apply)


def _fragments(change: Any, first: bool | None = None) -> Fault:
    """Changes fragments of calls: all, the first ones (which have an ID), or the others."""

    def apply(choice: Any) -> None:
        for part in choice["delta"].get("tool_calls", ()):
            if first is None or first == ("id" in part):
                change(part)

    return _choices(apply)


def _numbered(change: Any) -> Fault:
    def apply(sent: c.Events) -> c.Events:
        for number, (_, data) in enumerate(sent):
            if isinstance(data, dict):
                change(number, data)
        return sent

    return c.events(apply)


def _text_after_finish(sent: c.Events) -> c.Events:
    end = next(i for i, (_, data) in enumerate(sent) if data["choices"][0]["finish_reason"])
    return [*sent[: end + 1], sent[1], *sent[end + 1 :]]


def _usage_early(sent: c.Events) -> c.Events:
    usage = sent[-2][1]["usage"]
    sent[-3][1]["usage"] = usage
    return [*sent[:-2], sent[-1]]


def _interleaved(sent: c.Events) -> c.Events:
    calls = [at for at, (_, data) in enumerate(sent) if _has_call(data)]
    at = [*calls[:1], calls[-1], *calls[1:-1]]
    moved = iter([sent[each] for each in at])
    return [next(moved) if number in calls else one for number, one in enumerate(sent)]


def _has_call(data: Any) -> bool:
    return isinstance(data, dict) and any("tool_calls" in x["delta"] for x in data["choices"])


def _logprobs(change: Any) -> Fault:
    return c.body(lambda made: change(made["choices"][0]["logprobs"]["content"]))


CHAT: dict[str, Fault] = {
    "body.object": c.body(lambda made: made.update(object="completion")),
    "body.message": c.body(lambda made: made["choices"][0]["message"].update(role="model")),
    "body.finish_values": c.body(lambda made: made["choices"][0].update(finish_reason="eos")),
    "body.call_type": c.body(
        lambda made: made["choices"][0]["message"]["tool_calls"][0].pop("type")
    ),
    "chunks.done": c.events(lambda sent: sent[:-1]),
    "chunks.object": c.each_event(lambda chunk: chunk.update(object="chat.completion")),
    "chunks.same_id": _numbered(lambda number, chunk: chunk.update(id=f"chatcmpl-{number}")),
    "chunks.same_created": _numbered(lambda number, chunk: chunk.update(created=number)),
    "chunks.role": _choices(lambda choice: choice["delta"].pop("role", None)),
    "chunks.finish_once": c.events(_text_after_finish),
    "chunks.usage_last": c.events(_usage_early),
    "chunks.no_usage": c.each_event(
        lambda chunk: chunk.update(
            usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        )
    ),
    "chunks.call_name_once": _fragments(lambda part: part["function"].update(name="set_light")),
    "chunks.call_id_once": _fragments(lambda part: part.update(id="call_other"), first=False),
    "chunks.call_type": _fragments(lambda part: part.pop("type"), first=True),
    "chunks.call_order": c.events(_interleaved),
    "n.whole": c.body(lambda made: made["choices"].pop()),
    "n.streamed": _choices(lambda choice: choice["index"] and choice.update(finish_reason=None)),
    "n.usage": c.body(lambda made: made["usage"].update(completion_tokens=1, total_tokens=2)),
    "seed.same": c.stream_text(lambda text: text[::-1]),
    "logprobs.text": _logprobs(lambda tokens: tokens.pop(0)),
    "logprobs.top": _logprobs(lambda tokens: tokens[0].update(top_logprobs=[])),
    "logprobs.values": _logprobs(lambda tokens: tokens[0].update(logprob=0.5)),
    "logprobs.streamed": _choices(lambda choice: choice.update(logprobs=None)),
    "cut.not_complete": c.setting(finish="calls"),
}
