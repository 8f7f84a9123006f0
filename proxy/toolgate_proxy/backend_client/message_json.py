"""Messages to a backend as JSON."""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import orjson
from pydantic_core import PydanticSerializationError, to_json

from toolgate_core import wire
from toolgate_core.chat_shape import body_of
from toolgate_core.errors import InvalidRequest
from toolgate_core.text_size import check_text, half_pair_in

LONG = 262_144
"""Length of a string in the messages of a prompt, in characters, from which it is encoded while it
is sent. It is an image or a file, and its JSON would take as much memory as itself."""


class Pieces:
    """A message in JSON whose long strings are encoded while it is sent. It can be sent again."""

    def __init__(self, around: list[bytes], long: list[str]) -> None:
        """`around`: the JSON before, between and after the strings."""
        self._around = around
        self._long = long

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for before, text in zip(self._around, self._long, strict=False):
            yield before + b'"'
            for at in range(0, len(text), LONG):
                yield orjson.dumps(text[at : at + LONG])[1:-1]
            yield b'"'
        yield self._around[-1]


def encoded(
    op: str,
    message: wire.Message | None,
    model: str,
    limits: wire.Limits | None = None,
    *,
    sealed: bool = False,
) -> bytes | Pieces:
    """Return the body of a message in the shape of a chat completion.

    `model`: for messages that do not name one. `limits`: of the backend. `sealed`: as in
    chat_shape.py. Raise ContextLengthExceeded, and InvalidRequest for values that JSON cannot
    represent: pydantic's serializer nests about 250 levels, and the depth of a request's fields is
    not limited."""
    mark, long = secrets.token_hex(16), list[str]()
    short = _without_long(message, mark, long)
    try:
        content = body_of(op, short, model, sealed=sealed)
    except PydanticSerializationError:
        assert message is not None
        raise _invalid(message) from None
    if limits is not None:
        _check_text(message, limits, math.inf if long else len(content))
    return Pieces(content.split(f'"{mark}"'.encode()), long) if long else content


def _check_text(message: wire.Message | None, limits: wire.Limits, size: float) -> None:
    """Raise ContextLengthExceeded for a prompt that cannot fit. `size`: the message's, in bytes."""
    prompt, context, longest = _prompt(message), limits.max_model_len, limits.max_token_bytes
    if prompt is not None and longest is not None and size > context * longest:
        texts = (prompt.messages, prompt.tools, prompt.template_kwargs)
        check_text(*texts, context=context, max_token_bytes=longest)


def _prompt(message: wire.Message | None) -> wire.ChatPrompt | None:
    prompt = getattr(message, "prompt", None)
    return prompt if isinstance(prompt, wire.ChatPrompt) else None


def _without_long(message: wire.Message | None, mark: str, long: list[str]) -> wire.Message | None:
    """Return the message with `mark` in place of its long strings, which are added to `long`."""
    prompt = _prompt(message)
    if message is None or prompt is None:
        return message
    with suppress(RecursionError):
        messages = tuple(_marked(each, mark, long) for each in prompt.messages)
        if not long:
            return message
        short = prompt.model_copy(update={"messages": messages})
        return message.model_copy(update={"prompt": short})
    long.clear()
    return message


def _marked(value: Any, mark: str, long: list[str]) -> Any:
    """Return the value with `mark` in place of its long strings, which are added to `long`. One
    that is not valid Unicode stays, so that JSON cannot represent the message."""
    if isinstance(value, str):
        if len(value) < LONG or not _is_valid(value):
            return value
        long.append(value)
        return mark
    if isinstance(value, dict):
        return {name: _marked(member, mark, long) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(each, mark, long) for each in value]
    return value


def _is_valid(text: str) -> bool:
    """Return whether it is valid Unicode, so that JSON can represent it."""
    try:
        return text.isascii() or all(
            text[at : at + LONG].encode() for at in range(0, len(text), LONG)
        )
    except UnicodeEncodeError:
        return False


def _invalid(message: wire.Message) -> InvalidRequest:
    invalid = ((param, value) for param, value in _parts(message) if not _is_json(value))
    param, value = next(invalid, (None, None))
    what = "The request" if param is None else repr(param)
    problem = half_pair_in(value) or "a value that is nested too deeply"
    return InvalidRequest(
        f"{what} cannot be sent to the backend, because it contains {problem}. Remove or replace "
        "it.",
        param=param,
    )


def _parts(message: wire.Message) -> Iterator[tuple[str, Any]]:
    """Yield what a message has of a request's parameters, with their names."""
    if isinstance(message, wire.LoadGrammars):
        yield "tools", [source.parameters for source in message.grammars]
    if (prompt := _prompt(message)) is not None:
        for at, entry in enumerate(prompt.messages):
            yield f"messages[{at}]", entry
        yield "tools", [*(prompt.tools or ())]
        yield "chat_template_kwargs", prompt.template_kwargs
    if isinstance(message, wire.GenerateRequest):
        yield "bad_words", list(message.sampling.bad_words or ())


def _is_json(value: object) -> bool:
    try:
        to_json(value)
    except ValueError:
        return False
    return True
