"""Sampling a choice again from just before a call that turned out to be wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from toolgate_core import wire
from toolgate_core.errors import ToolSchemaViolation
from toolgate_core.segmenter import Segmenter
from toolgate_core.stop import StopStrings

from . import metrics
from .held_calls import InvalidCall

GREEDY = 1e-5
"""Temperatures below it are greedy (`_SAMPLING_EPS` in vllm/sampling_params.py)."""
GREEDY_AGAIN = 1.0
"""Temperature at which a greedy choice is sampled again: greedily, the same call would come."""


@dataclass(frozen=True)
class Resample:
    """One choice of an answer, to be gone on with after its tokens `accepted`."""

    choice: int
    attempt: int
    """1 for the first time that the choice is sampled again."""
    accepted: tuple[int, ...]
    max_tokens: int | None
    """What is left of the choice's budget."""
    failed: ToolSchemaViolation
    """What the request ends with if this can't be done."""


class Retries:
    """What one choice needs to be gone on with from before its last call."""

    def __init__(self, choice: int, marks: wire.MarkIds, *, most: int, budget: int | None) -> None:
        """`most`: times it may be sampled again; `budget`: tokens it may take in all."""
        self._choice = choice
        self._call_begin = marks.call_begin
        self._most = most
        self._budget = budget
        self._accepted: list[int] = []
        self._before: tuple[Segmenter, StopStrings | None, int] | None = None
        self.attempts = 0

    def note(self, token: int, segmenter: Segmenter, stops: StopStrings | None) -> bool:
        """Keeps a token that is about to be fed. True where it begins a call."""
        begins = token == self._call_begin
        if begins:
            twin = stops.copy() if stops is not None else None
            self._before = segmenter.copy(), twin, len(self._accepted)
        self._accepted.append(token)
        return begins

    @property
    def accepted(self) -> tuple[int, ...]:
        """The tokens noted so far, without those of wrong calls."""
        return tuple(self._accepted)

    def again(self, wrong: InvalidCall, spent: int) -> Resample:
        """After so many tokens of the choice, those of all attempts. Raises ToolSchemaViolation
        where it may not be sampled again."""
        assert self._before is not None
        self.attempts += 1
        metrics.RESAMPLED_TOKENS.inc(len(self._accepted) - self._before[2])
        del self._accepted[self._before[2] :]
        left = None if self._budget is None else self._budget - spent
        failed = _violated(wrong, self.attempts)
        if self.attempts > self._most or (left is not None and left < 1):
            raise failed
        return Resample(self._choice, self.attempts, tuple(self._accepted), left, failed)

    def before_call(self) -> tuple[Segmenter, StopStrings | None]:
        """The choice's state as it was before its last call."""
        assert self._before is not None
        segmenter, stops, _ = self._before
        return segmenter, stops


def _violated(wrong: InvalidCall, times: int) -> ToolSchemaViolation:
    violation = wrong.violation
    where = violation.pointer or "their root"
    sampled = "once" if times == 1 else f"{times} times"
    return ToolSchemaViolation(
        f"The model, sampled {sampled}, called {wrong.tool!r} with arguments that break "
        f"{violation.keyword!r} of its schema at {where}. Send the request again, or write the "
        f"schema without {violation.keyword!r} so that all of it is enforced while sampling.",
        pointer=violation.pointer,
        keyword=violation.keyword,
    )


def request_again(first: wire.GenerateRequest, resample: Resample) -> wire.GenerateRequest:
    """The request that goes on from before the call, as `first` asked for its choices. It is the
    same for the same seed; greedy sampling counts as seeded."""
    sampling = first.sampling
    seed, temperature = sampling.seed, sampling.temperature
    if temperature is not None and temperature < GREEDY:
        seed, temperature = seed or 0, GREEDY_AGAIN
    least = max(0, sampling.min_tokens - len(resample.accepted))
    again = {
        "n": 1,
        "max_tokens": resample.max_tokens,
        "min_tokens": least if resample.max_tokens is None else min(least, resample.max_tokens),
        "prompt_logprobs": None,  # the first answer had those of the prompt
        "temperature": temperature,
        "seed": None if seed is None else derived_seed(seed, resample.choice, resample.attempt),
    }
    return first.model_copy(
        update={
            "request_id": f"{first.request_id}-{resample.choice}-{resample.attempt}",
            "sampling": sampling.model_copy(update=again),
            "accepted": resample.accepted,
            "stream": True,
        }
    )


def derived_seed(seed: int, choice: int, attempt: int) -> int:
    """63 bits, which every sampler takes."""
    digest = hashlib.sha256(f"{seed}:{choice}:{attempt}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def of_choice(events: Iterable[wire.StreamEvent], choice: int) -> Iterator[wire.StreamEvent]:
    """The events of a request that went on with one choice, as events of that choice. What they
    say of their prompt, which held the tokens accepted, is left out."""
    for event in events:
        match event:
            case wire.TokensEvent():
                yield event.model_copy(update={"choice": choice, "cached_tokens": None})
            case wire.EndEvent():
                yield event.model_copy(update={"choice": choice})
            case _:
                pass
