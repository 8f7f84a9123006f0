"""Writes docs/settings.md from the settings of both packages (`make docs`).

    python scripts/settings_doc.py [--check]

With `--check` nothing is written: the exit status says whether the file is what it should be.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from toolgate_backend.settings import Settings as Backend
from toolgate_core.schema.limits import SchemaLimitSettings
from toolgate_proxy.settings import Settings as Gateway

TARGET = Path(__file__).parents[1] / "docs" / "settings.md"
HEAD = """\
# Settings

Made by `make docs` from `backend/toolgate_backend/settings.py`, `proxy/toolgate_proxy/settings.py`
and `core/toolgate_core/schema/limits.py`; do not edit. Environment variables all; an empty one
counts as unset. vLLM's and LiteLLM's own settings stay theirs. With several gateway processes
(`toolgate proxy --workers`), Prometheus needs `PROMETHEUS_MULTIPROC_DIR`.
"""


def document() -> str:
    shared = SchemaLimitSettings.model_fields
    return HEAD + "".join(
        [
            _section("The gateway's", _own(Gateway)),
            _section("The backend's", _own(Backend)),
            _section("Both sides': limits on a tool's schema", shared.items()),
        ]
    )


def _own(settings: type[BaseSettings]) -> Iterable[tuple[str, FieldInfo]]:
    return [
        (name, field)
        for name, field in settings.model_fields.items()
        if name not in SchemaLimitSettings.model_fields
    ]


def _section(title: str, fields: Iterable[tuple[str, FieldInfo]]) -> str:
    rows = "".join(_row(name, field) for name, field in fields)
    return f"\n## {title}\n\n| variable | default | |\n|---|---|---|\n{rows}"


def _row(name: str, field: FieldInfo) -> str:
    default = "" if field.default is None else f"`{field.default}`"
    said = " ".join((field.description or "").split()).replace("|", "\\|")
    return f"| `TOOLGATE_{name.upper()}` | {default} | {said} |\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(TARGET.read_text() != document())
    TARGET.write_text(document())
    print(f"wrote {TARGET}")
