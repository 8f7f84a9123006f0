"""State and request for sampling a choice again from inside or just before an invalid call. Content
with a format is a call in this sense.

Decision 10 has the order of the attempts and the reasons.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolgate_core import wire
from toolgate_core.deltas import Event
from toolgate_core.errors import ToolSchemaViolation
from toolgate_core.segmenter import Segmenter, StopStrings

from . import metrics
from .calls import InvalidCall

GREEDY = 1e-5
"""Temperatures below this value are greedy (`_SAMPLING_EPS` in vllm/sampling_params.py)."""
GREEDY_RESAMPLING_TEMPERATURE = 1.0
"""Temperature for sampling a whole call of a greedy choice again. Greedy sampling would repeat the
same call. Inside a call it does not, because the token that began the value is excluded."""
CYCLE = 3
"""Attempts until the whole call is sampled again."""


@dataclass(frozen=True)
class SampledToken:
    """One token as the backend sent it."""

    id: int
    text: str
    logprobs: Sequence[wire.TokenLogprob] | None = None
    """One entry, or None."""

    def feed(self, segmenter: Segmenter) -> list[Event]:
        return segmenter.feed([self.id], [self.text], self.logprobs)


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
    """The error of the request if the choice cannot be sampled again."""
    in_call: bool = False
    """Whether `accepted` ends inside the call."""
    excluded: tuple[int, ...] = ()
    """Tokens that began a value that failed, at this place."""


class ResamplingState:
    """State of one choice, for continuing it from inside or before its last call."""

    def __init__(
        self, choice: int, *, max_attempts: int, budget: int | None, with_content: bool
    ) -> None:
        """`max_attempts`: how often the choice may be sampled again. `budget`: maximum number of
        tokens over all attempts. `with_content`: whether its content can be invalid."""
        self._choice = choice
        self._with_content = with_content
        self._max_attempts = max_attempts
        self._budget = budget
        self._before_call: list[int] = []
        """Ids of the tokens before the last call."""
        self._state: tuple[Segmenter, StopStrings | None] | None = None
        """State before the last call."""
        self._call: list[SampledToken] = []
        """The tokens of the last call and those after it."""
        self._written: list[int] = []
        """Length of the call's arguments after each token of `_call`."""
        self._excluded: dict[int, list[int]] = {}
        """By position in `_call`."""
        self._failures = 0
        """Failed attempts at the last call."""
        self._was_in_call = False
        """Whether the last token was recorded inside a call."""
        self.attempts = 0

    def note(
        self,
        sampled: SampledToken,
        segmenter: Segmenter,
        stops: StopStrings | None,
        *,
        in_call: bool,
    ) -> None:
        """Record a token before it is fed. `in_call`: whether a call has begun, or such content."""
        # A call begins with the token that begins calls, or in a list, after the call before it.
        # Content can begin with any token.
        begins = segmenter.call_token in (sampled.id, None) or self._with_content
        may_begin = self._was_in_call or begins
        self._was_in_call = in_call
        if may_begin and not in_call:
            self._before_call += [each.id for each in self._call]
            self._call, self._written = [], []
            self._excluded, self._failures = {}, 0
            self._state = segmenter.copy(), stops.copy() if stops is not None else None
        self._call.append(sampled)

    def note_written(self, length: int) -> None:
        """Record the length of the call's arguments after the last token was fed."""
        self._written.append(length)

    @property
    def accepted(self) -> tuple[int, ...]:
        """The tokens recorded so far, without those of invalid calls."""
        return (*self._before_call, *(each.id for each in self._call))

    def after(self, invalid: InvalidCall, spent: int) -> Resample:
        """Return what to sample after an invalid call. `spent`: tokens of the choice in all
        attempts. Raise ToolSchemaViolation if the choice cannot be sampled again."""
        self.attempts += 1
        self._failures += 1
        remaining = None if self._budget is None else self._budget - spent
        failed = _violation_error(invalid, self.attempts)
        if self.attempts > self._max_attempts or (remaining is not None and remaining < 1):
            metrics.GIVEN_UP.inc()
            raise failed
        kept = self._kept(invalid)
        metrics.RESAMPLED_TOKENS.inc(len(self._call) - kept)
        del self._call[kept:], self._written[kept:]
        excluded = tuple(self._excluded.get(kept, ()))
        accepted = self.accepted
        return Resample(
            self._choice, self.attempts, accepted, remaining, failed, kept > 0, excluded
        )

    def restored(self) -> tuple[Segmenter, StopStrings | None, list[Event]]:
        """Return the state of the choice after the tokens that remain, and the events of those of
        the call."""
        assert self._state is not None
        before, stops = self._state
        segmenter, stops = before.copy(), stops.copy() if stops is not None else None
        events: list[Event] = []
        for each in self._call:
            fresh = each.feed(segmenter)
            events += stops.filter(fresh) if stops is not None else fresh
        return segmenter, stops, events

    def _kept(self, invalid: InvalidCall) -> int:
        """Number of tokens of the call to continue from; 0: the whole call is sampled again."""
        starts: tuple[ValueStart, ...] = ()
        if invalid.violation.keyword and self._failures % CYCLE:
            starts = value_starts(invalid.arguments, invalid.violation.pointer)
        if not starts:
            return 0
        start = starts[min(self._failures % CYCLE, len(starts)) - 1]
        # The segmenter withholds the last character of the arguments. So a token with the value's
        # first character is one after which the text up to the value has been written.
        kept = min(bisect_left(self._written, start.offset), len(self._call) - 1)
        self._excluded = {at: tokens for at, tokens in self._excluded.items() if at <= kept}
        if start.scalar and kept:
            self._excluded.setdefault(kept, []).append(self._call[kept].id)
        return kept


