from __future__ import annotations

import pytest

from toolgate_core import errors
from toolgate_core.error_body import from_body
from toolgate_core.errors import (
    BackendFailed,
    BackendUnavailable,
    GrammarUnknown,
    InvalidRequest,
    SchemaNotEnforceable,
    ToolgateError,
    UnknownTool,
)


def tree(kind: type[ToolgateError], depth: int = 0) -> list[tuple[int, type[ToolgateError]]]:
    """The core's own errors: subclasses from other packages may be loaded as well."""
    below = [entry for child in kind.__subclasses__() for entry in tree(child, depth + 1)]
    return [(depth, kind), *below] if kind.__module__ == errors.__name__ else []


def test_the_drawing_at_the_top_of_the_file_is_the_tree() -> None:
    assert errors.__doc__
    drawn = [
        (line.split("─")[-1].split()[:3] if "─" in line else line.split()[:3])
        for line in errors.__doc__.splitlines()
        if line.lstrip("│├└─ ").split(" ")[0] in vars(errors)
    ]
    assert drawn == [
        [kind.__name__, str(kind.status), kind.code] for _, kind in tree(ToolgateError)
    ]


@pytest.mark.parametrize(
    "error",
    [
        UnknownTool("no such tool", param="tool_choice"),
        SchemaNotEnforceable("not this", pointer="/properties/a/not", param="tools"),
        GrammarUnknown(["k1", "k2"]),
    ],
)
def test_an_error_crosses_the_wire(error: ToolgateError) -> None:
    rebuilt = from_body(error.status, error.body())
    assert type(rebuilt) is type(error)
    assert rebuilt.body() == error.body()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"message": "hm", "code": 400}}, InvalidRequest),
        (401, {"error": "Unauthorized"}, BackendFailed),
        (500, "oops", BackendFailed),
        (503, None, BackendUnavailable),
    ],
)
def test_foreign_bodies_become_errors_of_the_tree(
    status: int, body: object, kind: type[ToolgateError]
) -> None:
    assert type(from_body(status, body)) is kind
