"""A fault, a change to what the reference server does in one scenario, and what makes one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.verify.reference_server.asked import Asked
from tests.verify.reference_server.reply import Call, Reply, fresh, pieces

if TYPE_CHECKING:
    from tests.verify.reference_server.app import Reply as Sent
    from tests.verify.reference_server.asked import Asked
    from tests.verify.reference_server.reply import Reply


def _nothing(*_):
    """No change."""


def _same(value):
    return value


@dataclass(frozen=True)
class Fault:
    asked: Callable[[Asked], object] = _nothing
    """Changes the request as the server understands it."""
    reply: Callable[[Reply, Asked], object] = _nothing
    """Changes the answer before it has the form of an API."""
    body: Callable[[Any], Any] = _same
    """Returns the body of a whole answer."""
    events: Callable[[list[tuple[str, Any]]], list[tuple[str, Any]]] = _same
    """Returns the events of a stream."""
    error: Callable[[Any], Any] = _same
    """Returns the body of an error."""
    state: Callable[[Any, Sent], Sent] = lambda _, sent: sent
    """Returns the answer of an operation on a stored response."""
    sent: Callable[[Sent, int], Sent] = lambda sent, _: sent
    """Returns the HTTP response; the number is that of the request."""
    accepts: bool = False
    """Whether the server answers requests that it should refuse."""


Events = list[tuple[str, Any]]


def reply(change):
    return Fault(reply=lambda made, _: change(made))


def streamed(change):
    """Changes streamed answers only."""
    return Fault(reply=lambda made, asked: change(made) if asked.stream else None)


def setting(**values):
    return reply(_setter(values))


def stream_setting(**values):
    return streamed(_setter(values))


def _setter(values):
    def change(made):
        for name, value in values.items():
            setattr(made, name, value)

    return change


def text_before(text):
    """Puts a text before that of the answer."""

    def change(made):
        made.text = text + made.text

    return reply(change)


def arguments(value):
    """Calls have other arguments; a text is taken as it is."""

    def change(made):
        for call in made.calls:
            call.text = value if isinstance(value, str) else json.dumps(value)

    return reply(change)


def last_arguments(value):
    def change(made):
        made.calls[-1].text = json.dumps(value)

    return reply(change)


def call(**values):
    def change(made):
        for each in made.calls:
            for name, value in values.items():
                setattr(each, name, value)

    return reply(change)


def no_calls(text="No."):
    return setting(calls=[], text=text, finish="stop")


def another_call(name="fly", text="{}"):
    def change(made):
        made.calls.append(Call(name, text, id=fresh("call_")))

    return reply(change)


def other_tool(name):
    """The server calls another tool than the named one."""

    def change(asked):
        asked.allowed = [name]

    return Fault(asked=change)


def stream_fragments(change):
    """The fragments of arguments in streams spell another text."""

    def apply(made):
        for each in made.calls:
            each.fragments = pieces(change(each.text))

    return streamed(apply)


def stream_text(change):
    def apply(made):
        made.text_parts = pieces(change(made.text))

    return streamed(apply)


def body(change):
    """Changes the body of whole answers in place."""

    def apply(made):
        change(made)
        return made

    return Fault(body=apply)


def each_event(change, *kinds):
    """Changes the data of events in place: all, or those of the types."""

    def apply(sent):
        for _, data in sent:
            if isinstance(data, dict) and (not kinds or data.get("type") in kinds):
                change(data)
        return sent

    return Fault(events=apply)


def without(*kinds):
    """Events of these types are missing."""

    def apply(sent):
        return [(name, data) for name, data in sent if name not in kinds]

    return Fault(events=apply)


def events(change):
    return Fault(events=change)


def refuses():
    """The server refuses what it should accept."""

    def apply(sent, _):
        error = {"error": {"message": "The request is wrong.", "type": "invalid_request_error"}}
        return type(sent)(400, error)

    return Fault(sent=apply)


def content_type(of, instead):
    def apply(sent, _):
        if sent.kind == of:
            sent.kind = instead
        return sent

    return Fault(sent=apply)


ACCEPTS = Fault(accepts=True)
