"""Keys in a YAML file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.servers.virtual_keys import HASHER, key_of
from toolgate_proxy.keys.file_store import BadKeyFile, entry, read_keys
from toolgate_proxy.keys.key import new_key

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_key_file_is_read(tmp_path: Path) -> None:
    sent = new_key()
    key = key_of(sent, "search", team="web", models=("small", "large"), rpm=600, blocked=True)
    path = tmp_path / "keys.yaml"
    path.write_text("keys:\n" + entry(key) + entry(key_of(new_key(), "other", expires=NOON)))
    first, second = read_keys(path, HASHER)
    assert (first.alias, first.terms, first.secrets) == (key.alias, key.terms, key.secrets)
    assert second.terms.expires == NOON
    assert read_keys(path, HASHER)[0].id == first.id
    assert sent not in path.read_text()


HASH = "a" * 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("keys:\n  - alias: a\n    hash: [\n", "line 4"),
        ("users: []\n", "line 1: unknown field 'users'"),
        ("- a\n", "line 1"),
        ("keys: 3\n", "line 1: `keys` must be a list"),
        ("keys:\n  - just text\n", "line 2"),
        (f"keys:\n  - alias: a\n    hash: {HASH}\n    rpn: 5\n", "line 2: unknown field 'rpn'"),
        (
            f"keys:\n\n  - alias: a\n    hash: {HASH}\n    rpm: many\n",
            "line 3: invalid value for `rpm`",
        ),
        (f"keys:\n  - hash: {HASH}\n", "line 2: the field 'alias' is missing"),
        ("keys:\n  - alias: a\n    hash: abc\n", "line 2: invalid value for `hash`"),
        (
            f"keys:\n  - alias: a\n    key: sk-{HASH}\n",
            "line 2: the entry has the key itself in `key`",
        ),
        (
            f"keys:\n  - alias: a\n    hash: {HASH}\n  - alias: a\n    hash: {'b' * 64}\n",
            "line 4: the entry has the same `alias` as the entry in line 2",
        ),
        (
            f"keys:\n  - alias: a\n    hash: {HASH}\n    expires: later\n",
            "line 2: invalid value for `expires`",
        ),
        (
            f"keys:\n  - alias: a\n    hash: {HASH}\n    models: [small, {{}}]\n",
            "line 2: invalid value for `models[1]`",
        ),
    ],
)
def test_error_in_key_file_has_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(text)
    with pytest.raises(BadKeyFile) as refused:
        read_keys(path, HASHER)
    assert said in str(refused.value)
    assert HASH not in str(refused.value)


def test_missing_key_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadKeyFile, match="can't be read"):
        read_keys(tmp_path / "no.yaml", HASHER)
