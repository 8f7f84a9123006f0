"""Errors of later steps in the words of each API, with the paths of its bodies."""

import json
import re

import pytest

from tests.support.apis.messages_api import check_error
from tests.support.apis.responses_api import check_event
from toolgate_core.errors import (
    BackendLost,
    BudgetTooSmall,
    ContextLengthExceeded,
    InvalidRequest,
    ModelNotFound,
    SchemaNotEnforceable,
)
from toolgate_proxy.api.surfaces import COMPLETIONS, MESSAGES, RESPONSES
from toolgate_proxy.backend_client.event_stream import SseParser

from .kit import APIS, each_api, function, parsed, refused, rows, writer_of

OUTSIDE = {"type": "object", "properties": {"a": {"$ref": "http://example.com/schema"}}}
PLACES = {
    "chat": ("parameters", "tools[1].function.parameters"),
    "responses": ("parameters", "tools[1].parameters"),
    "messages": ("input_schema", "tools[1].input_schema"),
}


@each_api()
def test_an_error_about_a_schema_has_the_path_and_the_pointer(api):
    member, path = PLACES[api]
    error = refused(api, {"tools": [{"type": "mcp"}, function(api, **{member: OUTSIDE})]})
    assert isinstance(error, SchemaNotEnforceable)
    assert (error.param, error.pointer) == (path, "/properties/a/$ref")
    shown = APIS[api].error(error)["error"]
    assert (shown["param"], shown["pointer"]) == (path, "/properties/a/$ref")


@each_api()
def test_an_error_is_the_same_object_in_a_body_and_in_a_stream(api):
    body = APIS[api].error(SchemaNotEnforceable("One.\nTwo.", pointer="/a", param="tools[0]"))
    event = APIS[api].error_event(body)
    assert event.endswith(b"\n\n")
    first, *rest = [json.loads(data) for data in SseParser().feed(event)]
    assert first["error"] == body["error"]
    assert body["error"]["pointer"] == "/a"
    assert len(rest) == (api == "responses")


def test_an_error_before_the_first_event():
    body = MESSAGES.error(BackendLost("Gone."), "req_1")
    [data] = SseParser().feed(MESSAGES.error_event(body))
    assert json.loads(data) == body
    assert body["request_id"] == "req_1"
    check_error(body)
    body = RESPONSES.error(BackendLost("Gone.", param="messages"))
    event, failed = (json.loads(data) for data in SseParser().feed(RESPONSES.error_event(body)))
    check_event(event)
    check_event(failed)
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", 1)
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": BackendLost.code, "message": "Gone."}
    numbered = (event["code"], event["param"], event["sequence_number"])
    assert numbered == (BackendLost.code, "input", 0)


CALLS = [{"id": name, "function": {"name": "look"}} for name in ("a", "b")]
RESULTS = [{"role": "tool", "tool_call_id": name, "content": name} for name in ("b", "a")]
CHAT = {"messages": [{"role": "assistant", "tool_calls": CALLS}, *RESULTS]}
"""Later steps see sorted results."""
ITEMS = rows("tables")["items"]
BLOCKS = rows("tables")["blocks"]


@pytest.mark.parametrize(
    ("api", "body", "param", "shown"),
    [
        ("chat", CHAT, "messages[1].content[0]", "messages[2].content[0]"),
        ("responses", ITEMS, "messages[3].content[0]", "input[3].content[0]"),
        ("responses", ITEMS, "messages[2].content[0].image_url", "input[2].output[0].image_url"),
        ("responses", ITEMS, "messages", "input"),
        ("responses", ITEMS, "max_tokens", "max_output_tokens"),
        ("messages", BLOCKS, "messages[3].content[0].image_url",
         "messages[2].content[0].content[0].source"),
        ("messages", BLOCKS, "messages[4].content[1].image_url", "messages[2].content[2].source"),
        ("messages", BLOCKS, "messages[0]", "system"),
        ("messages", BLOCKS, "messages[1]", "messages[0]"),
        ("messages", BLOCKS, "messages", "messages"),
        ("messages", BLOCKS, "continue_final_message", "messages[2]"),
        ("messages", BLOCKS, "response_format", "output_config.format"),
    ],
)  # fmt: skip
def test_errors_name_the_places_of_the_request(api, body, param, shown):
    error = InvalidRequest(f"What is at '{param}' is wrong.", param=param)
    made = writer_of(parsed(api, body)).error(error)["error"]
    assert made["param"] == shown
    if api != "messages":
        assert made["message"] == f"What is at '{shown}' is wrong."
    if api == "chat":
        assert APIS[api].error(error)["error"]["param"] == param


def test_words_of_responses_and_types_of_messages():
    text = "max_tokens allows 5 tokens, but a call takes 9. Set max_tokens to 9."
    error = writer_of(parsed("responses")).error(BudgetTooSmall(text, least=9, param="max_tokens"))
    shown = error["error"]
    assert (shown["param"], shown["code"]) == ("max_output_tokens", "max_tokens_too_small")
    assert shown["message"].count("max_output_tokens") == 2
    assert RESPONSES.error(InvalidRequest("x", param="messages"))["error"]["param"] == "input"
    body = MESSAGES.error(ModelNotFound("No.", param="model"), "req_1")
    assert (body["type"], body["request_id"]) == ("error", "req_1")
    found = {name: body["error"][name] for name in ("type", "code", "param")}
    assert found == {"type": "not_found_error", "code": "model_not_found", "param": "model"}
    thread = MESSAGES.error(refused("messages", {"thread": {"type": "create"}}))
    assert thread["error"]["details"]["error_code"] == "thread_unsupported_request"


of_tokens = ContextLengthExceeded.of_tokens
CLAUDE_CODE = re.compile(r"prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)", re.IGNORECASE)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (of_tokens(4096, 100, 4000, param="max_tokens"),
         "input length and `max_tokens` exceed context limit: 100 + 4000 > 4096, decrease input "
         "length or `max_tokens` and try again"),
        (of_tokens(4096, 4096), "prompt is too long: 4096 tokens > 4096 maximum"),
        (of_tokens(4096), "prompt is too long: about 4097 tokens > 4096 maximum"),
        (ContextLengthExceeded("It has 9 bytes."), "prompt is too long: It has 9 bytes."),
    ],
)  # fmt: skip
def test_the_length_of_a_prompt_is_in_words_that_clients_recognize(error, shown):
    made = MESSAGES.error(error)["error"]
    assert (made["message"], made["code"]) == (shown, "context_length_exceeded")
    assert made["type"] == "invalid_request_error"
    assert COMPLETIONS.error(error)["error"]["message"] == error.message


def test_the_tokens_of_a_prompt_that_nobody_counts_are_estimated():
    """Claude Code drops turns by the difference of the numbers before it tries again."""
    long = parsed("messages", {"messages": [{"role": "user", "content": "word " * 40_000}]})
    message = writer_of(long).error(of_tokens(4096))["error"]["message"]
    numbers = CLAUDE_CODE.search(message)
    assert numbers is not None, message
    prompt, context = map(int, numbers.groups())
    assert context == 4096
    assert 40_000 <= prompt <= 60_000
