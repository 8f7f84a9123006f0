"""Requests and what they become (requests.yaml): the messages for the template, what of a history
the model sees in another form, the tools that can be called, and parameters."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from toolgate_core.chat_request import ChatRequest

from .kit import Json, changes, flat, names, parsed, plain, rows, with_plain_ids

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
def test_a_request_becomes(api: str, row: Json) -> None:
    sent = copy.deepcopy(row["sent"])
    asked = parsed(api, sent)
    assert sent == row["sent"]
    expected = {"changes": [], "omitted_tools": [], "images": False} | row["becomes"]
    if "tools" in expected:
        expected.setdefault("listed", expected["tools"])
    for field, value in expected.items():
        assert shown(asked, field, sent) == value, field
    assert len(asked.messages) == len(asked.message_paths)
