"""Stop strings end the text, are not part of it, and are reported."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..asking import pair
from ..asking.ask import Ask
from ..check import rule
from ..exchange import Request
from ..scenario import Evidence
from ..terms import Api, Skipped, require
from .common import same, single

WHOLE, STREAMED = 1, 2


def _stop_of(text: str) -> str:
    """A piece from the middle of the text that does not occur before."""
    middle = len(text) // 2
    for start in range(middle, len(text) - 3):
        piece = text[start : start + 3]
        if piece.strip() == piece and text.find(piece) == start:
            return piece
    return ""


def _with_stop(evidence: Evidence) -> tuple[Request, ...]:
    stop = _stop_of(evidence.whole.text)
    ask = replace(evidence.ask, stop=(stop,))
    return pair(evidence.api, ask) if stop else ()


STOPS = single("stop", Ask(max_tokens=40), follow=_with_stop, followers=2)


_rule = partial(rule, topic="stop", scenario=STOPS, apis=(Api.CHAT, Api.MESSAGES))


def _stop(evidence: Evidence) -> str:
    stop = _stop_of(evidence.whole.text)
    if not stop:
        raise Skipped("the text has no piece that could be a stop string")
    return stop


def _reached(evidence: Evidence, index: int) -> bool:
    """Whether the text begins like the one without a stop string, so that the string came."""
    return evidence.whole.text.startswith(evidence.answer(index).text)


@_rule(
    "stop.text",
    "The text ends before the stop string",
    "Generation ends at a stop string, which is not part of the text.",
)
def _text(evidence: Evidence) -> None:
    stop = _stop(evidence)
    for index in (WHOLE, STREAMED):
        text = evidence.answer(index).text
        require(stop not in text, f"the text contains {stop!r}")
        if _reached(evidence, index):
            wanted = evidence.whole.text.partition(stop)[0]
            require(text == wanted, f"the text {text[-20:]!r} does not end before {stop!r}")


@_rule(
    "stop.finish",
    "A stop string has its finish reason",
    "An answer that a stop string ends is marked as stopped (Messages: `stop_sequence`).",
)
def _finish(evidence: Evidence) -> None:
    _stop(evidence)
    wanted = "stop" if evidence.api == "chat" else "stop_sequence"
    for index in (WHOLE, STREAMED):
        answer = evidence.answer(index)
        if _reached(evidence, index):
            require(answer.finish == wanted, f"the finish reason is {answer.finish!r}")


@_rule(
    "stop.same",
    "Streamed and whole texts with a stop string are equal",
    "A stream does not send parts of the stop string.",
    confirm=True,
)
def _same(evidence: Evidence) -> None:
    _stop(evidence)
    same("texts", evidence.answer(WHOLE).text, evidence.answer(STREAMED).text)
