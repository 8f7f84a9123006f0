"""Virtual keys in a YAML file, for installations without Redis and for `toolgate keys import`.

keys:
  - alias: search
    hash: 5b1f…        # from `toolgate keys create --yaml`; the file does not contain the key
    hint: sk-tg-…Xy9Q
    team: web
    models: [small]
    rpm: 600           # any kind of keys/limit_kinds.py
    # also mcp_servers, search_tools, expires, tags, blocked, enforced_only
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from toolgate_core.pointer import request_path

from ..yaml_files import BadFile, read_yaml
from .key import MAX_LENGTH, MIN_LENGTH, Hasher, Key, Limits, StoredSecret, Terms, hint
from .limit_kinds import KINDS

LIMITS = tuple(kind.name for kind in KINDS)
TERMS = tuple(name for name in Terms.model_fields if name != "limits")
FIELDS = ("alias", "hash", "hint", "key", *TERMS, *LIMITS)


def read_keys(path: Path, hasher: Hasher, *, clear_keys: bool = False) -> list[Key]:
    """Read the keys of a file. Raise BadFile. `clear_keys`: entries may have `key` instead of
    `hash`, for the import of existing keys. A file that the gateway reads may have only hashes."""
    keys: list[Key] = []
    places: dict[str, str] = {}
    try:
        for at, values in enumerate(_entries(read_yaml(path))):
            place = f"keys[{at}]"
            try:
                key = _key(values, hasher, clear_keys=clear_keys)
                for field, value in (("alias", key.alias), ("hash", key.secrets[0].hash)):
                    if places.setdefault(value, place) != place:
                        problem = f"the entry has the same `{field}` as {places[value]}."
                        raise ValueError(f"{problem} Change or remove one of them.")
            except ValueError as error:
                raise BadFile(f"{path}, {place}: {error}") from None
            keys.append(key)
    except ValueError as error:
        raise BadFile(f"{path}: {error}") from None
    return keys


def entry(key: Key) -> str:
    """Return the key as an entry of a key file."""
    fields: dict[str, Any] = {"alias": key.alias}
    fields |= key.secrets[0].model_dump(mode="json", include={"hash", "hint"})
    fields |= key.terms.model_dump(mode="json", exclude={"limits"}, exclude_defaults=True)
    fields |= key.limits.model_dump(exclude_none=True)
    return yaml.safe_dump([fields], sort_keys=False)


def _entries(content: Any) -> list[Any]:
    """Return the entries of a file. Raise ValueError."""
    unknown = next((name for name in _mapping(content or {}) if name != "keys"), None)
    if unknown is not None:
        raise ValueError(f"unknown field {unknown!r}. The list of keys is named `keys`.")
    listed = (content or {}).get("keys")
    if not isinstance(listed, list | None):
        raise ValueError("`keys` must be a list of entries.")
    return listed or []


def _mapping(value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise ValueError("expected a mapping of `field: value` pairs.")
    return value


def _key(entry: Any, hasher: Hasher, *, clear_keys: bool) -> Key:
    """Read an entry. Raise ValueError."""
    values = {name: _in_utc(value) for name, value in _mapping(entry).items()}
    unknown = next((name for name in values if name not in FIELDS), None)
    if unknown is not None:
        raise ValueError(f"unknown field {unknown!r}. Fields: {', '.join(FIELDS)}.")
    sent = values.get("key")
    if sent is not None:
        if not clear_keys:
            raise ValueError(
                "the entry has the key itself in `key`. Store its `hash` instead (`toolgate keys "
                "create --yaml` prints an entry)."
            )
        if not isinstance(sent, str) or not MIN_LENGTH <= len(sent) <= MAX_LENGTH:
            raise ValueError(f"`key` must have {MIN_LENGTH} to {MAX_LENGTH} characters.")
        values |= {"hash": hasher.hash(sent), "hint": hint(sent)}
    try:
        secret = StoredSecret(hash=values.get("hash"), hint=values.get("hint") or "?")
        # The id is derived from the hash, so that it remains the same when the file is edited.
        key_id = "key_" + hashlib.sha256(secret.hash.encode()).hexdigest()[:16]
        limits = Limits(**{name: values[name] for name in LIMITS if name in values})
        terms = Terms(limits=limits, **{name: values[name] for name in TERMS if name in values})
        created = datetime.fromtimestamp(0, UTC)
        return Key(
            id=key_id, alias=values["alias"], terms=terms, secrets=(secret,), created=created
        )
    except KeyError as error:
        raise ValueError(f"the field {error.args[0]!r} is missing.") from None
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = request_path(first["loc"]) or "key"
        raise ValueError(f"invalid value for `{name}`: {first['msg']}.") from None


def _in_utc(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value
