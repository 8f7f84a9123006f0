"""The tables of LiteLLM's database, read from its `schema.prisma`."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import litellm

MODEL = re.compile(r"^model (\w+) \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
FIELD = re.compile(r"^\s+(\w+)\s+(\w+)(\[\])?\??\s*(.*)$")
COMMENT = re.compile(r"//.*$", re.MULTILINE)
DEFAULT = re.compile(r"@default\s*\((\w+\(\)|\[\]|\"[^\"]*\"|[^)]*)\)")
LITERAL = re.compile(r'["\d-]|true|false')
GENERATED: dict[str | None, Callable[[], Any]] = {
    "now()": lambda: datetime.now(UTC),
    "uuid()": lambda: str(uuid.uuid4()),
    "cuid()": lambda: uuid.uuid4().hex,
    "autoincrement()": lambda: uuid.uuid4().int >> 64,
}
NAMES = re.compile(r"(fields|references): \[([\w, ]+)\]")


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    is_list: bool
    default: str | None

    def initial(self) -> Any:
        """The value of a row that was created without one."""
        given = self.default
        if self.is_list or given == "[]":
            return []
        if given in GENERATED:
            return GENERATED[given]()
        if given is None or not LITERAL.match(given):
            return None
        return json.loads(given) if self.type != "Json" else json.loads(json.loads(given))

    def stored(self, value: Any) -> Any:
        """A value as the database returns it."""
        if self.type == "Json" and isinstance(value, str):
            return json.loads(value)
        if self.type == "DateTime" and isinstance(value, str):
            return datetime.fromisoformat(value)
        return value


@dataclass(frozen=True)
class Relation:
    """To rows of another table."""

    table: str
    columns: Mapping[str, str]
    """Columns of the table, and those of the other one that they are equal to. Empty if the other
    table has them."""
    is_list: bool


@dataclass(frozen=True)
class Model:
    name: str
    columns: Mapping[str, Column]
    relations: Mapping[str, Relation]


@cache
def models() -> dict[str, Model]:
    text = (Path(litellm.__file__).parent / "proxy" / "schema.prisma").read_text(encoding="utf-8")
    bodies = dict(MODEL.findall(COMMENT.sub("", text)))
    return {name: _model(name, body, bodies) for name, body in bodies.items()}


def _model(name: str, body: str, bodies: Mapping[str, str]) -> Model:
    columns, relations = {}, {}
    for line in body.splitlines():
        found = FIELD.match(line)
        if found is None:
            continue
        field, kind, is_list, rest = found.groups()
        if kind in bodies:
            pairs = {key: [*map(str.strip, names.split(","))] for key, names in NAMES.findall(rest)}
            joined = dict(zip(pairs.get("fields", ()), pairs.get("references", ()), strict=True))
            relations[field] = Relation(kind, joined, bool(is_list))
        else:
            default = DEFAULT.search(rest)
            columns[field] = Column(field, kind, bool(is_list), default and default[1])
    return Model(name, columns, relations)
