"""Goldens: transcripts of turns in the form of each dialect, with the messages that they are.

`goldens.toml` has them by the name of the dialect. A call is a list of its name, its arguments and,
if the text contains one, its id.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class GoldenCall:
    name: str
    arguments: dict[str, Any]
    id: str | None = None
    """The id in the API, if the text contains one."""


@dataclass(frozen=True)
class Golden:
    """A transcript: the text of a turn, from where the model begins, and the message that it is.

    The tools of all transcripts are `f` with the parameters `a` (string), `n` (integer), `ok`
    (boolean), `l` (array of strings), `o` (object), and `g` without parameters.
    """

    text: str
    content: str | None = None
    reasoning: str | None = None
    calls: tuple[GoldenCall, ...] = ()
    reasoning_open: bool = False
    """Whether the prompt ends inside the reasoning."""


def read_goldens(file: str) -> dict[str, tuple[Golden, ...]]:
    """Return the transcripts in the text of a file, by dialect."""
    return {
        name: tuple(
            Golden(**row | {"calls": tuple(GoldenCall(*call) for call in row.get("calls", ()))})
            for row in rows
        )
        for name, rows in tomllib.loads(file).items()
    }


@cache
def goldens() -> dict[str, tuple[Golden, ...]]:
    """Return all transcripts by dialect. Only tests, documents and one command need them."""
    return read_goldens(resources.files(__package__).joinpath("goldens.toml").read_text("utf-8"))
