"""Replies as response objects of the Responses API."""

from .chat import CREATED, error, logprob
from .reply import fresh, pieces

ECHOED = (
    "temperature",
    "top_p",
    "max_output_tokens",
    "instructions",
    "metadata",
    "parallel_tool_calls",
    "truncation",
    "safety_identifier",
)

__all__ = ["error", "events", "whole"]


def _usage(reply):
    return {
        "input_tokens": reply.prompt_tokens,
        "output_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        "input_tokens_details": {"cached_tokens": reply.cached_tokens},
        "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
    }


def _logprobs(asked, tokens):
    wanted = "message.output_text.logprobs" in (asked.body.get("include") or ())
    return [logprob(each, asked.body.get("top_logprobs", 0)) for each in tokens] if wanted else []


def _items(asked, reply):
    items = []
    if reply.reasoning:
        content = [{"type": "reasoning_text", "text": reply.reasoning}]
        items.append({"type": "reasoning", "id": fresh("rs_"), "summary": [], "content": content})
    if reply.text:
        part = {
            "type": "output_text",
            "text": reply.text,
            "annotations": [],
            "logprobs": _logprobs(asked, pieces(reply.text)),
        }
        status = "incomplete" if reply.finish == "length" else "completed"
        items.append(
            {
                "type": "message",
                "id": fresh("msg_"),
                "role": "assistant",
                "status": status,
                "content": [part],
            }
        )
    for call in reply.calls:
        kind, member = (
            ("custom_tool_call", "input") if call.custom else ("function_call", "arguments")
        )
        items.append(
            {
                "type": kind,
                "id": fresh("fc_"),
                "call_id": call.id,
                "name": call.name,
                member: call.text,
                "status": "completed" if call.complete else "incomplete",
            }
        )
    return items


def _response(asked, reply, status, output):
    cut = status == "incomplete"
    return {
        "id": reply.id,
        "object": "response",
        "created_at": CREATED,
        "model": reply.model,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": output,
        "usage": None if status == "in_progress" else _usage(reply),
        "tools": asked.body.get("tools") or [],
        "tool_choice": asked.body.get("tool_choice", "auto"),
        **{name: asked.body.get(name) for name in ECHOED},
    }


def whole(asked, reply):
    status = "incomplete" if reply.finish == "length" else "completed"
    return _response(asked, reply, status, _items(asked, reply))


def events(asked, reply):
    final = whole(asked, reply)
    made = []

    def add(kind, **members):
        made.append({"type": f"response.{kind}", "sequence_number": len(made), **members})

    for kind in ("created", "in_progress"):
        add(kind, response=_response(asked, reply, "in_progress", []))
    calls = iter(reply.calls)
    for index, item in enumerate(final["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        empty = {"function_call": "arguments", "custom_tool_call": "input"}.get(item["type"])
        begin = {**item, "status": "in_progress"} | ({empty: ""} if empty else {"content": []})
        add("output_item.added", output_index=index, item=begin)
        if empty:
            call = next(calls)
            kind = "custom_tool_call_input" if call.custom else "function_call_arguments"
            for piece in call.parts:
                add(f"{kind}.delta", **at, delta=piece)
            if not call.complete:
                continue
            add(f"{kind}.done", **at, **{empty: "".join(call.parts), "name": call.name})
        elif item["type"] == "reasoning":
            for piece in pieces(reply.reasoning):
                add("reasoning_text.delta", **at, content_index=0, delta=piece)
            add("reasoning_text.done", **at, content_index=0, text=reply.reasoning)
        else:
            part = item["content"][0]
            at["content_index"] = 0
            add("content_part.added", **at, part={**part, "text": "", "logprobs": []})
            for piece in reply.parts:
                add("output_text.delta", **at, delta=piece, logprobs=_logprobs(asked, [piece]))
            text = "".join(reply.parts)
            add("output_text.done", **at, text=text, logprobs=part["logprobs"])
            add("content_part.done", **at, part=part)
        add("output_item.done", output_index=index, item=item)
    add(final["status"], response=final)
    return [(each["type"], each) for each in made]
