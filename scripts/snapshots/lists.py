"""Print the settings, metrics and errors of a checkout as JSON, for `scripts/same.py`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from prometheus_client.metrics import MetricWrapperBase


def entries() -> Iterator[tuple[str, Any]]:
    for side, package in (("gateway", "toolgate_proxy"), ("backend", "toolgate_backend")):
        described = import_module(f"{package}.settings").Settings.model_json_schema()
        for name, field in described["properties"].items():
            about = {k: v for k, v in field.items() if k not in ("description", "title")}
            yield f"settings/{side}/TOOLGATE_{name.upper()}", about
        folder = Path(import_module(package).__path__[0])
        for path in sorted(folder.rglob("*.py")):
            if "from prometheus_client import" in path.read_text():
                parts = path.relative_to(folder.parent).with_suffix("").parts
                for metric in vars(import_module(".".join(parts))).values():
                    if isinstance(metric, MetricWrapperBase):
                        yield f"metrics/{side}/{metric._name}", [metric._type, metric._labelnames]
    errors: dict[str, list[Any]] = {}
    pending = [import_module("toolgate_core.errors").ToolgateError]
    for kind in pending:
        pending += kind.__subclasses__()
        errors.setdefault(kind.code, []).append([kind.status, kind.type])
    yield from ((f"errors/{code}", sorted(kinds)) for code, kinds in errors.items())


if __name__ == "__main__":
    json.dump(dict(entries()), sys.stdout)
