"""The model of a virtual key: its owner, permissions, limits and the hashes of its secrets."""

from __future__ import annotations

import hashlib
import hmac
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
    SecretStr,
    create_model,
)

from .limit_kinds import KINDS, OUTPUT_KINDS, TOOL_CALL_KINDS, LimitKind

ALIAS_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 ._@/-]{0,99}$"
"""Aliases are written to logs, metrics and headers without escaping."""


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class _Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def of(self, kind: LimitKind) -> int | None:
        """Return the limit of that kind; None for no limit."""
        limit: int | None = getattr(self, kind.name)
        return limit

    @property
    def counts_output(self) -> bool:
        """Whether a limit counts the tokens of responses."""
        return any(self.of(kind) is not None for kind in OUTPUT_KINDS)

    @property
    def counts_tool_calls(self) -> bool:
        """Whether a limit counts the calls of tools that the gateway runs."""
        return any(self.of(kind) is not None for kind in TOOL_CALL_KINDS)

    @property
    def any(self) -> bool:
        """Whether the key has a limit of any kind."""
        return any(self.of(kind) is not None for kind in KINDS)


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
    mcp_servers: tuple[str, ...] = ()
    """MCP servers that the key may use besides those that LiteLLM opens to all keys: `crm`, or
    `crm/lookup` for one tool. `no-mcp-servers`, as in LiteLLM: none at all."""
    search_tools: tuple[str, ...] = ()
    """LiteLLM's search tools that the key may use; empty for all."""
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
        """Return active, blocked, expired or revoked."""
        if self.revoked is not None:
            return "revoked"
        if self.terms.expires is not None and self.terms.expires <= now:
            return "expired"
        return "blocked" if self.terms.blocked else "active"

    def rotated(self, secret: StoredSecret, overlap: timedelta, now: datetime) -> Key:
        """Return a copy with a new secret. The current secret remains valid for the overlap."""
        kept = tuple(
            old.model_copy(update={"until": min(old.until or now + overlap, now + overlap)})
            for old in self.secrets
            if overlap and (old.until is None or old.until > now)
        )
        return self.model_copy(update={"secrets": (secret, *kept)})

    def shown(self, now: datetime) -> dict[str, Any]:
        """Return all fields except the hashes, flat, for output."""
        fields = self.model_dump(mode="json", exclude={"secrets"}, exclude_none=True)
        fields |= fields.pop("terms")
        fields |= fields.pop("limits")
        fields["status"] = self.status(now)
        fields["keys"] = [
            each.model_dump(mode="json", exclude={"hash"}, exclude_none=True)
            for each in self.secrets
        ]
        return fields


def new_id() -> str:
    return "key_" + secrets.token_hex(8)


def now() -> datetime:
    return datetime.now(UTC)


PREFIX = "sk-tg-"
RANDOM_BYTES = 32
MIN_LENGTH, MAX_LENGTH = 16, 512
"""Characters. Shorter keys cannot be imported. Longer keys are refused without hashing them."""


def new_key() -> str:
    """Make a key of `sk-tg-` and 256 random bits."""
    return PREFIX + secrets.token_urlsafe(RANDOM_BYTES)


def hint(key: str) -> str:
    """Return a text to recognise a key by: its beginning and its last four characters."""
    beginning = PREFIX if key.startswith(PREFIX) else key[:3]
    return f"{beginning}…{key[-4:]}"


SEAL_LENGTH = 64
"""Bytes of the seal with which a sealed record begins."""


class Hasher:
    """HMAC-SHA256 with the gateway's secret, TOOLGATE_KEY_SECRET.

    Without the secret, a hash neither confirms a guessed key nor can one be made for a new key. It
    also prevents timing attacks on the lookup: its duration depends on the hash, and an attacker
    cannot predict the hash of a guess.
    """

    def __init__(self, secret: SecretStr) -> None:
        self._secret = secret.get_secret_value().encode()

    def hash(self, key: str) -> str:
        """Return 64 hexadecimal digits."""
        return self._digest(b"toolgate key\n", key.encode("utf-8", "surrogatepass"))

    def seal(self, key_id: str, record: bytes) -> bytes:
        """Return the record after its MAC. Write access to Redis cannot change a record."""
        return self._mac(key_id, record) + b"\n" + record

    def open(self, key_id: str, sealed: bytes) -> bytes | None:
        """Return the record, or None if it was not sealed with this secret for that id."""
        mac, _, record = sealed.partition(b"\n")
        return record if hmac.compare_digest(mac, self._mac(key_id, record)) else None

    def _mac(self, key_id: str, record: bytes) -> bytes:
        return self._digest(b"toolgate key record\n", key_id.encode() + b"\n" + record).encode()

    def _digest(self, purpose: bytes, message: bytes) -> str:
        return hmac.digest(self._secret, purpose + message, hashlib.sha256).hex()
