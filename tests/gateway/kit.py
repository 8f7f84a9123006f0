"""Answers of chat completions in one form, streams as they come, and requests to a backend's own
routes."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest
import tokenizers

from tests import tools
from tests.models import tiny_model
from tests.support.apis import replies
from tests.support.dialects.model import calls_in
from toolgate_core import grammar_key, wire
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.segmenter import Segmenter
from toolgate_core.tools import parse_tools
from toolgate_proxy.ops.demo.cases import MARKUP, ChoiceOutput
from toolgate_verify.terms import Api

from .servers import adapters

CHAT = "/v1/chat/completions"

both_ways = pytest.mark.parametrize("way", ["own", pytest.param("litellm", marks=pytest.mark.slow)])
"""Our own route, and LiteLLM's handler. What the latter does with a request is tested with scripted
backends (tests/proxy/process)."""
both_adapters = pytest.mark.parametrize(
    "adapter",
    [adapters()[0], *(pytest.param(each, marks=pytest.mark.slow) for each in adapters()[1:])],
)


def token_of(text):
    """The token that is this text."""
    tokenizer = tokenizers.Tokenizer.from_file(str(tiny_model() / "tokenizer.json"))
    [found] = tokenizer.encode(text, add_special_tokens=False).ids
    return int(found)


# --- answers, whole and streamed ---


class Refused(Exception):
    """An error instead of an answer, or at the end of one."""

    def __init__(self, status, error):
        super().__init__(status, error)
        self.status, self.error = status, error


def post(http, request, api=Api.CHAT):
    response = http.post(replies.PATHS[api], json=request)
    if response.is_error:
        raise Refused(response.status_code, replies.error(api, response.json()))
    return response


def ask(http, request, *, stream=False, api=Api.CHAT):
    """The choices of the response, read strictly."""
    if stream:
        request = {**request, "stream": True}
        if api == Api.CHAT:
            request["stream_options"] = {"include_usage": True}
    data = post(http, request, api).content
    if stream and (ends := data.rpartition(b'data: {"error"'))[1]:
        raise Refused(200, json.loads(b'{"error"' + ends[2].partition(b"\n")[0])["error"])
    return replies.read(api, data, streamed=stream)


def refusal(http, request, **more):
    """The error of a status 400."""
    with pytest.raises(Refused) as refused:
        ask(http, request, **more)
    assert refused.value.status == 400
    return refused.value.error


def output(reply):
    answer = reply.answer
    return ChoiceOutput(
        content=answer.text or None,
        reasoning=answer.reasoning or None,
        calls=[(call.name, call.arguments) for call in answer.calls],
        finish_reason="tool_calls" if answer.finish == "calls" else answer.finish,
    )


def outputs(http, request, *, stream=False):
    return [output(each) for each in ask(http, request, stream=stream)]


def both_forms(http, requests, at_once=8):
    """Answer all requests whole and streamed, several at once, and require the forms to be equal.

    Floating-point sums depend on what else is in the batch, so the same seed may sample another
    token. Answers of different tokens are requested again, one at a time."""

    def made(request, stream):
        found = ask(http, {**request, "return_token_ids": True}, stream=stream)
        return [output(each) for each in found], [each.token_ids for each in found]

    with ThreadPoolExecutor(at_once) as pool:
        forms = [[pool.submit(made, each, stream) for stream in (False, True)] for each in requests]
    answers = []
    for request, (whole, streamed) in zip(requests, forms, strict=True):
        answer, ids = whole.result()
        if (answer, ids) != streamed.result():
            assert ids != streamed.result()[1], "the same tokens make the same answer in both forms"
            answer = outputs(http, request)
            assert answer == outputs(http, request, stream=True)
        answers.append(answer)
    return answers


def check(answer, tools):
    """No markup anywhere; every call that is not cut parses and is valid by its schema."""
    schemas = {t["function"]["name"]: t["function"]["parameters"] for t in tools}
    for text in (answer.content, answer.reasoning):
        assert not any(mark in (text or "") for mark in MARKUP)
    whole = answer.calls[:-1] if answer.finish_reason == "length" else answer.calls
    for name, arguments in whole:
        jsonschema.validate(json.loads(arguments), schemas[name])


# --- a stream that is read from the wire, as far as it came ---


@dataclass
class StreamRead:
    status: int = 0
    content: str = ""
    reasoning: str = ""
    arguments: str = ""
    finish: str | None = None
    error: dict[str, Any] | None = None
    done: bool = False

    def take(self, line):
        if not line.startswith("data: "):
            return
        if line == "data: [DONE]":
            self.done = True
            return
        chunk = json.loads(line.removeprefix("data: "))
        self.error = chunk.get("error", self.error)
        for choice in chunk.get("choices", ()):
            delta = choice["delta"]
            self.content += delta.get("content") or ""
            self.reasoning += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or ():
                self.arguments += call["function"].get("arguments") or ""
            self.finish = choice["finish_reason"] or self.finish


async def read(http, request, into=None):
    """Stream a request's answer into `into`, which may be read meanwhile."""
    found = into or StreamRead()
    async with http.stream("POST", CHAT, json={**request, "stream": True}) as response:
        found.status = response.status_code
        if response.is_error:
            found.error = (await response.aread() and response.json())["error"]
        else:
            async for line in response.aiter_lines():
                found.take(line)
    return found


