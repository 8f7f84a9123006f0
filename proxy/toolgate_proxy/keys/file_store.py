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

from ..yaml_nodes import YamlFile
from .key import MAX_LENGTH, MIN_LENGTH, Hasher, Key, Limits, StoredSecret, Terms, hint
from .limit_kinds import KINDS

LIMITS = tuple(kind.name for kind in KINDS)
TERMS = tuple(name for name in Terms.model_fields if name != "limits")
FIELDS = ("alias", "hash", "hint", "key", *TERMS, *LIMITS)


def read_keys(path: Path, hasher: Hasher, *, clear_keys: bool = False) -> list[Key]:
    """Read the keys of a file. Raises BadFile. `clear_keys`: entries may have `key` instead of
    `hash`, for the import of existing keys. A file that the gateway reads may have only hashes."""
    file = YamlFile(path)
    entries = [*_entries(file, file.root())]
    keys: list[Key] = []
    nodes: dict[str, yaml.Node] = {}
    for node, values in entries:
        key = _key(file, node, values, hasher, clear_keys=clear_keys)
        for field, value in (("alias", key.alias), ("hash", key.secrets[0].hash)):
            if value in nodes:
                earlier = nodes[value].start_mark.line + 1
                problem = f"the entry has the same `{field}` as the entry in line {earlier}."
                raise file.error(node, f"{problem} Change or remove one of them.")
            nodes[value] = node
        keys.append(key)
    return keys


def entry(key: Key) -> str:
    """Return the key as an entry of a key file."""
    fields: dict[str, Any] = {"alias": key.alias}
    fields |= key.secrets[0].model_dump(mode="json", include={"hash", "hint"})
    fields |= key.terms.model_dump(mode="json", exclude={"limits"}, exclude_defaults=True)
    fields |= key.limits.model_dump(exclude_none=True)
    return yaml.safe_dump([fields], sort_keys=False)


def _entries(file: YamlFile, root: yaml.Node | None) -> Iterator[tuple[yaml.Node, dict[str, Any]]]:
    fields = _fields(file, root) if root is not None else {}
    unknown = next((name for name in fields if name != "keys"), None)
    if unknown is not None:
        problem = f"unknown field {unknown!r}. The list of keys is named `keys`."
        raise file.error(fields[unknown], problem)
    listed = fields.get("keys")
    if listed is None:
        return
    if not isinstance(listed, yaml.SequenceNode):
        raise file.error(listed, "`keys` must be a list of entries.")
    for node in listed.value:
        yield node, {name: _value(file, each) for name, each in _fields(file, node).items()}


def _fields(file: YamlFile, node: yaml.Node) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise file.error(node, "expected a mapping of `field: value` pairs.")
    return {str(name.value): value for name, value in node.value}


def _value(file: YamlFile, node: yaml.Node) -> Any:
    value = file.value(node)
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def _key(
    file: YamlFile, node: yaml.Node, values: dict[str, Any], hasher: Hasher, *, clear_keys: bool
) -> Key:
    unknown = next((name for name in values if name not in FIELDS), None)
    if unknown is not None:
        raise file.error(node, f"unknown field {unknown!r}. Fields: {', '.join(FIELDS)}.")
    sent = values.get("key")
    if sent is not None:
        if not clear_keys:
            raise file.error(
                node,
                "the entry has the key itself in `key`. Store its `hash` instead (`toolgate keys "
                "create --yaml` prints an entry).",
            )
        if not isinstance(sent, str) or not MIN_LENGTH <= len(sent) <= MAX_LENGTH:
            raise file.error(node, f"`key` must have {MIN_LENGTH} to {MAX_LENGTH} characters.")
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
        raise file.error(node, f"the field {error.args[0]!r} is missing.") from None
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = request_path(first["loc"]) or "key"
        raise file.error(node, f"invalid value for `{name}`: {first['msg']}.") from None
