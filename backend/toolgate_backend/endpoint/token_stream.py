"""Convert vLLM's request outputs to the raw events of the wire format: ids, text and bytes of the
tokens, and logprobs."""

from __future__ import annotations

import codecs
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from vllm.exceptions import VLLMClientError
from vllm.v1.engine.exceptions import EngineDeadError

from toolgate_core import wire
from toolgate_core.errors import BackendFailed, EnforcementFailed

from ..adapters.engine_sequences import NO_GRAMMAR
from ..adapters.lifetimes import engine_died
from ..tokens.vocabulary import Vocabulary
from .sampling import client_error
from .trace import Trace

SECONDS = 0.25
"""Time over which tokens are joined. The tokens of a response that its client abandons are counted
up to this time before."""


async def batched(
    events: AsyncGenerator[wire.StreamEvent, None], seconds: float = SECONDS
) -> AsyncGenerator[wire.StreamEvent, None]:
    """Yield the same events, with the tokens of `seconds` as one event for each choice.

    The first tokens follow at once, so that the reader knows that the model has begun."""
    waiting: dict[int, list[wire.TokensEvent]] = {}
    due = 0.0
    async with aclosing(events):
        async for event in events:
            if isinstance(event, wire.TokensEvent):
                waiting.setdefault(event.choice, []).append(event)
                if (now := time.monotonic()) < due:
                    continue
                due = now + seconds
            for tokens in waiting.values():
                yield wire.joined(tokens)
            waiting.clear()
            if not isinstance(event, wire.TokensEvent):
                yield event


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


async def with_client_errors(outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Return vLLM's outputs, and raise its rejections of a request as errors of the client, except
    the one about a grammar of ours. vLLM validates parameters against the model when it admits a
    request."""
    try:
        async for output in outputs:
            yield output
    except VLLMClientError as error:
        if NO_GRAMMAR in str(error):
            raise EnforcementFailed(
                "The engine ended the response early. Send the request again."
            ) from error
        raise client_error(error) from error
    except EngineDeadError:
        engine_died.set()
        raise


async def raw_events(
    outputs: AsyncIterator[Any],
    vocabulary: Vocabulary,
    *,
    start: wire.StartEvent,
    logprob_format: LogprobFormat | None = None,
    accepted: Sequence[int] = (),
    trace: Trace | None = None,
) -> AsyncIterator[wire.StreamEvent]:
    """Yield the events of one request. `outputs` are vLLM RequestOutputs of kind DELTA.
    `logprob_format` and `trace` are None if the request wants no logprobs or no traces."""
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
                yield wire.TokensEvent(
                    choice=choice.index,
                    ids=ids,
                    texts=tuple(decoder.decode(token) for token in ids),
                    logprobs=logprob_format.token_logprobs(ids, choice.logprobs)
                    if logprob_format
                    else None,
                    cached_tokens=cached_tokens if first else None,
                    prompt_logprobs=of_prompt if first else None,
                )
            if choice.finish_reason == "abort":  # its engine shuts down, as when another one died
                raise BackendFailed("vLLM ended this request early. Send the request again.")
            if choice.finish_reason is not None:
                yield wire.EndEvent(
                    choice=choice.index,
                    finish_reason=_finish_reason(choice.finish_reason),
                    stop_reason=choice.stop_reason,
                    text=decoder.rest(),
                )
    yield wire.UsageEvent(
        prompt_tokens=start.prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=cached_tokens,
    )


def _finish_reason(reason: str) -> Any:
    # vLLM's finish reason `repetition`, from its repetition detection, is a normal stop for
    # clients.
    return reason if reason in ("stop", "length", "error") else "stop"


PromptLogprobs = tuple[dict[int, wire.PromptLogprob] | None, ...]


@dataclass(frozen=True)
class LogprobFormat:
    """Format in which a request wants its tokens and logprobs."""

    vocabulary: Vocabulary
    top: int
    """Number of most likely alternatives."""
    selected_ids: tuple[int, ...] | None = None
    """Token ids to report as alternatives, instead of the most likely ones."""
    as_ids: bool = False
    """Write tokens as `token_id:<id>` (vLLM's `return_tokens_as_token_ids`)."""

    @classmethod
    def of_request(
        cls, request: wire.GenerateRequest, vocabulary: Vocabulary
    ) -> LogprobFormat | None:
        """Return None if the request wants no logprobs."""
        if (top := request.sampling.logprobs) is None:
            return None
        return cls(vocabulary, top, request.sampling.logprob_token_ids, request.tokens_as_ids)

    def token_logprobs(
        self, ids: Sequence[int], logprobs: Any
    ) -> tuple[wire.TokenLogprob, ...] | None:
        """Return the logprobs of the tokens `ids`, from vLLM's list of dicts by token id."""
        if logprobs is None:
            return None
        return tuple(
            self._token(token, entries) for token, entries in zip(ids, logprobs, strict=False)
        )

    def _token(self, token: int, entries: Mapping[int, Any]) -> wire.TokenLogprob:
        """vLLM reports the sampled token and the alternatives in no particular order."""
        if self.selected_ids is not None:
            ids = [each for each in dict.fromkeys(self.selected_ids) if each in entries]
        else:
            ids = sorted(entries, key=lambda each: -entries[each].logprob)[: self.top]
        alternatives = tuple(
            wire.TopLogprob(**self._token_fields(each), logprob=_finite(entries[each].logprob))
            for each in ids
        )
        return wire.TokenLogprob(
            **self._token_fields(token), logprob=_finite(entries[token].logprob), top=alternatives
        )

    def _token_fields(self, token: int) -> dict[str, Any]:
        text = self.vocabulary.token_bytes[token]
        written = f"token_id:{token}" if self.as_ids else text.decode(errors="replace")
        return {"token": written, "bytes": tuple(text)}


def prompt_logprobs(
    logprobs: Sequence[Mapping[int, Any] | None], vocabulary: Vocabulary
) -> PromptLogprobs:
    """Convert the logprobs of a prompt, whose first token has none."""
    return tuple(
        {
            token: wire.PromptLogprob(
                logprob=_finite(entry.logprob),
                rank=entry.rank,
                decoded_token=vocabulary.token_bytes[token].decode(errors="replace"),
            )
            for token, entry in entries.items()
        }
        if entries
        else None
        for entries in logprobs
    )


def _finite(logprob: float) -> float:
    return max(logprob, -9999.0)  # JSON has no −inf; vLLM's own servers use the same number
