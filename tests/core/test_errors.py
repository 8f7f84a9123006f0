from __future__ import annotations

import json

import pytest

from toolgate_core import errors
from toolgate_core.error_body import from_body
from toolgate_core.errors import (
    BackendFailed,
    BackendUnavailable,
    ContextLengthExceeded,
    GrammarUnknown,
    InvalidRequest,
    SchemaNotEnforceable,
    ToolgateError,
    UnknownTool,
)
from toolgate_core.errors.base import MAX_MESSAGE, MAX_PARAM
from toolgate_core.errors.requests import MAX_POINTER


def test_every_error_class_documents_its_cause_and_remedy() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    documented = [kind for kind in kinds if issubclass(kind, ToolgateError)]
    assert len(documented) > 20
    assert not [
        kind for kind in documented if len((kind.__doc__ or "").split("\n\n")) not in (2, 3)
    ]


@pytest.mark.parametrize(
    "error",
    [
        UnknownTool("no such tool", param="tool_choice"),
        SchemaNotEnforceable("not this", pointer="/properties/a/not", param="tools"),
        GrammarUnknown(["k1", "k2"]),
        ContextLengthExceeded("too long", param="messages"),
        ContextLengthExceeded.of_tokens(4096),
        ContextLengthExceeded.of_tokens(4096, 4000, 100, param="max_tokens"),
    ],
)
def test_an_error_is_rebuilt_from_its_body(error: ToolgateError) -> None:
    rebuilt = from_body(error.status, error.body())
    assert type(rebuilt) is type(error)
    assert rebuilt.body() == error.body()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"message": "hm", "code": 400}}, InvalidRequest),
        (401, {"error": "Unauthorized"}, BackendUnavailable),
        (500, "oops", BackendFailed),
        (503, None, BackendUnavailable),
    ],
)
def test_bodies_of_other_servers_become_errors(
    status: int, body: object, kind: type[ToolgateError]
) -> None:
    assert type(from_body(status, body)) is kind


def test_numbers_of_an_error_about_the_context_are_in_its_body_and_its_message() -> None:
    error = ContextLengthExceeded.of_tokens(4096, 4000, 100, param="max_tokens")
    assert error.details() == {"context_length": 4096, "prompt_tokens": 4000, "max_tokens": 100}
    assert "(4000 in the messages, 100 in the completion)" in error.message
    assert ContextLengthExceeded.of_tokens(4096).details() == {"context_length": 4096}


def test_long_message_and_parameter_are_shortened() -> None:
    error = InvalidRequest("m" * 1_500_000, param="p" * 1_000_000)
    assert error.message == "m" * (MAX_MESSAGE - 1) + "…" == str(error)
    assert error.param == "p" * (MAX_PARAM - 1) + "…"


def test_message_at_the_limit_is_unchanged() -> None:
    error = InvalidRequest("m" * MAX_MESSAGE, param="p" * MAX_PARAM)
    assert (error.message, error.param) == ("m" * MAX_MESSAGE, "p" * MAX_PARAM)


def test_long_pointer_is_shortened() -> None:
    error = SchemaNotEnforceable("No.", pointer="/a" * 100_000)
    assert len(error.pointer) == MAX_POINTER
    assert len(json.dumps(error.body())) < MAX_POINTER + 200
