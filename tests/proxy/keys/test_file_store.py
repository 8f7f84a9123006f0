"""Keys in a YAML file: any content is read, or refused with its path; damaged files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from tests.support.servers.virtual_keys import HASHER, key_of
from toolgate_proxy.cli.config_check import BadConfig, check
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


VALID = "keys:\n" + entry(key_of("sk-tg-of-the-damaged-files", "search", rpm=600, team="web"))
WORDS = (
    *("keys:", "- ", "alias: ", "hash: ", "a" * 64, "rpm: ", "*a", "&a ", "!!python/name:os", "\n"),
    *(
        "  ",
        "[",
        "{",
        "]",
        "}",
        "'",
        '"',
        "\t",
        "\x00",
        "\x07",
        "\u0085",
        "é",
        "2020-13-99",
        "1e999",
    ),
    *("? ", "| ", "<<: ", "%YAML", "---", "...", "0x", ".inf", "~", "="),
)
FAST = settings(
    max_examples=repeats(50, nightly=150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
texts = st.lists(st.sampled_from(WORDS), max_size=25).map("".join)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A valid file in which a part was replaced."""
    begin = draw(st.integers(0, len(VALID)))
    end = draw(st.integers(begin, min(len(VALID), begin + 30)))
    return VALID[:begin] + draw(texts) + VALID[end:]


def refused_or_read(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refusals: list[Exception] = []
    for read in (lambda: read_keys(path, HASHER), lambda: check(path, {})):
        try:
            read()
        except (BadKeyFile, BadConfig) as error:
            refusals.append(error)
    assert all(str(path) in str(each) and "sk-tg-" not in str(each) for each in refusals)


@FAST
@given(texts | damaged())
def test_damaged_files_are_refused(tmp_path: Path, text: str) -> None:
    refused_or_read(tmp_path / "keys.yaml", text.encode())


@FAST
@given(st.binary(max_size=60))
def test_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    refused_or_read(tmp_path / "keys.yaml", content)


@pytest.mark.parametrize(
    "value", ["!!python/name:os", "!!int x", "!!int ''", "!!bool x", "!!timestamp x", "2020-13-99"]
)
def test_values_that_do_not_fit_their_tag_are_refused(tmp_path: Path, value: str) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(VALID.replace("600", value), encoding="utf-8")
    line = VALID[: VALID.index("600")].count("\n") + 1
    with pytest.raises(BadKeyFile, match=f"line {line}: .*its tag"):
        read_keys(path, HASHER)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "content",
    [
        "keys: " + "[" * 5000,
        "keys: " + "{a: " * 5000,
        "- " * 3000,
        "keys: \x07",
        "a: &a [*a, *a]\nkeys: *a\n",
        "".join(
            f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]\n" for n in range(12)
        ),
    ],
    ids=["arrays", "objects", "lists", "control", "cycle", "aliases"],
)
def test_files_that_grow_or_nest_are_refused(tmp_path: Path, content: str) -> None:
    refused_or_read(tmp_path / "keys.yaml", content.encode())
