"""Errors, their bodies, JSON Pointers, half surrogate pairs, and the description of a backend."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from pydantic import ValidationError

from tests.support.servers.fake_backend import INFO
from toolgate_core import errors, wire
from toolgate_core.error_body import from_body
from toolgate_core.errors import (
    BackendFailed,
    BackendUnavailable,
    ContextLengthExceeded,
    FingerprintMismatch,
    GrammarsRefused,
    InvalidRequest,
    SchemaNotEnforceable,
    ToolgateError,
    UnknownTool,
)
from toolgate_core.errors.base import MAX_MESSAGE, MAX_PARAM
from toolgate_core.errors.requests import MAX_POINTER
from toolgate_core.pointer import pointer_of, request_path
from toolgate_core.text_size import half_pair_in

CASES = json.loads(Path(__file__).with_name("errors.json").read_text())


def test_every_error_class_documents_its_cause_and_remedy():
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
        GrammarsRefused([{"key": "k1", "status": "refused"}]),
        FingerprintMismatch("another replica"),
        FingerprintMismatch("sorted", param="toolgate"),
        ContextLengthExceeded("too long", param="messages"),
        ContextLengthExceeded.of_tokens(4096),
        ContextLengthExceeded.of_tokens(4096, 4000, 100, param="max_tokens"),
    ],
)
def test_an_error_is_rebuilt_from_its_body(error):
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
def test_bodies_of_other_servers_become_errors(status, body, kind):
    assert type(from_body(status, body)) is kind


def test_numbers_of_an_error_about_the_context_are_in_its_body_and_its_message():
    error = ContextLengthExceeded.of_tokens(4096, 4000, 100, param="max_tokens")
    assert error.details() == {"context_length": 4096, "prompt_tokens": 4000, "max_tokens": 100}
    assert "(4000 in the messages, 100 in the completion)" in error.message
    assert ContextLengthExceeded.of_tokens(4096).details() == {"context_length": 4096}


def test_long_texts_are_shortened():
    error = InvalidRequest("m" * 1_500_000, param="p" * 1_000_000)
    assert error.message == "m" * (MAX_MESSAGE - 1) + "…" == str(error)
    assert error.param == "p" * (MAX_PARAM - 1) + "…"
    error = InvalidRequest("m" * MAX_MESSAGE, param="p" * MAX_PARAM)
    assert (error.message, error.param) == ("m" * MAX_MESSAGE, "p" * MAX_PARAM)
    error = SchemaNotEnforceable("No.", pointer="/a" * 100_000)
    assert len(error.pointer) == MAX_POINTER
    assert len(json.dumps(error.body())) < MAX_POINTER + 200


@pytest.mark.parametrize(("steps", "path"), CASES["places_in_requests_have_indexes_in_brackets"])
def test_places_in_requests_have_indexes_in_brackets(steps, path):
    assert request_path(steps) == path


@pytest.mark.parametrize(
    ("steps", "pointer"),
    [((), ""), (("due",), "/due"), (("a/b", "c~d", 0, ""), "/a~1b/c~0d/0/")],
)
def test_places_in_schemas_are_json_pointers(steps, pointer):
    assert pointer_of(steps) == pointer


def test_pointers_resolve_in_json_schema_references():
    """A name with every escaped character."""
    name = "a/b~c"
    schema = {"$ref": f"#{pointer_of(('$defs', name))}", "$defs": {name: {"type": "string"}}}
    validator = jsonschema_rs.Draft202012Validator(json.loads(json.dumps(schema)))
    assert validator.is_valid("x")
    assert not validator.is_valid(1)


@pytest.mark.parametrize(
    ("text", "pointer", "code", "offset"),
    CASES["the_first_half_of_a_pair_is_found"],
)
def test_the_first_half_of_a_pair_is_found(text, pointer, code, offset):
    found = half_pair_in(json.loads(text))
    place = f" at {pointer}" if pointer else ""
    assert found is not None
    assert f"({code} after {offset} characters of the text{place})" in found
    found.encode()


def test_whole_pairs_are_fine():
    assert half_pair_in(json.loads(r'{"\ud83d\ude00": ["😀", 1, null]}')) is None


def test_version_of_a_newer_backend_is_read_although_fields_are_unknown():
    sent = INFO.model_dump() | {"format": wire.FORMAT + 1, "invented": 1}
    assert wire.Info.model_validate(sent).format == wire.FORMAT + 1


def test_unknown_fields_of_a_request_are_refused():
    with pytest.raises(ValidationError):
        wire.LoadGrammars.model_validate({"grammars": [], "invented": 1})
