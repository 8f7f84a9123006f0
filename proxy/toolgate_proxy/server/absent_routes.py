"""Routes that the gateway does not have, and what to do instead."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolgate_core.errors import RouteClosed, RouteNotFound, ToolgateError

from ..litellm_host import auth

BATCHES = re.compile(r"/v1/messages/batches(?:/.*)?", re.DOTALL)
"""Neither our models nor LiteLLM's route for other models have batches of messages."""
API = r"/(?:chat/completions|completions|embeddings|messages(?:/count_tokens)?|responses|models)"
REPEATED = re.compile(
    rf"(?P<extra>/v1(?:{API})?)(?P<path>/v1{API})|(?P<first>/v1(?P<again>{API}))(?P=again)"
)
"""Paths of clients whose base URL has a part of the path that they add themselves."""
DATABASE = re.compile(
    r"(?:/v2)?/(?:budget|customer|end_user|global|invitation|key|organization|project|spend|tag"
    r"|team|user)/(?!health$|calculate$|metadata_schema$).*",
    re.DOTALL,
)
"""LiteLLM's routes that need its database, where they end in errors of several kinds without it."""


@dataclass(frozen=True)
class Repeated:
    """A path that repeats a part of the base URL."""

    path: str
    """The path that was meant."""
    extra: str
    """The end of the base URL that is too much."""

    def error(self) -> ToolgateError:
        return RouteNotFound(
            f"There is no such route. The client adds {self.path!r} or its end to its base URL. "
            f"Remove {self.extra!r} from the end of the base URL."
        )


def repeated_path(path: str) -> Repeated | None:
    found = REPEATED.fullmatch(path)
    if found is None:
        return None
    if found["first"]:
        return Repeated(found["first"], found["again"])
    return Repeated(found["path"], found["extra"])


def batches(path: str) -> ToolgateError | None:
    if BATCHES.fullmatch(path) is None:
        return None
    return RouteClosed(
        "Message batches are not supported. Send each request to POST /v1/messages; limits of the "
        "API key allow several at once."
    )


def without_database(path: str) -> ToolgateError | None:
    """The error for a route that needs LiteLLM's database, if there is none."""
    if DATABASE.fullmatch(path) is None or auth.has_database():
        return None
    return RouteNotFound(
        "This route needs LiteLLM's database, which this gateway does not have. `toolgate keys` "
        "creates, lists and limits virtual keys, with teams."
    )
