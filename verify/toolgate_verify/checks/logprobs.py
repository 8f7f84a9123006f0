"""Logprobs of chat completions and of the Responses API."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..asking.ask import Ask
from ..check import OPENAI, rule
from ..reading.answer import optional
from ..reading.sse import events
from ..scenario import Evidence
from ..terms import Api, Failed, Severity, Suite, require
from .common import paired

LOGPROBS = paired(
    "logprobs",
    Ask(max_tokens=24),
    {
        Api.CHAT: {"logprobs": True, "top_logprobs": 2},
        Api.RESPONSES: {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
    },
)


def _whole(evidence: Evidence) -> list[dict[str, Any]]:
    evidence.answer(0)
    body = evidence.ok(0).body
    if evidence.api == Api.CHAT:
        return [*(optional(body, "choices", 0, "logprobs", "content") or ())]
    return [
        token
        for item in body["output"]
        if item.get("type") == "message"
        for part in item["content"]
        for token in part.get("logprobs") or ()
    ]


def _streamed(evidence: Evidence) -> list[dict[str, Any]]:
    evidence.answer(1)
    if evidence.api == Api.CHAT:
        return [
            token
            for chunk in evidence.events()
            for choice in chunk.get("choices") or ()
            for token in optional(choice, "logprobs", "content") or ()
        ]
    return [
        token
        for event in events(evidence.ok(1).text)
        if optional(event.data, "type") == "response.output_text.delta"
        for token in event.data.get("logprobs") or ()
    ]


def _spelled(tokens: list[dict[str, Any]]) -> str:
    spelled = b""
    for token in tokens:
        codes = token.get("bytes")
        text = str(token.get("token", ""))
        spelled += bytes(codes) if codes is not None else text.encode()
    return spelled.decode(errors="replace")


_rule = partial(rule, topic="logprobs", scenario=LOGPROBS, apis=OPENAI)


@_rule(
    "logprobs.text",
    "The tokens of logprobs spell the text",
    "Each token of the text has its logprob, and the bytes of the tokens are the text.",
)
def _text(evidence: Evidence) -> None:
    text, spelled = evidence.whole.text, _spelled(_whole(evidence))
    require(spelled.startswith(text) and text, f"tokens spell {spelled[:60]!r}, text {text[:60]!r}")


@_rule(
    "logprobs.top",
    "`top_logprobs` has the number of alternatives",
    "Each token has as many alternatives as the request asks for.",
    severity=Severity.MINOR,
)
def _top(evidence: Evidence) -> None:
    tokens = _whole(evidence)
    require(tokens, "there are no logprobs")
    counts = {len(token.get("top_logprobs") or ()) for token in tokens}
    require(counts == {2}, f"tokens have {sorted(counts)} alternatives")


@_rule(
    "logprobs.values",
    "Logprobs are at most 0",
    "A logprob is the logarithm of a probability.",
    suite=Suite.FULL,
)
def _values(evidence: Evidence) -> None:
    for token in _whole(evidence):
        value = token.get("logprob")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Failed(f"a logprob is {value!r}")
        require(value <= 1e-6, f"a logprob is {value}")


@_rule(
    "logprobs.streamed",
    "A stream has the same tokens",
    "The logprobs of a stream are those of the tokens in its deltas.",
    confirm=True,
)
def _same(evidence: Evidence) -> None:
    whole = [token.get("token") for token in _whole(evidence)]
    streamed = [token.get("token") for token in _streamed(evidence)]
    require(whole == streamed and whole, f"{len(whole)} tokens whole, {len(streamed)} streamed")
