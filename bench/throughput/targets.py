"""What a constant load sends to each server, free and with enforcement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.support.backend_client import GENERATE_PATH, BackendClient
from bench.support.tools import small_tools
from tests.support.vocabularies import by_token
from toolgate_core import wire

TOOLS = 8
MAX_TOKENS = 512
"""Of a call."""
CLOSERS = dict.fromkeys(('"', "}", '"}', "]", '"]', '"}}', '"}}Ċ'), 7.0)
"""Biases of the tokens that end strings and objects. `Ċ` is a line feed in the vocabulary."""
NUMBER, IDENTIFIER = "<<number>>", "<<identifier>>"
"""Replaced in each body, so that no two requests are equal."""


@dataclass(frozen=True)
class Target:
    """What one measurement sends its requests to."""

    server: str
    enforced: bool
    url: str
    engine: str
    """URL of the server with the engine."""
    path: str
    body: str
    token_mark: bytes
    """Is in each line of a stream that has tokens."""
    schemas: Mapping[str, dict[str, Any]]
    """Those of the tools' arguments, by name."""

    @property
    def name(self) -> str:
        return f"{self.server}, {'enforced' if self.enforced else 'free'}"


CHAT = "vllm", "gateway"
"""The servers of which chat completions are measured."""


async def make_targets(
    urls: Mapping[str, str], engines: Mapping[str, str], model: Path, free_tokens: int
) -> list[Target]:
    """`engines`: the URL of the server with each server's engine."""
    tools = small_tools(TOOLS)
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    bias = by_token(CLOSERS, model)
    targets = []
    for server, url in urls.items():
        async with httpx.AsyncClient(base_url=url, timeout=300, trust_env=False) as http:
            for enforced in (False, True):
                tokens = MAX_TOKENS if enforced else free_tokens
                if server in CHAT:
                    path, mark = "/v1/chat/completions", b'"token_ids":['
                    body = chat_body(model.name, tools, tokens, bias, enforced)
                else:
                    path, mark = GENERATE_PATH, b'"event":"tokens"'
                    body = await backend_body(BackendClient(http), tools, tokens, bias, enforced)
                engine = engines[server]
                targets.append(Target(server, enforced, url, engine, path, body, mark, schemas))
    return targets


def chat_body(
    model: str,
    tools: Sequence[dict[str, Any]],
    tokens: int,
    bias: Mapping[str, float],
    enforced: bool,
) -> str:
    """A request of `/v1/chat/completions`, whose chunks have the ids of their tokens."""
    return json.dumps(
        {
            "model": model,
            "messages": [{"role": "user", "content": f"{NUMBER} Go on."}],
            "tools": [
                tool | {"function": tool["function"] | {"strict": enforced}} for tool in tools
            ],
            "tool_choice": "required" if enforced else "auto",
            "stream": True,
            "return_token_ids": True,
            "temperature": 1.0,
            "max_tokens": tokens,
            "ignore_eos": not enforced,
            "logit_bias": dict(bias),
            "chat_template_kwargs": {"enable_thinking": False},
        }
    )


async def backend_body(
    backend: BackendClient,
    tools: Sequence[dict[str, Any]],
    tokens: int,
    bias: Mapping[str, float],
    enforced: bool,
) -> str:
    candidates = tuple(await backend.load(tools))
    if len(candidates) < len(tools):
        raise RuntimeError("The backend refuses some of the tools.")
    sampling = wire.Sampling(
        max_tokens=tokens,
        temperature=1.0,
        ignore_eos=not enforced,
        logit_bias={int(token): value for token, value in bias.items()},
    )
    enforcement = wire.Enforcement(choice="required", candidates=candidates, reasoning="off")
    body = await backend.request(
        f"{NUMBER} Go on.", tools, enforcement if enforced else None, sampling, IDENTIFIER
    )
    return body.decode()
