"""Bodies of chat requests at and over each bound."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

from toolgate_core import wire

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
MAX_BODY = 8_000_000
"""The gateway's TOOLGATE_MAX_BODY_BYTES for these cases."""
LIMITS = wire.Limits(
    max_model_len=4096, max_logprobs=20, max_grammars=64, vocabulary=1000, max_token_bytes=100
)
ROOM = 4096 * 100
"""Bytes of text that may fit into the context."""


def chat(content="hi", **more):
    body = {"model": "tiny", "messages": [{"role": "user", "content": content}]} | more
    return json.dumps(body).encode()


def tool(parameters):
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]


def one_of(levels):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"oneOf": [schema, {"type": "integer"}]}
    return schema


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


MANY = f"[{'[],' * 2_600_000}1]"
CALL = {"type": "function_call", "name": "f", "arguments": MANY}
HISTORIES = {
    CHAT: {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": CALL}]}]},
    RESPONSES: {"input": [{**CALL, "call_id": "a"}]},
    MESSAGES: {
        "messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": MANY}]}]
    },
}


def bias(tokens):
    return {str(token): 1 for token in tokens}


@dataclass(frozen=True)
class Case:
    make: Callable[[], bytes]
    statuses: tuple[int, ...]
    code: str | None = None
    path: str = CHAT
    headers: dict[str, str] = field(default_factory=dict)


_LITELLM = tuple(int(part) for part in version("litellm").split(".")[:2])
COMPRESSED = ((415,), "unsupported_encoding")
"""The response to a compressed body. LiteLLM decompresses them itself from 1.109 on, within bounds,
before the gateway sees them."""
if _LITELLM >= (1, 109):
    COMPRESSED = ((413,), "413")


CASES = {
    "one token": Case(lambda: chat(logit_bias={"1": 1}), (200,)),
    "biases at the vocabulary": Case(lambda: chat(logit_bias=bias(range(1000))), (200,)),
    "biases outside": Case(lambda: chat(logit_bias=bias(range(500, 1100))), (400,)),
    "200,000 biases": Case(lambda: chat(logit_bias=bias(range(100_000, 300_000))), (400, 413)),
    "190,000 biases": Case(lambda: chat(logit_bias=bias(range(100_000, 290_000))), (400,)),
    "all tokens allowed": Case(lambda: chat(allowed_token_ids=list(range(1000))), (200,)),
    "190,000 allowed": Case(lambda: chat(allowed_token_ids=list(range(190_000))), (400,)),
    "190,000 stop tokens": Case(lambda: chat(stop_token_ids=list(range(190_000))), (400,)),
    "long stop string": Case(lambda: chat(stop=["s" * 1_000_000]), (400,)),
    "long bad word": Case(lambda: chat(bad_words=["b" * 1_000_000]), (400,)),
    "long cache salt": Case(lambda: chat(cache_salt="c" * 1_000_000), (400,)),
    "1 MB model": Case(lambda: chat(model="m" * 1_000_000), (400,), "invalid_request"),
    "256 characters of model": Case(lambda: chat(model="m" * 256), (400, 404)),
    "long name": Case(lambda: chat(**{"p" * 1_000_000: 1}), (400,), "unsupported_parameter"),
    "long role": Case(lambda: chat(messages=[{"role": 3, "content": "r" * 10**6}]), (400,)),
    "10,001 messages": Case(lambda: chat(messages=[{}] * 10_001), (400,)),
    "1,001 tools": Case(lambda: chat(tools=tool({}) * 1_001), (400,)),
    "10,000 anyOf": Case(
        lambda: chat(tools=tool({"anyOf": [{"const": at} for at in range(10_000)]})), (200, 400)
    ),
    "60 oneOf": Case(lambda: chat(tools=tool(one_of(60))), (200, 400)),
    "deep oneOf": Case(lambda: chat(tools=tool(one_of(190))), (400,)),
    "200 levels": Case(lambda: chat(metadata=nested(197)), (200,)),
    "201 levels": Case(lambda: chat(metadata=nested(201)), (400,)),
    "900 levels": Case(lambda: chat(metadata=nested(900)), (400,)),
    "100,000 brackets": Case(lambda: b"[" * 100_000, (400,)),
    "text over the context": Case(lambda: chat("t" * ROOM), (400,), "context_length_exceeded"),
    "7 MB of text": Case(lambda: chat("t" * 7_000_000), (400,), "context_length_exceeded"),
    "7 MB of quotes": Case(lambda: chat('"' * 3_500_000), (400,), "context_length_exceeded"),
    "over the limit": Case(lambda: chat("t" * MAX_BODY), (413,), "request_too_large"),
    "4 million numbers": Case(
        lambda: b'{"a":[' + b"1," * 3_900_000 + b"1]}", (413,), "request_too_large"
    ),
    "2.5 million objects": Case(
        lambda: b'{"a":[' + b"{}," * 2_500_000 + b"1]}", (413,), "request_too_large"
    ),
    **{
        f"values in arguments, {path}": Case(partial(chat, **body), (413,), None, path)
        for path, body in HISTORIES.items()
    },
    "LiteLLM's route over the limit": Case(
        lambda: b"x" * (MAX_BODY + 1), (413,), "request_too_large", "/v1/moderations"
    ),
    "compressed": Case(
        lambda: gzip.compress(b" " * 10**8 + chat()),
        *COMPRESSED,
        headers={"content-encoding": "gzip"},
    ),
    "compressed, LiteLLM's route": Case(
        lambda: gzip.compress(b" " * 10**8),
        *COMPRESSED,
        "/v1/moderations",
        {"content-encoding": "gzip"},
    ),
}
