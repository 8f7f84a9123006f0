from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolgate_backend.endpoint.token_stream import LogprobFormat, TextDecoder, raw_events
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.wire import (
    EndEvent,
    PromptLogprob,
    StartEvent,
    TokensEvent,
    TopLogprob,
    UsageEvent,
)

START = StartEvent(prompt_tokens=20, reasoning_open=True, max_tokens=30)


def test_a_character_is_emitted_with_its_last_token(vocabulary: Vocabulary) -> None:
    decoder = TextDecoder(vocabulary)
    ids = [vocabulary.token_bytes.index(bytes([byte])) for byte in "é🙂".encode()]
    assert [decoder.decode(i) for i in ids] == ["", "é", "", "", "", "🙂"]
    assert decoder.rest() == ""


def test_a_character_begun_in_accepted_tokens_is_completed(vocabulary: Vocabulary) -> None:
    first, second = (vocabulary.token_bytes.index(bytes([byte])) for byte in "é".encode())
    assert TextDecoder(vocabulary, [first]).decode(second) == "é"


def test_decoded_texts_join_to_the_full_text(vocabulary: Vocabulary) -> None:
    @given(st.text(max_size=40))
    def holds(text: str) -> None:
        decoder = TextDecoder(vocabulary)
        decoded = "".join(decoder.decode(i) for i in vocabulary.encode(text))
        # The tokenizer normalises to NFC before it encodes.
        assert decoded + decoder.rest() == vocabulary.tokenizer.decode(vocabulary.encode(text))

    holds()


async def outputs() -> AsyncIterator[Any]:
    """Two choices of one request, as vLLM gives them in DELTA."""

    def choice(index: int, ids: list[int], finish: str | None = None) -> Any:
        return SimpleNamespace(
            index=index, token_ids=ids, logprobs=None, finish_reason=finish, stop_reason=None
        )

    def output(choices: list[Any], of_prompt: Any = None) -> Any:
        return SimpleNamespace(num_cached_tokens=16, outputs=choices, prompt_logprobs=of_prompt)

    of_prompt = [None, {7: SimpleNamespace(logprob=float("-inf"), rank=3)}]
    yield output([choice(0, [10]), choice(1, [11, 12])], of_prompt)
    yield output([choice(1, [], "stop")])
    yield output([choice(0, [13], "length")])


async def test_events_of_two_choices_are_kept_apart(vocabulary: Vocabulary) -> None:
    events = [event async for event in raw_events(outputs(), vocabulary, start=START)]
    assert [e.ids for e in events if isinstance(e, TokensEvent)] == [(10,), (11, 12), (13,)]
    ends = [(e.choice, e.finish_reason) for e in events if isinstance(e, EndEvent)]
    assert ends == [(1, "stop"), (0, "length")]
    first, *rest = [e.prompt_logprobs for e in events if isinstance(e, TokensEvent)]
    text = vocabulary.token_bytes[7].decode()
    assert first == (None, {7: PromptLogprob(logprob=-9999.0, rank=3, decoded_token=text)})
    assert rest == [None, None]
    assert events[-1] == UsageEvent(prompt_tokens=20, completion_tokens=4, cached_tokens=16)


async def test_cached_tokens_of_a_continued_response_are_those_of_its_prompt(
    vocabulary: Vocabulary,
) -> None:
    """vLLM's own count includes the accepted tokens, which are no part of the client's prompt."""
    start = START.model_copy(update={"prompt_tokens": 10})
    events = raw_events(outputs(), vocabulary, start=start, accepted=(7,) * 8)
    *_, usage = [event async for event in events]
    assert usage == UsageEvent(prompt_tokens=10, completion_tokens=4, cached_tokens=10)


def test_top_logprobs_are_the_likeliest_or_the_selected_ids(
    vocabulary: Vocabulary,
) -> None:
    at = {token: SimpleNamespace(logprob=-float(token - 9)) for token in (10, 11, 12)}
    [likeliest] = LogprobFormat(vocabulary, top=2).token_logprobs([12], [at]) or ()
    assert [each.logprob for each in likeliest.top] == [-1.0, -2.0]
    [selected] = (
        LogprobFormat(vocabulary, 0, selected_ids=(11, 99), as_ids=True).token_logprobs([12], [at])
        or ()
    )
    text = vocabulary.token_bytes[11]
    assert selected.token == "token_id:12"
    assert selected.top == (TopLogprob(token="token_id:11", bytes=tuple(text), logprob=-2.0),)
