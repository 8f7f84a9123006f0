"""Replies as chat completions."""

from .reply import pieces

FINISH = {"stop": "stop", "length": "length", "calls": "tool_calls", "stop_sequence": "stop"}
CREATED = 1_700_000_000


def _head(reply, kind):
    return {"id": reply.id, "object": kind, "created": CREATED, "model": reply.model}


def _usage(reply):
    return {
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "total_tokens": reply.prompt_tokens + reply.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
    }


def logprob(token, top):
    one = {"token": token, "logprob": -0.5, "bytes": [*token.encode("utf-8", "surrogatepass")]}
    return one | {"top_logprobs": [one] * top}


def _logprobs(asked, tokens):
    top = asked.body.get("top_logprobs", 0)
    made = [logprob(token, top) for token in tokens]
    return {"content": made} if asked.body.get("logprobs") else None


def whole(asked, reply):
    message = {"role": "assistant", "content": reply.text or None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.text},
            }
            for call in reply.calls
        ]
    choices = [
        {
            "index": index,
            "message": message,
            "finish_reason": FINISH[reply.finish],
            "logprobs": _logprobs(asked, pieces(reply.text)),
        }
        for index in range(reply.choices)
    ]
    return {**_head(reply, "chat.completion"), "choices": choices, "usage": _usage(reply)}


def events(asked, reply):
    made = []

    def add(choice, delta, finish=None, tokens=None):
        one = {"index": choice, "delta": delta, "finish_reason": finish, "logprobs": tokens}
        made.append(("", {**_head(reply, "chat.completion.chunk"), "choices": [one]}))

    for choice in range(reply.choices):
        add(choice, {"role": "assistant", "content": ""})
        for piece in pieces(reply.reasoning):
            add(choice, {"reasoning_content": piece})
        for piece in reply.parts:
            add(choice, {"content": piece}, tokens=_logprobs(asked, [piece]))
        for index, call in enumerate(reply.calls):
            function = {"name": call.name, "arguments": ""}
            head = {"index": index, "id": call.id, "type": "function", "function": function}
            add(choice, {"tool_calls": [head]})
            for piece in call.parts:
                part = {"index": index, "function": {"arguments": piece}}
                add(choice, {"tool_calls": [part]})
        add(choice, {}, FINISH[reply.finish])
    if (asked.body.get("stream_options") or {}).get("include_usage"):
        head = _head(reply, "chat.completion.chunk")
        made.append(("", {**head, "choices": [], "usage": _usage(reply)}))
    return [*made, ("", "[DONE]")]


def error(param, message, status):
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}
