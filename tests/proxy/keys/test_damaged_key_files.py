"""A key file of any content is read, or refused with its path."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from tests.support.servers.virtual_keys import HASHER, key_of
from toolgate_proxy.cli.config.check import BadConfig, check
from toolgate_proxy.keys.file_store import BadKeyFile, entry, read_keys

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
