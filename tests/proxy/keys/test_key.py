"""The terms of a key."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.servers.virtual_keys import key_of
from toolgate_proxy.keys.key import Terms, new_key


@pytest.mark.parametrize(
    "wrong", [{"rpm": 0}, {"tpm": -1}, {"team": "a\nb"}, {"expires": "soon"}, {"limits": {"x": 1}}]
)
def test_invalid_terms_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        key_of(new_key(), **wrong) if "limits" not in wrong else Terms(**wrong)
