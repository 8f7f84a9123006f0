"""Keys in a YAML file: for a small set-up without a Redis that keeps them, and for `import`.

keys:
  - alias: search
    hash: 5b1f…        # from `toolgate keys create --yaml`; the key itself is not in the file
    hint: sk-tg-…Xy9Q
    team: web
    models: [small]
    rpm: 600           # tpm, max_parallel_requests, tokens_per_day, expires, tags, blocked
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from .hashing import LONGEST, SHORTEST, Hasher, hint
from .key import Key, Limits, StoredSecret, Terms

LIMITS = tuple(Limits.model_fields)
TERMS = tuple(name for name in Terms.model_fields if name != "limits")
FIELDS = ("alias", "hash", "hint", "key", *TERMS, *LIMITS)


class BadKeyFile(Exception):
    """The message names the file and the line."""


def read_keys(path: Path, hasher: Hasher, *, clear_keys: bool = False) -> list[Key]:
    """Raises BadKeyFile. `clear_keys` takes `key:` in place of `hash:`, to import keys there are
    already; a file that stays on disk holds hashes only."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise BadKeyFile(f"{path} can't be read: {type(error).__name__}.") from error
    except yaml.MarkedYAMLError as error:
        # The problem alone: the error's own text quotes the line, and a key may stand in it.
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise BadKeyFile(f"{path}, line {line}: {error.problem}.") from None
    keys: list[Key] = []
    lines: dict[str, int] = {}
    for line, entry in _entries(path, root):
        key = _key(path, line, entry, hasher, clear_keys=clear_keys)
        for name in (key.alias, key.secrets[0].hash):
            if name in lines:
                raise BadKeyFile(f"{path}, line {line}: the same key as in line {lines[name]}.")
            lines[name] = line
        keys.append(key)
    return keys


def entry(key: Key) -> str:
    """The key as an entry of such a file."""
    told: dict[str, Any] = {"alias": key.alias}
    told |= key.secrets[0].model_dump(mode="json", include={"hash", "hint"})
    told |= key.terms.model_dump(mode="json", exclude={"limits"}, exclude_defaults=True)
    told |= key.limits.model_dump(exclude_none=True)
    return yaml.safe_dump([told], sort_keys=False)


def _entries(path: Path, root: yaml.Node | None) -> Iterator[tuple[int, dict[str, Any]]]:
    fields = dict(_fields(path, root)) if root is not None else {}
    wrong = next((name for name in fields if name != "keys"), None)
    if wrong is not None:
        line = fields[wrong].start_mark.line + 1
        raise BadKeyFile(f"{path}, line {line}: {wrong!r} is not known here; the list is `keys`.")
    listed = fields.get("keys")
    if listed is None:
        return
    if not isinstance(listed, yaml.SequenceNode):
        raise BadKeyFile(f"{path}, line {listed.start_mark.line + 1}: `keys` must be a list.")
    for node in listed.value:
        values = {name: _value(each) for name, each in _fields(path, node)}
        yield node.start_mark.line + 1, values


def _fields(path: Path, node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        line = node.start_mark.line + 1 if node else 1
        raise BadKeyFile(f"{path}, line {line}: this must be `name: value` pairs.")
    for name, value in node.value:
        yield str(name.value), value


def _value(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_document(node)
    finally:
        loader.dispose()
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def _key(path: Path, line: int, values: dict[str, Any], hasher: Hasher, *, clear_keys: bool) -> Key:
    where = f"{path}, line {line}"
    unknown = next((name for name in values if name not in FIELDS), None)
    if unknown is not None:
        raise BadKeyFile(f"{where}: {unknown!r} is not known; there are {', '.join(FIELDS)}.")
    sent = values.get("key")
    if sent is not None:
        if not clear_keys:
            raise BadKeyFile(
                f"{where}: a key stands here in clear. Put its `hash` here instead "
                "(`toolgate keys create --yaml` prints one)."
            )
        if not isinstance(sent, str) or not SHORTEST <= len(sent) <= LONGEST:
            raise BadKeyFile(f"{where}: `key` must have {SHORTEST} to {LONGEST} characters.")
        values |= {"hash": hasher.hash(sent), "hint": hint(sent)}
    try:
        # The id is made of the hash under the secret, so that it outlives edits of the file.
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
        raise BadKeyFile(f"{where}: {error.args[0]!r} is missing.") from None
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = ".".join(map(str, first["loc"])) or "key"
        raise BadKeyFile(f"{where}: `{name}`: {first['msg']}.") from None
