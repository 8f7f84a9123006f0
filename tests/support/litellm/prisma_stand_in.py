"""The package `prisma` with a client of tables in memory.

LiteLLM imports the client that `prisma generate` writes, which needs a query engine that package
registries do not have. All of LiteLLM's own code above the client is the real one. Of its SQL, the
stand-in answers the look-up of a key with its team, and the statements that log requests and add up
spend; others find nothing, upon which LiteLLM uses the tables.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Coroutine
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
from litellm.proxy.db.daily_spend_bulk_upsert import DAILY_SPEND_TABLES

from tests.support.litellm import prisma_tables
from tests.support.litellm.prisma_tables import Row, Table, Tables

INSERT = re.compile(r'INSERT INTO "(\w+)" \(([^)]*)\)')
KEY = 'FROM "LiteLLM_VerificationToken" AS v'
MEMBERS = 'INSERT INTO "LiteLLM_TeamMembership"'
DAILY = {table.name: table.entity_id_column for table in DAILY_SPEND_TABLES.values()}
SUMS = ("spend", "prompt_tokens", "completion_tokens", "api_requests", "failed_requests")

Work = Callable[[], Coroutine[Any, Any, Any]]


class Prisma:
    """The client. It is also what its transactions return: they are not undone."""

    def __init__(self, **_: object) -> None:
        self._tables = Tables()

    def __getattr__(self, name: str) -> Table:
        try:
            return self._tables[name]
        except KeyError:
            raise AttributeError(name) from None

    async def __aenter__(self) -> Prisma:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    def is_connected(self) -> bool:
        return True

    def tx(self, **_: object) -> Prisma:
        return self

    def batch_(self) -> Batch:
        return Batch(self)

    async def query_raw(self, sql: str, *values: Any) -> list[Row]:
        return prisma_tables.query(self._tables, sql, values)

    async def query_first(self, sql: str, *values: object) -> Row | None:
        return self._key_with_team(values[0]) if KEY in sql else None

    async def execute_raw(self, sql: str, *values: Any) -> int:
        inserted = INSERT.match(sql)
        if inserted is not None and inserted[1] in DAILY:
            columns = re.findall(r"\w+", inserted[2])[:-1]  # the last one is a function of SQL
            for at in range(0, len(values), len(columns)):
                given = zip(columns, values[at : at + len(columns)], strict=True)
                self._add_daily(inserted[1], dict(given))
        elif MEMBERS in sql:
            for member in json.loads(values[0]):
                await self.litellm_teammembership.update_many(
                    {"spend": {"increment": member["cost"]}},
                    {"user_id": member["user_id"], "team_id": member["team_id"]},
                )
        return 0

    def _add_daily(self, name: str, row: Row) -> None:
        rows = self._tables[name.lower()].rows
        same = (DAILY[name], "date", "api_key", "model")
        held = next((each for each in rows if all(each[key] == row[key] for key in same)), None)
        if held is None:
            rows.append(row)
            return
        for column in SUMS:
            held[column] += row[column]

    def _key_with_team(self, token: object) -> Row | None:
        """The row of LiteLLM's join of a key with its team, budgets and organisation."""
        key = self._one("verificationtoken", token=token)
        if not key:
            return None
        team = self._one("teamtable", team_id=key["team_id"])
        member = self._one("teammembership", team_id=key["team_id"], user_id=key["user_id"])
        members = self._one("budgettable", budget_id=member.get("budget_id"))
        aliases = self._one("modeltable", id=team.get("model_id"))
        budget = self._one("budgettable", budget_id=key["budget_id"])
        project = self._one("projecttable", project_id=key["project_id"])
        owner = self._one("organizationtable", organization_id=key["organization_id"])
        owners = self._one("budgettable", budget_id=owner.get("budget_id"))
        return {
            **key,
            **_taken(team, "team_", ("spend", "max_budget", "soft_budget", "model_max_budget")),
            **_taken(team, "team_", ("tpm_limit", "rpm_limit", "tpd_limit", "models", "metadata")),
            **_taken(team, "team_", ("blocked", "members_with_roles", "object_permission_id")),
            "team_alias": team.get("team_alias"),
            "org_id": team.get("organization_id"),
            "project_alias": project.get("project_alias"),
            "team_member_spend": member.get("spend"),
            **_taken(members, "team_member_", ("tpm_limit", "rpm_limit")),
            "team_model_aliases": aliases.get("model_aliases"),
            **_taken(budget, "litellm_budget_table_", ("max_budget", "tpm_limit", "rpm_limit")),
            **_taken(budget, "litellm_budget_table_", ("tpd_limit", "model_max_budget")),
            "litellm_budget_table_soft_budget": budget.get("soft_budget"),
            "organization_metadata": owner.get("metadata"),
            "organization_alias": owner.get("organization_alias"),
            **_taken(owners, "organization_", ("max_budget", "tpm_limit", "rpm_limit")),
        }

    def _one(self, table: str, **where: object) -> Row:
        if None in where.values():
            return {}
        rows = self._tables[f"litellm_{table}"].rows
        return next((row for row in rows if where.items() <= row.items()), {})


class Batch:
    """Statements that are executed together."""

    def __init__(self, client: Prisma) -> None:
        self._client = client
        self._work: list[Work] = []

    def __getattr__(self, name: str) -> Any:
        held = getattr(self._client, name)
        return self._later(held) if callable(held) else _Later(held, self._work)

    async def __aenter__(self) -> Batch:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            await self.commit()

    async def commit(self) -> None:
        for each in self._work:
            await each()
        self._work.clear()

    def _later(self, method: Callable[..., Any]) -> Callable[..., None]:
        return lambda *given, **more: self._work.append(lambda: method(*given, **more))


class _Later:
    """A table in a batch."""

    def __init__(self, table: Table, work: list[Work]) -> None:
        self._table = table
        self._work = work

    def __getattr__(self, name: str) -> Callable[..., None]:
        method = getattr(self._table, name)
        return lambda *given, **more: self._work.append(lambda: method(*given, **more))


class _Errors(ModuleType):
    """A module with an exception of every name."""

    def __getattr__(self, name: str) -> type[Exception]:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Exception,), {})
        setattr(self, name, made)
        return made


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the package where LiteLLM imports it from."""
    for module in modules(Prisma):
        monkeypatch.setitem(sys.modules, module.__name__, module)


def modules(client: type[Prisma]) -> list[ModuleType]:
    """Return the package and its modules."""
    package = ModuleType("prisma")
    vars(package).update(Prisma=client, Json=lambda value: value, __path__=[])
    made = [package, *(_Errors(f"prisma.{name}") for name in ("errors", "models", "types"))]
    for module in made:
        module.__spec__ = ModuleSpec(module.__name__, None)
        setattr(package, module.__name__.rpartition(".")[2], module)
    return made


def _taken(row: Row, prefix: str, names: tuple[str, ...]) -> Row:
    return {prefix + name: row.get(name) for name in names}
