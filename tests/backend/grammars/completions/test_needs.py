"""What a completion has written already, and where members may begin."""

from __future__ import annotations

import pytest

from toolgate_backend.grammars.completions.hints import Needs
from toolgate_backend.grammars.completions.json_texts import Scan
from toolgate_core.wire import Hints


def after(*texts: bytes, scan: Scan = Scan()) -> Needs:  # noqa: B008 - frozen
    needs = Needs(Hints())
    for text in texts:
        needs.follow(text, scan)
        scan = scan.after(text)
    return needs


def test_members_of_an_array_that_ends_with_its_string_are_forgotten() -> None:
    needs, scan = Needs(Hints(names=("a", "b"))), Scan()
    for text, written in ((b"{", "a"), (b'"a": ["', None), (b"x", None), (b'"], ', "b")):
        needs.follow(text, scan)
        scan = scan.after(text)
        if written:
            needs.write(written)
    assert needs.is_written("a")
    assert needs.is_written("b")
    needs.follow(b"}", scan)
    assert not needs.is_written("a")


@pytest.mark.parametrize(
    ("texts", "may"),
    [
        ((), True),  # not known
        ((b"{",), True),
        ((b'{"',), True),  # the name's quotation mark is written
        ((b'{"a": 1, ',), True),
        ((b'{"a": 1', b', "'), True),
        ((b'{"a": ',), False),
        ((b'{"a": "',), False),
        ((b'{"a": "x{"',), False),
        ((b"[",), False),
        ((b'[1, "',), False),
        ((b'{"a": [1], ',), True),
        ((b'{"a": [{"b": 1}, ',), False),
        ((b"}, ",), True),  # the outer bracket is not known
        ((b'{"a": "\\",',), False),  # the comma is in the string
    ],
)
def test_members_begin_after_a_brace_or_a_comma_of_an_object(
    texts: tuple[bytes, ...], may: bool
) -> None:
    assert after(*texts).may_begin_member is may


@pytest.mark.parametrize(
    ("texts", "opened"),
    [
        ((b'{"',), True),
        ((b'{"a"',), False),
        ((b'{"a', b'": "'), True),
        ((b'["a', b'", "'), True),
        ((b'["a\\', b'"'), False),
    ],
)
def test_a_string_is_opened_by_its_first_quotation_mark(
    texts: tuple[bytes, ...], opened: bool
) -> None:
    assert after(*texts).opened is opened
