"""The description of a backend, read by a gateway of another version."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.support.servers.fake_backend import INFO
from toolgate_core import wire


def test_version_of_a_newer_backend_is_read_although_fields_are_unknown() -> None:
    sent = INFO.model_dump() | {"format": wire.FORMAT + 1, "invented": 1}
    assert wire.Info.model_validate(sent).format == wire.FORMAT + 1


def test_unknown_fields_of_a_request_are_refused() -> None:
    with pytest.raises(ValidationError):
        wire.LoadGrammars.model_validate({"grammars": [], "invented": 1})
