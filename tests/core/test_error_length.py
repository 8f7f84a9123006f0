"""Errors stay short, whatever they quote."""

from __future__ import annotations

import json

from toolgate_core.errors import InvalidRequest, SchemaNotEnforceable
from toolgate_core.errors.base import MAX_MESSAGE, MAX_PARAM
from toolgate_core.errors.requests import MAX_POINTER


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
