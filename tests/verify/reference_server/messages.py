"""Replies as messages of the Messages API."""

import json

from .reply import pieces

STOP = {
    "stop": "end_turn",
    "length": "max_tokens",
    "calls": "tool_use",
    "stop_sequence": "stop_sequence",
}
SIGNATURE = "c2lnbmVk"


def _message(reply, content):
    return {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(reply, reply.completion_tokens),
    }


def _usage(reply, output):
    return {
        "input_tokens": reply.prompt_tokens - reply.cached_tokens,
        "cache_read_input_tokens": reply.cached_tokens,
        "output_tokens": output,
    }


def _blocks(reply):
    blocks = []
    if reply.reasoning:
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": SIGNATURE})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for call in reply.calls:
        if call.complete:
            value = _value(call.text)
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": value})
    return blocks


def _value(text):
    """Faults make texts that are not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def whole(asked, reply):
    end = {"stop_reason": STOP[reply.finish], "stop_sequence": reply.stop}
    return _message(reply, _blocks(reply)) | end


def events(asked, reply):
    made = []
    start = _message(reply, []) | {"usage": _usage(reply, 0)}
    made.append({"type": "message_start", "message": start})
    index = 0

    def block(begin, deltas, ends=True):
        nonlocal index
        made.append({"type": "content_block_start", "index": index, "content_block": begin})
        for delta in deltas:
            made.append({"type": "content_block_delta", "index": index, "delta": delta})
        if ends:
            made.append({"type": "content_block_stop", "index": index})
        index += 1

    if reply.reasoning:
        parts = [{"type": "thinking_delta", "thinking": each} for each in pieces(reply.reasoning)]
        signature = {"type": "signature_delta", "signature": SIGNATURE}
        block({"type": "thinking", "thinking": "", "signature": ""}, [*parts, signature])
    if reply.text:
        block(
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": each} for each in reply.parts],
        )
    for call in reply.calls:
        block(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": {}},
            [{"type": "input_json_delta", "partial_json": each} for each in call.parts],
            call.complete,
        )
    end = {"stop_reason": STOP[reply.finish], "stop_sequence": reply.stop}
    usage = _usage(reply, reply.completion_tokens)
    made += [{"type": "message_delta", "delta": end, "usage": usage}, {"type": "message_stop"}]
    made.insert(1, {"type": "ping"})
    return [(each["type"], each) for each in made]


def error(param, message, status):
    kinds = {401: "authentication_error", 404: "not_found_error"}
    kind = kinds.get(status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}
