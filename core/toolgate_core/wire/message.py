"""Base class of all messages, and the version of the protocol."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

FORMAT = 4
"""Version of the protocol. Gateway and backend refuse a peer of another version."""


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
