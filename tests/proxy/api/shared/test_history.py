"""Parts of a history that no template can show, and what stands for them."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.chat_request import HistoryChange
from toolgate_proxy.api.shared.history import MAX_PLACES, History, text_of
from toolgate_proxy.request_fields import Fields


@pytest.mark.parametrize("given", [{"a": "é"}, '{"a": "é"}'])
def test_arguments_are_the_text_of_an_object(given: object) -> None:
    history = History()
    assert history.arguments(given, "p") == '{"a": "é"}'
    assert history.changes == ()


@pytest.mark.parametrize("given", ["{", "[]", "null", "1", '"a"', " ", [], 1, True, "[" * 10**5])
def test_other_arguments_become_an_empty_object(given: object) -> None:
    history = History()
    assert history.arguments(given, "p") == "{}"
    assert history.changes == (HistoryChange("arguments", "p"),)


def test_fields_that_clients_add_are_left_out() -> None:
    history = History()
    given = {"role": "user", "metadata_passthrough": {"a": 1}, "phase": None, "a.b": 1}
    history.note_unknown(Fields(given, "input[0]"), ("role",))
    assert [change.path for change in history.changes] == [
        "input[0].metadata_passthrough",
        'input[0]["a.b"]',
    ]


ENTRIES: dict[str, tuple[Any, str]] = {
    "advice": (
        {"type": "advisor_tool_result", "content": {"type": "advisor_result", "text": "do it"}},
        "do it",
    ),
    "a program": (
        {"type": "code_interpreter_call", "outputs": [{"type": "logs", "logs": "4"}], "code": "x"},
        "4",
    ),
    "a shell": (
        {"type": "shell_call_output", "output": [{"stdout": "a.txt", "stderr": "", "outcome": {}}]},
        "a.txt",
    ),
    "an MCP server": ({"type": "mcp_call", "name": "f", "arguments": "{}", "output": "ok"}, "ok"),
    "a page": (
        {
            "type": "web_fetch_tool_result",
            "content": {
                "type": "web_fetch_result",
                "content": {
                    "type": "document",
                    "title": "T",
                    "source": {"type": "text", "media_type": "text/plain", "data": "page"},
                },
            },
        },
        "T\npage",
    ),
    "a search": (
        {
            "type": "web_search_tool_result",
            "content": [{"type": "web_search_result", "title": "T", "encrypted_content": "x"}],
        },
        "T",
    ),
    "another agent": (
        {"type": "agent_message", "author": "a", "content": [{"type": "input_text", "text": "t"}]},
        "t",
    ),
    "an image": ({"type": "image_generation_call", "result": "iVBORw0KGgo="}, ""),
    "a file": (
        {"type": "document", "source": {"type": "base64", "data": "JVBERi0="}},
        "",
    ),
    "reasoning": ({"type": "thinking", "thinking": "hm", "text": "hm"}, ""),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_of_another_service_is_its_text_or_is_left_out(name: str) -> None:
    entry, text = ENTRIES[name]
    history = History()
    assert history.text(entry, "p") == text
    assert history.changes == (HistoryChange("as_text" if text else "left_out", "p"),)


def test_a_part_of_a_result_is_never_left_out_silently() -> None:
    history = History()
    assert history.result_text({"type": "input_file", "file_id": "f"}, "p") == (
        "[input_file left out]"
    )
    assert history.result_text({"type": "chart", "title": "T"}, "p") == "T"


@pytest.mark.parametrize("value", [None, 3, {}, [], "", {"text": None}, {"text": 3}, [[]]])
def test_values_without_text(value: object) -> None:
    assert text_of(value) == ""


def test_the_number_of_places_is_bounded() -> None:
    history = History()
    for at in range(1000):
        history.note("left_out", f"input[{at}]")
    history.note("arguments", "input[1000].arguments")
    assert len(history.changes) == MAX_PLACES + 1
    assert history.changes[-1].kind == "arguments"
