"""`toolgate verify` as the long tests run it: reports, keys, and servers that can't be verified."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.long.verify.verification import NotVerified, read, verify
from tests.verify.harness import served
from tests.verify.reference_server.app import KEY, MODEL, ReferenceServer


@pytest.mark.exhaustive
def test_the_report_is_kept(tmp_path: Path) -> None:
    with served(ReferenceServer()) as url:
        found = verify(url, MODEL, KEY, "quick", tmp_path / "v1.2.json")
    assert found == read(tmp_path / "v1.2.json")
    assert found["counts"]["failed"] == found["counts"]["skipped"] == 0
    assert found["counts"]["passed"] > 300
    assert KEY not in (tmp_path / "v1.2.json").read_text()


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", ["", "sk-any"])
def test_a_server_without_keys_is_not_blamed_for_them(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it get the key of another server."""
    monkeypatch.setenv("TOOLGATE_API_KEY", "sk-of-another-server")
    with served(ReferenceServer(), keys=False) as url:
        found = verify(url, MODEL, key, "quick", tmp_path / "open.json")
    assert found["counts"]["failed"] == 0
    skipped = {each["id"]: each["message"] for each in found["checks"] if each["verdict"] == "skip"}
    assert skipped.keys() == {
        f"{api}.errors.wrong_key" for api in ("chat", "responses", "messages")
    }
    wanted = "does not check keys" if key else "needs a run with a key"
    assert all(wanted in message for message in skipped.values())


def test_a_server_that_does_not_answer_has_no_report(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NotVerified, match="does not answer"):
        verify(f"http://127.0.0.1:{port}", MODEL, "", "quick", tmp_path / "none.json")
    assert not list(tmp_path.iterdir())
