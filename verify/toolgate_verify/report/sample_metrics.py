"""Rates over recorded requests, as vendors' verifiers report them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..checks.common import check_call
from ..checks.user_tools import PREFIX, only_reasoning
from ..reading.answer import Answer
from ..scenario import Evidence
from ..terms import Failed, Refused, Skipped


@dataclass(frozen=True)
class SampleMetrics:
    requests: int
    answered: int
    """Answers that could be read."""
    ended_with_calls: int
    valid: int
    """Answers that ended with calls, all of which satisfy their schemas."""
    only_reasoning: int
    similarity: float | None = None
    """F1 of the decision to call, against the reference."""
    same_prompt_tokens: float | None = None
    """Share of the answers whose prompt tokens are those of the reference."""

    @property
    def line(self) -> str:
        text = (
            f"samples: {self.answered} of {self.requests} answered, {self.ended_with_calls} ended "
            f"with calls, {self.valid} of these valid, {self.only_reasoning} only reasoning"
        )
        if self.similarity is not None:
            text += f"; trigger similarity {self.similarity:.1%}"
        if self.same_prompt_tokens is not None:
            text += f", prompt tokens equal in {self.same_prompt_tokens:.1%}"
        return text


def metrics(
    evidence: Mapping[str, Evidence], reference: Mapping[str, Evidence] | None = None
) -> SampleMetrics | None:
    """None if no samples ran."""
    samples = {name: each for name, each in evidence.items() if name.startswith(PREFIX)}
    if not samples:
        return None
    answers = {name: _answer(each) for name, each in samples.items()}
    read = {name: answer for name, answer in answers.items() if answer is not None}
    ended = {name for name, answer in read.items() if answer.finish == "calls"}
    valid = sum(_valid(read[name], samples[name]) for name in ended)
    similarity = same = None
    if reference is not None:
        others = {name: _answer(each) for name, each in reference.items() if name in read}
        pairs = [(read[name], other) for name, other in others.items() if other is not None]
        similarity, same = _f1(pairs), _same_tokens(pairs)
    alone = sum(only_reasoning(answer) for answer in read.values())
    return SampleMetrics(len(samples), len(read), len(ended), valid, alone, similarity, same)


def _answer(evidence: Evidence) -> Answer | None:
    try:
        return evidence.answer(0)
    except (Failed, Refused, Skipped):
        return None


def _valid(answer: Answer, evidence: Evidence) -> bool:
    try:
        for call in answer.calls:
            check_call(call, evidence.ask.tools)
    except Failed:
        return False
    return bool(answer.calls)


def _f1(pairs: list[tuple[Answer, Answer]]) -> float | None:
    both = sum(bool(a.calls) and bool(b.calls) for a, b in pairs)
    one = sum(bool(a.calls) != bool(b.calls) for a, b in pairs)
    return 2 * both / (2 * both + one) if both or one else None


def _same_tokens(pairs: list[tuple[Answer, Answer]]) -> float | None:
    counted = [(a.usage, b.usage) for a, b in pairs if a.usage and b.usage]
    equal = sum(first.prompt == second.prompt for first, second in counted)
    return equal / len(counted) if counted else None
