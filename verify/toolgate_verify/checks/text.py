"""Plain answers: their text, finish reasons, token usage, and the equality of both forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..asking.ask import Ask
from ..check import OPENAI, rule
from ..reading.answer import Answer, Usage
from ..reading.sse import events
from ..scenario import Evidence
from ..terms import Severity, Skipped, require
from .common import no_calls, no_markup_in_text, of_answers, paired, same, same_finish, same_text

TEXT = paired("text", Ask(max_tokens=48))
_rule = partial(rule, scenario=TEXT)


@_rule(
    "text.content",
    "An answer without tools has text",
    "The generated text is in the field that the API defines for it.",
    topic="body",
)
@of_answers
def _content(answer: Answer) -> None:
    require(answer.text or answer.reasoning, "the answer has neither text nor reasoning")


_rule(
    "text.no_calls",
    "Without tools there are no calls",
    "Calls only name tools that the request offers.",
    topic="calls",
    severity=Severity.CRITICAL,
)(no_calls)
_rule(
    "text.no_markup",
    "The text has no markup of turns",
    "Content is what the model says, without the marks of its prompt format.",
    topic="body",
)(no_markup_in_text)


@_rule(
    "text.unicode",
    "No character is broken",
    "JSON texts are Unicode in UTF-8; a character is never split between two events.",
    topic="text",
)
def _unicode(evidence: Evidence) -> None:
    whole, streamed = evidence.whole, evidence.streamed
    extra = streamed.text.count("\ufffd") > whole.text.count("\ufffd")
    require(not extra, "the stream has U+FFFD where the whole answer has characters")
    for index in range(2):
        broken = [char for char in evidence.answer(index).text if "\ud800" <= char <= "\udfff"]
        require(not broken, "the text has a lone surrogate")


@_rule(
    "text.model",
    "The answer names its model",
    "The answer has the name of the model that generated it.",
    topic="body",
    severity=Severity.MINOR,
)
@of_answers
def _model(answer: Answer) -> None:
    require(answer.model, "`model` is missing or empty")


@_rule(
    "text.ids_differ",
    "Each answer has an ID of its own",
    "The ID of an answer is unique.",
    topic="body",
)
def _ids(evidence: Evidence) -> None:
    first, second = evidence.whole.id, evidence.streamed.id
    require(first and second, "`id` is missing or empty")
    require(first != second, f"two answers have the ID {first!r}")


@_rule(
    "text.limit",
    "The token limit is respected",
    "An answer has at most as many tokens as the request allows.",
    topic="request",
)
def _limit(evidence: Evidence) -> None:
    for index in range(2):
        usage = evidence.answer(index).usage
        if usage is not None:
            limit = evidence.ask.max_tokens
            require(usage.completion <= limit, f"{usage.completion} tokens, limit {limit}")


@_rule(
    "text.finish",
    "The finish reason states whether the limit cut the answer",
    "An answer that reaches the token limit is marked as cut; others are marked as ended.",
    topic="finish",
    severity=Severity.CRITICAL,
)
def _finish(evidence: Evidence) -> None:
    for index in range(2):
        answer = evidence.answer(index)
        usage = answer.usage
        if usage is None:
            raise Skipped("the answer has no usage")
        wanted = "length" if usage.completion >= evidence.ask.max_tokens else "stop"
        require(answer.finish == wanted, f"{usage.completion} tokens and {answer.finish!r}")


_rule(
    "text.same",
    "Streamed and whole text are equal at temperature 0",
    "The deltas of a stream add up to the answer that is sent without streaming.",
    topic="stream",
    severity=Severity.CRITICAL,
    confirm=True,
)(same_text)
_rule(
    "text.same_finish",
    "Streamed and whole finish reasons are equal",
    "A stream ends with the finish reason of the whole answer.",
    topic="finish",
    confirm=True,
)(same_finish)


@_rule(
    "text.content_type",
    "A whole answer is application/json",
    "The content type describes the body.",
    topic="content_type",
    severity=Severity.MINOR,
)
def _json(evidence: Evidence) -> None:
    type_ = evidence.ok(0).content_type
    require(type_ == "application/json", f"content-type is {type_!r}")


@_rule(
    "stream.content_type",
    "A stream is text/event-stream",
    "Event streams have the type text/event-stream.",
    topic="sse",
)
def _sse(evidence: Evidence) -> None:
    type_ = evidence.ok(1).content_type
    require(type_ == "text/event-stream", f"content-type is {type_!r}")


@_rule(
    "stream.json",
    "Every event is one JSON object",
    "The data of each event is one JSON object of the API.",
    topic="stream",
)
def _events_are_json(evidence: Evidence) -> None:
    sent = [each for each in events(evidence.ok(1).text) if each.text.strip() != "[DONE]"]
    require(sent, "the stream has no events")
    broken = [each.text[:80] for each in sent if not isinstance(each.data, dict)]
    require(not broken, f"not a JSON object: {broken[:1]}")


@_rule(
    "stream.incremental",
    "Text arrives in several parts",
    "A stream sends text as it is generated, not at the end.",
    topic="stream",
    severity=Severity.MINOR,
)
def _incremental(evidence: Evidence) -> None:
    answer = evidence.streamed
    require(answer.text or answer.reasoning, "the stream has no text")
    if not f"{answer.text}{answer.reasoning}".strip():
        raise Skipped("the text is blank")
    sent = events(evidence.ok(1).text)
    texts = [each for each in sent if _has_delta(each.data)]
    require(len(texts) > 1, f"{len(texts)} event with text")


def _has_delta(data: object) -> bool:
    if not isinstance(data, dict):
        return False
    if str(data.get("type", "")).endswith(".delta") or data.get("type") == "content_block_delta":
        return True
    return any(
        (choice.get("delta") or {}).get(name)
        for choice in data.get("choices") or ()
        for name in ("content", "reasoning_content", "reasoning")
    )


def usage_of(answer: Answer) -> Usage:
    require(answer.usage is not None, "`usage` is missing")
    assert answer.usage is not None
    return answer.usage


def _both(evidence: Evidence, test: Callable[[Usage], tuple[bool, str]]) -> None:
    for index in range(2):
        holds, problem = test(usage_of(evidence.answer(index)))
        require(holds, problem)


_usage_rule = partial(rule, topic="usage", scenario=TEXT)


def _counted(answer: Answer) -> None:
    usage = usage_of(answer)
    require(usage.prompt > 0, "no prompt tokens are counted")
    require(usage.completion > 0, "no output tokens are counted")


_usage_rule(
    "usage.present",
    "Whole answers have usage",
    "A whole answer states its prompt and output tokens.",
)(lambda evidence: _counted(evidence.whole))
_usage_rule(
    "usage.streamed",
    "Streams have usage",
    "A stream states its prompt and output tokens (chat completions: with `include_usage`).",
)(lambda evidence: _counted(evidence.streamed))


@_usage_rule(
    "usage.sum",
    "The total is the sum",
    "Total tokens are prompt tokens and output tokens together.",
    apis=OPENAI,
)
def _sum(evidence: Evidence) -> None:
    _both(
        evidence,
        lambda usage: (
            usage.total == usage.prompt + usage.completion,
            f"{usage.prompt} + {usage.completion} is not {usage.total}",
        ),
    )


@_usage_rule(
    "usage.cached",
    "Cached tokens are part of the prompt",
    "The prompt tokens read from a cache are some of the prompt tokens.",
    apis=OPENAI,
    severity=Severity.MINOR,
)
def _cached(evidence: Evidence) -> None:
    if evidence.whole.usage is not None and evidence.whole.usage.cached is None:
        raise Skipped("the usage has no cached tokens")
    _both(
        evidence,
        lambda usage: (
            0 <= (usage.cached or 0) <= usage.prompt,
            f"{usage.cached} cached tokens of {usage.prompt}",
        ),
    )


@_usage_rule(
    "usage.same",
    "Streamed and whole usage are equal",
    "The counts do not depend on the form of the answer.",
    confirm=True,
)
def _same(evidence: Evidence) -> None:
    whole, streamed = usage_of(evidence.whole), usage_of(evidence.streamed)
    same("prompt tokens", whole.prompt, streamed.prompt)
    same("output tokens", whole.completion, streamed.completion)
