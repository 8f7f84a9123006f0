"""State and request for sampling a choice again from just before an invalid call."""

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
"""Temperatures below this value are greedy (`_SAMPLING_EPS` in vllm/sampling_params.py)."""
GREEDY_RESAMPLING_TEMPERATURE = 1.0
"""Temperature for sampling a greedy choice again. Greedy sampling would repeat the same call."""


@dataclass(frozen=True)
class Resample:
    """A choice to continue after its tokens `accepted`."""

    choice: int
    attempt: int
    """1 for the first time that the choice is sampled again."""
    accepted: tuple[int, ...]
    max_tokens: int | None
    """The rest of the choice's budget."""
    failed: ToolSchemaViolation
    """The error of the request if the choice can't be sampled again."""


class Retries:
    """State of one choice, for continuing it from before its last call."""

    def __init__(self, choice: int, *, max_attempts: int, budget: int | None) -> None:
        """`max_attempts`: how often the choice may be sampled again. `budget`: maximum number of
        tokens over all attempts."""
        self._choice = choice
        self._max_attempts = max_attempts
        self._budget = budget
        self._accepted: list[int] = []
        self._before: tuple[Segmenter, StopStrings | None, int] | None = None
        self.attempts = 0

    def note(self, token: int, segmenter: Segmenter, stops: StopStrings | None) -> None:
        """Records a token before it is fed."""
        if not segmenter.in_call and segmenter.call_token in (token, None):
            stops = stops.copy() if stops is not None else None
            self._before = segmenter.copy(), stops, len(self._accepted)
        self._accepted.append(token)

    @property
    def accepted(self) -> tuple[int, ...]:
        """The tokens recorded so far, without those of invalid calls."""
        return tuple(self._accepted)

    def resample(self, invalid: InvalidCall, spent: int) -> Resample:
        """`spent`: tokens of the choice in all attempts. Raises ToolSchemaViolation if the choice
        can't be sampled again."""
        assert self._before is not None
        self.attempts += 1
        metrics.RESAMPLED_TOKENS.inc(len(self._accepted) - self._before[2])
        del self._accepted[self._before[2] :]
        remaining = None if self._budget is None else self._budget - spent
        failed = _violation_error(invalid, self.attempts)
        if self.attempts > self._max_attempts or (remaining is not None and remaining < 1):
            raise failed
        return Resample(self._choice, self.attempts, tuple(self._accepted), remaining, failed)

    def state_before_call(self) -> tuple[Segmenter, StopStrings | None]:
        """The state of the choice before its last call."""
        assert self._before is not None
        segmenter, stops, _ = self._before
        return segmenter, stops


def _violation_error(invalid: InvalidCall, attempts: int) -> ToolSchemaViolation:
    violation = invalid.violation
    where = violation.pointer or "the root"
    times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    return ToolSchemaViolation(
        f"After {times}, the arguments of the call of {invalid.tool!r} still violate "
        f"{violation.keyword!r} at {where}. Masks can't enforce this keyword. Send the request "
        f"again, or remove {violation.keyword!r} from the schema.",
        pointer=violation.pointer,
        keyword=violation.keyword,
    )


def resample_request(first: wire.GenerateRequest, resample: Resample) -> wire.GenerateRequest:
    """The request that continues a choice from before the call, with the sampling parameters of
    `first`. It is deterministic if the sampling is seeded or greedy."""
    sampling = first.sampling
    seed, temperature = sampling.seed, sampling.temperature
    if temperature is not None and temperature < GREEDY:
        seed, temperature = seed or 0, GREEDY_RESAMPLING_TEMPERATURE
    least = max(0, sampling.min_tokens - len(resample.accepted))
    changes = {
        "n": 1,
        "max_tokens": resample.max_tokens,
        "min_tokens": least if resample.max_tokens is None else min(least, resample.max_tokens),
        "prompt_logprobs": None,  # the first response contains them
        "temperature": temperature,
        "seed": None if seed is None else derived_seed(seed, resample.choice, resample.attempt),
    }
    return first.model_copy(
        update={
            "request_id": f"{first.request_id}-{resample.choice}-{resample.attempt}",
            "sampling": sampling.model_copy(update=changes),
            "enforcement": first.enforcement
            and first.enforcement.model_copy(update={"first_choice": resample.choice}),
            "accepted": resample.accepted,
            "stream": True,
        }
    )


def derived_seed(seed: int, choice: int, attempt: int) -> int:
    """A seed of 63 bits, which all samplers accept."""
    digest = hashlib.sha256(f"{seed}:{choice}:{attempt}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def choice_events(events: Iterable[wire.StreamEvent], choice: int) -> Iterator[wire.StreamEvent]:
    """Converts the events of a resample request to events of the choice that it continues. Data on
    its prompt is removed, because that prompt includes the accepted tokens."""
    for event in events:
        match event:
            case wire.TokensEvent():
                yield event.model_copy(update={"choice": choice, "cached_tokens": None})
            case wire.EndEvent():
                yield event.model_copy(update={"choice": choice})
            case _:
                pass
