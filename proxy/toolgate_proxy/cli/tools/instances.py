"""The instances of `toolgate schema --instance`: files of arguments, and reports on them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from ...admin.instances import InstanceReport, as_json, line
from ...admin.schema_report import BackendSchemas
from . import admin_client
from .admin_client import AdminRequestFailed


def read_instances(paths: Iterable[Path], tool: str | None) -> list[dict[str, Any]]:
    """The instances in JSON files. A file has one call's arguments, or a list of several. Raises
    AdminRequestFailed."""
    found: list[Any] = []
    for path in paths:
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise AdminRequestFailed(f"{path} can't be read: {error}") from error
        found += value if isinstance(value, list) else [value]
    named = {"tool": tool} if tool else {}
    return [{"arguments": arguments} | named for arguments in found]


def send(
    url: str,
    key: SecretStr,
    tools: Sequence[object],
    model: str | None,
    instances: Sequence[object],
) -> list[BackendSchemas]:
    """The reports of the gateway's backends. Raises AdminRequestFailed."""
    response = admin_client.send(url, key, tools, model, "schema", instances)
    return [BackendSchemas.model_validate(each) for each in response]


def lines(backends: Sequence[BackendSchemas], *, json_lines: bool) -> tuple[list[str], bool]:
    """One line for each instance, or more if backends differ; and whether all instances are valid
    and can be written."""
    written = as_json if json_lines else line
    by_instance = zip(*(each.instances for each in backends), strict=True)
    told = [line for same in by_instance for line in dict.fromkeys(map(written, same))]
    reports: list[InstanceReport] = [report for each in backends for report in each.instances]
    return told, all(report.accepted and report.valid and not report.error for report in reports)
