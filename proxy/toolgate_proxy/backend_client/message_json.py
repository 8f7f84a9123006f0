"""Messages to a backend as JSON."""

from __future__ import annotations

from pydantic_core import PydanticSerializationError

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest


def encoded(message: wire.Message) -> bytes:
    """Raises InvalidRequest for values that JSON can't represent: pydantic's serializer nests about
    250 levels, and the depth of a request's fields is not limited."""
    content = _json_of(message)
    if content is None:
        param = _unencodable(message)
        what = "The request" if param is None else repr(param)
        raise InvalidRequest(
            f"{what} can't be sent to the backend as JSON: a value in it is "
            "nested too deeply or is not valid Unicode. Change that value.",
            param=param,
        )
    return content


def _json_of(message: wire.Message) -> bytes | None:
    try:
        return message.model_dump_json(exclude_none=True).encode()
    except (PydanticSerializationError, UnicodeEncodeError):
        return None


def _unencodable(message: wire.Message) -> str | None:
    """The parameter with the value that is not valid JSON."""
    if isinstance(message, wire.LoadGrammars):
        return "tools"
    if isinstance(message, wire.WalkInstances):
        return "instances"
    prompt = getattr(message, "prompt", None)
    if isinstance(prompt, wire.ChatPrompt):
        for at, each in enumerate(prompt.messages):
            if _json_of(wire.ChatPrompt(messages=(each,))) is None:
                return f"messages[{at}]"
        if _json_of(wire.ChatPrompt(messages=(), tools=prompt.tools)) is None:
            return "tools"
        if _json_of(wire.ChatPrompt(messages=(), template_kwargs=prompt.template_kwargs)) is None:
            return "chat_template_kwargs"
    return "bad_words" if isinstance(message, wire.GenerateRequest) else None
