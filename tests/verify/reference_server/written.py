"""Replies in the form of each API, by the gateway's writers, which also write what faults make."""

import json
from types import SimpleNamespace

from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    InputDelta,
    ReasoningDelta,
)
from toolgate_core.wire import TokenLogprob
from toolgate_proxy.chat.response import ResponseEvent, ResponseHead, TokenCounts

from .reply import pieces

CREATED = 1_700_000_000
FINISH = {"stop": "stop", "length": "length", "calls": "tool_calls", "stop_sequence": "stop"}


def whole(asked, reply):
    made = asked.writer.response(_answer(asked, reply), reply.model)
    made.add(_events(asked, reply, reply.text, lambda call: pieces(call.text)))
    return made.body()


def events(asked, reply):
    """The name and the data of each event."""
    stream = asked.writer.response(_answer(asked, reply), reply.model)
    made = _events(asked, reply, reply.parts, lambda call: call.parts)
    data = b"".join([*(stream.events([each]) for each in made), stream.end()])
    for block in data.decode().split("\n\n")[:-1]:
        name, _, text = block.rpartition("data: ")
        name = name.removeprefix("event: ").strip()
        yield name, text if text == "[DONE]" else json.loads(text)


def _answer(asked, reply):
    """What the writers read of a response, besides its events."""
    counts = TokenCounts(
        reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens, reply.reasoning_tokens
    )
    return SimpleNamespace(
        head=ResponseHead(reply.id, CREATED, reply.model, "fp_reference"),
        counts=counts,
        all_counts=counts,
        call_id=lambda start: start.id,
        summary_counts=None,
        request=asked.request,
        sent=asked.request,
        prompt_token_ids=None,
        prompt_text=None,
        prompt_logprobs=None,
    )


def _events(asked, reply, text, spelled):
    """`text`: the parts of the content. `spelled`: returns the parts of a call's arguments."""
    top, found = asked.body.get("top_logprobs", 0), list[ResponseEvent]()

    def logprobs(token):
        if asked.request.sampling.logprobs is None:
            return ()
        one = TokenLogprob(token=token, bytes=tuple(token.encode()), logprob=-0.5)
        return (one.model_copy(update={"top": (one,) * top}),)

    for choice in range(reply.choices):
        made = [ReasoningDelta(each) for each in pieces(reply.reasoning)]
        parts = pieces(text) if isinstance(text, str) else text
        made += [ContentDelta(each, logprobs(each)) for each in parts]
        for index, call in enumerate(reply.calls):
            delta = InputDelta if call.custom else ArgumentsDelta
            made.append(CallStart(index, call.name, id=call.id, custom=call.custom))
            made += [delta(index, each) for each in spelled(call)]
            made += [CallEnd(index)] * call.complete
        cut = "cut" if any(not call.complete for call in reply.calls) else None
        made.append(Finish(FINISH[reply.finish], stop_reason=reply.stop, call=cut))
        found += [ResponseEvent(choice, each) for each in made]
    return found
