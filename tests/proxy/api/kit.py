"""The three APIs: rows of data files, small bodies, parsed requests, answers whole and streamed."""

import dataclasses
import json
from functools import cache
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from tests.support.apis.chat_events import WRITERS, read
from tests.support.apis.messages_api import CLIENT
from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import Tool
from toolgate_proxy.api.surfaces import COMPLETIONS, MESSAGES, RESPONSES

APIS = {"chat": COMPLETIONS, "responses": RESPONSES, "messages": MESSAGES}
HI = [{"role": "user", "content": "hi"}]
BODIES = {
    "chat": {"model": "tiny", "messages": HI},
    "responses": {"model": "tiny", "input": HI},
    "messages": {"model": "tiny", "max_tokens": 100, "messages": HI},
}
TURNS = {"chat": "messages", "responses": "input", "messages": "messages"}
SCHEMA = {"type": "object"}


@cache
def rows(name):
    """The rows of a data file of this folder."""
    text = (Path(__file__).parent / f"{name}.yaml").read_text()
    return yaml.load(text, yaml.CSafeLoader)


def each_api(names="api"):
    return pytest.mark.parametrize(names, APIS)


def parsed(api, body=None, *, client=CLIENT, **options):
    """A small request with the members of `body`."""
    given = BODIES[api] | (body or {})
    return read(APIS[api], given, client=client, **options)


def refused(api, body, **options):
    with pytest.raises(InvalidRequest) as error:
        parsed(api, body, **options)
    return error.value


def function(api, name="look", **more):
    """A tool in the form of the API; `more` beside its schema."""
    if api == "chat":
        return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **more}}
    if api == "responses":
        return {"type": "function", "name": name, "parameters": SCHEMA, **more}
    return {"name": name, "input_schema": SCHEMA, **more}


def writer_of(asked):
    return WRITERS[asked.request_id]


def changes(asked):
    return [[each.kind, each.path] for each in writer_of(asked).history_changes]


def names(asked):
    return [tool.name for tool in asked.tools]


def field_of(asked, name):
    """A field of a request, of what it consists of, or of what only its API needs of it."""
    parts = (asked, asked.shortener, asked.options, asked.extras, writer_of(asked))
    return next(getattr(part, name) for part in parts if hasattr(part, name))


def plain(value):
    """A value of a request as a data file has it. Of objects: what differs from the defaults."""
    match value:
        case Tool():
            return {"name": value.name, "parameters": value.parameters, "param": value.param}
        case BaseModel():
            return plain(value.model_dump(mode="json", exclude_defaults=True))
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case tuple() | list():
            return [plain(each) for each in value]
        case set() | frozenset():
            return sorted(value)
    if not dataclasses.is_dataclass(value):
        return value
    fields = {
        each.name: (getattr(value, each.name), each.default) for each in dataclasses.fields(value)
    }
    shown = {name: plain(given) for name, (given, default) in fields.items() if given != default}
    return {type(value).__name__: shown}


def with_plain_ids(messages, body):
    """The messages, with `new 1`, `new 2` … for ids of calls that the request does not have."""
    shown, sent = [*messages], json.dumps(body)
    made = [call["id"] for each in shown for call in each.get("tool_calls") or ()]
    ids = [each for each in dict.fromkeys(made) if json.dumps(each) not in sent]
    text = json.dumps(shown)
    for at, each in enumerate(ids, 1):
        text = text.replace(json.dumps(each), f'"new {at}"')
    return json.loads(text)


def flat(topics):
    """Each API and each row of it, of a file with topics."""
    for api, inside in topics.items():
        for found in inside.values():
            yield from ((api, row) for row in found)
