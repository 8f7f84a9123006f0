"""Bodies that are refused (refusals.yaml): by their parameter or path, in words about it."""

from __future__ import annotations

import pytest

from tests.support.apis.messages_api import check_error
from toolgate_core.errors import SchemaNotEnforceable

from .kit import APIS, Json, flat, refused, rows

FOREIGN = {"chat": ("'input",), "responses": ("'messages", ".custom", "function.name")}
"""Words of other APIs, which no error has unless the body has them."""
CASES = [
    pytest.param(api, *row, *("invalid_request", "")[len(row) - 2 :], id=f"{api} {row[1]}")
    for api, row in flat(rows("refusals"))
]


@pytest.mark.parametrize(("api", "change", "param", "code", "words"), CASES)
def test_a_refusal_names_the_parameter_and_the_rule(
    api: str, change: Json, param: str, code: str, words: str
) -> None:
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
