"""Base class of all messages, and the version of the protocol."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

FORMAT = 9
"""Version of the protocol. Gateway and backend refuse a peer of another version."""

MAX_COUNT = 2**31 - 1

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
"""A number of tokens, a position, or the id of a token. A peer may be broken: a number beyond these
bounds is an invalid message, before anything is counted or computed with it."""

Name = Annotated[str, Field(max_length=64)]
"""An opaque name."""

T = TypeVar("T")
Many = Annotated[tuple[T, ...], Field(fail_fast=True)]
"""A sequence of any length. Validation ends at the first invalid entry, because the errors of a
million entries would take much more memory than the message."""


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Request(Message):
    """A message that a gateway bases on the description of a backend."""

    fingerprint: Name = ""
    """That of the description. A replica with another one refuses the message. Empty disables the
    check."""
    rewritten: Literal[True] | None = None
    """Whether a router has parsed the body and written it anew. Gateways leave the field out."""
