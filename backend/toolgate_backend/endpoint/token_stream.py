"""Conversion of vLLM's request outputs to the raw events of the wire format: ids, text,
logprobs."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Sequence
from typing import Any

from toolgate_core.wire import (
    EndEvent,
    StartEvent,
    StreamEvent,
    TokensEvent,
    UsageEvent,
)

from ..tokens.vocabulary import Vocabulary
from .logprobs import LogprobFormat, PromptLogprobs, prompt_logprobs
from .trace import Trace


class TextDecoder:
    """Incremental decoder of one choice's tokens. A character is returned with the token that
    completes it. `accepted` are the preceding tokens, which may end inside a character."""

    def __init__(self, vocabulary: Vocabulary, accepted: Sequence[int] = ()) -> None:
        self._bytes = vocabulary.token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for token in accepted:
            self.decode(token)

    def decode(self, token: int) -> str:
        return self._decoder.decode(self._bytes[token])

    def rest(self) -> str:
        return self._decoder.decode(b"", final=True)


async def raw_events(
    outputs: AsyncIterator[Any],
    vocabulary: Vocabulary,
    *,
    start: StartEvent,
    logprob_format: LogprobFormat | None = None,
    accepted: Sequence[int] = (),
    trace: Trace | None = None,
) -> AsyncIterator[StreamEvent]:
    """The events of one request. `outputs` are vLLM RequestOutputs of kind DELTA. `logprob_format`
    is None if the request wants no logprobs. `trace`: None if it wants no traces."""
    yield start
    decoders: dict[int, TextDecoder] = {}
    completion_tokens = cached_tokens = 0
    of_prompt: PromptLogprobs | None = None
    async for output in outputs:
        # vLLM counts `accepted` as a part of the prompt.
        cached_tokens = min(output.num_cached_tokens or cached_tokens, start.prompt_tokens)
        if output.prompt_logprobs:
            of_prompt = prompt_logprobs(output.prompt_logprobs, vocabulary)
        for choice in output.outputs:
            decoder = decoders.setdefault(choice.index, TextDecoder(vocabulary, accepted))
            ids = tuple(choice.token_ids)
            if ids:
                if trace is not None:
                    yield await trace.event(choice.index, ids)
                first = completion_tokens == 0
                completion_tokens += len(ids)
                yield TokensEvent(
                    choice=choice.index,
                    ids=ids,
                    texts=tuple(decoder.decode(token) for token in ids),
                    logprobs=logprob_format.token_logprobs(ids, choice.logprobs)
                    if logprob_format
                    else None,
                    cached_tokens=cached_tokens if first else None,
                    prompt_logprobs=of_prompt if first else None,
                )
            if choice.finish_reason is not None:
                yield EndEvent(
                    choice=choice.index,
                    finish_reason=_finish_reason(choice.finish_reason),
                    stop_reason=choice.stop_reason,
                    text=decoder.rest(),
                )
    yield UsageEvent(
        prompt_tokens=start.prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=cached_tokens,
    )


def _finish_reason(reason: str) -> Any:
    # vLLM's finish reason `repetition`, from its repetition detection, is a normal stop for
    # clients.
    return reason if reason in ("stop", "length", "abort", "error") else "stop"
