"""The model of a virtual key: its owner, permissions, limits, and the hashes of its secrets."""

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

from .limit_kinds import KINDS, LimitKind

ALIAS_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 ._@/-]{0,99}$"
"""Aliases are written to logs, metrics and headers without escaping."""


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
    def counts_output(self) -> bool:
        """Whether a limit counts the tokens of responses."""
        return any(self.of(kind) is not None for kind in KINDS if kind.unit.counts_output)

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
    """The limits of a key, with a field for each kind in keys/limit_kinds.py."""


class Terms(BaseModel):
    """The settings of a key, which can be changed after its creation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    team: str | None = Field(default=None, pattern=ALIAS_PATTERN)
    models: tuple[str, ...] = ()
    """Names that clients use; empty for all models."""
    limits: Limits = Limits()
    expires: Moment | None = None
    tags: tuple[str, ...] = ()
    blocked: bool = False
    enforced_only: bool = False
    """Refuse the models of other providers, also as fallbacks: their calls are not enforced."""


class StoredSecret(BaseModel):
    """The hash of one secret. A key has two during the overlap after a rotation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hash: str = Field(pattern=r"^[0-9a-f]{64}$")
    hint: str = Field(max_length=32)
    until: Moment | None = None


class Key(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^key_[A-Za-z0-9]{1,64}$")
    """Random. Identifies the key in logs, counters and LiteLLM."""
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
        """A copy with a new secret. The current secret remains valid for the overlap."""
        kept = tuple(
            old.model_copy(update={"until": min(old.until or now + overlap, now + overlap)})
            for old in self.secrets
            if overlap and (old.until is None or old.until > now)
        )
        return self.model_copy(update={"secrets": (secret, *kept)})

    def shown(self, now: datetime) -> dict[str, Any]:
        """All fields except the hashes, flat, for output."""
        shown = self.model_dump(mode="json", exclude={"secrets"}, exclude_none=True)
        shown |= shown.pop("terms")
        shown |= shown.pop("limits")
        shown["status"] = self.status(now)
        shown["keys"] = [
            each.model_dump(mode="json", exclude={"hash"}, exclude_none=True)
            for each in self.secrets
        ]
        return shown


def new_id() -> str:
    return "key_" + secrets.token_hex(8)


def now() -> datetime:
    return datetime.now(UTC)
