"""Requests to a backend's own routes, without a gateway."""

from __future__ import annotations

import uuid
from typing import Any

import httpx

from tests import tools
from tests.support.dialects.model import calls_in
from toolgate_core import grammar_key, wire
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.segmenter import Segmenter
from toolgate_core.tools import Tool, parse_tools

# A random model ends no string: these end by themselves.
BOOK = tools.tool(
    "book_table",
    {
        "day": {"type": "string", "enum": ["monday", "tuesday", "wednesday"]},
        "guests": {"type": "integer", "minimum": 1, "maximum": 12},
        "outside": {"type": "boolean"},
    },
    required=["day", "guests", "outside"],
)
LIGHT = tools.tool(
    "set_light",
    {"room": {"type": "string", "enum": ["kitchen", "bedroom"]}, "on": {"type": "boolean"}},
    required=["room", "on"],
)
OFFERED = [BOOK, LIGHT]
SCHEMAS = {t["function"]["name"]: t["function"]["parameters"] for t in OFFERED}


def load(client: httpx.Client, offered: list[Tool]) -> dict[str, str]:
    """The tools' grammars, loaded: keys by name."""
    info = wire.Info.model_validate_json(client.get("/v1/toolgate/info").content)
    found = {
        tool.name: grammar_key.grammar_key(
            tool.hash,
            dialect=info.dialect,
            tokenizer=info.tokenizer,
            grammar_format=info.grammar_format,
        )
        for tool in offered
    }
    sources = tuple(
        wire.GrammarSource(key=found[tool.name], name=tool.name, parameters=tool.parameters)
        for tool in offered
    )
    message = wire.LoadGrammars(grammars=sources).model_dump_json()
    answer = client.put("/v1/toolgate/grammars", content=message).raise_for_status()
    verdicts = wire.GrammarVerdicts.model_validate_json(answer.content).grammars
    assert all(verdict.status == "ready" for verdict in verdicts)
    return found


def generate(
    client: httpx.Client, offered: list[dict[str, Any]], text: str, **options: Any
) -> tuple[list[int], list[str], str]:
    """ids, texts, finish_reason of one enforced answer."""
    found = load(client, parse_tools(offered))
    enforcement = wire.Enforcement(
        choice=options.pop("choice", "required"),
        candidates=tuple(wire.Candidate(name=name, key=key) for name, key in found.items()),
        max_calls=options.pop("max_calls", 2),
        reasoning="off",
    )
    request = wire.GenerateRequest(
        request_id=uuid.uuid4().hex,
        model="tiny",
        prompt=wire.ChatPrompt(messages=({"role": "user", "content": text},), tools=tuple(offered)),
        sampling=wire.Sampling(**{"max_tokens": 160, "temperature": 0.0, **options}),
        enforcement=enforcement,
        stream=False,
    )
    url, content = "/v1/toolgate/generate", request.model_dump_json()
    answer = client.post(url, content=content).raise_for_status()
    events = wire.stream_events.validate_json(answer.content)
    [end] = [event for event in events if isinstance(event, wire.EndEvent)]
    tokens = [event for event in events if isinstance(event, wire.TokensEvent)]
    ids = [token for event in tokens for token in event.ids]
    texts = [each for event in tokens for each in event.texts]
    return ids, texts, end.finish_reason


def calls(client: httpx.Client, ids: list[int], texts: list[str]) -> list[tuple[str, str]]:
    info = wire.Info.model_validate_json(client.get("/v1/toolgate/info").content)
    segmenter = Segmenter(DIALECTS[info.dialect], info.marks, required=True)
    return calls_in([*segmenter.feed(ids, texts), *segmenter.finish("stop")])
