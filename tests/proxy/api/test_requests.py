"""Requests and what they become (requests.yaml): the messages for the template, what of a history
the model sees in another form, the tools that can be called, and parameters. Others are refused by
their parameter or path, in words about it (refusals.yaml)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.apis.messages_api import check_error
from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import SchemaNotEnforceable

from .kit import APIS, Json, changes, flat, names, parsed, plain, refused, rows, with_plain_ids

CASES = [pytest.param(api, row, id=f"{api}: {row['name']}") for api, row in flat(rows("requests"))]
READ = {
    "tools": names,
    "listed": lambda asked: [tool.name for tool in asked.prompt_tools],
    "changes": changes,
    "definitions": lambda asked: [tool.definition for tool in asked.tools],
    "tool_params": lambda asked: [tool.param for tool in asked.tools],
}
"""Fields that are not those of a ChatRequest."""


def shown(asked: ChatRequest, field: str, sent: Json) -> Any:
    if field == "messages":
        return with_plain_ids(asked.messages, sent)
    return plain(READ[field](asked) if field in READ else getattr(asked, field))


@pytest.mark.parametrize(("api", "row"), CASES)
def test_a_request_becomes(api, row):
    sent = copy.deepcopy(row["sent"])
    asked = parsed(api, sent)
    assert sent == row["sent"]
    expected = {"changes": [], "omitted_tools": [], "images": False} | row["becomes"]
    if "tools" in expected:
        expected.setdefault("listed", expected["tools"])
    for field, value in expected.items():
        assert shown(asked, field, sent) == value, field
    assert len(asked.messages) == len(asked.message_paths)


FOREIGN = {"chat": ("'input",), "responses": ("'messages", ".custom", "function.name")}
"""Words of other APIs, which no error has unless the body has them."""
REFUSED = [
    pytest.param(api, *row, *("invalid_request", "")[len(row) - 2 :], id=f"{api} {row[1]}")
    for api, row in flat(rows("refusals"))
]


@pytest.mark.parametrize(("api", "change", "param", "code", "words"), REFUSED)
def test_a_refusal_names_the_parameter_and_the_rule(api, change, param, code, words):
    error = refused(api, change, open_objects=False)
    assert (error.param, error.code, error.status) == (param, code, 400)
    assert words in error.message
    if not isinstance(error, SchemaNotEnforceable):
        above, _, last = param.rpartition(".")
        assert any(each in error.message for each in (repr(param), last, repr(above)))
    for foreign in FOREIGN.get(api, ()):
        assert foreign not in error.message or foreign.strip("'") in str(change)
    body = APIS[api].error(error, None, "req_1")
    shown = body["error"]
    assert (shown["message"], shown["param"], shown["code"]) == (error.message, param, code)
    if api == "messages":
        check_error(body)
