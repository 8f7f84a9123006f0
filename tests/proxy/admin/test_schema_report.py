"""Schema reports by the command line without a gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from toolgate_core.schema.preparation.advice import ADVICE
from toolgate_core.wire import ResidualKeyword
from toolgate_proxy.cli.main import app


def entry(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TAGS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
UNIQUE = ResidualKeyword(pointer="/properties/tags/uniqueItems", keyword="uniqueItems")
ENTRIES: list[object] = [
    entry("plain", a={"type": "string"}),
    entry("set_tags", tags=TAGS),
    entry("refused_one", a={"type": "null"}),
    entry("away", a={"$ref": "https://example.com/schema"}),
    entry("no spaces"),
]


def test_schema_command_without_a_gateway(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(ENTRIES))
    result = CliRunner().invoke(app, ["schema", str(path)])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    at = lines.index("set_tags: checked")
    why, rewrite = ADVICE["uniqueItems"]
    assert lines[at + 1 : at + 4] == [f"  {UNIQUE.pointer}", f"    {why}", f"    {rewrite}"]
    assert "plain: masked" in lines
    assert "  at /properties/a/$ref" in lines
    path.write_text(json.dumps(ENTRIES[:1]))
    assert CliRunner().invoke(app, ["schema", str(path)]).exit_code == 0
    path.write_text("{")
    assert CliRunner().invoke(app, ["schema", str(path)]).exit_code == 2
