"""Tables in memory with the methods of the client that prisma generates, as far as LiteLLM uses
them for a request. Others, and filters that are not here, raise."""

from __future__ import annotations

import copy
import json
import operator
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import litellm
from pydantic import BaseModel, ConfigDict

Row = dict[str, Any]
Where = Mapping[str, Any]


class Record(BaseModel):
    """A row as the client returns it."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())


class Tables(dict[str, "Table"]):
    """By the names that the client has for them."""

    def __init__(self) -> None:
        super().__init__({name.lower(): Table(model, self) for name, model in models().items()})


class Table:
    def __init__(self, model: Model, tables: Tables) -> None:
        self.rows: list[Row] = []
        self._model = model
        self._tables = tables

    async def find_many(
        self,
        where: Where | None = None,
        include: Mapping[str, Any] | None = None,
        take: int | None = None,
        order: Mapping[str, str] | None = None,
        **_: object,
    ) -> list[Record]:
        found = [row for row in self.rows if _matches(row, where or {})]
        for name, way in (order or {}).items():
            found.sort(key=lambda row: (row[name] is not None, row[name]), reverse=way == "desc")
        return [self._record(row, include) for row in found[:take]]

    async def find_first(
        self, where: Where | None = None, include: Mapping[str, Any] | None = None, **_: object
    ) -> Record | None:
        found = await self.find_many(where, include, take=1)
        return found[0] if found else None

    find_unique = find_first

    async def count(self, where: Where | None = None, **_: object) -> int:
        return len(await self.find_many(where))

    async def group_by(self, *_: object, **more: object) -> list[Row]:
        return []

    async def create(
        self, data: Mapping[str, Any], include: Mapping[str, Any] | None = None
    ) -> Record:
        return self._record(self.add(data), include)

    def add(self, data: Mapping[str, Any]) -> Row:
        row = {name: column.initial() for name, column in self._model.columns.items()}
        self.rows.append(row)
        self._change(row, data)
        return row

    async def create_many(self, data: list[Mapping[str, Any]], **_: object) -> int:
        for each in data:
            await self.create(each)
        return len(data)

    async def update_many(self, data: Mapping[str, Any], where: Where) -> int:
        found = [row for row in self.rows if _matches(row, where)]
        for row in found:
            self._change(row, data)
        return len(found)

    async def update(
        self, data: Mapping[str, Any], where: Where, include: Mapping[str, Any] | None = None
    ) -> Record | None:
        await self.update_many(data, where)
        return await self.find_first(where, include)

    async def upsert(
        self,
        where: Where,
        data: Mapping[str, Mapping[str, Any]],
        include: Mapping[str, Any] | None = None,
    ) -> Record | None:
        if await self.find_first(where) is None:
            return await self.create(data["create"], include)
        return await self.update(data["update"], where, include)

    async def delete_many(self, where: Where | None = None) -> int:
        before = len(self.rows)
        self.rows[:] = [row for row in self.rows if not _matches(row, where or {})]
        return before - len(self.rows)

    delete = delete_many

    def _change(self, row: Row, data: Mapping[str, Any]) -> None:
        for name, value in data.items():
            column = self._model.columns[name]
            if isinstance(value, dict) and value.keys() == {"increment"}:
                row[name] = (row[name] or 0) + value["increment"]
            elif isinstance(value, dict) and value.keys() == {"set"}:
                row[name] = value["set"]
            else:
                row[name] = column.stored(copy.deepcopy(value))

    def _record(self, row: Row, include: Mapping[str, Any] | None) -> Record:
        related = {
            name: self._related(row, self._model.relations[name])
            for name, wanted in (include or {}).items()
            if wanted
        }
        return Record(**copy.deepcopy(row), **related)

    def _related(self, row: Row, relation: Relation) -> Any:
        other = self._tables[relation.table.lower()]
        joined = relation.columns
        if not joined:
            [back] = [
                each for each in other._model.relations.values() if each.table == self._model.name
            ]
            joined = {mine: theirs for theirs, mine in back.columns.items()}
        where = {theirs: row[mine] for mine, theirs in joined.items()}
        found = [other._record(each, None) for each in other.rows if _matches(each, where)]
        if relation.is_list:
            return found
        return found[0] if found else None


def _matches(row: Row, where: Where) -> bool:
    return all(_holds(row, name, wanted) for name, wanted in where.items())


def _holds(row: Row, name: str, wanted: Any) -> bool:
    if name in ("AND", "OR", "NOT"):
        each = [_matches(row, part) for part in (wanted if isinstance(wanted, list) else [wanted])]
        return all(each) if name == "AND" else any(each) if name == "OR" else not any(each)
    if name not in row:
        return _matches(row, wanted)  # the columns of a key of several
    held = row[name]
    if not isinstance(wanted, dict):
        return bool(held == wanted)
    return all(FILTERS[how](held, value) for how, value in wanted.items() if how != "mode")


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda held, value: held is not None and compare(held, value)


FILTERS: dict[str, Callable[[Any, Any], bool]] = {
    "equals": operator.eq,
    "not": operator.ne,
    "in": lambda held, values: held in values,
    "has": lambda held, value: value in (held or ()),
    "hasSome": lambda held, values: bool({*values} & {*(held or ())}),
    "has_some": lambda held, values: bool({*values} & {*(held or ())}),
    "lt": _ordered(operator.lt),
    "lte": _ordered(operator.le),
    "gt": _ordered(operator.gt),
    "gte": _ordered(operator.ge),
}


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
            return given if given and given.isidentifier() else None  # a value of an enum
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


INSERT = re.compile(r'INSERT INTO "(LiteLLM_SpendLogDelivery|LiteLLM_SpendLogs)"')
KEYS = {"LiteLLM_SpendLogDelivery": "delivery_id", "LiteLLM_SpendLogs": "request_id"}
DELIVERIES = "LiteLLM_SpendLogDelivery".lower()
CLAIM = "SELECT delivery_id, attempts, accounting_payload"
FAILED = "SET attempts = attempts + 1, last_error = $3"
BACKLOG, STORAGE = "AS oldest_pending_seconds", "AS table_bytes"


def query(tables: Tables, sql: str, values: tuple[Any, ...]) -> list[Row]:
    """Execute a statement and return its rows: none if it is another statement."""
    inserted = INSERT.match(sql)
    if inserted is not None:
        return _insert(tables, inserted[1], json.loads(values[0]))
    if sql.startswith(CLAIM):
        limit, retried = values
        return [] if retried else _claim(tables, limit)
    if FAILED in sql:
        raise AssertionError(f"LiteLLM could not charge for a request: {values[2]}.")
    if BACKLOG in sql:
        pending = len(_pending(tables))
        return [{"pending_count": pending, "parked_count": 0, "oldest_pending_seconds": 0}]
    if STORAGE in sql:
        return [{"batch_count": 0, "table_bytes": 0}]
    return []


def _insert(tables: Tables, name: str, rows: list[Row]) -> list[Row]:
    """Add the rows whose key is not there, and return their keys."""
    table, key = tables[name.lower()], KEYS[name]
    held = {row[key] for row in table.rows}
    added = [table.add(row) for row in rows if row[key] not in held]
    return [{key: row[key]} for row in added]


def _claim(tables: Tables, limit: int) -> list[Row]:
    """Return charges that no gateway has claimed. They count as applied from now on, because
    transactions of the stand-in are not undone."""
    claimed = _pending(tables)[:limit]
    for row in claimed:
        row["state"] = "applied"
    return [
        {
            "delivery_id": row["delivery_id"],
            "attempts": row["attempts"],
            "accounting_payload": json.dumps(row["accounting_payload"]),
        }
        for row in claimed
    ]


def _pending(tables: Tables) -> list[Row]:
    return [row for row in tables[DELIVERIES].rows if row["state"] == "pending"]
