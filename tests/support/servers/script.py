"""What a fake backend answers: text with its marks spelt out (`<think>`, `<tool_call>` …), cut into
tokens of a few characters, and how it fails."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

from toolgate_core import wire

MARKS = {
    "<tool_call>": 1,
    "</tool_call>": 2,
    "<think>": 3,
    "</think>": 4,
    "<|im_end|>": 5,
    "<failure>": 6,
}


def call(name: str, arguments: dict[str, Any] | str) -> str:
    """A call as the dialect qwen3 writes it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return f'<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>'


@dataclass
class Script:
    """One answer. `texts` holds one choice's text each; n choices take them in turn."""

    texts: tuple[str, ...]
    finish: str = "stop"
    reasoning_open: bool = False
    start: dict[str, Any] = field(default_factory=dict)
    """Other fields of the start event."""
    prompt_tokens: int = 11
    cached_tokens: int = 3
    pause: float = 0.0
    queued: float = 0.0
    """Seconds before anything but keep-alives comes."""
    error_status: int | None = None
    """Refuse the request with this status and `error`."""
    error: dict[str, Any] = field(default_factory=dict)
    error_after: int | None = None
    """Send an error event after so many tokens of each choice."""
    break_after: int | None = None
    """Drop the connection after so many tokens of each choice."""
    hang_after: int | None = None
    """Go silent, but for keep-alives, after so many tokens of each choice."""
    again: tuple[str, ...] = ()
    """What comes when a choice is sampled again, in turn: the text behind what was accepted. Of a
    whole call only what follows the accepted part of the call is sent."""


class Scripts(dict[str, Script]):
    """Says "Hello there" to everything else."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Script:
        return Script(("Hello there",))


def tokenize(text: str, size: int = 3) -> list[tuple[int, str]]:
    tokens: list[tuple[int, str]] = []
    for part in re.split(f"({'|'.join(map(re.escape, MARKS))})", text):
        if part in MARKS:
            tokens.append((MARKS[part], part))
        else:
            cut = (part[at : at + size] for at in range(0, len(part), size))
            tokens.extend((100 + ord(piece[0]), piece) for piece in cut)
    return tokens


async def events(
    script: Script, message: wire.GenerateRequest, verdicts: tuple[wire.GrammarVerdict, ...] = ()
) -> AsyncIterator[wire.StreamEvent | None]:
    """As the backend sends them; None is a keep-alive. `verdicts`: on new grammars."""
    n = message.sampling.n
    if again := re.search(r"(?:chatcmpl-|resp_|msg_)[0-9a-f]+-(\d+)-(\d+)$", message.request_id):
        script = replace(script, texts=(script.again[int(again[2]) - 1],))
    texts = [script.texts[at % len(script.texts)] for at in range(n)]
    if script.finish == "stop":
        texts = [text + "<|im_end|>" for text in texts]
    turns = [_behind(message.accepted, tokenize(text)) for text in texts]
    limit = min(message.sampling.max_tokens or 10_000, 10_000)
    start = wire.StartEvent(
        prompt_tokens=script.prompt_tokens,
        reasoning_open=script.reasoning_open,
        max_tokens=message.sampling.max_tokens or 4000,
        prompt_token_ids=tuple(range(script.prompt_tokens)) if message.return_prompt_ids else None,
        verdicts=verdicts,
    )
    yield start.model_copy(update=script.start)
    for at in range(max(map(len, turns))):
        if at == script.error_after:
            error = {"message": "It broke.", "code": "enforcement_failed"}
            yield wire.ErrorEvent(status=500, error=error)
            return
        if at == script.break_after:
            raise ConnectionError("by script")
        while script.hang_after is not None and at >= script.hang_after:
            yield None
            await asyncio.sleep(0.05)
        for choice, turn in enumerate(turns):
            if at < min(len(turn), limit):
                shown = _tokens(choice, *turn[at], logprobs=message.sampling.logprobs)
                first = at == 0 and choice == 0
                cached = script.cached_tokens if first else None
                if message.trace is not None:
                    yield _trace(choice, len(message.accepted) + at, *turn[at])
                yield shown.model_copy(update={"cached_tokens": cached})
        if script.pause:
            await asyncio.sleep(script.pause)
    for choice, turn in enumerate(turns):
        cut = script.finish == "length" or len(turn) > limit
        yield wire.EndEvent(
            choice=choice,
            finish_reason="length" if cut else "stop",
            stop_reason=None if cut else turn[-1][0],
        )
    yield wire.UsageEvent(
        prompt_tokens=script.prompt_tokens,
        completion_tokens=sum(min(len(turn), limit) for turn in turns),
        cached_tokens=script.cached_tokens,
    )


def _trace(choice: int, at: int, token: int, text: str) -> wire.TraceEvent:
    """Marks are forced, all else is free."""
    kind: wire.TokenKind = "forced" if text in MARKS else "free"
    allowed = 1 if text in MARKS else 990
    trace = wire.TokenTrace(at=at, id=token, text=text, phase="content", kind=kind, allowed=allowed)
    return wire.TraceEvent(choice=choice, tokens=(trace,))


def _behind(accepted: tuple[int, ...], turn: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """`turn` without the beginning of a call that `accepted` ends with."""
    begin, end = MARKS["<tool_call>"], MARKS["</tool_call>"]
    for at in reversed(range(len(accepted))):
        if accepted[at] == end:
            break
        if accepted[at] == begin:
            begun = accepted[at:]
            same = tuple(token for token, _ in turn[: len(begun)]) == begun
            return turn[len(begun) :] if same else turn
    return turn


def _tokens(choice: int, token: int, text: str, *, logprobs: int | None) -> wire.TokensEvent:
    told = None
    if logprobs is not None:
        raw = tuple(text.encode())
        top = tuple(
            wire.TopLogprob(token=f"{text}{at}", bytes=raw, logprob=-1.0 - at)
            for at in range(logprobs)
        )
        told = (wire.TokenLogprob(token=text, bytes=raw, logprob=-0.5, top=top),)
    return wire.TokensEvent(choice=choice, ids=(token,), texts=(text,), logprobs=told)
