"""vLLM's request outputs → the raw events of the wire: ids, text, logprobs, unshaped."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from toolgate_core.wire import (
    EndEvent,
    StartEvent,
    StreamEvent,
    TokenLogprob,
    TokensEvent,
    TopLogprob,
    UsageEvent,
)

from .vocabulary import Vocabulary


class TextDecoder:
    """Bytes of tokens → text, one choice. A character appears with the token that completes it;
    `accepted` came before and may have left one begun."""

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
    top_logprobs: int | None,
    accepted: Sequence[int] = (),
) -> AsyncIterator[StreamEvent]:
    """The events of one request, whose `outputs` are vLLM RequestOutputs of kind DELTA."""
    yield start
    decoders: dict[int, TextDecoder] = {}
    completion_tokens = cached_tokens = 0
    async for output in outputs:
        cached_tokens = output.num_cached_tokens or cached_tokens
        for choice in output.outputs:
            decoder = decoders.setdefault(choice.index, TextDecoder(vocabulary, accepted))
            ids = tuple(choice.token_ids)
            if ids:
                first = completion_tokens == 0
                completion_tokens += len(ids)
                yield TokensEvent(
                    choice=choice.index,
                    ids=ids,
                    texts=tuple(decoder.decode(token) for token in ids),
                    logprobs=_logprobs(ids, choice.logprobs, vocabulary, top_logprobs),
                    cached_tokens=cached_tokens if first else None,
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
    # vLLM's `repetition` (its own detector ended the choice) is an end like any other to a client.
    return reason if reason in ("stop", "length", "abort", "error") else "stop"


def _logprobs(
    ids: tuple[int, ...], logprobs: Any, vocabulary: Vocabulary, top: int | None
) -> tuple[TokenLogprob, ...] | None:
    if top is None or logprobs is None:
        return None
    return tuple(
        _token_logprob(token, at, vocabulary, top) for token, at in zip(ids, logprobs, strict=False)
    )


def _token_logprob(
    token: int, at: Mapping[int, Any], vocabulary: Vocabulary, top: int
) -> TokenLogprob:
    """vLLM gives the sampled token and the likeliest `top`, in no promised order."""
    likeliest = sorted(at.items(), key=lambda item: -item[1].logprob)[:top]
    alternatives = tuple(
        TopLogprob(**_spelled(i, vocabulary), logprob=_finite(entry.logprob))
        for i, entry in likeliest
    )
    return TokenLogprob(
        **_spelled(token, vocabulary), logprob=_finite(at[token].logprob), top=alternatives
    )


def _spelled(token: int, vocabulary: Vocabulary) -> dict[str, Any]:
    text = vocabulary.token_bytes[token]
    return {"token": text.decode(errors="replace"), "bytes": tuple(text)}


def _finite(logprob: float) -> float:
    return max(logprob, -9999.0)  # JSON has no −inf; vLLM's own servers answer the same figure
