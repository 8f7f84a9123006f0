"""What every message is, and which version of them this is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

FORMAT = 3
"""Version of this contract. Both sides refuse a peer of another version."""


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
