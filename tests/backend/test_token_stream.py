from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolgate_backend.token_stream import TextDecoder, raw_events
from toolgate_backend.vocabulary import Vocabulary
from toolgate_core.wire import EndEvent, StartEvent, TokensEvent, UsageEvent

START = StartEvent(prompt_tokens=20, reasoning_open=True, max_tokens=30)


def test_a_character_appears_with_the_token_that_completes_it(vocabulary: Vocabulary) -> None:
    decoder = TextDecoder(vocabulary)
    ids = [vocabulary.token_bytes.index(bytes([byte])) for byte in "é🙂".encode()]
    assert [decoder.decode(i) for i in ids] == ["", "é", "", "", "", "🙂"]
    assert decoder.rest() == ""


def test_a_character_that_was_begun_before_is_completed(vocabulary: Vocabulary) -> None:
    first, second = (vocabulary.token_bytes.index(bytes([byte])) for byte in "é".encode())
    assert TextDecoder(vocabulary, [first]).decode(second) == "é"


def test_the_texts_join_to_the_whole(vocabulary: Vocabulary) -> None:
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

    yield SimpleNamespace(num_cached_tokens=16, outputs=[choice(0, [10]), choice(1, [11, 12])])
    yield SimpleNamespace(num_cached_tokens=16, outputs=[choice(1, [], "stop")])
    yield SimpleNamespace(num_cached_tokens=16, outputs=[choice(0, [13], "length")])


async def test_events_of_two_choices(vocabulary: Vocabulary) -> None:
    events = [
        event async for event in raw_events(outputs(), vocabulary, start=START, top_logprobs=None)
    ]
    assert [e.ids for e in events if isinstance(e, TokensEvent)] == [(10,), (11, 12), (13,)]
    ends = [(e.choice, e.finish_reason) for e in events if isinstance(e, EndEvent)]
    assert ends == [(1, "stop"), (0, "length")]
    assert events[-1] == UsageEvent(prompt_tokens=20, completion_tokens=4, cached_tokens=16)