# --- metrics ---

GENERATED = "vllm:generation_tokens_total{"


def series(client, beginning, path="/metrics"):
    """Return the values of the lines with this beginning by their name and labels."""
    lines = client.get(path).text.splitlines()
    found = [line.rpartition(" ") for line in lines if line.startswith(beginning)]
    return {labels: float(value) for labels, _, value in found}


def metric(*asked):
    return sum(series(*asked).values())


# --- a backend's own routes ---

# A random model ends no string: these end by themselves.
BOOK = tools.tool(
    "book_table",
    {
        "day": {"type": "string", "enum": ["monday", "tuesday", "wednesday"]},
        "guests": {"type": "integer", "minimum": 1, "maximum": 12},
        "outside": {"type": "boolean"},
    },
)
LIGHT = tools.tool(
    "set_light",
    {"room": {"type": "string", "enum": ["kitchen", "bedroom"]}, "on": {"type": "boolean"}},
)
OFFERED = [BOOK, LIGHT]


def status(backend):
    """Return the backend's status after a step of the engine with another request: what ended
    leaves the batch with the next step."""
    request = wire.GenerateRequest(
        request_id=f"status-{uuid.uuid4().hex}",
        model="tiny",
        prompt=wire.TokensPrompt(token_ids=(1, 2, 3)),
        sampling=wire.Sampling(max_tokens=2),
        stream=False,
    )
    backend.post("/generate", content=request.model_dump_json()).raise_for_status()
    return wire.Status.model_validate_json(backend.get("/status").content)


def keys_of(client, offered):
    """Keys of the tools' grammars, by name."""
    info = wire.Info.model_validate_json(client.get("/v1/toolgate/info").content)
    return {
        tool.name: grammar_key.grammar_key(
            tool.hash,
            dialect=info.dialect,
            tokenizer=info.tokenizer,
            grammar_format=info.grammar_format,
        )
        for tool in offered
    }


def generate(client, offered, text, **options):
    """ids, texts, finish_reason of one enforced answer."""
    found = keys_of(client, parse_tools(offered))
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
        grammars=tuple(
            wire.NeededGrammar(key=key, tool=at, report=True)
            for at, key in enumerate(found.values())
        ),
        stream=False,
    )
    url, content = "/v1/toolgate/generate", request.model_dump_json()
    answer = client.post(url, content=content).raise_for_status()
    events = wire.stream_events.validate_json(answer.content)
    assert isinstance(start := events[0], wire.StartEvent)
    assert [verdict.key for verdict in start.verdicts] == [*found.values()]
    [end] = [event for event in events if isinstance(event, wire.EndEvent)]
    tokens = [event for event in events if isinstance(event, wire.TokensEvent)]
    ids = [token for event in tokens for token in event.ids]
    texts = [each for event in tokens for each in event.texts]
    return ids, texts, end.finish_reason


def sampled_calls(client, text, **options):
    """The calls of a sampled answer with `OFFERED`: one or two, which are valid."""
    ids, texts, finish = generate(client, OFFERED, text, temperature=1.0, **options)
    assert finish == "stop"
    info = wire.Info.model_validate_json(client.get("/v1/toolgate/info").content)
    segmenter = Segmenter(DIALECTS[info.dialect], info.marks, required=True)
    found = calls_in([*segmenter.feed(ids, texts), *segmenter.finish("stop")])
    assert 1 <= len(found) <= 2
    check(ChoiceOutput(calls=found), OFFERED)
    return found
