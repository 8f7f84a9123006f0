"""Chat requests, the backend events that answer them, and the responses made from those events."""

import asyncio
import atexit
from functools import cache

from tests.support.servers.fake_backend import INFO
from tests.support.servers.script import tokenize
from toolgate_core import wire
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.tools import parse_tools
from toolgate_proxy.api.chat_completions.output import ChatWriter
from toolgate_proxy.api.surface import Reading
from toolgate_proxy.chat.calls import CallCheck
from toolgate_proxy.chat.preparation import PreparedRequest
from toolgate_proxy.chat.response import ChatResponse
from toolgate_proxy.request.chat_request import ChatRequest
from toolgate_proxy.request.plan import make_plan
from toolgate_proxy.validation.service import ValidationService

QWEN3 = DIALECTS["qwen3"]
TOOLS = parse_tools(
    [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("look", "walk")
    ]
)
VALIDATORS = ValidationService()


WRITERS = {}
"""By id of the requests that were read: what writes their responses."""


def read(surface, body, **options):
    made, writer = surface.read(body, Reading("tiny", **options))
    WRITERS[made.request_id] = writer
    return made


def request(n=1, choice="auto", stop=(), parallel=True, stop_ids=(), **more):
    return ChatRequest(
        request_id="chatcmpl-1",
        model="tiny",
        messages=(),
        tools=TOOLS,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        sampling=wire.Sampling(n=n, stop_token_ids=stop_ids),
        stop=stop,
        **more,
    )


def answer_to(asked, info=INFO):
    plan = make_plan(asked, QWEN3)
    found = PreparedRequest(asked, info, QWEN3, plan)
    return ChatResponse(found, CallCheck(plan.candidates, (), VALIDATORS))


def fed(answer, sent):
    return _runner().run(answer.feed(sent))


def batches(answer, sent, cuts):
    """What the answer makes of the events, in batches that end at the cuts."""
    at = 0
    for cut in [*sorted(cuts), len(sent)]:
        yield fed(answer, sent[at:cut])
        at = max(at, cut)


@cache
def _runner():
    """One loop for all events: the processes of `VALIDATORS` belong to the loop of their start."""
    runner = asyncio.Runner()
    atexit.register(runner.close)
    return runner


def events(*texts, finish="stop", logprobs=False, reasoning_open=False):
    """The tokens of the choices, interleaved as a backend interleaves them."""
    turns = [tokenize(text + ("<|im_end|>" if finish == "stop" else "")) for text in texts]
    sent = [wire.StartEvent(prompt_tokens=5, reasoning_open=reasoning_open)]
    for at in range(max(map(len, turns))):
        for choice, turn in enumerate(turns):
            if at < len(turn):
                token, text = turn[at]
                logprob = wire.TokenLogprob(token=text, bytes=tuple(text.encode()), logprob=-1.0)
                sent.append(
                    wire.TokensEvent(
                        choice=choice,
                        ids=(token,),
                        texts=(text,),
                        logprobs=(logprob,) if logprobs else None,
                    )
                )
    for choice in range(len(turns)):
        sent.append(wire.EndEvent(choice=choice, finish_reason=finish))
    tokens = sum(map(len, turns))
    sent.append(wire.UsageEvent(prompt_tokens=5, completion_tokens=tokens, cached_tokens=2))
    return sent


def responses(asked, sent, cuts, info=INFO, **options):
    """The chunks and the whole response made from the batches. The last chunk has the usage.
    `options`: of the writer."""
    answer, writer = answer_to(asked, info), ChatWriter(asked, include_usage=True, **options)
    stream, whole = (writer.response(answer, answer.head.model) for _ in range(2))
    stream.logged = whole.logged = True
    streamed = []
    for pieces in batches(answer, sent, cuts):
        whole.add(pieces)
        streamed += stream.shown(pieces)
    assert stream.body() == whole.body()
    return [*streamed, *stream.last()], whole.body()


def answered(asked, sent, cuts=(), info=INFO):
    """The stream and the whole response to a request that was read, made of the backend's events in
    batches."""
    answer, writer = answer_to(asked, info), WRITERS[asked.request_id]
    made = writer.response(answer, "tiny")
    made.logged = True
    data = b""
    for pieces in batches(answer, sent, cuts):
        if pieces:
            data += made.events(pieces)
    return data + made.end(), made.body()
