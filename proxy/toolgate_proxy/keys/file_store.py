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
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from toolgate_core.pointer import request_path

from ..yaml_nodes import InvalidYaml, compose, construct
from .key import MAX_LENGTH, MIN_LENGTH, Hasher, Key, Limits, StoredSecret, Terms, hint
from .limit_kinds import KINDS

LIMITS = tuple(kind.name for kind in KINDS)
TERMS = tuple(name for name in Terms.model_fields if name != "limits")
FIELDS = ("alias", "hash", "hint", "key", *TERMS, *LIMITS)


class BadKeyFile(Exception):
    """The message has the file and the line."""


def read_keys(path: Path, hasher: Hasher, *, clear_keys: bool = False) -> list[Key]:
    """Read the keys of a file. Raises BadKeyFile. `clear_keys`: entries may have `key` instead of
    `hash`, for the import of existing keys. A file that the gateway reads may have only hashes."""
    try:
        entries = [*_entries(path, compose(path.read_text(encoding="utf-8")))]
    except (OSError, UnicodeDecodeError) as error:
        raise BadKeyFile(
            f"{path} can't be read ({type(error).__name__}). Check its path, permissions and "
            "encoding (UTF-8)."
        ) from error
    except InvalidYaml as error:
        raise BadKeyFile(f"{path}, line {error.line}: invalid YAML: {error.problem}.") from None
    keys: list[Key] = []
    lines: dict[str, int] = {}
    for line, entry in entries:
        key = _key(path, line, entry, hasher, clear_keys=clear_keys)
        for field, value in (("alias", key.alias), ("hash", key.secrets[0].hash)):
            if value in lines:
                raise BadKeyFile(
                    f"{path}, line {line}: the entry has the same `{field}` as the entry in line "
                    f"{lines[value]}. Change or remove one of them."
                )
            lines[value] = line
        keys.append(key)
    return keys


def entry(key: Key) -> str:
    """Return the key as an entry of a key file."""
    fields: dict[str, Any] = {"alias": key.alias}
    fields |= key.secrets[0].model_dump(mode="json", include={"hash", "hint"})
    fields |= key.terms.model_dump(mode="json", exclude={"limits"}, exclude_defaults=True)
    fields |= key.limits.model_dump(exclude_none=True)
    return yaml.safe_dump([fields], sort_keys=False)


def _entries(path: Path, root: yaml.Node | None) -> Iterator[tuple[int, dict[str, Any]]]:
    fields = dict(_fields(path, root)) if root is not None else {}
    unknown = next((name for name in fields if name != "keys"), None)
    if unknown is not None:
        line = fields[unknown].start_mark.line + 1
        raise BadKeyFile(
            f"{path}, line {line}: unknown field {unknown!r}. The list of keys is named `keys`."
        )
    listed = fields.get("keys")
    if listed is None:
        return
    if not isinstance(listed, yaml.SequenceNode):
        raise BadKeyFile(
            f"{path}, line {listed.start_mark.line + 1}: `keys` must be a list of entries."
        )
    for node in listed.value:
        values = {name: _value(each) for name, each in _fields(path, node)}
        yield node.start_mark.line + 1, values


def _fields(path: Path, node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        line = node.start_mark.line + 1 if node else 1
        raise BadKeyFile(f"{path}, line {line}: expected a mapping of `field: value` pairs.")
    for name, value in node.value:
        yield str(name.value), value


def _value(node: yaml.Node) -> Any:
    value = construct(node)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def _key(path: Path, line: int, values: dict[str, Any], hasher: Hasher, *, clear_keys: bool) -> Key:
    where = f"{path}, line {line}"
    unknown = next((name for name in values if name not in FIELDS), None)
    if unknown is not None:
        raise BadKeyFile(f"{where}: unknown field {unknown!r}. Fields: {', '.join(FIELDS)}.")
    sent = values.get("key")
    if sent is not None:
        if not clear_keys:
            raise BadKeyFile(
                f"{where}: the entry has the key itself in `key`. Store its `hash` instead "
                "(`toolgate keys create --yaml` prints an entry)."
            )
        if not isinstance(sent, str) or not MIN_LENGTH <= len(sent) <= MAX_LENGTH:
            raise BadKeyFile(f"{where}: `key` must have {MIN_LENGTH} to {MAX_LENGTH} characters.")
        values |= {"hash": hasher.hash(sent), "hint": hint(sent)}
    try:
        # The id is derived from the hash, so that it remains the same when the file is edited.
        hashed = str(values.get("hash"))
        key_id = "key_" + hashlib.sha256(hashed.encode()).hexdigest()[:16]
        secret = StoredSecret(hash=hashed, hint=values.get("hint") or "?")
        limits = Limits(**{name: values[name] for name in LIMITS if name in values})
        terms = Terms(limits=limits, **{name: values[name] for name in TERMS if name in values})
        created = datetime.fromtimestamp(0, UTC)
        return Key(
            id=key_id, alias=values["alias"], terms=terms, secrets=(secret,), created=created
        )
    except KeyError as error:
        raise BadKeyFile(f"{where}: the field {error.args[0]!r} is missing.") from None
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = request_path(first["loc"]) or "key"
        raise BadKeyFile(f"{where}: invalid value for `{name}`: {first['msg']}.") from None
