"""A virtual key as it is stored: who has it, what it may do, and the hashes it is known by."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    create_model,
)

from ..limits.kinds import KINDS, LimitKind

ALIAS_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 ._@/-]{0,99}$"
"""Aliases go into logs, metrics and headers as they are."""


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class _Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def of(self, kind: LimitKind) -> int | None:
        """The limit of that kind; None for no limit."""
        limit: int | None = getattr(self, kind.name)
        return limit

    @property
    def any(self) -> bool:
        """Whether the key has a limit of any kind."""
        return self != type(self)()


if TYPE_CHECKING:

    class Limits(_Limits):
        def __init__(self, **limits: int | None) -> None: ...

else:
    fields = {kind.name: (PositiveInt | None, None) for kind in KINDS}
    Limits = create_model("Limits", __base__=_Limits, __module__=__name__, **fields)
    """The limits of a key, with a field for each kind in limits/kinds.py."""


class Terms(BaseModel):
    """What is said of a key when it is made, and may be changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    team: str | None = Field(default=None, pattern=ALIAS_PATTERN)
    models: tuple[str, ...] = ()
    """As clients name them; none for all."""
    limits: Limits = Limits()
    expires: Moment | None = None
    tags: tuple[str, ...] = ()
    blocked: bool = False


class StoredSecret(BaseModel):
    """One key of this alias: after a rotation there are two for a while."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hash: str = Field(pattern=r"^[0-9a-f]{64}$")
    hint: str = Field(max_length=32)
    until: Moment | None = None


class Key(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^key_[A-Za-z0-9]{1,64}$")
    """What logs, counters and LiteLLM know the key by. Random: nothing leads from it to the key."""
    alias: str = Field(pattern=ALIAS_PATTERN)
    terms: Terms = Terms()
    secrets: tuple[StoredSecret, ...]
    created: Moment
    revoked: Moment | None = None

    @property
    def limits(self) -> Limits:
        return self.terms.limits

    def status(self, now: datetime) -> str:
        """active, blocked, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        if self.terms.expires is not None and self.terms.expires <= now:
            return "expired"
        return "blocked" if self.terms.blocked else "active"

    def rotated(self, secret: StoredSecret, overlap: timedelta, now: datetime) -> Key:
        """With a new secret; the one it had until now ends after the overlap."""
        kept = tuple(
            old.model_copy(update={"until": min(old.until or now + overlap, now + overlap)})
            for old in self.secrets
            if overlap and (old.until is None or old.until > now)
        )
        return self.model_copy(update={"secrets": (secret, *kept)})

    def shown(self, now: datetime) -> dict[str, Any]:
        """For people and scripts: everything but the hashes."""
        told = self.model_dump(mode="json", exclude={"secrets"}, exclude_none=True)
        told |= told.pop("terms")
        told |= told.pop("limits")
        told["status"] = self.status(now)
        told["keys"] = [
            each.model_dump(mode="json", exclude={"hash"}, exclude_none=True)
            for each in self.secrets
        ]
        return told


def new_id() -> str:
    return "key_" + secrets.token_hex(8)


def now() -> datetime:
    return datetime.now(UTC)