def _violation_error(invalid: InvalidCall, attempts: int) -> ToolSchemaViolation:
    violation = invalid.violation
    where = violation.pointer or "the root"
    times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    what = f"arguments of the call of {invalid.tool!r} still violate"
    return ToolSchemaViolation(
        f"After {times}, the {what if invalid.tool else 'content still violates'} "
        f"{violation.keyword!r} at {where}. Masks cannot enforce this keyword. Send the request "
        # SDKs show the message alone of an error in a stream.
        f"again, or remove {violation.keyword!r} from the schema ({ToolSchemaViolation.code}).",
        pointer=violation.pointer,
        keyword=violation.keyword,
    )


def resample_request(first: wire.GenerateRequest, resample: Resample) -> wire.GenerateRequest:
    """Return the request that continues a choice, with the sampling parameters of `first`. It is
    deterministic if the sampling is seeded or greedy."""
    sampling = first.sampling
    seed, temperature = sampling.seed, sampling.temperature
    if temperature is not None and temperature < GREEDY and not resample.excluded:
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
            "excluded": resample.excluded,
            "stream": True,
        }
    )


def derived_seed(seed: int, choice: int, attempt: int) -> int:
    """Return a seed of 63 bits, which all samplers accept."""
    digest = hashlib.sha256(f"{seed}:{choice}:{attempt}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def choice_events(events: Iterable[wire.StreamEvent], choice: int) -> Iterator[wire.StreamEvent]:
    """Convert the events of a resample request to events of the choice that it continues. Data on
    its prompt is removed, because that prompt includes the accepted tokens."""
    for event in events:
        match event:
            case wire.TokensEvent():
                yield event.model_copy(update={"choice": choice, "cached_tokens": None})
            case wire.TraceEvent() | wire.EndEvent():
                yield event.model_copy(update={"choice": choice})
            case _:
                pass


# Where to continue a call: just before a value, not at its beginning.
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True)
class ValueStart:
    """The first character of a value's content."""

    offset: int
    """In the text of the arguments."""
    scalar: bool
    """Whether the value is not an object or an array."""


def value_starts(arguments: str, pointer: str) -> tuple[ValueStart, ...]:
    """Where to continue, in the order in which to try: the last value inside the value at
    `pointer`, which the model decided last, and the value itself. Empty for text that is not JSON.

    `pointer` is a JSON Pointer (RFC 6901). If a step leads nowhere, the value that contains it
    counts: a required member can be missing.
    """
    try:
        value = _located(arguments, pointer)
        last = value
        while members := [at for _, at in _members(arguments, last)]:
            last = members[-1]
    except (ValueError, IndexError, RecursionError):
        return ()
    return tuple(dict.fromkeys(_start(arguments, at) for at in (last, value)))


def value_span(arguments: str, pointer: str) -> tuple[int, int]:
    """Return where the value at `pointer` begins and ends, as `value_starts` finds it."""
    begin = _located(arguments, pointer)
    return begin, _DECODER.raw_decode(arguments, begin)[1]


def _located(text: str, pointer: str) -> int:
    at = _after_space(text, 0)
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        # Of several members with one name, the last one counts.
        starts = [start for member, start in _members(text, at) if member == name]
        if not starts:
            break
        at = starts[-1]
    return at


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """Yield the names (indices in an array) and positions of the values inside the value at
    `at`."""
    opened = text[at]
    if opened not in "{[":
        return
    at, index = _after_space(text, at + 1), 0
    while text[at] not in "}]":
        name = str(index)
        if opened == "{":
            name, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)  # ":"
        yield name, at
        _, at = _DECODER.raw_decode(text, at)
        at, index = _after_space(text, at), index + 1
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()


def _start(text: str, at: int) -> ValueStart:
    """Return where a value's content begins: in a string behind its quotation mark, which most
    strings share."""
    return ValueStart(at + (text[at] == '"'), scalar=text[at] not in "{[")
