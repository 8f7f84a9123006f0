"""Parameters that no row defines."""

from __future__ import annotations

import pytest

from toolgate_core.errors import UnsupportedParameter
from toolgate_proxy.api.shared.parameter import (
    FOREIGN,
    MAX_LISTED,
    read_parameters,
    without_unknown,
)
from toolgate_proxy.api.surface import Surface
from toolgate_proxy.api.surfaces import SURFACES

KNOWN = frozenset({"temperature", "max_tokens", "tool_choice"})


@pytest.mark.parametrize(
    ("sent", "advice"),
    [
        ("temprature", "Did you mean 'temperature'? Otherwise, remove it from the request."),
        ("toolChoice", "Did you mean 'tool_choice'? Otherwise, remove it from the request."),
        ("num_ctx", "Remove it from the request. The context length is that of the backend"),
        ("zzz", "Unknown parameter 'zzz'. Remove it from the request."),
        ("\ud800", "Unknown parameter '?'. Remove it from the request."),
    ],
)
def test_errors_say_what_to_send_instead(sent: str, advice: str) -> None:
    with pytest.raises(UnsupportedParameter) as refused:
        read_parameters({sent: 1}, dict.fromkeys(KNOWN))  # type: ignore[arg-type]
    assert advice in refused.value.message


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_foreign_parameters_are_unknown(surface: Surface) -> None:
    notes = {name for name in FOREIGN if name in surface.parameters}
    assert notes <= {"input", "thinking"}  # other APIs have them


def test_names_that_a_header_cannot_hold_are_not_shown() -> None:
    body = {"temperature": 1, "a\r\nset-cookie": 1, "näme": 2, "left_out": None, "num_ctx": 3}
    assert without_unknown(body, KNOWN) == ({"temperature": 1}, ["?", "?", "num_ctx"])
    many = {f"p{number}": 1 for number in range(MAX_LISTED + 1)}
    kept, shown = without_unknown(many, KNOWN)
    assert (kept, len(shown), shown[-1]) == ({}, MAX_LISTED + 1, "...")
