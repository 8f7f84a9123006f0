"""The SQL by which LiteLLM, from 1.110 on, logs requests and charges keys and teams for them, on
the tables of the stand-in for its database."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.litellm.prisma_tables import Row, Tables

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
