"""A fault, a change to what the reference server does in one scenario, and what makes one."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.verify.reference_server.reply import Call, fresh, pieces


def _nothing(*_):
    """No change."""


def _same(value, *_):
    return value


@dataclass(frozen=True)
class Fault:
    asked: Callable[..., Any] = _nothing
    """Changes the request as the server understands it."""
    reply: Callable[..., Any] = _nothing
    """Changes the answer to a request before it has the form of an API."""
    body: Callable[..., Any] = _same
    """Returns the body of a whole answer."""
    events: Callable[..., Any] = _same
    """Returns the events of a stream: their names and data."""
    error: Callable[..., Any] = _same
    """Returns the body of an error."""
    state: Callable[..., Any] = lambda _, sent: sent
    """Returns the answer of an operation on a stored response."""
    sent: Callable[..., Any] = _same
    """Returns the HTTP response, which is given with the number of the request."""
    accepts: bool = False
    """Whether the server answers requests that it should refuse."""


ACCEPTS = Fault(accepts=True)


def reply(change):
    return Fault(reply=lambda made, _: change(made))


def streamed(change):
    """Changes streamed answers only."""
    return Fault(reply=lambda made, asked: change(made) if asked.stream else None)


def setting(**values):
    return reply(lambda made: vars(made).update(values))


def stream_setting(**values):
    return streamed(lambda made: vars(made).update(values))


def text_before(text):
    """Puts a text before that of the answer."""
    return reply(lambda made: vars(made).update(text=text + made.text))


def call(**values):
    return reply(lambda made: [vars(each).update(values) for each in made.calls])


def arguments(value):
    """Calls have other arguments; a text is taken as it is."""
    return call(text=value if isinstance(value, str) else json.dumps(value))


def last_arguments(value):
    return reply(lambda made: vars(made.calls[-1]).update(text=json.dumps(value)))


def no_calls(text="No."):
    return setting(calls=[], text=text, finish="stop")


def another_call(name="fly", text="{}"):
    return reply(lambda made: made.calls.append(Call(name, text, id=fresh("call_"))))


def other_tool(name):
    """The server calls another tool than the named one."""
    return Fault(asked=lambda asked: vars(asked).update(allowed=[name]))


def stream_fragments(change):
    """The fragments of arguments in streams spell another text."""

    def apply(made):
        for each in made.calls:
            each.fragments = pieces(change(each.text))

    return streamed(apply)


def stream_text(change):
    return streamed(lambda made: vars(made).update(text_parts=pieces(change(made.text))))


def in_place(change):
    """The function that changes its argument in place and returns it."""

    def apply(made, *_):
        change(made)
        return made

    return apply


def body(change):
    """Changes the body of whole answers in place."""
    return Fault(body=in_place(change))


def events(change):
    return Fault(events=change)


def each_event(change, *kinds):
    """Changes the data of events in place: all, or those of the types."""

    def apply(sent):
        for _, data in sent:
            if isinstance(data, dict) and (not kinds or data.get("type") in kinds):
                change(data)

    return events(in_place(apply))


def without(*kinds):
    """Events of these types are missing."""
    return events(lambda sent: [each for each in sent if each[0] not in kinds])


def refuses():
    """The server refuses what it should accept."""
    error = {"error": {"message": "The request is wrong.", "type": "invalid_request_error"}}
    return Fault(sent=lambda sent, _: type(sent)(400, error))


def content_type(of, instead):
    change = in_place(lambda sent: vars(sent).update(kind=instead) if sent.kind == of else None)
    return Fault(sent=change)
